//! Requests of other processes to the process that has a conversation open.

use rethread_domain::SessionId;
use rethread_store::Command;

use crate::Engine;

/// A request of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessRequest {
    Prompt { no: u64, prompt: String },
    Pause,
    Complete,
}

impl From<Command> for ProcessRequest {
    fn from(command: Command) -> Self {
        match command {
            Command::Pause => Self::Pause,
            Command::Complete => Self::Complete,
        }
    }
}

/// Waits, during a turn, until another process asks to stop.
pub(super) async fn stop_requested(
    engine: &Engine,
    session: SessionId,
    after: u64,
) -> (u64, Command) {
    let mut changes = engine.changes();
    while let Ok(asked) = engine.store.asked_since(session, after).await {
        if let Some(last) = asked.last() {
            return *last;
        }
        changes.next().await;
    }
    // If the store cannot be read, the turn itself will report it.
    std::future::pending().await
}
