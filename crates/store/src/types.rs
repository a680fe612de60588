//! What goes into a store and comes out of it, beside the domain's own types.

use std::fmt;

use jiff::Timestamp;
use rethread_domain::context::{AgentUse, Limits};
use rethread_domain::feed::FeedEvent;
use rethread_domain::message::NewMessage;
use rethread_domain::opening::{How, Underway, Watermark};
use rethread_domain::rank::{Related, Wanted};
use rethread_domain::session::FactRecord;
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId, Status};
use serde::Serialize;

/// Counts who drove a session: every write of a driver says which count it was given.
pub type Epoch = u32;

/// Messages for the end of one session.
#[derive(Debug, Clone)]
pub struct Append {
    pub session: SessionId,
    pub messages: Vec<NewMessage>,
    /// Set by whoever drives the session: refused once somebody else does.
    pub epoch: Option<Epoch>,
    /// What became true with them.
    pub facts: Vec<Fact>,
    /// When that was; otherwise when the last of them was said.
    pub at: Option<Timestamp>,
    /// They are a request: its turn begins. Number and watermark are filled in. Without messages, the turn of the
    /// conversation, which has to be under way, begins once more, and is as it says here.
    pub begins: Option<Underway>,
    /// They end the turn of this conversation, which has to be under way.
    pub ends: Option<String>,
    /// From now on an agent's own session holds all of the conversation, but for what others said in it since the
    /// turn that ends began. The watermark is filled in.
    pub holds: Option<Watermark>,
}

impl Append {
    pub const fn new(session: SessionId, messages: Vec<NewMessage>) -> Self {
        Self {
            session,
            messages,
            epoch: None,
            facts: Vec::new(),
            at: None,
            begins: None,
            ends: None,
            holds: None,
        }
    }
}

/// A turn that has begun and not ended.
#[derive(Debug, Clone)]
pub struct Begun {
    pub at: Timestamp,
    pub what: Underway,
    /// What came of it so far.
    pub updates: Vec<(Timestamp, Update)>,
}

/// How often conversations were opened in an agent in one way, for one reason. Times have three digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpeningCount {
    pub agent: String,
    pub how: How,
    pub why: Option<String>,
    pub count: u64,
    pub median_ms: u64,
    pub most_ms: u64,
}

/// What a person allowed or refused for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    pub user: String,
    pub project: String,
    pub agent: String,
    pub what: String,
    pub allowed: bool,
}

/// The folder that a session lives in, and how far it follows the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Home {
    /// The workspace.
    pub root: String,
    /// Beneath it.
    pub path: String,
    /// Up to here the folder has the messages.
    pub seq: Seq,
    /// What the folder knows the last of them by.
    pub last_id: String,
    /// How many facts the session had when the folder was described.
    pub facts: u32,
    /// What it says of the session, in short: written anew when this changes.
    pub told: String,
    /// How its log stood when we left it.
    pub log: String,
    /// And its description.
    pub card: String,
}

/// A session with its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Housed {
    pub id: SessionId,
    pub home: Home,
    /// Whether the log has more than the folder.
    pub is_behind: bool,
    /// Whether the session is deleted: its folder is not to be there.
    pub is_deleted: bool,
}

/// What became of a prompt that another process was asked to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Waiting,
    Taken,
    Answered(String),
    /// Whoever had taken it went away without an answer.
    Abandoned,
    /// Whoever was asked went away without it.
    Gone,
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
    /// Only those that the agent of this session started.
    pub parent: Option<SessionId>,
    /// Without it: all that can be resumed.
    pub status: Option<Status>,
    /// Archived ones too.
    pub archived: bool,
    /// Only deleted ones, archived or not.
    pub deleted: bool,
    /// Only what comes after this place in the order: when it was last active (of deleted ones: when it was deleted),
    /// and its id.
    pub before: Option<(Timestamp, SessionId)>,
    pub limit: u32,
}

/// A stretch of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    pub events: Vec<FeedEvent>,
    /// The last number that was looked at: where to go on, even if nothing of it was wanted.
    pub upto: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    OldestFirst,
    NewestFirst,
}

/// A stretch of messages, or of events.
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
    /// Only what one conversation has in a stretch.
    pub within: Option<Within>,
}

/// The part of a conversation that an agent is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    pub conversation: String,
    /// What comes after this message
    pub after: Seq,
    /// and before this one,
    pub before: Seq,
    /// but for those in these ranges, each from one message to another.
    pub but: Vec<(Seq, Seq)>,
    /// How many messages of the conversation are not part of it.
    pub known: u32,
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
    /// What the prompt asks for.
    pub wanted: Option<Wanted>,
    /// The most used first.
    pub agents: Vec<AgentUse>,
    /// How many messages the search index lacks.
    pub unindexed: u32,
    /// How many messages there are to tell, and whether `recent` has them all.
    pub messages: u32,
    pub is_whole: bool,
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
    /// Records that do not match their checksums, or cannot be read.
    pub records: Vec<Record>,
    /// What differs from the log and can be rebuilt.
    pub drift: Vec<String>,
    /// Log files of SQLite that were damaged when a crash had left them: commits in them are lost.
    pub damaged_logs: Vec<String>,
    pub unindexed: u64,
}

/// A record that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// What it is: `message`, `fact`, `session` and so on.
    pub kind: String,
    /// The session or workflow that it belongs to, where that is known.
    pub of: Option<String>,
    /// Its number there.
    pub number: Option<u64>,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, owner) = match self.kind.as_str() {
            "workflow_event" => ("event", "workflow"),
            "workflow" => ("the row", "workflow"),
            "session" => ("the row", "session"),
            "feed" => ("line", ""),
            other => (other, "session"),
        };
        f.write_str(what)?;
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        match &self.of {
            Some(of) => write!(f, " of {owner} {of}"),
            None if self.kind == "feed" => f.write_str(" of the feed"),
            None => Ok(()),
        }
    }
}

/// What became of damaged records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// Brought back from the backup.
    pub restored: Vec<Record>,
    /// Made anew from the log.
    pub rebuilt: Vec<Record>,
    /// Kept elsewhere in the store, with a mark in their place.
    pub set_aside: Vec<Record>,
}

impl Repaired {
    pub fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.rebuilt.is_empty() && self.set_aside.is_empty()
    }
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

/// Held by whoever talks in a conversation, until it is dropped or the process ends.
pub struct Drive {
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drive")
    }
}
