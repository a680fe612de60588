//! Where each agent keeps its hooks, and what an entry of ours looks like there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rethread_domain::shell;
use rethread_engine::imports::hook;
use serde_json::{Value, json};

use crate::client_files::edit::{self, Problem};
use crate::config::ClientFolders;

/// How long an agent may wait for a hook, in seconds.
const PATIENCE: u64 = 10;

/// An agent whose hooks can be set up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    pub(super) name: &'static str,
    /// As people know it.
    pub(super) title: &'static str,
    program: &'static str,
    pub(super) form: Form,
}

/// How an agent is told of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON: `hooks.EVENT` is a list of groups of commands.
    Groups,
    /// JSON: `hooks.EVENT` is a list of commands.
    Commands,
    /// TOML: `[[hooks]]`.
    Tables,
    /// A file that is ours alone, with groups.
    OwnFile,
    /// A program of ours that the agent loads.
    Plugin,
}

pub(super) const AGENTS: &[Agent] = &[
    agent("claude", "Claude Code", "claude", Form::Groups),
    agent("codex", "Codex", "codex", Form::Groups),
    agent("gemini", "Gemini CLI", "gemini", Form::Groups),
    agent("qwen", "Qwen Code", "qwen", Form::Groups),
    agent("copilot", "Copilot CLI", "copilot", Form::Commands),
    agent("kimi", "Kimi Code", "kimi", Form::Tables),
    agent("goose", "Goose", "goose", Form::OwnFile),
    agent("opencode", "opencode", "opencode", Form::Plugin),
    agent("kilo", "Kilo", "kilo", Form::Plugin),
    agent("pi", "Pi", "pi", Form::Plugin),
];

const fn agent(
    name: &'static str,
    title: &'static str,
    program: &'static str,
    form: Form,
) -> Agent {
    Agent { name, title, program, form }
}

