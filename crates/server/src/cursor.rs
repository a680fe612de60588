//! Pages of lists: their size, and the cursor at which the next one begins.

pub(crate) use rethread_engine::cursor::{encode, of_session};

use crate::problem::Problem;

/// The largest page of a list.
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

pub(crate) fn decode<T: std::str::FromStr>(cursor: &str) -> Result<(jiff::Timestamp, T), Problem> {
    rethread_engine::cursor::decode(cursor).ok_or_else(invalid)
}

/// The problem for any text that is not a cursor of ours.
pub(crate) fn invalid() -> Problem {
    Problem::new("bad_cursor", "not a valid cursor")
        .hint("give `next` of the previous answer, unchanged")
}
