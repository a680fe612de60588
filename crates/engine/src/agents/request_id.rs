//! The id of a request that the sender wants to find again.

use std::fmt;

use uuid::Uuid;

const BEGIN: &str = "prompt:";

/// The id of the message that a request becomes. It tells that Rethread sent the request itself: an agent's own record of it
/// is not taken in as something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(Uuid);

impl RequestId {
    pub fn new(turn: Uuid) -> Self {
        Self(turn)
    }

    /// Whether this is the id of a message that Rethread sent.
    pub(crate) fn is_one(id: &str) -> bool {
        id.strip_prefix(BEGIN).is_some_and(|turn| Uuid::parse_str(turn).is_ok())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGIN}{}", self.0)
    }
}
