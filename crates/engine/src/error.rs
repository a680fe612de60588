//! Errors of the engine, by who has to act. Doors match on these and on nothing deeper.

use jiff::Timestamp;
use rethread_domain::access::TokenId;
use rethread_domain::context::NotPositive;
use rethread_domain::id::Invalid;
use rethread_domain::session::Refusal;
use rethread_domain::{SessionId, opening};
use rethread_store as store;
use rethread_workflow::{self as workflow, WorkflowId};

use crate::agents::AgentError;
use crate::entry::BadEntry;
use crate::workflows::PlanError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("no session {0}")]
    NotFound(String),
    #[error("{given} could mean several sessions: {}{}", .candidates.join(", "), rest(*.more))]
    Ambiguous { given: String, candidates: Vec<String>, more: usize },
    #[error("session {0} has no message {1}")]
    NoMessage(SessionId, u32),
    /// The state of the session does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Limit(#[from] NotPositive),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is nothing to send, or to search for.
    #[error("the {0} is empty")]
    Empty(&'static str),
    #[error(transparent)]
    Entry(#[from] BadEntry),
    #[error("line {line}: {why}")]
    Import { line: usize, why: String },
    #[error("message id {id:?} is taken: message {seq} has it, with other content")]
    IdTaken { id: String, seq: u32 },
    /// An error of the agent.
    #[error("{agent}: {trouble}")]
    Agent { agent: String, trouble: AgentError },
    /// The agent ended its turn normally, but without an answer.
    #[error("{agent}: {message}")]
    Unanswered {
        agent: String,
        outcome: &'static str,
        message: String,
        resets_at: Option<Timestamp>,
    },
    #[error("another process talks in conversation {conversation:?} of session {session}")]
    Busy { session: SessionId, conversation: String },
    #[error("{agent} cannot take up this conversation in its own session: {}", opening::reason(.why))]
    NotResumable { agent: String, why: String },
    /// A native session could not be written, or is not what was to be written.
    #[error("the session cannot be written for {agent}: {why}")]
    NotWritten { agent: String, why: String },
    #[error("the process that was asked ended in the middle of the answer")]
    Interrupted,
    #[error("the process that was asked could not do it: {0}")]
    Elsewhere(String),
    /// It was to be taken back, too late.
    #[error("the process that has the conversation open had begun with it, and goes on")]
    Taken,
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Invalid settings.
    #[error("{0}")]
    Settings(String),
    #[error("no workflow {0}")]
    NoWorkflow(String),
    #[error("{given} could mean several workflows: {}", .candidates.join(", "))]
    AmbiguousWorkflow { given: String, candidates: Vec<String> },
    #[error("workflow {workflow} has no snapshot{}", meant(.given.as_deref(), *.several))]
    NoSnapshot { workflow: WorkflowId, given: Option<String>, several: usize },
    /// The state of the workflow does not allow it.
    #[error(transparent)]
    Workflow(workflow::Refusal),
    #[error("another process runs workflow {0}")]
    WorkflowBusy(WorkflowId),
    #[error("no token {0}")]
    NoToken(TokenId),
    /// The idempotency key was used for another request: a mistake of the caller.
    #[error("the key was used for another request")]
    KeyReused,
    /// A problem with the folder of a session.
    #[error("{0}")]
    Folder(String),
    /// An error of the store: not found, not a store, full, locked, damaged.
    #[error(transparent)]
    Store(store::Error),
}

fn rest(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

fn meant(given: Option<&str>, several: usize) -> String {
    match given {
        Some(given) if several > 1 => format!(" {given}: that could mean {several} snapshots"),
        Some(given) => format!(" {given}"),
        None => " yet".to_owned(),
    }
}

impl Error {
    /// Whether the store can be read but not be written to at the moment.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_for_now())
    }

    /// Whether the store itself failed: what was asked may be in order.
    pub fn is_of_the_store(&self) -> bool {
        use store::Error as E;
        matches!(
            self,
            Self::Store(
                E::ReadOnly(_)
                    | E::Full
                    | E::Busy
                    | E::Interrupted
                    | E::Damaged(_)
                    | E::CannotOpen(_)
                    | E::Failed(_)
                    | E::NotAStore { .. }
                    | E::Newer { .. }
            )
        )
    }

    /// A bug.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        Self::Store(store::Error::Failed(cause.to_string()))
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(id) => Self::NotFound(id.to_string()),
            store::Error::NoWorkflow(id) => Self::NoWorkflow(id.to_string()),
            store::Error::NoMessage(id, seq) => Self::NoMessage(id, seq),
            store::Error::Refused(refusal) => Self::Refused(refusal),
            store::Error::NoToken(id) => Self::NoToken(id),
            store::Error::KeyReused => Self::KeyReused,
            store::Error::IdTaken { id, seq } => Self::IdTaken { id, seq },
            other => Self::Store(other),
        }
    }
}
