//! Writes a conversation in the format of another agent, so that the agent's own program can resume it: one file for each
//! format. The writers are pure: entries in, bytes out. `place` puts the bytes where the agent looks for them, `check` reads
//! them back.

mod check;
mod claude;
mod codex;
mod compose;
mod gemini;
mod goose;
mod opencode;
mod pi;
mod place;
mod qwen;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use check::{Check, compare, read_back};
pub use compose::{Composed, LeftOut, compose};
pub use place::{Placed, belongs_to, model_of_opencode, place};

/// How a session gets into an agent's own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A file that the agent reads where it lies.
    File,
    /// A file that the agent's own program imports.
    Import,
}

/// The agents whose format can be written, and how each takes it.
pub const WRITABLE: &[(&str, Way)] = &[
    ("claude", Way::File),
    ("codex", Way::File),
    ("gemini", Way::File),
    ("qwen", Way::File),
    ("pi", Way::File),
    ("opencode", Way::Import),
    ("kilo", Way::Import),
    ("goose", Way::Import),
];

/// How a session gets into the store of this agent, if its format can be written.
pub fn way(agent: &str) -> Option<Way> {
    WRITABLE.iter().find(|(name, _)| *name == agent).map(|(_, way)| *way)
}

/// Something that was said or done.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub at: Timestamp,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    User(String),
    Assistant(String),
    Tool(ToolUse),
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// Letters, digits, `_` and `-` only, as every model takes it.
    pub name: String,
    pub input: Map<String, Value>,
    pub output: String,
    pub has_failed: bool,
}

/// The model that an agent is to go on with, where its format has to name one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub id: String,
}

/// A session that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The new native id: nobody else has it. Agents that import a session may give it another one.
    pub id: String,
    pub folder: String,
    pub branch: Option<String>,
    pub title: Option<String>,
    pub model: Option<Model>,
    /// When it is written.
    pub now: Timestamp,
    pub entries: Vec<Entry>,
}

impl Draft {
    /// The file for an agent; `None` if its format cannot be written.
    pub fn bytes(&self, agent: &str) -> Option<Vec<u8>> {
        match agent {
            "claude" => Some(claude::write(self)),
            "codex" => Some(codex::write(self)),
            "gemini" => Some(gemini::write(self)),
            "qwen" => Some(qwen::write(self)),
            "pi" => Some(pi::write(self)),
            "opencode" | "kilo" => Some(opencode::write(self)),
            "goose" => Some(goose::write(self)),
            _ => None,
        }
    }

    /// The digest of one part of this session, by which it gets ids that are the same whenever it is written.
    fn digest(&self, kind: &str, index: usize) -> String {
        crate::digest_of(&[&self.id, kind, &index.to_string()])
    }

    /// A UUID for a part of this session.
    fn uuid(&self, kind: &str, index: usize) -> String {
        uuid(&self.digest(kind, index))
    }

    /// The id of a tool call.
    fn call(&self, index: usize) -> String {
        format!("call_{}", &self.digest("call", index)[..24])
    }
}

/// The native id of a new session: `seed` is a UUID of version 7.
pub fn native_id(agent: &str, seed: &str, now: Timestamp) -> String {
    match agent {
        "opencode" | "kilo" => opencode::session_id(seed, now),
        "codex" | "pi" => seed.to_owned(),
        // Qwen takes no newer version for an id.
        _ => uuid(&crate::digest_of(&[seed])),
    }
}

/// A UUID of version 4 with the digits of a digest.
fn uuid(hex: &str) -> String {
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

/// Records as lines of JSON.
fn lines(records: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend_from_slice(record.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// A time with milliseconds, as these agents write it.
fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
