//! For failures that change nothing for whoever waits: they are noted in the log, and the work goes on.

use std::error::Error;

/// What may fail without consequence for the caller.
pub trait Logged<T> {
    /// The value; a failure is noted in the log, with its causes, as `what`.
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
