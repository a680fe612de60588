//! What other processes ask of whoever has a conversation open.

use rethread_domain::SessionId;
use rethread_store::Command;

use crate::Engine;

/// What another process asks of whoever talks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Prompt { no: u64, prompt: String },
    Pause,
    Complete,
}

impl From<Command> for Asked {
    fn from(command: Command) -> Self {
        match command {
            Command::Pause => Self::Pause,
            Command::Complete => Self::Complete,
        }
    }
}

/// Waits until another process asks to stop, while something is being said.
pub(super) async fn asked_to_leave(
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
    // The turn itself will meet with what is wrong.
    std::future::pending().await
}
