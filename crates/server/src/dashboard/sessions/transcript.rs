//! The transcript of a session: messages, masked and bounded in size, with the openings in between.

use jiff::Timestamp;
use rethread_domain::message::Body;
use rethread_domain::session::FactRecord;
use rethread_domain::turn::INTERRUPTED;
use rethread_domain::{Fact, Message, Role};
use serde_json::Value;

use crate::dashboard::humanize::{self, Moment, head};
use crate::dashboard::markdown;
use crate::state::App;

/// How many bytes of a message are shown.
const MOST: usize = 48 << 10;
/// How many bytes of a tool's arguments or output are shown.
const MOST_OF_TOOL: usize = 16 << 10;
/// Read beyond the limit before masking, and dropped afterwards: so no secret is cut in half and shown.
const SLACK: usize = 16 << 10;
/// The default conversation, which needs no label.
const MAIN: &str = "main";

/// An entry of the transcript.
pub(super) enum Item {
    Opened(Opened),
    Message(Box<MessageEntry>),
}

/// How a conversation was opened.
pub(super) struct Opened {
    /// Its number in the log of facts: by it the script knows which ones are on the page.
    pub(super) no: u32,
    pub(super) after: u32,
    pub(super) how: &'static str,
    pub(super) words: String,
    pub(super) conversation: Option<String>,
    pub(super) at: Moment,
    pub(super) ms: u64,
}

/// The status of a tool call, and the class of its badge.
pub(super) struct Status {
    pub(super) words: String,
    pub(super) tone: &'static str,
}

impl Status {
    fn of(words: String) -> Self {
        let tone = match words.as_str() {
            "failed" => "failed",
            "completed" => "good",
            _ => "plain",
        };
        Self { words, tone }
    }
}

/// A tool call, as far as it was recorded.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) status: Option<Status>,
    pub(super) detail: String,
}

/// A message.
pub(super) struct MessageEntry {
    pub(super) seq: u32,
    pub(super) role: &'static str,
    pub(super) label: &'static str,
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) at: Moment,
    pub(super) conversation: Option<String>,
    /// The text as safe HTML, from Markdown.
    pub(super) html: Option<String>,
    /// The text as it is.
    pub(super) text: Option<String>,
    /// The full length, if only the beginning is shown.
    pub(super) whole: Option<String>,
    pub(super) thoughts: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<String>,
    pub(super) is_interrupted: bool,
    pub(super) error: Option<String>,
    /// Why the agent stopped early.
    pub(super) stop: Option<String>,
    pub(super) purged: Option<String>,
}

/// The beginning of a masked text, and whether that is the whole text.
fn masked(app: &App, text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (app.clean(text), true);
    }
    let cleaned = app.clean(head(text, most + SLACK));
    let kept = cleaned.len().saturating_sub(SLACK).min(most);
    (head(&cleaned, kept).to_owned(), false)
}

fn shortened(app: &App, text: &str) -> String {
    let (mut shown, is_whole) = masked(app, text, MOST_OF_TOOL);
    if !is_whole {
        shown.push_str("\n…");
    }
    shown
}

fn label(conversation: &str) -> Option<String> {
    (conversation != MAIN).then(|| conversation.to_owned())
}

/// The openings of a session's conversations.
pub(super) fn openings(app: &App, attached: Vec<(u32, FactRecord)>, now: Timestamp) -> Vec<Opened> {
    let opened = attached.into_iter().filter_map(|(no, record)| match record.fact {
        Fact::Attached(opening) => Some(Opened {
            no,
            after: record.after,
            how: opening.how.as_str(),
            words: app.clean(&opening.describe()),
            conversation: label(&app.clean(&opening.conversation)),
            at: Moment::of(record.at, now),
            ms: opening.ms,
        }),
        _ => None,
    });
    opened.collect()
}

/// Messages and openings in the order in which they happened.
pub(super) fn woven(app: &App, messages: &[Message], openings: Vec<Opened>) -> Vec<Item> {
    let now = app.engine.clock().now();
    let mut openings = openings.into_iter().peekable();
    let mut items = Vec::new();
    for message in messages {
        while let Some(opened) = openings.next_if(|one| one.after < message.seq) {
            items.push(Item::Opened(opened));
        }
        items.push(Item::Message(Box::new(MessageEntry::of(app, message, now))));
    }
    items.extend(openings.map(Item::Opened));
    items
}

