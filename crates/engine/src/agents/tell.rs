//! What an agent is told of a conversation before the next request.

use rethread_domain::context::Limits;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::opening::How;
use rethread_domain::retell::{self, Frame, Story};
use rethread_domain::turn::Turn;
use rethread_domain::{Fact, Seq, SessionId, id};
use rethread_store::{Appended, RecallRequest, Within};

use super::open::{Attached, OpenOptions};
use crate::{Engine, Result};

/// What an agent's own session holds of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) upto: Seq,
    /// Beyond that, its own answer, where something was said in between that it was not told yet.
    pub(super) beyond: Option<(Seq, Seq)>,
    pub(super) messages: u32,
}

impl Held {
    pub(super) fn is_beyond(&self, seq: Seq) -> bool {
        self.beyond.is_some_and(|(first, last)| (first..=last).contains(&seq))
    }

    /// It has answered with these. `all` is how many messages the conversation has now, if others may have said
    /// something meanwhile.
    pub(super) fn answered(&mut self, written: &[Appended], all: Option<u32>) {
        let (Some(first), Some(last)) = (written.first(), written.last()) else { return };
        self.messages += u32::try_from(written.len()).unwrap_or(0);
        if all.is_none_or(|all| all == self.messages) {
            self.upto = last.seq;
        } else {
            self.beyond = Some((first.seq, last.seq));
        }
    }
}

/// A stretch of a conversation, told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    pub text: String,
    pub tokens: u32,
    /// How many messages there were to tell, and how many of them are shown.
    pub messages: u32,
    pub shown: u32,
}

/// A title that is shorter may stand in a system prompt by chance.
const SHORTEST_QUOTE: usize = 8;
/// A title that begins with so much of a system prompt was made of it.
const LONGEST_BEGINNING: usize = 24;

/// Whether a title was made of what we told the agent beside the request: the history, or the system prompt.
pub(super) fn is_ours(title: &str, system_prompt: Option<&str>) -> bool {
    let is_telling = ["This is the earlier history of", "This was said in our conversation"]
        .into_iter()
        .any(|beginning| title.contains(beginning));
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let quote = plain(title.trim_end_matches(['.', '…']));
    // Many agents take the beginning of all that they were sent first, which the system prompt is.
    let begins = |prompt: &str| {
        let beginning: String = prompt.chars().take(LONGEST_BEGINNING).collect();
        beginning.len() >= SHORTEST_QUOTE && quote.starts_with(&beginning)
    };
    let is_prompt = |prompt: String| {
        quote.len() >= SHORTEST_QUOTE && (prompt.contains(&quote) || begins(&prompt))
    };
    is_telling || system_prompt.map(plain).is_some_and(is_prompt)
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
    ) -> Result<Option<Handover>> {
        let within = Within {
            conversation: conversation.to_owned(),
            after: held.upto,
            before,
            but: held.beyond,
            known: held.messages,
        };
        let prompt = Some(prompt.to_owned());
        let request = RecallRequest { session, limits, prompt, within: Some(within) };
        let mut recalled = self.recalled(&request).await?;
        if recalled.messages == 0 {
            return Ok(None);
        }
        if let Some(own) = recalled.conversations.first_mut()
            && own.summarised_upto() <= held.upto
        {
            // It sums up what the agent has.
            own.summary = None;
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
        Ok(Some(Handover {
            tokens: telling.tokens,
            messages: recalled.messages,
            shown: telling.included.messages,
            text: telling.text,
        }))
    }
}

/// The title that the agent gave. What was told anew has one already, and many agents would name it after the
/// telling.
pub(super) fn retitled(
    engine: &Engine,
    options: &OpenOptions,
    attached: &Attached,
    turn: &Turn,
) -> Option<Fact> {
    let is_titled = attached.opening.how == How::Retold;
    let title = turn.title().filter(|title| id::check_title(title).is_ok());
    let prompt = options.system_prompt.as_deref();
    let title = title.filter(|title| !is_titled && !is_ours(title, prompt))?;
    Some(Fact::Titled { title: engine.prepared_title(title), from: TitleFrom::Agent })
}
