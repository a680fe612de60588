//! Converts messages to lines of a folder's log, and back.

use jiff::Timestamp;
use rethread_domain::id::{self, Invalid};
use rethread_domain::message::{DEEPEST_FIELD, Extras, NewMessage, nests_deeper};
use rethread_domain::price::Price;
use rethread_domain::{Message, Role, Seq, Session, SessionId};
use rethread_redact::Redactor;
use rethread_workspace::{Line, digest};
use serde_json::{Map, Value};

use crate::entry;
use crate::prepare::shown_name;

/// Fields that stay in the store: thoughts, raw frames, and context use.
const PRIVATE: &[&str] = &["thoughts", "updates", "context"];
/// Longer ids do not fit into a line and are replaced by a hash.
const LONGEST_ID: usize = 200;
/// The kind of a line that is a message.
pub(super) const MESSAGE: &str = "message";

/// The original sessions of a fork's messages: the first ones are shared with others.
#[derive(Debug, Clone)]
pub(super) struct Owners(Vec<(Seq, SessionId)>);

impl Owners {
    /// `shared` says, for each fork on the way, how far it shares messages with which session.
    pub(super) fn new(session: &Session, shared: Vec<(Seq, SessionId)>) -> Self {
        let mut owners = shared;
        owners.reverse();
        owners.push((Seq::MAX, session.id));
        Self(owners)
    }

    /// The line id of a message: the same in every folder and every store.
    ///
    /// It does not depend on the text, so that it reveals nothing of what is masked.
    pub(super) fn line_id(&self, message: &Message) -> String {
        match &message.given_id {
            Some(given) if given.len() <= LONGEST_ID => return given.clone(),
            Some(given) => return digest(given)[..32].to_owned(),
            None => (),
        }
        let owner = self.0.iter().find(|(upto, _)| message.seq <= *upto);
        let owner = owner.map(|(_, owner)| owner.to_string()).unwrap_or_default();
        let at = message.at.as_microsecond();
        let (seq, role, conversation) = (message.seq, message.role, &message.conversation);
        digest(&format!("{owner}\n{seq}\n{at}\n{role}\n{conversation}"))[..32].to_owned()
    }
}

/// A message as a line: masked, and without the fields that stay in the store.
pub(super) fn line(
    id: String,
    after: &str,
    message: &Message,
    redactor: &Redactor,
) -> (Line, Vec<String>) {
    let mut masked = Vec::new();
    let text = redactor.redact(message.body.head());
    masked.extend(text.found.into_iter().map(|found| found.what));
    let mut other = Map::new();
    if let Some(model) = &message.extras.model {
        other.insert("model".to_owned(), model.as_str().into());
    }
    // Fields that are nested more deeply, from before that was refused, stay in the store.
    let is_shallow = |value: &Value| !nests_deeper(value, DEEPEST_FIELD);
    if let Some(calls) = message.extras.tool_calls.as_ref().filter(|calls| is_shallow(calls)) {
        other.insert("tool_calls".to_owned(), calls.clone());
    }
    let mut extra = message.extras.other.clone();
    extra.retain(|name, value| !PRIVATE.contains(&name.as_str()) && is_shallow(value));
    if !extra.is_empty() {
        other.insert("extra".to_owned(), Value::Object(extra));
    }
    if let Some(at) = message.purged_at {
        other.insert("purged_at".to_owned(), at.to_string().into());
    }
    let mut other = Value::Object(other);
    masked.extend(redactor.redact_json(&mut other));
    let other = match other {
        Value::Object(other) => other,
        _ => Map::new(),
    };
    let line = Line {
        id,
        after: after.to_owned(),
        kind: MESSAGE.to_owned(),
        role: message.role.as_str().to_owned(),
        content: text.text.into_owned(),
        timestamp: message.at.to_string(),
        conversation: shown_name(redactor, &message.conversation).into_owned(),
        agent: message.extras.agent.as_deref().map(|name| shown_name(redactor, name).into_owned()),
        other,
    };
    (line, masked)
}

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAMessage {
    #[error("{0}")]
    Role(String),
    #[error(transparent)]
    Name(#[from] Invalid),
    #[error(transparent)]
    Entry(#[from] entry::BadEntry),
}

/// Whether a line can be read back.
pub(super) fn check(line: &Line) -> Result<(), NotAMessage> {
    // The content may be long and needs no check.
    message(Line { content: String::new(), ..line.clone() }).map(drop)
}

/// Reads a line back. Its price is not counted yet.
pub(super) fn message(line: Line) -> Result<(NewMessage, Option<Timestamp>), NotAMessage> {
    let role: Role = line.role.parse().map_err(NotAMessage::Role)?;
    id::check_message_id(&line.id)?;
    id::check_conversation(&line.conversation)?;
    let at = entry::time(&line.timestamp)?;
    let mut other = line.other;
    let text = |value: Value| value.as_str().map(ToOwned::to_owned);
    let model = other.shift_remove("model").and_then(text);
    for (what, name) in [("agent", &line.agent), ("model", &model)] {
        name.as_deref().map_or(Ok(()), |name| id::check_agent(what, name))?;
    }
    let purged_at = other.shift_remove("purged_at").and_then(text);
    let purged_at = purged_at.map(|text| entry::time(&text)).transpose()?;
    let tool_calls = other.shift_remove("tool_calls").filter(|calls| !calls.is_null());
    // Fields of a newer version or of a person are kept beside those of the agent.
    let mut extra = match other.shift_remove("extra") {
        Some(Value::Object(extra)) => extra,
        _ => Map::new(),
    };
    extra.extend(other);
    extra.retain(|name, _| !entry::KNOWN.contains(&name.as_str()));
    let extras = Extras { agent: line.agent, model, tool_calls, other: extra, ..Extras::default() };
    let message = NewMessage {
        id: Some(line.id),
        role,
        content: line.content,
        at,
        conversation: line.conversation,
        extras,
        price: Price { tokens: Some(0), ..Price::default() },
    };
    Ok((message, purged_at))
}
