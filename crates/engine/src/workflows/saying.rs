//! What the agents of a workflow say, while they say it.

use rethread_domain::SessionId;
use rethread_domain::turn::Turn;
use rethread_workflow::Workflow;

use crate::{Engine, Result};

/// What an agent has said so far in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying {
    /// The task that it works on or reviews, or `plan`.
    pub on: String,
    pub session: SessionId,
    /// Without secrets, and without an end that could still become one.
    pub text: String,
}

impl Engine {
    /// What is said now in each session that a workflow has at work.
    pub async fn saying(&self, workflow: &Workflow) -> Result<Vec<Saying>> {
        let mut all = Vec::new();
        for (on, session) in workflow.at_work() {
            if let Some(text) = self.said_so_far(session).await? {
                all.push(Saying { on: on.to_owned(), session, text });
            }
        }
        Ok(all)
    }

    async fn said_so_far(&self, session: SessionId) -> Result<Option<String>> {
        // A session may be gone though its workflow is not.
        for conversation in self.conversations(session).await.unwrap_or_default() {
            let Some(begun) = self.store.begun(session, &conversation.name).await? else {
                continue;
            };
            let mut turn = Turn::default();
            for (at, update) in begun.updates {
                turn.take(update, at);
            }
            let said = turn.text();
            let (mut text, upto) = self.redactor.redact_begun(&said);
            // The line break after what is decided is no part of a secret, and tells that its line has ended.
            if said[upto..].starts_with('\n') {
                text.push('\n');
            }
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}
