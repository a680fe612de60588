//! Consent: what an agent will do, read from its request and never from how it words it.
//!
//! A title may be the model's own words ("stub" for any command), so a question shows the command, the path or the
//! change, and a lasting answer names exactly those. What cannot be pinned down can be allowed once, not for good.

mod read;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::quote::cut_line;

pub use read::{KINDS, Request, is_line, line, read};

/// Stands before what a lasting answer is about. Answers from before it were bound to a title.
pub const EXACTLY: &str = "exactly ";
/// How much is shown of what the agent calls it, on one line: it may be made up to look like a question of ours.
const MOST_WORDS: usize = 160;
/// How much is shown of arguments that do not decide what is done.
const MOST_SHOWN: usize = 4096;

/// What an agent wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intent {
    /// One of the protocol's kinds of tools; `other` where it named none of them.
    pub kind: String,
    /// The agent's own words, which may be those of its model.
    pub title: String,
    /// The line that the shell will read.
    pub command: Option<String>,
    /// The folder that the command runs in, where it is not that of the project.
    pub folder: Option<String>,
    /// The files that it is about: from the folder of the project on, or absolute.
    pub paths: Vec<String>,
    pub url: Option<String>,
    /// Every other argument.
    pub rest: Map<String, Value>,
    /// Texts among these arguments that may name a file or a folder too: what forbids looks at them, nothing is allowed by them.
    pub mentioned: Vec<String>,
    /// What will change in files, as text.
    pub changes: Vec<String>,
    /// What guards the project or this program, where a file of it is touched: that needs an answer of its own.
    pub guarded: Vec<String>,
    /// Those of the files that have other names as well (hard links): a rule about paths, or a lasting answer, may mean them
    /// under another one.
    pub linked: Vec<String>,
    /// What whoever is asked should know beside it.
    pub warnings: Vec<String>,
}

/// One thing that is shown of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    pub label: &'static str,
    pub text: String,
}

/// Arguments that change nothing about what is done, or that differ from call to call.
const HARMLESS: &[&str] = &[
    "description",
    "explanation",
    "reason",
    "reasoning",
    "justification",
    "summary",
    "title",
    "intent",
    "purpose",
    "timeout",
    "timeout_ms",
    "timeoutMs",
    "initial_wait",
    "call_id",
    "callId",
    "turn_id",
    "turnId",
    "item_id",
    "itemId",
    "thread_id",
    "threadId",
    "started_at_ms",
    "parsed_cmd",
    "commandActions",
];

/// Arguments that say how a command is waited for, not what it does.
const HOW_IT_RUNS: &[&str] = &[
    "run_in_background",
    "is_background",
    "isBackground",
    "background",
    "mode",
    "detach",
    "shellId",
    "sessionId",
    "session_id",
];

/// How an agent understands the command, which it gives beside it.
const UNDERSTOOD: &[&str] = &["parsed_cmd", "commandActions"];

/// Whether an argument changes nothing: by its name, if it is no more than a word or a number.
fn is_harmless(name: &str, value: &Value) -> bool {
    let is_plain = !value.is_object() && !value.is_array();
    HARMLESS.contains(&name) && (is_plain || UNDERSTOOD.contains(&name))
}

/// Arguments that hold the new content of a file: a lasting answer is about the file, not about one change to it.
const CONTENT: &[&str] = &[
    "content",
    "contents",
    "content_length",
    "text",
    "file_text",
    "new_text",
    "old_text",
    "new_string",
    "old_string",
    "newString",
    "oldString",
    "new_str",
    "old_str",
    "newText",
    "oldText",
    "edits",
    "diff",
    "patch",
    "changes",
    "unified_diff",
    "replacement",
    "replacements",
    "insert_line",
    "replace_all",
    "replaceAll",
    "expected_replacements",
    "ai_proposed_content",
    "modified_by_user",
    "instruction",
    "fileDiff",
    "originalContent",
    "newContent",
];

impl Intent {
    fn is_edit(&self) -> bool {
        matches!(self.kind.as_str(), "edit" | "delete" | "move")
    }

