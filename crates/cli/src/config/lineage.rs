//! Agents that use this program themselves: whose agent, and how deep below the first.

use rethread_domain::{Session, SessionId};

use super::variable;

const PARENT: &str = "RETHREAD_PARENT_SESSION";
const DEPTH: &str = "RETHREAD_DEPTH";
const DRIVEN: &str = "RETHREAD_DRIVEN";
const USER: &str = "RETHREAD_USER";

/// The session whose agent started this program, if one did.
pub(crate) fn parent() -> Option<SessionId> {
    variable(PARENT).and_then(|id| id.parse().ok())
}

/// Whether an agent that Rethread itself drives started this program.
pub(crate) fn is_driven() -> bool {
    variable(PARENT).is_some() || variable(DRIVEN).is_some()
}

/// What an agent is told that serves many sessions of an editor.
pub(crate) fn driven() -> [(String, String); 2] {
    let depth = depth().saturating_add(1).to_string();
    [(DRIVEN.to_owned(), "1".to_owned()), (DEPTH.to_owned(), depth)]
}

/// How many agents have started each other down to here.
pub(crate) fn depth() -> u32 {
    variable(DEPTH).and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// What an agent is told for the programs that it starts.
pub(crate) fn lineage_of(session: &Session) -> [(String, String); 3] {
    [
        (PARENT.to_owned(), session.id.to_string()),
        (DEPTH.to_owned(), depth().saturating_add(1).to_string()),
        (USER.to_owned(), session.user.clone()),
    ]
}
