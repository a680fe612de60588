//! The code of each error, which programs may rely on. `codes.rs` says what each code means.

use rethread_domain::id::Invalid;
use rethread_domain::session::Refusal;
use rethread_store as store;
use rethread_workflow::WorkflowId;

use crate::Error;

impl Error {
    /// The same code at every door.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "session_not_found",
            Self::Ambiguous { .. } | Self::AmbiguousWorkflow { .. } => "ambiguous_id",
            Self::NoMessage(..) => "message_not_found",
            Self::Refused(Refusal::Archived(_)) => "session_archived",
            Self::Refused(Refusal::Completed(_)) => "session_completed",
            Self::Refused(Refusal::Deleted(_)) => "session_deleted",
            Self::Refused(_) | Self::Workflow(_) => "refused",
            Self::Limit(_) => "limit_not_positive",
            Self::Invalid(Invalid::Session(_)) => "bad_id",
            Self::Invalid(Invalid::Name { .. }) => "bad_name",
            Self::Empty(_) | Self::Entry(_) | Self::Import { .. } => "bad_input",
            Self::IdTaken { .. } => "id_taken",
            Self::Agent { trouble, .. } => trouble.code(),
            Self::Unanswered { outcome, .. } => outcome,
            Self::Busy { .. } => "conversation_busy",
            Self::NotResumable { .. } => "not_resumable",
            Self::NotWritten { .. } => "not_written",
            Self::Interrupted => "interrupted",
            Self::Elsewhere(_) => "elsewhere",
            Self::Taken => "taken",
            Self::Plan(_) => "bad_plan",
            Self::Settings(_) => "bad_settings",
            Self::NoWorkflow(_) => "workflow_not_found",
            Self::NoSnapshot { .. } => "snapshot_not_found",
            Self::WorkflowBusy(_) => "workflow_busy",
            Self::Folder(_) => "folder",
            Self::NoToken(_) => "token_not_found",
            Self::KeyReused => "key_reused",
            Self::Store(error) => by_store(error),
        }
    }
}

impl Error {
    /// The workflow that occupies the folder, if that is the error.
    pub fn worktree_taken_by(&self) -> Option<WorkflowId> {
        match self {
            Self::Store(store::Error::WorktreeTaken { by, .. }) => Some(*by),
            _ => None,
        }
    }
}

fn by_store(error: &store::Error) -> &'static str {
    use store::Error as E;
    match error {
        E::BadUrl { .. } => "bad_store_url",
        E::NotAStore { .. } => "not_a_store",
        E::Newer { .. } => "store_newer",
        E::ReadOnly(_) => "store_read_only",
        E::Full => "storage_full",
        E::Busy => "store_locked",
        E::Damaged(_) => "store_damaged",
        E::CannotOpen(_) => "store_not_open",
        E::Conflict(_) | E::LostClaim(_) => "conflict",
        E::Exists(_) => "session_exists",
        E::BadLog(..) | E::IdReserved(_) | E::EventTooLong { .. } | E::BadEvent(..) => "bad_input",
        E::WorktreeTaken { .. } => "worktree_taken",
        E::WorkflowConflict(_) | E::LeaseLost(_) => "lease_lost",
        E::WorkflowExists(_) | E::WorkflowOpen(..) => "refused",
        E::NotFound(_)
        | E::NoMessage(..)
        | E::NoWorkflow(_)
        | E::Refused(_)
        | E::IdTaken { .. }
        | E::NoToken(_)
        | E::KeyReused => Error::from(error.clone()).code(),
        E::Failed(_) | E::Interrupted => "internal",
    }
}
