//! What goes into a store and comes out of it, beside the domain's own types.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use rethread_domain::context::{AgentUse, Limits};
use rethread_domain::message::NewMessage;
use rethread_domain::rank::Related;
use rethread_domain::session::FactRecord;
use rethread_domain::{Conversation, Message, Seq, Session, SessionId, Status};

use crate::error::Error;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Sqlite(PathBuf),
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::Sqlite(PathBuf::from(path)))
            }
            _ => Err(Error::BadUrl(text.chars().take(200).collect())),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

/// Counts who drove a session: every write of a driver says which count it was given.
pub type Epoch = u32;

/// Messages for the end of one session.
#[derive(Debug, Clone)]
pub struct Append {
    pub session: SessionId,
    pub messages: Vec<NewMessage>,
    /// Set by whoever drives the session: refused once somebody else does.
    pub epoch: Option<Epoch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub seq: Seq,
    /// False when a message with its id was there already.
    pub is_new: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    pub user: Option<String>,
    pub project: Option<String>,
    pub kind: Option<String>,
    pub agent: Option<String>,
    /// Without it: all that can be resumed.
    pub status: Option<Status>,
    /// Archived ones too.
    pub archived: bool,
    /// Only deleted ones, archived or not.
    pub deleted: bool,
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    OldestFirst,
    NewestFirst,
}

/// A stretch of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from: Seq,
    pub to: Seq,
    pub order: Order,
    pub limit: u32,
}

impl Span {
    /// The oldest `limit` messages from `from` on.
    pub const fn after(from: Seq, limit: u32) -> Self {
        Self { from, to: Seq::MAX, order: Order::OldestFirst, limit }
    }

    pub const fn newest(limit: u32) -> Self {
        Self { from: 1, to: Seq::MAX, order: Order::NewestFirst, limit }
    }
}

#[derive(Debug, Clone)]
pub struct RecallRequest {
    pub session: SessionId,
    pub limits: Limits,
    /// The next prompt, if it is known.
    pub prompt: Option<String>,
}

/// What a context is made of.
#[derive(Debug, Clone)]
pub struct Recalled {
    pub session: Session,
    /// The most recent ones, newest first.
    pub conversations: Vec<Conversation>,
    /// Others that messages here belong to.
    pub others: Vec<Conversation>,
    /// Newest first.
    pub recent: Vec<Message>,
    pub related: Vec<Related>,
    /// The most used first.
    pub agents: Vec<AgentUse>,
    /// How many messages the search index lacks.
    pub unindexed: u32,
}

/// The whole log of a session from elsewhere.
#[derive(Debug, Clone)]
pub struct Dump {
    pub id: SessionId,
    pub facts: Vec<FactRecord>,
    /// Oldest first, with the time at which one was purged.
    pub messages: Vec<(NewMessage, Option<Timestamp>)>,
}

/// The result of looking through a store.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// What is damaged in the file itself.
    pub damage: Vec<String>,
    /// What differs from the log and can be made anew.
    pub drift: Vec<String>,
    pub unindexed: u64,
}

/// What a store holds and needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub sessions: u64,
    pub deleted_sessions: u64,
    pub messages: u64,
    pub file_bytes: u64,
    pub wal_bytes: u64,
    pub free_bytes: u64,
    pub blob_bytes: u64,
    pub schema: i64,
}

/// What can be asked of whoever drives a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Pause,
    Complete,
}

impl Command {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Complete => "complete",
        }
    }
}

/// Held by whoever drives a session, until it is dropped or the process ends.
pub struct Claim {
    pub epoch: Epoch,
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
