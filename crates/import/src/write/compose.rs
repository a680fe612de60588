//! What of a conversation can be written for another agent, as entries that every format can hold. Pure.

use std::collections::HashSet;

use jiff::Timestamp;
use rethread_domain::message::{Message, Role};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Entry, ToolUse, What};
use crate::COMPACTED;
use crate::speech::UNANSWERED;

/// A longer text is cut in the middle: no model could read all of it.
const LONGEST_TEXT: usize = 256 * 1024;
const LONGEST_NAME: usize = 64;
/// Stands where a tool call was never answered: models refuse a call without a result.
const NO_RESULT: &str = "(No result: the call was interrupted.)";
/// Stands before a conversation that would begin with something else than a request, which models refuse.
const NO_BEGINNING: &str = "(The beginning of this conversation is not part of it.)";

/// What is not carried over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Messages with thoughts, which only the model they came from may be shown.
    pub thoughts: u32,
    /// Pictures and other files; a mark with their kind and size stays.
    pub files: u32,
    /// Summaries of earlier messages that are written in full.
    pub summaries: u32,
    /// Messages without any text, or whose text was purged.
    pub empty: u32,
    /// Texts that were cut in the middle.
    pub cut: u32,
    /// Tool calls without a result: a result that says so was added.
    pub unanswered: u32,
}

impl LeftOut {
    /// What is to be told to a person.
    pub fn describe(&self) -> Vec<String> {
        let all = [
            (self.thoughts, "thoughts, which only the model that had them can use"),
            (self.files, "attached files (their names and sizes stay)"),
            (self.summaries, "summaries of what is written in full"),
            (self.empty, "messages without text"),
            (self.cut, "texts that are too long, cut in the middle"),
            (self.unanswered, "results of interrupted tool calls"),
        ];
        let told = all.iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| format!("{what}: {count}")).collect()
    }
}

/// A conversation as entries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composed {
    pub entries: Vec<Entry>,
    pub left_out: LeftOut,
}

/// Turns messages, oldest first and without secrets, into entries. They begin with a request, every tool call has a result, and
/// time never goes back.
pub fn compose(messages: &[Message]) -> Composed {
    let mut composed = Composed::default();
    let ids: HashSet<&str> = messages.iter().filter_map(|one| one.given_id.as_deref()).collect();
    let replaced: HashSet<&str> = messages
        .iter()
        .filter_map(|one| one.extras.other.get("replaces").and_then(Value::as_str))
        .collect();
    let is_first_summary = messages.first().is_some_and(is_compacted);
    let mut last = Timestamp::UNIX_EPOCH;
    for (index, message) in messages.iter().enumerate() {
        let id = message.given_id.as_deref().unwrap_or_default();
        // A later message with the same content, or more of it, takes the place of these.
        let is_answered = id.strip_suffix(UNANSWERED).is_some_and(|call| ids.contains(call));
        if is_answered || !id.is_empty() && replaced.contains(id) {
            continue;
        }
        if is_compacted(message) && !(index == 0 && is_first_summary) {
            composed.left_out.summaries += 1;
            continue;
        }
        last = last.max(message.at);
        composed.add(message, last);
    }
    if composed.entries.first().is_some_and(|first| !matches!(first.what, What::User(_))) {
        let at = composed.entries[0].at;
        composed.entries.insert(0, Entry { at, what: What::User(NO_BEGINNING.to_owned()) });
    }
    composed
}

/// Whether a message sums up what was said before it.
fn is_compacted(message: &Message) -> bool {
    message.extras.other.get(COMPACTED) == Some(&Value::Bool(true))
}

impl Composed {
    fn add(&mut self, message: &Message, at: Timestamp) {
        let other = &message.extras.other;
        self.left_out.thoughts += u32::from(other.contains_key("thoughts"));
        let files = other.get("attachments").and_then(Value::as_array).map_or(0, Vec::len);
        self.left_out.files += u32::try_from(files).unwrap_or(u32::MAX);
        let text = self.text(message.body.head());
        let what = match message.role {
            Role::Tool => Some(What::Tool(self.tool(message, &text))),
            _ if message.purged_at.is_some() || text.trim().is_empty() => None,
            Role::User => Some(What::User(text)),
            Role::Assistant => Some(What::Assistant(text)),
            // A summary stands in the place of what was said; other notes are told as such.
            Role::System if is_compacted(message) => Some(What::User(text)),
            Role::System => Some(What::User(format!("System: {text}"))),
        };
        match what {
            Some(what) => self.entries.push(Entry { at, what }),
            None => self.left_out.empty += 1,
        }
    }

    /// A text without what no database or model takes, and not longer than anybody can read.
    fn text(&mut self, text: &str) -> String {
        let text = text.replace('\0', "\u{fffd}");
        if text.len() <= LONGEST_TEXT {
            return text;
        }
        self.left_out.cut += 1;
        let head = &text[..text.floor_char_boundary(LONGEST_TEXT / 2)];
        let tail = &text[text.ceil_char_boundary(text.len() - LONGEST_TEXT / 2)..];
        let left = text.len() - head.len() - tail.len();
        format!("{head}\n[… {left} bytes left out …]\n{tail}")
    }

    fn tool(&mut self, message: &Message, text: &str) -> ToolUse {
        let nothing = Value::Null;
        let calls = message.extras.tool_calls.as_ref().unwrap_or(&nothing);
        let record = calls.get(0).unwrap_or(calls);
        let field = |name: &str| record.get(name).and_then(Value::as_str);
        let status = field("status").unwrap_or_default();
        let (title, output) = split(text, field("title"), field("kind"));
        let name = field("name").or_else(|| field("kind")).unwrap_or(title);
        let input = match record.get("rawInput") {
            Some(Value::Object(input)) => input.clone(),
            Some(Value::Null) | None if title.is_empty() => Map::new(),
            Some(Value::Null) | None => named("description", title.into()),
            Some(other) => named("input", other.clone()),
        };
        let is_open = matches!(status, "unanswered" | "pending" | "in_progress");
        let is_unanswered = output.is_empty() && (is_open || message.is_cut_short());
        self.left_out.unanswered += u32::from(is_unanswered);
        ToolUse {
            name: usable(name),
            input,
            output: if is_unanswered { NO_RESULT.to_owned() } else { output.to_owned() },
            has_failed: is_unanswered || status == "failed",
        }
    }
}

fn named(name: &str, value: Value) -> Map<String, Value> {
    std::iter::once((name.to_owned(), value)).collect()
}

/// What a tool was used on, and what came of it: the first line of a message about it names the tool.
fn split<'a>(text: &'a str, title: Option<&str>, kind: Option<&str>) -> (&'a str, &'a str) {
    let with_kind = title.zip(kind).map(|(title, kind)| format!("{kind}: {title}"));
    let heads = [with_kind.as_deref(), title];
    let known = heads.into_iter().flatten().find(|head| !head.is_empty() && text.starts_with(head));
    let from = known.map_or(0, str::len);
    let end = text[from..].find('\n').map_or(text.len(), |at| from + at);
    (text[..end].trim(), text.get(end + 1..).unwrap_or_default())
}

/// A name as every model takes it.
fn usable(name: &str) -> String {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    let name: String = name
        .chars()
        .take_while(|char| !matches!(char, ':' | '\n'))
        .map(|char| if is_allowed(char) { char } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    if name.chars().any(|char| char.is_ascii_alphanumeric()) { name } else { "tool".to_owned() }
}
