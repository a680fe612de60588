//! What workflows need from outside.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// `None` where it did not end by itself. A signal is told as shells do: 128 and its number.
    pub code: Option<i32>,
    /// What it wrote to both of its streams, in the order in which it came: all of it, or its beginning and its end.
    pub output: String,
    pub over: Over,
}

/// Why a command does not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// It ended by itself.
    Finished,
    /// It was ended: it took too long.
    TimedOut,
    /// It was ended: somebody wanted that.
    Stopped,
    /// It never ran; why.
    CannotStart(String),
}

impl Ran {
    /// It never ran.
    pub fn cannot_start(why: impl Into<String>) -> Self {
        Self { code: None, output: String::new(), over: Over::CannotStart(why.into()) }
    }

    /// Whether it ended by itself, and well.
    pub fn is_good(&self) -> bool {
        self.over == Over::Finished && self.code == Some(0)
    }
}

/// Runs commands that the user has approved. When it returns, and when it is dropped, nothing of them is left running.
#[async_trait]
pub trait Checker: Send + Sync {
    /// Runs a command of the shell in a folder, at most for `limit` and until `stop` holds true.
    async fn check(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        stop: watch::Receiver<bool>,
    ) -> Ran;
}
