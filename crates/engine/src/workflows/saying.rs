//! What the agent of a running task says, while it says it.

use rethread_domain::SessionId;
use rethread_domain::turn::Turn;

use crate::{Engine, Result};

impl Engine {
    /// What was said so far in the turn of a session that is under way, if there is one; without secrets, and without
    /// an end that could still become one.
    pub async fn saying(&self, session: SessionId) -> Result<Option<String>> {
        for conversation in self.conversations(session).await? {
            let Some(begun) = self.store.begun(session, &conversation.name).await? else {
                continue;
            };
            let mut turn = Turn::default();
            for (at, update) in begun.updates {
                turn.take(update, at);
            }
            let (text, _) = self.redactor.redact_begun(&turn.text());
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}
