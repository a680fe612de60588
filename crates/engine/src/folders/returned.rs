//! Puts lines that were damaged or missing when a session was imported, and have been restored since, in their places.
//!
//! Such a line is recognised by the chain: its predecessor is a message that is here, and it is the predecessor of a message that is
//! here. So nobody continued at the same time, and it is not a branch.

use std::collections::{HashMap, HashSet};

use rethread_domain::message::{DAMAGED, NewMessage};
use rethread_domain::session::FactRecord;
use rethread_domain::{Fact, Seq, Session};
use rethread_store::Dump;
use rethread_workspace::Line;

use super::compare::Comparison;
use super::{FolderReport, Place, lines, unseen};
use crate::{Engine, Result};

/// Lines whose place is before a message of a session.
pub(super) struct Returned {
    pub(super) branch: usize,
    before: Seq,
    lines: Vec<Line>,
}

/// The result for restored lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PutBack {
    /// There are none, or others share the messages around them: they are a branch.
    Nothing,
    Done,
    /// Another process has the session open.
    Later,
}

/// Finds them among the lines of a log, before these are compared.
pub(super) fn find(comparison: &Comparison<Line>, all: &[(Line, u64)]) -> Vec<Returned> {
    let by_id: HashMap<&str, &Line> =
        all.iter().map(|(line, _)| (line.id.as_str(), line)).collect();
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (line, _) in all {
        let Some((branch, before)) = comparison.place_of(&line.id) else { continue };
        let mut chain: Vec<&Line> = Vec::new();
        let mut after = line.after.as_str();
        // A line has one successor; checking that avoids walking the same way repeatedly.
        while !comparison.knows(after)
            && let Some(one) = by_id.get(after)
            && seen.insert(one.id.as_str())
        {
            chain.push(one);
            after = &one.after;
        }
        let is_between = comparison.place_of(after).is_some_and(|(_, seq)| seq + 1 == before);
        if !chain.is_empty() && is_between {
            let lines = chain.into_iter().rev().cloned().collect();
            found.push(Returned { branch, before, lines });
        }
    }
    found
}

impl Engine {
    /// Puts restored lines in their places in every session of a folder.
    pub(super) async fn put_all_back(
        &self,
        place: &Place,
        sessions: &[Session],
        returned: &[Returned],
        followed: &mut FolderReport,
    ) -> Result<PutBack> {
        let mut put_back = PutBack::Nothing;
        for (branch, session) in sessions.iter().enumerate() {
            let own: Vec<&Returned> = returned.iter().filter(|one| one.branch == branch).collect();
            if own.is_empty() || session.deleted_at.is_some() {
                continue;
            }
            if self.store.is_claimed(session.id).await? {
                followed.troubles.push(format!(
                    "{}: lines that had been missing are back; they get their places when nobody has {} open",
                    place.home.path,
                    session.id.short()
                ));
                return Ok(PutBack::Later);
            }
            if self.put_back(place, session, &own, followed).await? {
                put_back = PutBack::Done;
            }
        }
        Ok(put_back)
    }

    /// Puts the lines of a session in their places: its log is rewritten in one step. `false` if that is not possible because others
    /// share its messages.
    pub(super) async fn put_back(
        &self,
        place: &Place,
        session: &Session,
        returned: &[&Returned],
        followed: &mut FolderReport,
    ) -> Result<bool> {
        let Some(dump) = self.with_returned(session, returned).await? else { return Ok(false) };
        let (count, expected) = (dump.messages.len(), (session.last_seq, session.facts));
        if !self.store.replace(dump, expected).await? {
            return Ok(false);
        }
        let root = std::path::Path::new(&place.home.root);
        self.store.set_home(session.id, unseen(root, &place.path, session.id)).await?;
        let more = u32::try_from(count).unwrap_or(u32::MAX) - session.last_seq;
        followed.healed.push((session.id, more));
        let card = place.locked.card().ok().flatten();
        self.summarise_arrived(session.id, card.as_ref()).await?;
        Ok(true)
    }

    /// The log of a session with the restored lines; `None` if a part of it cannot be read.
    async fn with_returned(
        &self,
        session: &Session,
        returned: &[&Returned],
    ) -> Result<Option<Dump>> {
        let owners = self.owners(session).await?;
        let mut messages = Vec::new();
        let mut from = 1;
        while from <= session.last_seq {
            let page = self.page(session, from).await?;
            let Some(last) = page.last().map(|message| message.seq) else { return Ok(None) };
            for message in page {
                if message.is_damaged() {
                    return Ok(None);
                }
                for line in returned.iter().filter(|one| one.before == message.seq) {
                    for line in &line.lines {
                        let Ok((mut new, purged_at)) = lines::message(line.clone()) else {
                            return Ok(None);
                        };
                        if purged_at.is_none() {
                            self.prepare(&mut new);
                        }
                        messages.push((new, purged_at));
                    }
                }
                // The line id of a message must not depend on its number.
                let id = Some(owners.line_id(&message));
                let content = message.body.head().to_owned();
                let (role, at, conversation) = (message.role, message.at, message.conversation);
                let (extras, price) = (message.extras, message.price);
                let kept = NewMessage { id, role, content, at, conversation, extras, price };
                messages.push((kept, message.purged_at));
            }
            from = last + 1;
        }
        let shift = |seq: Seq| {
            let before = returned.iter().filter(|one| one.before <= seq);
            let more: usize = before.map(|one| one.lines.len()).sum();
            seq.saturating_add(Seq::try_from(more).unwrap_or(Seq::MAX))
        };
        let mut facts = Vec::new();
        for record in self.store.facts(session.id).await? {
            if is_damaged(&record.fact) {
                return Ok(None);
            }
            let after = shift(record.after);
            facts.extend(shifted(record.fact, shift).map(|fact| FactRecord {
                after,
                fact,
                ..record
            }));
        }
        open_conversations(&mut facts, &messages);
        Ok(Some(Dump { id: session.id, facts, messages }))
    }
}

/// Whether a fact could not be read, so that only a mark stands in its place.
fn is_damaged(fact: &Fact) -> bool {
    matches!(fact, Fact::Unknown(fields) if fields.get("what").is_some_and(|what| what == DAMAGED))
}

/// A fact with shifted message numbers. Summaries are left out: they are made again.
fn shifted(fact: Fact, shift: impl Fn(Seq) -> Seq) -> Option<Fact> {
    match fact {
        Fact::Summarised { .. } => None,
        Fact::Purged { seq } => Some(Fact::Purged { seq: shift(seq) }),
        Fact::Holds(mut watermark) => {
            watermark.upto = shift(watermark.upto);
            for (from, to) in &mut watermark.beyond {
                (*from, *to) = (shift(*from), shift(*to));
            }
            watermark.in_doubt = watermark.in_doubt.map(shift);
            Some(Fact::Holds(watermark))
        }
        other => Some(other),
    }
}

/// Conversations that consist only of restored messages.
fn open_conversations(
    facts: &mut Vec<FactRecord>,
    messages: &[(NewMessage, Option<jiff::Timestamp>)],
) {
    let mut names: Vec<String> = facts
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::Opened { name, .. } => Some(name.clone()),
            _ => None,
        })
        .collect();
    for (after, (message, _)) in (0..).zip(messages) {
        if !names.contains(&message.conversation) {
            names.push(message.conversation.clone());
            let n = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let fact = Fact::Opened { n, name: message.conversation.clone() };
            let at = facts.iter().position(|record| record.after > after).unwrap_or(facts.len());
            facts.insert(at, FactRecord { after, at: message.at, fact });
        }
    }
}
