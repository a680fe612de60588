//! Slash commands of ours, beside those of the agent.

use std::fmt::Write as _;

use rethread_domain::Session;
use rethread_domain::quote::one_line;
use rethread_domain::search::Filter;
use rethread_engine::program::Fault;
use rethread_engine::{ContextOptions, Engine};
use serde_json::{Value, json};

use super::hub::Hub;
use super::raw::{Edit, Raw, quoted};
use super::replies;
use super::session::SessionTask;
use crate::frame::{self, Fields};

/// How many finds are shown.
const SHOWN: u32 = 10;

/// Each command: its name, what it does, what follows it.
const COMMANDS: [(&str, &str, Option<&str>); 3] = [
    (
        "rethread-search",
        "Search everything that was said in this project's sessions, with any agent",
        Some("words to look for"),
    ),
    (
        "rethread-switch",
        "Let another agent go on in this session: it is told what was said",
        Some("the name of the agent"),
    ),
    (
        "rethread-context",
        "Show what another agent would be told of this session, within its token budget",
        None,
    ),
];

/// A command that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Search(String),
    Context,
    Switch(String),
}

/// The command that a prompt is, if it is one of ours.
pub(crate) fn asked(prompt: &str) -> Option<Command> {
    let rest = prompt.trim().strip_prefix("/rethread-")?;
    let (name, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match name {
        "search" => Some(Command::Search(words.trim().to_owned())),
        "context" => Some(Command::Context),
        "switch" => Some(Command::Switch(words.trim().to_owned())),
        _ => None,
    }
}

/// An update under the editor's name of the session; where it offers commands, with ours behind them.
pub(crate) fn in_update(update: &str, raw: &Raw<'_>, session: &str) -> String {
    let Some(theirs) = offered(update) else { return raw.with(None, Some(session)) };
    let mut edit = Edit::new(raw.line);
    edit.replace(theirs, &with_ours(theirs));
    if let Some((old, _)) = &raw.session {
        edit.replace(old, &quoted(session));
    }
    edit.finish()
}

/// The commands that an update offers.
fn offered(update: &str) -> Option<&str> {
    const KIND: &str = "available_commands_update";
    // Most updates are pieces of text, which need not be read twice.
    if !update.contains(KIND) {
        return None;
    }
    let update = Fields::parse(update)?;
    if update.text("sessionUpdate").as_deref() != Some(KIND) {
        return None;
    }
    update.get("availableCommands").filter(|all| all.starts_with('['))
}

/// The agent's commands, and ours behind them.
pub(crate) fn with_ours(theirs: &str) -> String {
    let theirs = frame::elements(theirs);
    let own = COMMANDS.iter().map(|one| described(one).to_string());
    let all: Vec<String> = theirs.into_iter().map(str::to_owned).chain(own).collect();
    format!("[{}]", all.join(","))
}

/// As both versions of the protocol take it.
fn described((name, description, hint): &(&str, &str, Option<&str>)) -> Value {
    let mut command = json!({ "type": "command", "name": name, "description": description });
    if let Some(hint) = hint {
        command["input"] = json!({ "type": "text", "hint": hint });
    }
    command
}

impl SessionTask {
    /// Runs a command and says what came of it in the thread, in answer to the prompt with this id.
    pub(super) async fn command(&mut self, id: &str, command: Command) {
        let said: Result<String, Fault> = match (command, &self.session) {
            (_, None) => Ok("This session is not recorded.".to_owned()),
            (Command::Search(words), Some(_)) if words.is_empty() => {
                Ok("Say what to look for: `/rethread-search WORDS`.".to_owned())
            }
            (Command::Search(words), Some(session)) => {
                search(&self.hub, session, &words).await.map_err(Fault::from)
            }
            (Command::Context, Some(session)) => {
                context(&self.hub, session).await.map_err(Fault::from)
            }
            (Command::Switch(name), Some(_)) => self.switch(&name).await,
        };
        let said = said.unwrap_or_else(|fault| format!("That did not work: {fault}"));
        replies::say(&self.hub, &self.binding, id, &said).await;
    }
}

async fn search(hub: &Hub, session: &Session, words: &str) -> rethread_engine::Result<String> {
    let filter = Filter {
        user: Some(session.user.clone()),
        project: Some(session.project.clone()),
        ..Filter::default()
    };
    let found = hub.engine.search(Engine::sought(words, filter, SHOWN)?).await?;
    if found.hits.is_empty() {
        return Ok(format!("Nothing in this project has {words:?}."));
    }
    let mut text = String::new();
    for hit in &found.hits {
        let title = hit.title.as_deref().unwrap_or("(no title)");
        let _infallible = writeln!(
            text,
            "- **{}** ({}): {}",
            one_line(title, 60),
            hit.session.short(),
            one_line(&hit.excerpt, 200),
        );
    }
    Ok(text)
}

async fn context(hub: &Hub, session: &Session) -> rethread_engine::Result<String> {
    let context = hub.engine.context(session.id, &ContextOptions::default()).await?;
    Ok(context.context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_commands_are_ours() {
        assert_eq!(asked("/rethread-search red  fox "), Some(Command::Search("red  fox".into())));
        assert_eq!(asked(" /rethread-context"), Some(Command::Context));
        for other in ["/search x", "rethread-search", "/rethread-dance", "say /rethread-context"] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

    #[test]
    fn our_commands_stand_behind_the_agent_s() {
        let line = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"n","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","x":1}],"_meta":{}}}}"#;
        let raw = Raw::parse(line.as_bytes()).unwrap();
        let update = Fields::parse(raw.params).unwrap().get("update").unwrap();
        let patched = in_update(update, &raw, "ours");
        let patched: Value = serde_json::from_str(&patched).unwrap();
        assert_eq!(patched["params"]["sessionId"], "ours");
        let commands = patched["params"]["update"]["availableCommands"].as_array().unwrap();
        assert_eq!(commands[0], json!({ "name": "a", "x": 1 }));
        assert_eq!(commands.len(), 1 + COMMANDS.len());
        assert!(offered(r#"{"sessionUpdate":"plan","x":"available_commands_update"}"#).is_none());
    }
}
