//! What the agents of a workflow are saying at the moment.

use rethread_domain::SessionId;
use rethread_domain::turn::Turn;
use rethread_workflow::Workflow;

use crate::{Engine, Result};

/// The text of a turn so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    /// The task that the agent works on or reviews, or `plan`.
    pub on: String,
    pub session: SessionId,
    /// Masked, and without an end that could still become a secret.
    pub text: String,
}

impl Engine {
    /// The current text in each session that a workflow is working in.
    pub async fn live_texts(&self, workflow: &Workflow) -> Result<Vec<LiveText>> {
        let mut all = Vec::new();
        for (on, session) in workflow.at_work() {
            if let Some(text) = self.said_so_far(session).await? {
                all.push(LiveText { on: on.to_owned(), session, text });
            }
        }
        Ok(all)
    }

    async fn said_so_far(&self, session: SessionId) -> Result<Option<String>> {
        // A session may have been deleted while its workflow remains.
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
            // The line break after the decided text is no part of a secret, and shows that the line is complete.
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
