//! The history that an agent is told before the next request.

use rethread_domain::context::Limits;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::opening::{self, How};
use rethread_domain::retell::{self, Frame, Story};
use rethread_domain::turn::Turn;
use rethread_domain::{Fact, Seq, SessionId, id};
use rethread_store::{Appended, RecallRequest, Within};

use super::attached::Attached;
use super::open::OpenOptions;
use super::port::Block;
use crate::{Engine, Result};

/// What an agent's native session holds of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NativeContents {
    pub(super) upto: Seq,
    /// Its own answers beyond that, if something was said in between that it has not been told.
    pub(super) beyond: Vec<(Seq, Seq)>,
    pub(super) messages: u32,
}

impl NativeContents {
    pub(super) fn is_beyond(&self, seq: Seq) -> bool {
        opening::in_any(&self.beyond, seq)
    }

    /// Adds the agent's own answer. `all` is the number of messages of the conversation, if others may have said something
    /// meanwhile.
    pub(super) fn answered(&mut self, written: &[Appended], all: Option<u32>) {
        let (Some(first), Some(last)) = (written.first(), written.last()) else { return };
        self.messages += u32::try_from(written.len()).unwrap_or(0);
        if all.is_none_or(|all| all == self.messages) {
            self.upto = last.seq;
        } else {
            self.beyond.push((first.seq, last.seq));
        }
    }
}

/// A part of a conversation, rendered for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    pub text: String,
    pub tokens: u32,
    /// How many messages were to be told, and how many of them are shown.
    pub messages: u32,
    pub shown: u32,
}

/// Precedes what is repeated without knowing whether the agent has it.
pub(super) const MAY_REPEAT: &str = "Note: the turn before was interrupted. Some of what follows may be a repetition of \
                                     what you have already; do not do anything twice because of it.";
/// No title is longer.
const LONGEST_TITLE: usize = 1_000;
/// A shorter title may occur in a system prompt by chance.
const SHORTEST_QUOTE: usize = 8;
/// A title that shares so much with the beginning of a system prompt was made from it.
const LONGEST_BEGINNING: usize = 24;

/// Whether a title was made from our own context instead of the request: from the history, or the system prompt.
pub(crate) fn is_ours(title: &str, system_prompt: Option<&str>) -> bool {
    let is_telling = [
        "This is the earlier history of",
        "This was said in our conversation",
        "Context from Rethread",
        "You work on one task of the workflow",
        "You resume workflow",
        "Review what was done for a task of the workflow",
    ]
    .into_iter()
    .any(|beginning| title.contains(beginning));
    let quote = quoted(title);
    // Many agents use the beginning of the first thing they are sent, which is the system prompt.
    let begins = |prompt: &str| {
        let beginning: String = prompt.chars().take(LONGEST_BEGINNING).collect();
        beginning.len() >= SHORTEST_QUOTE && quote.starts_with(&beginning)
    };
    let is_prompt = |prompt: String| {
        quote.len() >= SHORTEST_QUOTE && (prompt.contains(&quote) || begins(&prompt))
    };
    is_telling || system_prompt.map(plain).is_some_and(is_prompt)
}

/// A text on one line, without the marks of a heading.
fn plain(text: &str) -> String {
    let words = text.trim_start_matches(['#', ' ']).split_whitespace();
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn quoted(title: &str) -> String {
    plain(title.trim_end_matches(['.', '…']))
}

/// The beginnings of what an agent is sent, of each part and of all of it.
pub(super) fn beginnings(blocks: &[Block]) -> Vec<String> {
    let mut parts = blocks.iter().map(|block| match block {
        Block::Text(text) | Block::Document { text, .. } => text.as_str(),
    });
    let all = parts.clone().collect::<Vec<_>>().join("\n");
    let beginning = |text: &str| plain(&text[..text.floor_char_boundary(LONGEST_TITLE)]);
    parts.by_ref().chain([all.as_str()]).map(beginning).collect()
}

/// Whether a title only repeats how something begins that the agent was sent: then it is none.
fn is_repetition(title: &str, sent: &[String]) -> bool {
    let quote = quoted(title);
    quote.len() >= SHORTEST_QUOTE && sent.iter().any(|text| text.starts_with(&quote))
}

impl Engine {
    /// What comes after what the agent holds and before the request, within the budget.
    pub(super) async fn tell(
        &self,
        session: SessionId,
        conversation: &str,
        held: &NativeContents,
        before: Seq,
        limits: Limits,
        prompt: &str,
    ) -> Result<Option<Handover>> {
        let within = Within {
            conversation: conversation.to_owned(),
            after: held.upto,
            before,
            but: held.beyond.clone(),
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
            // The summary covers what the agent already has.
            own.summary = None;
        }
        let is_whole = recalled.is_whole;
        let is_new = held.upto == 0;
        let repository =
            if is_new { self.repository_since(&recalled.session).await? } else { None };
        self.mask_place(&mut recalled.session);
        let frame =
            if is_new { Frame::Conversation { is_whole } } else { Frame::Missed { is_whole } };
        let story = Story {
            session: &recalled.session,
            conversations: &recalled.conversations,
            others: &recalled.others,
            recent: &recalled.recent,
            related: &recalled.related,
            wanted: recalled.wanted.as_ref(),
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

/// The agent's title, if it is to be used. A conversation that went on in another native session has one already, and many agents
/// would derive theirs from the retelling, or from what was said last.
pub(super) fn retitled(
    engine: &Engine,
    options: &OpenOptions,
    attached: &Attached,
    turn: &Turn,
) -> Option<Fact> {
    let is_titled = attached.opening.how == How::Retold || !attached.may_title;
    let title = turn.title().filter(|title| id::check_title(title).is_ok());
    let prompt = options.system_prompt.as_deref();
    let is_ours = |title: &str| is_ours(title, prompt) || is_repetition(title, &attached.sent);
    let title = title.filter(|title| !is_titled && !is_ours(title))?;
    Some(Fact::Titled { title: engine.prepared_text(title), from: TitleFrom::Agent })
}
