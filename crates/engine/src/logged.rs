//! For failures that do not matter to the caller: they are logged, and the work continues.

use std::error::Error;

/// A result whose failure does not matter to the caller.
pub trait Logged<T> {
    /// The value; a failure is logged as `what`, with its causes.
    fn or_log(self, what: &str) -> Option<T>;
}

impl<T, E: Error + 'static> Logged<T> for Result<T, E> {
    fn or_log(self, what: &str) -> Option<T> {
        self.inspect_err(|error| {
            let error: &(dyn Error + 'static) = error;
            tracing::warn!(error, "{what}");
        })
        .ok()
    }
}
