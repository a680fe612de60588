//! Describes a session in its folder: `session.json` for programs, `<kind>.md` for people.

use jiff::Timestamp;
use rethread_domain::{Fact, Seq, Session, quote, summary};
use rethread_store::{Home, Span};
use rethread_workspace::{Card, Item, Page, digest};

use super::{FolderReport, Place};
use crate::{Engine, Result};

/// When a session got its title and its status, and how far its summary goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetAt {
    pub(super) title: Timestamp,
    pub(super) status: Timestamp,
    summary_upto: Seq,
    /// Whether something was purged: summaries of others may still mention it.
    pub(super) has_purged: bool,
}

/// How many recent messages are searched for decisions.
const LATEST: u32 = 400;

impl Engine {
    /// Writes the description of the session, if it has changed.
    pub(super) async fn describe(
        &self,
        place: &Place,
        session: &Session,
        home: &mut Home,
        followed: &mut FolderReport,
    ) -> Result<()> {
        home.facts = session.facts;
        let mut card = self.card(session, followed);
        let stands = place.locked.card_stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default();
        // The time of the last activity follows from the messages: for that alone nothing is written.
        let told = digest(&format!("{:?}", Card { last_active: String::new(), ..card.clone() }));
        if told == home.told && stands == home.card {
            return Ok(());
        }
        let has_purged = self.stamp(session, &mut card).await?;
        let found = place.locked.card();
        if let Ok(Some(found)) = &found {
            keep_missing(place, found, &mut card)?;
        }
        home.card = match found {
            // The folder belongs to another session: this one is a branch of it.
            Ok(Some(other)) if other.id != card.id => return Ok(()),
            // After a merge, fields may occur twice. As long as the meaning is the same, the file is left as git has it.
            Ok(Some(same)) if is_same(&same, &card, has_purged) => stands,
            Err(error @ rethread_workspace::Error::Newer { .. }) => return Err(error.into()),
            Ok(_) | Err(_) => place.locked.write_card(&card)?.to_string(),
        };
        home.told = told;
        let page = self.page_of(session, card).await?;
        place.locked.write_page(&session.kind, &page)?;
        Ok(())
    }

    /// Adds the times by which a merge decides between two descriptions, and for which messages they hold. Returns whether
    /// something of the session was purged.
    async fn stamp(&self, session: &Session, card: &mut Card) -> Result<bool> {
        let set = self.set_at(session).await?;
        card.title_set = Some(set.title.to_string());
        card.status_set = Some(set.status.to_string());
        if card.summary.is_some() {
            let upto = set.summary_upto.min(session.last_seq);
            card.summary_upto = Some(self.line_before(session, upto + 1).await?);
        }
        card.last = vec![self.line_before(session, session.last_seq + 1).await?];
        Ok(set.has_purged)
    }

    /// When a session got its title and its status.
    pub(super) async fn set_at(&self, session: &Session) -> Result<SetAt> {
        let began = session.started_at;
        let mut set = SetAt { title: began, status: began, summary_upto: 0, has_purged: false };
        for record in self.store.facts(session.id).await? {
            match record.fact {
                Fact::Titled { title, .. } if session.title.as_ref() == Some(&title) => {
                    set.title = record.at;
                }
                Fact::Moved { .. } => set.status = record.at,
                Fact::Purged { .. } => set.has_purged = true,
                Fact::Summarised { conversation: None, summary } => set.summary_upto = summary.upto,
                _ => (),
            }
        }
        Ok(set)
    }

    fn card(&self, session: &Session, followed: &mut FolderReport) -> Card {
        let mut clean = |text: &str| {
            let redacted = self.redactor.redact(text);
            followed.mask(redacted.found.into_iter().map(|found| found.what));
            redacted.text.into_owned()
        };
        Card {
            id: session.id.to_string(),
            kind: session.kind.clone(),
            title: session.title.as_deref().map(&mut clean),
            status: session.status().to_string(),
            summary: session.summary.as_deref().map(&mut clean),
            command: session.command.clone(),
            prompt_hash: session.prompt_hash.clone(),
            model: session.model.clone(),
            tools: session.tools.clone(),
            agent: session.agent.clone(),
            created: session.started_at.to_string(),
            last_active: session.last_active_at.to_string(),
            ..Card::default()
        }
    }

    async fn page_of(&self, session: &Session, card: Card) -> Result<Page> {
        let mut latest = self.store.heads(session.id, Span::newest(LATEST)).await?;
        latest.reverse();
        let decisions = summary::decisions(&latest);
        let clean = |text: String| self.redactor.redact(&text).text.into_owned();
        let title = card.title.unwrap_or_else(|| session.kind.clone());
        Ok(Page {
            title: quote::one_line(&title, 120),
            summary: card.summary,
            decisions: decisions.into_iter().map(clean).collect(),
            status: card.status,
            resume: format!("rethread resume {}", session.id.short()),
        })
    }
}

/// Keeps naming a missing last line until somebody has restored it.
fn keep_missing(place: &Place, found: &Card, ours: &mut Card) -> Result<()> {
    let mut missing: Vec<String> =
        found.last.iter().filter(|id| !ours.last.contains(id)).cloned().collect();
    if found.id != ours.id || missing.is_empty() {
        return Ok(());
    }
    place.locked.read(0, &mut |item| match item {
        Item::Line { line, .. } => missing.retain(|id| *id != line.id),
        // An unreadable line may be the missing one.
        _ => missing.clear(),
    })?;
    ours.last.extend(missing);
    Ok(())
}

/// Whether a description says what ours does. After a merge it may say more: summaries of other branches, and when somebody else
/// made the same change.
fn is_same(found: &Card, ours: &Card, has_purged: bool) -> bool {
    let bare = |card: &Card| Card {
        version: Card::VERSION,
        title_set: None,
        status_set: None,
        summary: None,
        summary_upto: None,
        last_active: String::new(),
        last: Vec::new(),
        summaries: Vec::new(),
        other: serde_json::Map::new(),
        ..card.clone()
    };
    let has_ours = match &ours.summary {
        Some(text) => {
            found.summaries.iter().any(|(other, upto)| other == text && *upto == ours.summary_upto)
        }
        None => true,
    };
    found.version <= Card::VERSION
        && found.title_set.is_some()
        && has_ours
        && !(has_purged && found.summaries.len() > usize::from(ours.summary.is_some()))
        && ours.last.iter().all(|last| found.last.contains(last))
        && bare(found) == bare(ours)
}
