//! Extracts decisions and errors from messages: by a model that answers according to a schema, or by rules.
//!
//! Messages are masked before: what is extracted is stored, and told to other agents.

mod decided;
mod erred;
mod model;
mod review;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::record::{Decision, ErrorRecord, Source};
use rethread_domain::id::{Seq, SessionId};
use rethread_domain::message::{Message, Role};

pub use model::{from_model, prompt, schema};
pub use review::review_from;

/// How many of the latest entries are examined.
pub const ENTRIES: usize = 50;
/// The longest text that is kept.
const CHARS: usize = 400;
/// How much of a long entry is examined, at either end.
const END_BYTES: usize = 8 * 1024;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extracted {
    pub decisions: Vec<Decision>,
    pub errors: Vec<ErrorRecord>,
}

/// The source of entries. The same entries give the same ids.
#[derive(Debug, Clone, Copy)]
struct Origin<'a> {
    by: &'static str,
    task: Option<&'a str>,
    session: SessionId,
    /// For what is based on no entry.
    at: Timestamp,
}

impl Origin<'_> {
    fn source(&self, messages: Vec<Seq>) -> Source {
        Source { by: self.by.to_owned(), session: Some(self.session), messages }
    }

    /// The `no`th finding of a kind that begins at an entry.
    fn id(&self, seq: Seq, kind: char, no: usize) -> String {
        format!("{}:{kind}{no}", self.session.message(seq))
    }

    fn time(&self, messages: &[Message], seq: Option<Seq>) -> Timestamp {
        let said = messages.iter().find(|message| Some(message.seq) == seq);
        said.map_or(self.at, |message| message.at)
    }
}

/// The latest entries with content.
fn latest(messages: &[Message]) -> &[Message] {
    &messages[messages.len().saturating_sub(ENTRIES)..]
}

/// What the rules find in the latest entries, which are given oldest first.
pub fn by_rules(
    messages: &[Message],
    task: Option<&str>,
    session: SessionId,
    at: Timestamp,
) -> Extracted {
    let origin = Origin { by: "rules", task, session, at };
    let messages = latest(messages);
    Extracted {
        decisions: decided::find(messages, &origin),
        errors: erred::find(messages, &origin),
    }
}

/// The text of an entry, or both ends of a long one.
fn ends(message: &Message) -> Vec<&str> {
    if message.purged_at.is_some() {
        return Vec::new();
    }
    match message.body.whole().filter(|text| text.len() <= 2 * END_BYTES) {
        Some(text) => vec![text],
        None => vec![
            rethread_domain::price::head(message.body.head(), END_BYTES),
            rethread_domain::price::tail(message.body.tail(), END_BYTES),
        ],
    }
}

const fn is_spoken(role: Role) -> bool {
    matches!(role, Role::User | Role::Assistant)
}
