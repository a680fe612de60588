//! A message: one thing that was said or done.

use std::borrow::Cow;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::Seq;
use crate::price::Price;
use crate::{mask, turn};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    System,
    Tool,
}

crate::named!(Role { User = "user", Assistant = "assistant", System = "system", Tool = "tool" });

impl Role {
    /// The word that stands before what was said.
    pub const fn label(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Assistant => "Assistant",
            Self::System => "System",
            Self::Tool => "Tool",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            format!("not a role: {text:?} (expected user, assistant, system or tool)")
        })
    }
}

/// What a model reported it used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// The cost in billionths of a dollar: sums of these are exact in any order.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the check at the door")]
    pub fn cost_nano(&self) -> i64 {
        (self.cost_usd.unwrap_or_default() * 1e9).round() as i64
    }
}

/// Whether there are more levels than `most` in a value. Beyond 127 nobody can read it back from text, and a text that
/// a parser took for a part not parsed yet can bring in more.
pub fn nests_deeper(value: &Value, most: usize) -> bool {
    let is_deep = |inner: &Value| most.checked_sub(1).is_none_or(|most| nests_deeper(inner, most));
    match value {
        Value::Array(all) => most == 0 || all.iter().any(is_deep),
        Value::Object(all) => most == 0 || all.values().any(is_deep),
        _ => false,
    }
}

/// What a message carries beside its text. Unknown fields are kept as they came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Extras {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What in its text is a secret, as far as rules can tell: masked wherever it leaves.
    #[serde(default, rename = "$secrets", skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Secret>,
    /// The version of the rules that the text was searched by.
    #[serde(default, rename = "$rules", skip_serializing_if = "is_unversioned")]
    pub rules: u32,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The names under which our own marks are kept: of secrets, and that a message is damaged. No field that is recorded may
/// have them.
pub const MARKS: [&str; 3] = ["$secrets", "$rules", "$damaged"];

/// So many levels a field of a message may have: what is deeper fits into no session folder.
pub const DEEPEST_FIELD: usize = 90;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_unversioned(rules: &u32) -> bool {
    *rules == 0
}

/// A secret in a text: where, and of what kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    pub from: usize,
    pub to: usize,
    pub what: String,
}

impl Extras {
    pub fn is_empty(&self) -> bool {
        self.agent.is_none()
            && self.model.is_none()
            && self.tool_calls.is_none()
            && self.usage.is_none()
            && self.secrets.is_empty()
            && self.rules == 0
            && self.other.is_empty()
    }
}

/// A message on its way into the log.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The id its writer knows it by; the same id twice is one message.
    pub id: Option<String>,
    pub role: Role,
    pub content: String,
    pub at: Timestamp,
    pub conversation: String,
    pub extras: Extras,
    /// What its text costs in a context, counted before it is written.
    pub price: Price,
}

/// A message as the log holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub seq: Seq,
    /// The id its writer gave, if any.
    pub given_id: Option<String>,
    pub role: Role,
    pub at: Timestamp,
    pub conversation: String,
    pub body: Body,
    pub extras: Extras,
    pub price: Price,
    /// When its text was purged.
    pub purged_at: Option<Timestamp>,
}

impl Message {
    /// Whether its turn ended before the agent had finished: interrupted, cancelled, or failed.
    pub fn is_cut_short(&self) -> bool {
        let other = &self.extras.other;
        other.get(turn::INTERRUPTED).is_some_and(|mark| mark == true)
            || other.get(turn::STOP).is_some_and(|reason| reason == "cancelled")
            || other.contains_key(turn::ERROR)
    }

    /// Its text, as far as it was read from its beginning, without what was marked in it.
    pub fn masked(&self) -> Cow<'_, str> {
        masked(self.body.head(), &self.extras.secrets)
    }
}

impl NewMessage {
    /// Its text without what was marked in it.
    pub(crate) fn masked(&self) -> Cow<'_, str> {
        masked(&self.content, &self.extras.secrets)
    }
}

fn masked<'a>(text: &'a str, secrets: &[Secret]) -> Cow<'a, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    for secret in secrets {
        if let Some(before) = text.get(from..secret.from).filter(|_| secret.from <= secret.to) {
            masked.push_str(before);
            masked.push_str(&mask::of(&secret.what));
            from = secret.to;
        }
    }
    masked.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(masked)
}

/// The text of a message, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Whole(String),
    /// A long text of which only both ends were read: a context never opens the rest.
    Ends {
        head: String,
        tail: String,
        bytes: u64,
    },
}

/// What is said of facts and events that could not be read as they were written.
pub const DAMAGED: &str = "damaged";

/// Says that a message could not be read as it was written: its text is a mark that says so.
pub const DAMAGED_MARK: &str = MARKS[2];

impl Message {
    /// Whether its text is only a mark in place of one that is damaged in the store.
    pub fn is_damaged(&self) -> bool {
        self.extras.other.get(DAMAGED_MARK).is_some_and(|mark| mark == true)
    }
}

impl Body {
    pub fn whole(&self) -> Option<&str> {
        match self {
            Self::Whole(text) => Some(text),
            Self::Ends { .. } => None,
        }
    }

    /// The text at its beginning: all of it, or as much as was read.
    pub fn head(&self) -> &str {
        match self {
            Self::Whole(text) => text,
            Self::Ends { head, .. } => head,
        }
    }

    pub fn tail(&self) -> &str {
        match self {
            Self::Whole(text) => text,
            Self::Ends { tail, .. } => tail,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Self::Whole(text) => text.len() as u64,
            Self::Ends { bytes, .. } => *bytes,
        }
    }
}
