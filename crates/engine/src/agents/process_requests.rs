//! Requests of other processes to the process that has a conversation open.

use rethread_domain::SessionId;
use rethread_store::Command;

use super::talk::Talk;
use crate::{Engine, Result};

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

impl Talk {
    /// Requests of other processes between turns: prompts to send, or to stop.
    pub async fn asked(&mut self) -> Result<Option<ProcessRequest>> {
        if let Some(asked) = self.asked.take() {
            return Ok(Some(asked));
        }
        let version = self.engine.store.version().await?;
        if version == self.version {
            return Ok(None);
        }
        let (session, conversation) = (self.options.session, &self.options.conversation);
        if let Some((no, prompt)) = self.engine.store.take_prompt(session, conversation).await? {
            return Ok(Some(ProcessRequest::Prompt { no, prompt }));
        }
        self.version = version;
        let asked = self.engine.store.asked_since(session, self.last_asked).await?;
        let Some((no, command)) = asked.last() else { return Ok(None) };
        self.last_asked = *no;
        Ok(Some(ProcessRequest::from(*command)))
    }

    /// Whether another process has archived or deleted the session meanwhile.
    pub async fn is_over(&self) -> Result<bool> {
        Ok(self.engine.store.session(self.options.session).await?.accepts_messages().is_err())
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
