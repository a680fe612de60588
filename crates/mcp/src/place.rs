//! Where a server stands, and what it allows.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use rethread_domain::{SessionId, context};
use rethread_engine::Pruning;

/// Where a server stands: whom it works for, and who started it.
#[derive(Debug, Clone)]
pub struct Place {
    /// Whom sessions belong to. Those of others are not found.
    pub user: String,
    /// The folder that new sessions are about.
    pub project: PathBuf,
    /// The session whose agent uses this server.
    pub parent: Option<SessionId>,
    /// How many agents have invoked each other down to here.
    pub depth: u32,
}

/// Bounds of what a client may ask for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long an invocation is waited for before a handle is given.
    pub wait: Duration,
    pub prompt_bytes: usize,
    pub message_bytes: u64,
    /// How many agents may invoke each other, one below the other.
    pub depth: u32,
    pub context: context::Limits,
    /// After so long without a word a session is paused.
    pub idle: SignedDuration,
    pub pruning: Pruning,
}
