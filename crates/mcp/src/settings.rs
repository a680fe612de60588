//! The context and the limits of a server.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use rethread_domain::{SessionId, context};
use rethread_engine::Pruning;

/// On whose behalf a server works, and who started it.
#[derive(Debug, Clone)]
pub struct CallerContext {
    /// The owner of new sessions. Those of other users are not found.
    pub user: String,
    /// The folder of new sessions.
    pub project: PathBuf,
    /// The session whose agent uses this server.
    pub parent: Option<SessionId>,
    /// How deeply agents have invoked each other.
    pub depth: u32,
}

/// Limits for clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long to wait for an invocation before returning a handle.
    pub wait: Duration,
    pub prompt_bytes: usize,
    pub message_bytes: u64,
    /// How deeply agents may invoke each other.
    pub depth: u32,
    pub context: context::Limits,
    /// How long a session may be idle before it is paused.
    pub idle: SignedDuration,
    pub pruning: Pruning,
}
