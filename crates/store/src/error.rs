//! What can go wrong in a store, sorted by whose move it is.

use rethread_domain::SessionId;
use rethread_domain::access::TokenId;
use rethread_domain::session::Refusal;
use rethread_workflow::{Status, WorkflowId};

use crate::sqlite::sums::DAMAGE;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("no session {0}")]
    NotFound(SessionId),
    #[error("session {0} has no message {1}")]
    NoMessage(SessionId, u32),
    /// Somebody else changed the session since it was read: read again and decide anew.
    #[error("session {0} was changed by somebody else meanwhile")]
    Conflict(SessionId),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("message id {id:?} is taken: message {seq} has it, with other content")]
    IdTaken { id: String, seq: u32 },
    #[error(
        "message id {0:?} has the form that the store gives, but names a message that is not there yet"
    )]
    IdReserved(String),
    #[error("session {0} is already in the store")]
    Exists(SessionId),
    #[error("session {0} cannot be taken in: {1}")]
    BadLog(SessionId, String),
    #[error("another process drives session {0} now")]
    LostClaim(SessionId),
    #[error("no workflow {0}")]
    NoWorkflow(WorkflowId),
    #[error("workflow {0} is already in the store")]
    WorkflowExists(WorkflowId),
    #[error("workflow {by} works in {worktree}")]
    WorktreeTaken { worktree: String, by: WorkflowId },
    /// Somebody else added events since it was read: read again and decide anew.
    #[error("workflow {0} was changed by somebody else meanwhile")]
    WorkflowConflict(WorkflowId),
    /// Whoever writes owned the workflow once.
    #[error("another process runs workflow {0} now")]
    LeaseLost(WorkflowId),
    #[error("workflow {0} is {1}: only one that is over can be erased")]
    WorkflowOpen(WorkflowId, Status),
    #[error("an event of workflow {id} has {bytes} bytes; {most} are allowed")]
    EventTooLong { id: WorkflowId, bytes: usize, most: usize },
    #[error("workflow {0} cannot be written: {1}")]
    BadEvent(WorkflowId, String),
    #[error("no token {0}")]
    NoToken(TokenId),
    #[error("the key was used for another request")]
    KeyReused,
    #[error("not a store address: {url:?} ({why})")]
    BadUrl { url: String, why: String },
    #[error("{path} is not a Rethread store: {why}")]
    NotAStore { path: String, why: String },
    #[error("the store {path} is of version {found}; this program knows versions up to {known}")]
    Newer { path: String, found: i64, known: i64 },
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    #[error("no space left for the store")]
    Full,
    #[error("the store is locked by another process")]
    Busy,
    /// It took more work than it may, or nobody waits for it any more.
    #[error("the store was interrupted")]
    Interrupted,
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("the store could not be opened: {0}")]
    CannotOpen(String),
    #[error("the store failed: {0}")]
    Failed(String),
}

impl Error {
    /// Whether the store cannot be written to now, while it can be read.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::ReadOnly(_) | Self::Full | Self::Busy | Self::CannotOpen(_))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let Some(code) = error.sqlite_error_code() else { return Self::Failed(error.to_string()) };
        match code {
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::OperationInterrupted => Self::Interrupted,
            ErrorCode::ReadOnly => Self::ReadOnly(error.to_string()),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                Self::Damaged(error.to_string())
            }
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                Self::CannotOpen(error.to_string())
            }
            // A short write is how a full disk shows itself at times.
            ErrorCode::SystemIoFailure if error.to_string().contains("full") => Self::Full,
            _ => match error.to_string() {
                text if text.starts_with(DAMAGE) => Self::Damaged(text[DAMAGE.len()..].to_owned()),
                text => Self::Failed(text),
            },
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull => Self::Full,
            std::io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(error.to_string()),
            std::io::ErrorKind::PermissionDenied => Self::CannotOpen(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
