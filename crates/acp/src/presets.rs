//! Known agents, and how users change or add them: a few lines of data each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::hold::HoldTable;
use crate::native::Native;
use crate::restrict::Restrict;

const PRESETS: &str = include_str!("presets.toml");

/// How to start an agent and talk to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name in the configuration.
    #[serde(skip)]
    pub name: String,
    /// As people know it.
    pub title: Option<String>,
    /// The program, looked up on the PATH, and its arguments. No shell is involved.
    pub command: Vec<String>,
    /// Added to the agent's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub model: Option<String>,
    pub mode: Option<String>,
    /// The agent's own options, set in each session.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The version of the protocol: 2 is spoken with an agent that really does, and is still a draft.
    pub protocol: Option<u8>,
    /// Sent before the first request.
    pub system_prompt: Option<String>,
    /// How the agent's permission questions are answered.
    pub permissions: Option<String>,
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    #[serde(default)]
    pub disallowed_tools: Vec<String>,
    /// How to install it.
    pub install: Option<String>,
    #[serde(default)]
    pub quirks: Quirks,
    /// How it is told not to use tools, if it has a way.
    pub restrict: Option<Restrict>,
    /// The agent's own program, if it has one that people use in a terminal.
    pub native: Option<Native>,
    /// What makes it ask before it acts; unknown if it is missing.
    pub hold: Option<HoldTable>,
    /// Sent with the request for a new session.
    #[serde(skip)]
    pub meta: Option<serde_json::Value>,
    /// MCP servers that the agent gets in each session.
    #[serde(skip)]
    pub servers: Vec<ToolServer>,
}

/// An MCP server that agents start themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolServer {
    pub name: String,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// Where an agent deviates from what it reports.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that agents differ in")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// `unsafe`: never call session/load, it destroys sessions.
    pub load: Load,
    /// Can resume although it does not say so.
    pub resume_unadvertised: bool,
    /// Whether a request survives if the agent is killed while it answers, if known. Otherwise it is looked for in the agent's replay,
    /// or sent again with a note that it may be a repetition.
    pub keeps_request: Option<bool>,
    /// Reuses the ids of deleted sessions: a session is only resumed after it was verified.
    pub reuses_ids: bool,
    /// Gives no useful error if a session does not exist.
    pub opaque_not_found: bool,
    /// How many milliseconds it has to be silent after loading or resuming before a prompt is sent: a late replay must not be taken
    /// for the answer.
    pub quiet_ms: u32,
    /// Keeps documents that are embedded in a prompt, in their place, if it accepts them.
    pub embeds: bool,
    /// Whether it asks before it uses a tool.
    pub asks: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            load: Load::Safe,
            resume_unadvertised: false,
            keeps_request: None,
            reuses_ids: false,
            opaque_not_found: false,
            quiet_ms: 30,
            embeds: false,
            asks: true,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    #[default]
    Safe,
    Unsafe,
}

/// What is wrong with an entry.
#[derive(Debug, thiserror::Error)]
#[error("agents.{name}: {why}")]
pub struct EntryError {
    pub name: String,
    pub why: String,
}

/// All agents: the known ones, changed field by field by the user's `[agents]`, and the user's own.
pub fn entries(user: &Table) -> Result<BTreeMap<String, Entry>, EntryError> {
    let mut all: Table = PRESETS.parse().map_err(|why: toml::de::Error| broken("presets", &why))?;
    for (name, changes) in user {
        let Value::Table(changes) = changes else {
            return Err(broken(name, "it has to be a table"));
        };
        let known = all.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(known) = known {
            change(known, changes);
        }
    }
    all.into_iter()
        .map(|(name, entry)| {
            let mut entry: Entry =
                entry.try_into().map_err(|why: toml::de::Error| broken(&name, why.message()))?;
            if entry.command.first().is_none_or(String::is_empty) {
                return Err(broken(&name, "the command is empty"));
            }
            entry.name.clone_from(&name);
            Ok((name, entry))
        })
        .collect()
}

fn broken(name: &str, why: impl ToString) -> EntryError {
    EntryError { name: name.to_owned(), why: why.to_string() }
}

/// Overrides fields. Tables are merged, so that a single variable can be added.
fn change(known: &mut Table, changes: &Table) {
    for (field, value) in changes {
        match (known.get_mut(field), value) {
            (Some(Value::Table(known)), Value::Table(changes)) => change(known, changes),
            _ => drop(known.insert(field.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(user: &str) -> Result<BTreeMap<String, Entry>, EntryError> {
        entries(&user.parse().unwrap())
    }

    #[test]
    fn the_presets_are_valid() {
        let known = with("").unwrap();
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "auggie",
                "claude",
                "cline",
                "codex",
                "copilot",
                "droid",
                "fast-agent",
                "gemini",
                "goose",
                "grok",
                "hermes",
                "kilo",
                "kimi",
                "minion-code",
                "opencode",
                "pi",
                "qoder",
                "qwen",
                "vibe"
            ]
        );
        assert!(known.values().all(|entry| entry.install.is_some() && entry.title.is_some()));
        assert_eq!(known["gemini"].quirks.load, Load::Unsafe);
        assert_eq!(known["fast-agent"].quirks.keeps_request, Some(false));
        assert_eq!(known["claude"].quirks.keeps_request, Some(true));
        assert!(known["goose"].quirks.reuses_ids);
    }

    #[test]
    fn three_lines_make_an_agent() {
        let known = with("[mine]\ncommand = [\"my-agent\", \"--acp\"]\n").unwrap();
        assert_eq!(known["mine"].command, ["my-agent", "--acp"]);
        assert_eq!(known["mine"].name, "mine");
        assert_eq!(known["mine"].quirks, Quirks::default());
    }

    #[test]
    fn a_preset_is_changed_field_by_field() {
        let known =
            with("[gemini]\nmodel = \"pro\"\n[gemini.quirks]\nkeeps_request = false").unwrap();
        let gemini = &known["gemini"];
        assert_eq!(gemini.model.as_deref(), Some("pro"));
        assert_eq!(gemini.command[0], "gemini");
        assert_eq!((gemini.quirks.load, gemini.quirks.keeps_request), (Load::Unsafe, Some(false)));
    }

    #[test]
    fn mistakes_are_told_with_the_name_of_the_agent() {
        for (user, expected) in [
            ("[x]\nmodel = \"m\"", "missing field `command`"),
            ("[x]\ncommand = []", "the command is empty"),
            ("[x]\ncommand = \"sh -c x\"", "invalid type"),
            ("[x]\ncommand = [\"a\"]\ncolour = 1", "unknown field `colour`"),
            ("x = 1", "it has to be a table"),
        ] {
            let error = with(user).unwrap_err().to_string();
            assert!(error.starts_with("agents.x: ") && error.contains(expected), "{error}");
        }
    }
}
