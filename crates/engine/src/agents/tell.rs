//! What an agent is told of a conversation before the next request.

use rethread_domain::context::Limits;
use rethread_domain::retell::{self, Frame, Story};
use rethread_domain::{Seq, SessionId};
use rethread_store::{RecallRequest, Within};

use crate::{Engine, Result};

/// What an agent's own session holds of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) upto: Seq,
    pub(super) messages: u32,
}

/// A stretch of a conversation, told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    pub tokens: u32,
    /// How many messages there were to tell, and how many of them are shown.
    pub messages: u32,
    pub shown: u32,
}

/// Whether this is, or quotes, how a telling begins.
pub(super) fn is_telling(text: &str) -> bool {
    ["This is the earlier history of", "This was said in our conversation"]
        .into_iter()
        .any(|beginning| text.contains(beginning))
}

impl Engine {
    /// What comes after what the agent holds and before the request, within the budget.
    pub(super) async fn tell(
        &self,
        session: SessionId,
        conversation: &str,
        held: Held,
        before: Seq,
        limits: Limits,
        prompt: &str,
    ) -> Result<Option<Told>> {
        let within = Within {
            conversation: conversation.to_owned(),
            after: held.upto,
            before,
            known: held.messages,
        };
        let prompt = Some(prompt.to_owned());
        let request = RecallRequest { session, limits, prompt, within: Some(within) };
        let recalled = self.recalled(&request).await?;
        if recalled.messages == 0 {
            return Ok(None);
        }
        let is_whole = recalled.is_whole;
        let is_new = held.upto == 0;
        let repository =
            if is_new { self.repository_since(&recalled.session).await? } else { None };
        let frame =
            if is_new { Frame::Conversation { is_whole } } else { Frame::Missed { is_whole } };
        let story = Story {
            session: &recalled.session,
            conversations: &recalled.conversations,
            others: &recalled.others,
            recent: &recalled.recent,
            related: &recalled.related,
            repository: repository.as_deref(),
            frame,
            messages: recalled.messages,
        };
        let telling = retell::tell(&story, &limits);
        Ok(Some(Told {
            tokens: telling.tokens,
            messages: recalled.messages,
            shown: telling.included.messages,
            text: telling.text,
        }))
    }
}
