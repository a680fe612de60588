//! Folds old messages into summaries. Nothing is deleted: a resume uses the summary where messages do not fit.

use std::collections::BTreeMap;

use rethread_domain::session::Refusal;
use rethread_domain::summary::{self, Summary};
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};
use rethread_store::{Order, Span};

use crate::{Engine, Error, Result};

/// How many messages are read, and folded, at a time.
const PAGE: u32 = 500;
/// The newest messages that the summary of a session considers.
const LATEST: u32 = 250;

/// When and how much is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruning {
    /// The newest messages of a conversation that are not folded.
    pub keep: u32,
    /// Beyond this many unfolded messages it happens automatically.
    pub threshold: u32,
}

impl Default for Pruning {
    fn default() -> Self {
        Self { keep: 50, threshold: 200 }
    }
}

/// What was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    pub messages: u32,
    pub conversations: u32,
}

impl Engine {
    /// Folds all but the newest `keep` messages of each conversation.
    pub async fn prune(&self, id: SessionId, keep: u32) -> Result<Pruned> {
        let session = self.store.session(id).await?;
        session.can_resume()?;
        let mut conversations = self.store.conversations(id).await?;
        conversations.retain(|conversation| conversation.unfolded() > keep);
        self.prune_these(&session, &conversations, keep).await
    }

    async fn prune_these(
        &self,
        session: &Session,
        conversations: &[Conversation],
        keep: u32,
    ) -> Result<Pruned> {
        let id = session.id;
        let folded = self.fold(session, conversations, keep as usize).await?;
        let mut pruned = Pruned { messages: 0, conversations: 0 };
        for (name, (summary, count)) in folded {
            let fact = Fact::Summarised { conversation: Some(name), summary };
            self.change(id, |_| Ok(fact.clone())).await?;
            pruned.messages += count;
            pruned.conversations += 1;
        }
        if pruned.messages > 0 {
            let session = self.store.session(id).await?;
            self.sum_up(session).await?;
        }
        Ok(pruned)
    }

    pub(crate) async fn prune_if_due(&self, id: SessionId, pruning: Pruning) -> Result<()> {
        let session = self.store.session(id).await?;
        let mut conversations = self.store.conversations(id).await?;
        let most = pruning.threshold.max(pruning.keep);
        conversations.retain(|conversation| conversation.unfolded() > most);
        if !conversations.is_empty() && session.can_resume().is_ok() {
            self.prune_these(&session, &conversations, pruning.keep).await?;
        }
        Ok(())
    }

    /// The new summaries of conversations, with how many messages went into each.
    async fn fold(
        &self,
        session: &Session,
        conversations: &[Conversation],
        keep: usize,
    ) -> Result<BTreeMap<String, (Summary, u32)>> {
        let mut waiting: BTreeMap<String, Vec<Message>> = BTreeMap::new();
        let mut folded: BTreeMap<String, (Summary, u32)> = BTreeMap::new();
        let upto: BTreeMap<&str, Seq> =
            conversations.iter().map(|one| (one.name.as_str(), one.summarised_upto())).collect();
        let mut take = |name: &str, messages: &[Message]| {
            let old = conversations
                .iter()
                .find(|one| one.name == name)
                .and_then(|one| one.summary.clone());
            let before = folded.remove(name).or(old.map(|summary| (summary, 0)));
            let summary = summary::fold(before.as_ref().map(|(summary, _)| summary), messages);
            let count =
                before.map_or(0, |(_, count)| count) + u32::try_from(messages.len()).unwrap_or(0);
            folded.insert(name.to_owned(), (summary, count));
        };
        let Some(mut from) = upto.values().min().map(|upto| upto.saturating_add(1)) else {
            return Ok(folded);
        };
        loop {
            let span = Span { from, to: session.last_seq, order: Order::OldestFirst, limit: PAGE };
            let page = self.store.heads(session.id, span).await?;
            let Some(last) = page.last() else { break };
            from = last.seq + 1;
            for message in page {
                if upto.get(message.conversation.as_str()).is_some_and(|upto| message.seq > *upto) {
                    waiting.entry(message.conversation.clone()).or_default().push(message);
                }
            }
            for (name, messages) in &mut waiting {
                if messages.len() >= keep + PAGE as usize {
                    take(name, &messages[..PAGE as usize]);
                    messages.drain(..PAGE as usize);
                }
            }
        }
        for (name, messages) in &waiting {
            if messages.len() > keep {
                take(name, &messages[..messages.len() - keep]);
            }
        }
        for (name, (summary, _)) in &mut folded {
            let own = conversations.iter().find(|one| one.name == *name);
            let before = own.and_then(|one| one.summary.as_ref()).map(|one| one.text.as_str());
            let messages = waiting.get(name).map_or(&[][..], Vec::as_slice);
            let last = &messages[..messages.len().saturating_sub(keep)];
            *summary = self.in_words(summary.clone(), before, last).await;
            self.mask_summary(summary);
        }
        Ok(folded)
    }

    /// Replaces the summary of a session, made from the summaries of its conversations and the latest messages.
    pub(crate) async fn sum_up(&self, session: Session) -> Result<Session> {
        self.sum_up_by(session, true).await
    }

    /// The same by rules alone: fast.
    pub(crate) async fn sum_up_quickly(&self, session: Session) -> Result<Session> {
        self.sum_up_by(session, false).await
    }

    async fn sum_up_by(&self, session: Session, in_words: bool) -> Result<Session> {
        let (id, before) = (session.id, session.clone());
        let Some(fact) = self.summed_up(session, in_words).await? else { return Ok(before) };
        match self.change(id, |session| not_deleted(session, &fact)).await {
            Err(Error::Refused(_)) => Ok(before),
            outcome => outcome,
        }
    }

    /// The same by rules, without updating the session's folder.
    pub(crate) async fn sum_up_alone(&self, session: Session) -> Result<()> {
        let id = session.id;
        let Some(fact) = self.summed_up(session, false).await? else { return Ok(()) };
        match self.change_alone(id, |session| not_deleted(session, &fact)).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The current summary of a session; `None` if it has not changed.
    async fn summed_up(&self, session: Session, in_words: bool) -> Result<Option<Fact>> {
        let id = session.id;
        let conversations = self.store.conversations(id).await?;
        let mut latest = self.store.heads(id, Span::newest(LATEST)).await?;
        latest.reverse();
        let summaries: Vec<&Summary> =
            conversations.iter().filter_map(|one| one.summary.as_ref()).collect();
        let mut summary = summary::session(&summaries, &latest);
        if in_words && !summary.text.is_empty() {
            summary = self.in_words(summary, session.summary.as_deref(), &latest).await;
        }
        self.mask_summary(&mut summary);
        if summary.text.is_empty() || session.summary.as_ref() == Some(&summary.text) {
            return Ok(None);
        }
        Ok(Some(Fact::Summarised { conversation: None, summary }))
    }
}

fn not_deleted(session: &Session, fact: &Fact) -> std::result::Result<Fact, Refusal> {
    match session.deleted_at {
        Some(_) => Err(Refusal::Deleted(session.id)),
        None => Ok(fact.clone()),
    }
}
