//! What SQLite says in another way than PostgreSQL. `postgres/dialect.rs` has the same words.

/// What time it is, in microseconds since 1970.
pub(super) const NOW: &str = "select cast(unixepoch('now', 'subsec') * 1000000 as integer)";

/// The id of the session with a number, from the index of ids: in its row it may be damaged.
pub(super) const SESSION_ID: &str =
    "select id from session indexed by sqlite_autoindex_session_1 where no = ?1";
/// The same of a workflow.
pub(super) const WORKFLOW_ID: &str =
    "select id from workflow indexed by sqlite_autoindex_workflow_1 where no = ?1";

/// Says which index a query goes through.
pub(super) fn by_index(name: &str) -> String {
    format!("indexed by {name}")
}
