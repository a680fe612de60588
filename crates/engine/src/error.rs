//! What can go wrong, sorted by whose move it is. Doors match on this and on nothing deeper.

use rethread_domain::context::NotPositive;
use rethread_domain::id::Invalid;
use rethread_domain::session::Refusal;
use rethread_domain::{SessionId, opening};
use rethread_store as store;

use crate::agents::Trouble;
use crate::entry::BadEntry;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("no session {0}")]
    NotFound(String),
    #[error("{given} may mean any of {}", .candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Ambiguous { given: String, candidates: Vec<SessionId> },
    #[error("session {0} has no message {1}")]
    NoMessage(SessionId, u32),
    /// The request does not fit the state of the session.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Limit(#[from] NotPositive),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Entry(#[from] BadEntry),
    #[error("line {line}: {why}")]
    Import { line: usize, why: String },
    #[error("message id {id:?} is taken: message {seq} has it, with other content")]
    IdTaken { id: String, seq: u32 },
    /// The agent's answer, or that there was none.
    #[error("{agent}: {trouble}")]
    Agent { agent: String, trouble: Trouble },
    #[error("another process talks in conversation {conversation:?} of session {session}")]
    Busy { session: SessionId, conversation: String },
    #[error("{agent} cannot take up this conversation in its own session: {}", opening::reason(.why))]
    NotResumable { agent: String, why: String },
    #[error("the process that was asked ended in the middle of the answer")]
    Interrupted,
    #[error("the process that was asked could not do it: {0}")]
    Elsewhere(String),
    /// What is wrong with the folder of a session.
    #[error("{0}")]
    Folder(String),
    /// The store's answer: not there, not ours, full, locked, damaged.
    #[error(transparent)]
    Store(store::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(id) => Self::NotFound(id.to_string()),
            store::Error::NoMessage(id, seq) => Self::NoMessage(id, seq),
            store::Error::Refused(refusal) => Self::Refused(refusal),
            store::Error::IdTaken { id, seq } => Self::IdTaken { id, seq },
            other => Self::Store(other),
        }
    }
}
