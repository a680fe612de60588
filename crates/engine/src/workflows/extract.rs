//! Extracts decisions and errors from a session: by a model if there is one and it answers well, otherwise by rules.

use rethread_domain::{Message, Role, SessionId};
use rethread_store::{Order, Span};
use rethread_workflow::Event;
use rethread_workflow::extract::{self, Extracted};

use super::crew::{Crew, NoAnswer};
use crate::{Engine, Result};

/// How many recent messages are examined.
const ENTRIES: u32 = 50;
/// After a bad answer the model is asked once more.
const TRIES: u32 = 2;

impl Engine {
    /// The decisions and errors of a session, as events.
    pub(super) async fn extracted(
        &self,
        session: SessionId,
        task: &str,
        crew: &dyn Crew,
    ) -> Result<(Vec<Event>, Option<String>)> {
        let mut messages = self
            .store
            .messages(
                session,
                Span { from: 1, to: u32::MAX, order: Order::NewestFirst, limit: ENTRIES },
            )
            .await?;
        // Our own prompts are not findings.
        messages.retain(|message| message.purged_at.is_none() && message.role != Role::User);
        messages.reverse();
        if messages.is_empty() {
            return Ok((Vec::new(), None));
        }
        let (found, note) = self.found(session, task, crew, &messages).await;
        let decisions = found.decisions.into_iter().map(Event::Decided);
        Ok((decisions.chain(found.errors.into_iter().map(Event::Erred)).collect(), note))
    }

    async fn found(
        &self,
        session: SessionId,
        task: &str,
        crew: &dyn Crew,
        messages: &[Message],
    ) -> (Extracted, Option<String>) {
        let now = self.clock.now();
        let mut why = None;
        if let Some(extractor) = crew.extractor() {
            let prompt = self.redactor.redact(&extract::prompt(messages)).text.into_owned();
            for _ in 0..TRIES {
                let answer = extractor.extract(&prompt, &extract::schema()).await;
                let read = answer.and_then(|answer| {
                    extract::from_model(&answer, messages, Some(task), session, now)
                        .map_err(NoAnswer::Nonsense)
                });
                match read {
                    Ok(found) => return (found, None),
                    Err(NoAnswer::Nonsense(bad)) => {
                        why = Some(format!("the model's answer was of no use: {bad}"));
                    }
                    Err(NoAnswer::Silence(trouble)) => {
                        why = Some(format!("the model did not answer: {trouble}"));
                        break;
                    }
                }
            }
        }
        let note = why.map(|why| format!("decisions and errors are found by the rules: {why}"));
        (extract::by_rules(messages, Some(task), session, now), note)
    }
}