impl MessageEntry {
    fn of(app: &App, message: &Message, now: Timestamp) -> Self {
        let text = match &message.body {
            Body::Whole(text) => text,
            Body::Ends { head, .. } => head,
        };
        let (shown, is_whole) = masked(app, text, MOST);
        let is_markdown = matches!(message.role, Role::User | Role::Assistant);
        let other = &message.extras.other;
        let noted = |name: &str| other.get(name).and_then(Value::as_str);
        let is_empty = shown.trim().is_empty() || message.purged_at.is_some();
        let (html, text) = match (is_empty, is_markdown) {
            (true, _) => (None, None),
            (false, true) => (Some(markdown::html(&shown)), None),
            (false, false) => (None, Some(shown)),
        };
        let stop = noted("stop").map(|reason| match reason {
            "cancelled" => "This answer was cancelled.".to_owned(),
            reason => format!("The agent stopped early: {}.", reason.replace('_', " ")),
        });
        let failed = noted("error").map(|why| format!("The agent failed: {why}"));
        Self {
            seq: message.seq,
            role: message.role.as_str(),
            label: message.role.label(),
            agent: app.clean_some(message.extras.agent.as_deref()),
            model: app.clean_some(message.extras.model.as_deref()),
            at: Moment::of(message.at, now),
            conversation: label(&app.clean(&message.conversation)),
            html,
            text,
            whole: (!is_whole || message.body.whole().is_none())
                .then(|| humanize::grouped(message.body.bytes())),
            thoughts: noted("thoughts").map(|thoughts| shortened(app, thoughts)),
            calls: message
                .extras
                .tool_calls
                .as_ref()
                .map(|calls| all_calls(app, calls))
                .unwrap_or_default(),
            usage: message.extras.usage.as_ref().map(|usage| {
                let (taken, given) =
                    (humanize::short(usage.input_tokens), humanize::short(usage.output_tokens));
                let cost = usage.cost_usd.map(humanize::dollars);
                let cost = cost.map(|cost| format!(", {cost}")).unwrap_or_default();
                format!("{taken} in, {given} out{cost}")
            }),
            is_interrupted: other.contains_key(INTERRUPTED),
            error: failed.map(|text| app.clean(&text)),
            stop: stop.map(|text| app.clean(&text)),
            purged: message.purged_at.map(humanize::minute),
        }
    }

    /// The first line of a tool's text: its name and title.
    pub(super) fn first(&self) -> &str {
        let text = self.text.as_deref().unwrap_or_default();
        let line = text.lines().next().filter(|line| !line.trim().is_empty());
        line.map_or("A tool", |line| head(line, 200))
    }

    /// The remaining lines.
    pub(super) fn rest(&self) -> &str {
        let text = self.text.as_deref().unwrap_or_default();
        text.split_once('\n').map_or("", |(_, rest)| rest)
    }

    pub(super) fn status(&self) -> Option<&Status> {
        self.calls.first()?.status.as_ref()
    }
}

fn all_calls(app: &App, calls: &Value) -> Vec<Call> {
    match calls {
        Value::Array(all) => all.iter().take(50).map(|one| call(app, one)).collect(),
        one => vec![call(app, one)],
    }
}

/// Reads a tool call, which agents record in several shapes.
fn call(app: &App, one: &Value) -> Call {
    let text = |value: &Value| value.as_str().map(|text| head(&app.clean(text), 300).to_owned());
    let names = ["/title", "/name", "/function/name", "/tool", "/kind", "/id"];
    let name = names.iter().find_map(|path| one.pointer(path).and_then(text));
    let mut masked = one.clone();
    app.engine.redactor().redact_json(&mut masked);
    let detail = serde_json::to_string_pretty(&masked).unwrap_or_default();
    Call {
        name: name.unwrap_or_else(|| "a tool".to_owned()),
        status: one.get("status").and_then(text).map(Status::of),
        detail: shortened(app, &detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(head("aü", 2), "a");
        assert_eq!(head("aü", 3), "aü");
        assert_eq!(head("a", 9), "a");
    }
}
