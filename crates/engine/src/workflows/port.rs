//! The port to commands that check a task.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// `None` if it did not exit by itself. A signal is 128 plus its number, as in shells.
    pub code: Option<i32>,
    /// What it wrote to both streams, interleaved: whole, or its beginning and its end.
    pub output: String,
    pub over: ExitReason,
}

/// Why a command is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    /// It ended by itself.
    Finished,
    /// Killed because it took too long.
    TimedOut,
    /// Killed on request.
    Stopped,
    /// It could not be started.
    CannotStart(String),
}

impl CommandOutcome {
    /// It could not be started.
    pub fn cannot_start(why: impl Into<String>) -> Self {
        Self { code: None, output: String::new(), over: ExitReason::CannotStart(why.into()) }
    }

    /// Whether it exited by itself, successfully.
    pub fn is_good(&self) -> bool {
        self.over == ExitReason::Finished && self.code == Some(0)
    }
}

/// Runs commands that the user has approved. When it returns or is dropped, none of their processes is left.
#[async_trait]
pub trait Checker: Send + Sync {
    /// Runs a shell command in a folder, until `limit` has passed or `stop` becomes true.
    async fn check(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        stop: watch::Receiver<bool>,
    ) -> CommandOutcome;
}
