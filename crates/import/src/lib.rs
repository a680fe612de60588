//! Sessions of other agents, as they lie on the disk: one file for each format.
//!
//! Reading writes to, locks and creates nothing of theirs. A format says what a session is called, where it was held
//! and in which order its records are to be read; the messages are then read one by one, so that a session may be larger than
//! memory. What cannot be read is reported and passed over.
//! The module [`mod@write`] is the other direction: it makes new sessions, never over one of theirs.

mod aider;
mod archive;
mod blocks;
mod claude;
mod cline;
mod codex;
mod copied;
mod copilot;
mod cursor;
mod database;
mod document;
mod fast_agent;
mod find;
mod gemini;
mod goose;
pub mod hook;
mod json;
mod jsonl;
mod kimi;
mod lines;
mod locate;
mod opencode;
mod parts;
mod pi;
mod qwen;
mod reading;
mod sniff;
mod speech;
mod stamp;
mod tree;
mod vibe;
mod watch;
pub mod write;

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::NewMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use archive::{Unpacked, is_archive, unpack};
pub use find::{AGENTS, Found, Roots, find, find_native, find_one, is_in_roots, look_at};
pub use locate::locate;
pub use sniff::is_session_of_agent;
pub use speech::UNANSWERED;
pub use watch::Watch;

/// The mark on a message in which an agent summed up what was said before: its context begins there.
pub const COMPACTED: &str = "compacted";
/// Beside that mark: ids of earlier messages that the agent keeps as they were.
pub const KEPT: &str = "kept";

/// Ends the id of a message that the agent may put another one in the place of.
pub const PASSING: &str = "+passing";

/// What a session of another agent is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The id that the agent knows it by.
    pub native: String,
    /// Tells sessions apart that have the same id one after the other, for agents that use ids again.
    #[serde(default)]
    pub instance: String,
    /// Where it was begun.
    pub folder: Option<String>,
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The address of the repository that it was begun in.
    #[serde(default)]
    pub remote: Option<String>,
    pub title: Option<(String, TitleFrom)>,
    pub model: Option<String>,
    /// The version of the agent that wrote it last.
    pub version: Option<String>,
    /// The native session whose agent started it.
    pub parent: Option<String>,
    /// Which of those that had this id.
    #[serde(default)]
    pub parent_instance: String,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The byte at which it begins; nothing for a whole file.
    pub at: Option<u64>,
    pub why: String,
}

/// Where reading goes on when there is more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cursor {
    pub position: u64,
    /// Of what lies before the position: another one means that it was rewritten.
    pub fingerprint: String,
    pub state: Value,
}

/// A session that is being read.
pub trait Transcript: Send {
    fn head(&self) -> &Head;

    /// The next message, in the order of the conversation.
    fn next(&mut self) -> io::Result<Option<NewMessage>>;

    /// What could not be read so far.
    fn unread(&mut self) -> Vec<Unread>;

    /// Where to go on later: to be asked at the end.
    fn cursor(&self) -> Option<Cursor>;

    /// Whether only what is new since a cursor is given.
    fn is_continued(&self) -> bool;
}

/// Why a session cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
}

/// Opens a session that was found. `None` where there is nothing to read in it yet.
///
/// With a cursor, only what came since, where that can be told; otherwise all of it.
pub fn open(found: &Found, cursor: Option<&Cursor>) -> Result<Option<Box<dyn Transcript>>, Error> {
    match cursor.and_then(copied::count) {
        Some(count) => copied::open(found, count),
        None => find::open(found, cursor),
    }
}

/// A digest in hexadecimal digits, of several texts.
pub fn digest_of(texts: &[&str]) -> String {
    let mut hash = blake3::Hasher::new();
    for text in texts {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize().to_hex().as_str()[..32].to_owned()
}

/// When something was last changed, for those who want only the newer ones.
pub(crate) fn changed_at(metadata: &std::fs::Metadata) -> Timestamp {
    let at = metadata.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}
