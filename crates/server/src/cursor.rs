//! Where a list goes on: the place of the last row that was given.

use jiff::Timestamp;
use rethread_domain::Session;

use crate::problem::Problem;

/// How many rows a part of a list may have.
pub(crate) const MOST: u32 = 200;
pub(crate) const USUAL: u32 = 50;

pub(crate) fn limit(given: Option<u32>) -> Result<u32, Problem> {
    match given.unwrap_or(USUAL) {
        0 => Err(rethread_domain::context::NotPositive { what: "rows" }.into()),
        rows if rows > MOST => Err(Problem::new(
            "bad_input",
            format!("limit is {rows}; at most {MOST} are given at once"),
        )
        .hint("the answer's `next` leads on")),
        rows => Ok(rows),
    }
}

pub(crate) fn encode(at: Timestamp, id: impl std::fmt::Display) -> String {
    format!("{}.{id}", at.as_microsecond())
}

/// The place of a session in the list that it is in: deleted ones are listed by when they were.
pub(crate) fn after(session: &Session) -> String {
    encode(session.deleted_at.unwrap_or(session.last_active_at), session.id)
}

pub(crate) fn decode<T: std::str::FromStr>(cursor: &str) -> Result<(Timestamp, T), Problem> {
    let parts = cursor.split_once('.');
    let found = parts.and_then(|(micros, id)| {
        let at = Timestamp::from_microsecond(micros.parse().ok()?).ok()?;
        Some((at, id.parse().ok()?))
    });
    found.ok_or_else(bad)
}

/// What is answered to anything else than a cursor that was given.
pub(crate) fn bad() -> Problem {
    Problem::new("bad_cursor", "not a valid cursor")
        .hint("give `next` of the previous answer, unchanged")
}
