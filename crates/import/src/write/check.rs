//! Reading back what was written, and comparing it with what was to be written.

use rethread_domain::conversation::DEFAULT;
use rethread_domain::message::{NewMessage, Role};
use serde_json::Value;

use super::{Entry, What};
use crate::{Cursor, Error, Found, open};

/// A session that was written and read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Where the next reading goes on, for formats that can say it.
    pub cursor: Option<Cursor>,
    /// How many messages it has.
    pub messages: u64,
    /// How it differs from what was to be written.
    pub difference: Option<String>,
}

/// Reads a session that was written, and compares it with its entries.
pub fn read_back(found: &Found, entries: &[Entry]) -> Result<Check, Error> {
    let Some(mut transcript) = open(found, None)? else {
        let difference = Some("nothing can be read in it".to_owned());
        return Ok(Check { cursor: None, messages: 0, difference });
    };
    let mut read = Vec::new();
    loop {
        match transcript.next() {
            Ok(Some(message)) => read.push(message),
            Ok(None) => break,
            Err(error) => return Err(Error::Io { path: found.path.clone(), error }),
        }
    }
    let messages = read.len() as u64;
    let unread = transcript.unread().into_iter().next().map(|unread| unread.why);
    let difference = unread.or_else(|| compare(found.agent, &read, entries));
    Ok(Check { cursor: transcript.cursor(), messages, difference })
}

/// The first difference between what was read and what was to be written; `None` if there is none.
pub fn compare(agent: &str, read: &[NewMessage], entries: &[Entry]) -> Option<String> {
    let mut wanted = entries.iter().filter_map(|entry| as_read(agent, entry));
    let mut read = read.iter();
    let mut number = 0_u32;
    loop {
        number += 1;
        match (read.next(), wanted.next()) {
            (None, None) => return None,
            (Some(message), Some(wanted)) if wanted.is(message) => (),
            (Some(message), Some(wanted)) => {
                return Some(format!(
                    "message {number} is of {} and {} bytes long, not of {} and {} bytes",
                    message.role,
                    message.content.len(),
                    wanted.role,
                    wanted.text.len()
                ));
            }
            (None, Some(_)) => return Some(format!("message {number} is missing")),
            (Some(_), None) => return Some(format!("message {number} was not to be written")),
        }
    }
}

/// A message as its format is to give it back.
struct Wanted<'a> {
    role: Role,
    text: String,
    /// The name of the tool, and whether it failed.
    tool: Option<(&'a str, bool)>,
}

impl Wanted<'_> {
    fn is(&self, message: &NewMessage) -> bool {
        if message.role != self.role || message.conversation != DEFAULT {
            return false;
        }
        let Some((name, has_failed)) = self.tool else { return message.content == self.text };
        let calls = message.extras.tool_calls.as_ref();
        let record = calls.and_then(|calls| calls.get(0));
        let field = |name: &str| record.and_then(|record| record.get(name)).and_then(Value::as_str);
        let status = if has_failed { "failed" } else { "completed" };
        let output = message.content.split_once('\n').map_or("", |(_, output)| output);
        field("name") == Some(name) && field("status") == Some(status) && output == self.text
    }
}

/// What a reader makes of an entry; `None` where it leaves it out, since it looks like what the agent itself tells the model.
fn as_read<'a>(agent: &str, entry: &'a Entry) -> Option<Wanted<'a>> {
    let said = |role, text: &str| Some(Wanted { role, text: text.to_owned(), tool: None });
    match &entry.what {
        What::User(text) => match agent {
            "claude" => {
                let plain = crate::claude::plain_command(text);
                let is_note = text.starts_with("[Request interrupted")
                    || text.starts_with("<local-command-stdout>");
                let role = if is_note { Role::System } else { Role::User };
                if plain.trim().is_empty() { None } else { said(role, &plain) }
            }
            "gemini" if crate::gemini::is_context(text) => None,
            "gemini" if text.contains("<state_snapshot>") => said(Role::System, text),
            "goose" if text.trim_start().starts_with("<turn-context>") => None,
            _ => said(Role::User, text),
        },
        What::Assistant(text) => said(Role::Assistant, text),
        What::Tool(tool) => {
            // Codex has no field for it: the output says what went wrong.
            let has_failed = tool.has_failed && agent != "codex";
            let tool_of = Some((tool.name.as_str(), has_failed));
            Some(Wanted { role: Role::Tool, text: tool.output.clone(), tool: tool_of })
        }
    }
}
