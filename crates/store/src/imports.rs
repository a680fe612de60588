//! What was read from the files of other agents, and how far.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::{Seq, SessionId};

use crate::error::Result;

/// A session of another agent that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The file it is in.
    pub source: String,
    /// Which session of a database; empty where the file is one session.
    pub native: String,
    pub agent: String,
    /// Ours; `None` where nothing was taken in.
    pub session: Option<SessionId>,
    /// How it stood when it was read.
    pub stamp: String,
    /// Where to go on, as JSON.
    pub cursor: Option<String>,
    /// The newest message that came from there.
    pub seq: Seq,
    /// Since when the agent does not have it any more.
    pub gone_at: Option<Timestamp>,
}

/// Sessions that were imported.
#[async_trait]
pub trait Imports: Send + Sync + 'static {
    /// All that was looked at.
    async fn imports(&self) -> Result<Vec<Import>>;

    /// How far one of them was read. Costs the same however many there are.
    async fn import_of(&self, source: &str, native: &str) -> Result<Option<Import>>;

    /// Remembers how far something was read.
    async fn set_import(&self, import: Import) -> Result<()>;

    /// The agent whose files a session came from; none where it only went on there. Costs by its answer: lists ask it of each
    /// session.
    async fn imported_from(&self, id: SessionId) -> Result<Option<String>>;

    /// All sessions that came from agents' files.
    async fn imported_sessions(&self) -> Result<HashSet<SessionId>>;

    /// The sessions of agents that hold conversations of ours: the agent, its own id, and ours.
    async fn natives(&self) -> Result<Vec<(String, String, SessionId)>>;

    /// The sessions of agents that were ever made for conversations of ours, as [`Self::natives`].
    async fn opened_natives(&self) -> Result<Vec<(String, String, SessionId)>>;

    /// Whether a session began in this session of an agent: it was imported from there, or its first words were said there.
    async fn began_in(&self, id: SessionId, agent: &str, native: &str) -> Result<bool>;

    /// Our session that an agent's own session holds a conversation of, or was made for; the latest where there are several.
    async fn holder_of(&self, agent: &str, native: &str) -> Result<Option<SessionId>>;

    /// The folders that sessions were held in, those of the newest sessions first.
    async fn projects(&self, most: u32) -> Result<Vec<String>>;
}
