//! What can go wrong between us and a receiver. Every text in here is bounded, printable and free of secrets.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the webhook is wrong: {0}")]
    BadHook(String),
    /// No connection, or one that broke before there was an answer.
    #[error("the webhook at {at} cannot be reached: {reason}")]
    Unreachable { at: String, reason: String },
    #[error("the webhook at {at} did not answer within {after:?}")]
    TimedOut { at: String, after: Duration },
    #[error("the webhook at {at} refused the notice with status {status}: {message}")]
    Refused { at: String, status: u16, message: String },
}

impl Error {
    /// Whether the same notice may be taken later.
    pub fn is_for_now(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => *status == 429 || (500..600).contains(status),
            Self::BadHook(_) => false,
        }
    }
}