impl Agent {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.name == name)
    }

    /// The folder that the agent has made for itself.
    fn home(&self, folders: &ClientFolders) -> PathBuf {
        match self.name {
            "claude" => folders.set_or("CLAUDE_CONFIG_DIR", ".claude"),
            "codex" => folders.set_or("CODEX_HOME", ".codex"),
            "gemini" => {
                folders.set("GEMINI_CLI_HOME").unwrap_or(folders.home.clone()).join(".gemini")
            }
            "qwen" => folders.set_or("QWEN_HOME", ".qwen"),
            "copilot" => folders.set_or("COPILOT_HOME", ".copilot"),
            "kimi" => folders.home.join(".kimi-code"),
            "pi" => folders.set_or("PI_CODING_AGENT_DIR", ".pi/agent"),
            "goose" => match folders.set("GOOSE_PATH_ROOT") {
                Some(root) => root.join("config"),
                None => folders.config.join("goose"),
            },
            name => folders.config.join(name),
        }
    }

    /// The file that is changed, or that is ours.
    pub(super) fn file(&self, folders: &ClientFolders) -> PathBuf {
        let home = self.home(folders);
        match self.name {
            "codex" => home.join("hooks.json"),
            "kimi" => home.join("config.toml"),
            "goose" => folders.home.join(".agents/plugins/rethread/hooks/hooks.json"),
            "pi" => home.join("extensions/rethread.ts"),
            "opencode" | "kilo" => home.join("plugin/rethread.js"),
            _ => home.join("settings.json"),
        }
    }

    /// Whether the agent has been used here, or could be.
    pub(super) fn is_installed(&self, folders: &ClientFolders) -> bool {
        self.home(folders).is_dir() || folders.has_program(self.program)
    }

    /// Why it is taken for not installed.
    pub(super) fn missing(&self, folders: &ClientFolders) -> String {
        format!(
            "{} is not installed: there is neither a program {} nor the folder {}",
            self.title,
            self.program,
            self.home(folders).display()
        )
    }

    /// Refuses a file that the agent itself would not read.
    pub(super) fn check(&self, text: &str) -> Result<(), Problem> {
        if !matches!(self.name, "claude" | "codex") {
            return Ok(());
        }
        edit::check_strict_json(text).map_err(|problem| {
            Problem::Syntax(format!(
                "{} reads only strict JSON, without comments or trailing commas: {problem}",
                self.title
            ))
        })
    }

    /// The programs that our entries in a file start.
    pub(super) fn programs(&self, text: &str) -> Result<BTreeSet<String>, Problem> {
        let mut found = BTreeSet::new();
        if self.form == Form::Plugin {
            let command = text.lines().find_map(|line| line.strip_prefix(PLUGIN_COMMAND));
            let command = command.map(|command| command.trim_end().trim_end_matches(';'));
            let words = command.and_then(|words| serde_json::from_str::<Vec<String>>(words).ok());
            found.extend(words.into_iter().flatten().next());
            return Ok(found);
        }
        let value = match self.form {
            Form::Tables => edit::toml_as_json(text)?,
            _ => edit::json_value(text)?,
        };
        self.collect_programs(&value["hooks"], &mut found);
        Ok(found)
    }

    /// The setting in the file that keeps the agent from running any hook.
    pub(super) fn switched_off_by(&self, text: &str) -> Option<&'static str> {
        let (place, value, setting) = match self.name {
            "claude" | "qwen" => ("/disableAllHooks", true, r#""disableAllHooks": true"#),
            "gemini" => ("/hooksConfig/enabled", false, r#""hooksConfig": {"enabled": false}"#),
            _ => return None,
        };
        let is_off = edit::json_value(text).ok()?.pointer(place)? == &Value::Bool(value);
        is_off.then_some(setting)
    }

    fn collect_programs(&self, value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::String(command) if self.is_own(command) => {
                found.insert(first_word(command));
            }
            Value::Array(all) => all.iter().for_each(|one| self.collect_programs(one, found)),
            Value::Object(all) => all.values().for_each(|one| self.collect_programs(one, found)),
            _ => (),
        }
    }

    /// The command line of a hook, for a shell.
    fn command(&self, start: &[String], event: &str) -> String {
        let words = start.iter().map(|word| shell::word(word));
        let words = words.chain(["hook", "run", self.name, event].map(str::to_owned));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether a command is one of ours, of whichever program.
    pub(super) fn is_own(&self, command: &str) -> bool {
        let Some((before, event)) = command.rsplit_once(' ') else { return false };
        let is_called = before.ends_with(&format!(" hook run {}", self.name));
        is_called && hook::events(self.name).iter().any(|(known, _)| *known == event)
    }

    fn is_own_item(&self, item: &Value) -> bool {
        let is_own = |item: &Value| {
            let commands = [&item["command"], &item["bash"]].into_iter().filter_map(Value::as_str);
            commands.into_iter().any(|command| self.is_own(command))
        };
        // A group in which somebody has put another command beside ours stays, without ours only by hand.
        let inner = item["hooks"].as_array().map_or(&[][..], Vec::as_slice);
        is_own(item) || !inner.is_empty() && inner.iter().all(is_own)
    }

    /// The text of the file with our entries in it.
    pub(super) fn with_entries(&self, text: &str, start: &[String]) -> Result<String, Problem> {
        if self.form == Form::Plugin {
            return Ok(self.plugin(start));
        }
        let mut text = text.to_owned();
        for (event, _) in hook::events(self.name) {
            let command = self.command(start, event);
            text = match self.form {
                Form::Groups | Form::OwnFile => {
                    let hook = self.entry(&command);
                    edit::add_json(&text, &["hooks", event], &json!({"hooks": [hook]}))?
                }
                Form::Commands => {
                    let hook = json!({"type": "command", "bash": command, "timeoutSec": PATIENCE});
                    edit::add_json(&text, &["hooks", event], &hook)?
                }
                Form::Tables => {
                    let hook = json!({"event": event, "command": command, "timeout": PATIENCE});
                    edit::add_toml(&text, "hooks", &hook)?
                }
                Form::Plugin => text,
            };
        }
        Ok(text)
    }

    /// The program that the agent loads.
    fn plugin(&self, start: &[String]) -> String {
        let command = start.iter().map(String::as_str).chain(["hook", "stream", self.name]);
        let command = Value::from(command.collect::<Vec<_>>()).to_string();
        let core = include_str!("plugin_core.js").replace("\"{command}\"", &command);
        let own = match self.name {
            "pi" => include_str!("plugin_pi.js"),
            _ => include_str!("plugin_opencode.js"),
        };
        core + own
    }

    fn entry(&self, command: &str) -> Value {
        match self.name {
            // These count in milliseconds, or not at all: their own default is long enough.
            "gemini" => json!({"type": "command", "name": "rethread", "command": command}),
            "qwen" | "goose" => json!({"type": "command", "command": command}),
            _ => json!({"type": "command", "command": command, "timeout": PATIENCE}),
        }
    }

    /// The text of the file without our entries.
    pub(super) fn without_entries(&self, text: &str) -> Result<String, Problem> {
        match self.form {
            Form::Tables => {
                edit::remove_toml(text, "hooks", "command", &|command| self.is_own(command))
            }
            // The file is ours; what others have put in its place is not.
            Form::Plugin if text.contains(PLUGIN_MARK) => Ok(String::new()),
            Form::Plugin => Ok(text.to_owned()),
            _ => edit::remove_json(text, "hooks", &|item| self.is_own_item(item)),
        }
    }
}

/// Stands in every plugin that we wrote.
const PLUGIN_MARK: &str = "Written by `rethread hook install`";

/// What comes before the command in a plugin.
const PLUGIN_COMMAND: &str = "const COMMAND = ";

/// The folder of Goose's plugin and the file that names it, beside the one with the hooks.
pub(super) fn manifest(hooks: &Path) -> Option<PathBuf> {
    Some(hooks.parent()?.parent()?.join("plugin.json"))
}

pub(super) const MANIFEST: &str = concat!(
    "{\"name\": \"rethread\", \"version\": \"",
    env!("CARGO_PKG_VERSION"),
    "\", \"description\": \"Records sessions with Rethread\"}\n"
);

/// The first word of a command line that was put together from quoted words.
fn first_word(command: &str) -> String {
    let mut word = String::new();
    let mut is_quoted = false;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => word.extend(rest.next()),
            ' ' if !is_quoted => break,
            c => word.push(c),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_called_as_everywhere_else() {
        let known = rethread_acp::entries(&toml::Table::new()).unwrap();
        for agent in AGENTS {
            assert_eq!(known[agent.name].title.as_deref(), Some(agent.title));
        }
    }

    #[test]
    fn the_first_word_is_read_as_it_was_quoted() {
        for program in ["/usr/bin/rethread", "/a folder/rethread", "/it's/a 'b'/rethread", "/a\\b"]
        {
            assert_eq!(first_word(&format!("{} hook run", shell::word(program))), program);
        }
    }
}