    /// What a lasting answer names; otherwise why there can be none.
    pub fn subject(&self) -> Result<String, &'static str> {
        if self.paths.iter().any(|path| path.split('/').any(|name| name == "..")) {
            return Err("a path in it leads through \"..\"");
        }
        if !self.linked.is_empty() {
            return Err("a file in it has several names");
        }
        match self.kind.as_str() {
            "execute" if self.command.is_none() => {
                return Err("the agent does not say which command it will run");
            }
            "edit" | "delete" | "move" | "read" | "search" if self.paths.is_empty() => {
                return Err("the agent does not say which file it is about");
            }
            "fetch" if self.url.is_none() => {
                return Err("the agent does not say which address it will ask");
            }
            "think" | "switch_mode" => {
                return Err("it is not about a command, a file or an address");
            }
            "other" if self.command.is_none() => {
                return Err("the agent does not say what kind of tool it is");
            }
            _ => (),
        }
        let is_harmless = |name: &str, value: &Value| {
            is_harmless(name, value) || (self.is_edit() && CONTENT.contains(&name))
        };
        let with: BTreeMap<&String, &Value> =
            self.rest.iter().filter(|(name, value)| !is_harmless(name, value)).collect();
        let mut paths = self.paths.clone();
        paths.sort();
        let mut what: BTreeMap<&str, Value> = BTreeMap::from([("kind", self.kind.as_str().into())]);
        let mut put = |name: &'static str, value: Option<Value>| {
            if let Some(value) = value {
                what.insert(name, value);
            }
        };
        put("command", self.command.as_deref().map(Value::from));
        put("in", self.folder.as_deref().map(Value::from));
        // A command names its files itself; agents tell of them differently from time to time.
        put("paths", (self.command.is_none() && !paths.is_empty()).then(|| paths.into()));
        put("url", self.url.as_deref().map(Value::from));
        put("with", (!with.is_empty()).then(|| serde_json::to_value(with).unwrap_or_default()));
        let text = serde_json::to_string(&what).map_err(|_| "it cannot be written down")?;
        Ok(format!("{EXACTLY}{text}"))
    }

    /// What it is, in short: the command, else the files, else the address, else the agent's own words.
    pub fn headline(&self) -> String {
        if let Some(command) = &self.command {
            return command.clone();
        }
        if !self.paths.is_empty() {
            return self.paths.join(", ");
        }
        self.url.clone().unwrap_or_else(|| self.title.clone())
    }

    /// Whether a command comes with arguments that may change what it does (variables, further words, another shell), and that no
    /// rule about lines has seen.
    pub fn has_other_arguments(&self) -> bool {
        let is_empty = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            Value::Object(all) => all.is_empty(),
            Value::Bool(true) | Value::Number(_) => false,
        };
        let is_known = |name: &str, value: &Value| {
            is_harmless(name, value) || (HOW_IT_RUNS.contains(&name) && !value.is_object())
        };
        self.rest.iter().any(|(name, value)| !is_empty(value) && !is_known(name, value))
    }

    /// Whether an argument that is not known to be content may name another place than the files that were seen. What is only
    /// looked for may be anything.
    pub fn may_lead_elsewhere(&self) -> bool {
        fn names_place(value: &Value) -> bool {
            match value {
                Value::String(text) => {
                    text.contains('/') || matches!(text.as_str(), "." | ".." | "~")
                }
                Value::Array(all) => all.iter().any(names_place),
                Value::Object(all) => all.values().any(names_place),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            }
        }
        let is_known = |name: &str, value: &Value| {
            is_harmless(name, value) || CONTENT.contains(&name) || read::is_patch(name)
        };
        !matches!(self.kind.as_str(), "read" | "search")
            && self.rest.iter().any(|(name, value)| !is_known(name, value) && names_place(value))
    }

    /// Whether the headline is more than the agent's own words.
    pub fn is_pinned(&self) -> bool {
        self.command.is_some() || !self.paths.is_empty() || self.url.is_some()
    }

    /// The agent's own words, where they say something else than the headline.
    pub fn own_words(&self) -> Option<&str> {
        let title = self.title.trim();
        let is_same = title.trim_matches('`') == self.headline().trim();
        Some(title).filter(|_| !title.is_empty() && !is_same)
    }

    /// All that is shown beside the headline.
    pub fn details(&self) -> Vec<Detail> {
        let mut details = Vec::new();
        let mut put = |label, text: String| details.push(Detail { label, text });
        if let Some(folder) = &self.folder {
            put("in", folder.clone());
        }
        // A change shows the content of its file, but not that of others. Where neither a command nor a file says what is done,
        // any argument may.
        let hides_content = !self.changes.is_empty() && self.changes.len() >= self.paths.len();
        let is_pinned = self.is_pinned();
        let is_hidden = |name: &str, value: &Value| {
            is_pinned && is_harmless(name, value) || (hides_content && CONTENT.contains(&name))
        };
        let rest = self.rest.iter().filter(|(name, value)| !is_hidden(name, value));
        let rest: Map<String, Value> =
            rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !rest.is_empty() {
            let text = Value::Object(rest).to_string();
            // Where neither files nor an address say what is done, nothing is left out.
            let is_whole = self.command.is_some() || !is_pinned;
            put("with", if is_whole { text } else { cut(&text) });
        }
        for change in &self.changes {
            put("change", change.clone());
        }
        if let Some(words) = self.own_words() {
            put("the agent calls it", cut_line(words, MOST_WORDS));
        }
        for warning in self.guarded.iter().chain(&self.warnings) {
            put("note", warning.clone());
        }
        for path in &self.linked {
            put("note", format!("{path}: the file has other names as well (hard links)"));
        }
        details
    }

    /// What a decision about it settles for the rest of a turn: the very command, or each of the files.
    pub fn keys(&self) -> Vec<String> {
        if let Some(command) = &self.command {
            let folder = self.folder.as_deref().unwrap_or_default();
            let env = self.rest.get("env").map(Value::to_string).unwrap_or_default();
            return vec![format!("execute\0{folder}\0{env}\0{command}")];
        }
        // Who may remove or move a file has not been shown what else might be written to it.
        let kind = self.kind.as_str();
        if !matches!(kind, "edit" | "read") {
            return Vec::new();
        }
        self.paths.iter().map(|path| format!("{kind}\0{path}")).collect()
    }

    /// How many bytes somebody has to read to know what they allow.
    pub fn bytes(&self) -> usize {
        let details = self.details();
        self.headline().len() + details.iter().map(|detail| detail.text.len()).sum::<usize>()
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MOST_SHOWN {
        return text.to_owned();
    }
    let shown = &text[..text.floor_char_boundary(MOST_SHOWN)];
    format!("{shown} … and {} bytes more", text.len() - shown.len())
}

#[cfg(test)]
mod tests;
