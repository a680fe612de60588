//! Cursors of lists: the position of the last row that was returned, where the next page begins.

use jiff::Timestamp;
use rethread_domain::Session;

/// The cursor behind a row that is sorted by a time and an id.
pub fn encode(at: Timestamp, id: impl std::fmt::Display) -> String {
    format!("{}.{id}", at.as_microsecond())
}

/// The cursor behind a session. Deleted sessions are sorted by when they were deleted.
pub fn of_session(session: &Session) -> String {
    encode(session.deleted_at.unwrap_or(session.last_active_at), session.id)
}

/// The position that a cursor stands for; `None` if it is not one of ours.
pub fn decode<T: std::str::FromStr>(cursor: &str) -> Option<(Timestamp, T)> {
    let (micros, id) = cursor.split_once('.')?;
    let at = Timestamp::from_microsecond(micros.parse().ok()?).ok()?;
    Some((at, id.parse().ok()?))
}
