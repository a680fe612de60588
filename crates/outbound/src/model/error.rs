//! What can go wrong between us and a model. Every text in here is bounded, printable and free of the key.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the settings of the model are wrong: {0}")]
    BadSettings(String),
    /// No connection, or one that broke before the answer was whole.
    #[error("the model at {at} cannot be reached: {reason}")]
    Unreachable { at: String, reason: String },
    #[error("the model did not answer within {after:?}")]
    TimedOut { after: Duration },
    #[error("the model refused the request with status {status}: {message}")]
    Refused { status: u16, message: String },
    #[error("the answer of the model is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the answer of the model makes no sense: {0}")]
    Unintelligible(String),
}

impl Error {
    /// Whether the same request may succeed later.
    pub fn is_for_now(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => *status == 429 || (500..600).contains(status),
            Self::BadSettings(_) | Self::TooLarge { .. } | Self::Unintelligible(_) => false,
        }
    }
}
