//! What every HTTP client of ours shares: keys that nobody gets to see, waits between attempts, and what lies beneath
//! an error.

mod backoff;
mod key;

use std::iter;

pub use backoff::{Backoff, retry_after};
pub use key::Key;

/// What lies beneath an error of the client, which itself names the URL; `None` where there is nothing.
pub fn reason(error: &reqwest::Error) -> Option<String> {
    let first = std::error::Error::source(error);
    let causes: Vec<String> =
        iter::successors(first, |cause| cause.source()).map(ToString::to_string).collect();
    (!causes.is_empty()).then(|| causes.join(": "))
}
