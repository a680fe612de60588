//! Describes a session in its folder: `session.json` for programs, `<kind>.md` for people.

use jiff::Timestamp;
use rethread_domain::{Fact, Seq, Session, quote, summary};
use rethread_store::{Home, Span};
use rethread_workspace::{Card, Item, Page, digest};

use super::{FolderReport, Place};
use crate::prepare::shown_name;
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

/// What the description of a folder is about.
#[derive(Debug)]
struct Described {
    /// The session that the folder belongs to: its title, its status.
    own: Session,
    /// The branch in which something was said last: its summary, its decisions. The log decides, so that the description is the
    /// same in every clone, whichever branch is the session itself there.
    latest: Session,
    /// The last lines of all branches.
    last: Vec<String>,
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
        let Some(described) = self.described(place, session).await? else { return Ok(()) };
        let Described { own, latest, .. } = &described;
        // What is masked in the others is told with them.
        let mut unsaid = FolderReport::default();
        let Card { summary, last_active, .. } = self.card(latest, &mut unsaid);
        card = Card { summary, last_active, ..self.card(own, &mut unsaid) };
        let found = place.locked.card();
        let has_purged = self.stamp(&described, found.as_ref().ok(), &mut card).await?;
        if let Ok(Some(found)) = &found {
            keep_missing(place, found, &mut card)?;
        }
        home.card = match found {
            // The folder belongs to another session.
            Ok(Some(other)) if other.id != card.id => return Ok(()),
            // As long as the meaning is the same, the file is left as git has it; but a field that a merge left there twice is
            // read by other programs in one way or the other.
            Ok(Some(same)) if is_same(&same, &card, has_purged) => {
                if same.is_merged {
                    place.locked.write_card(&once(same, &card))?.to_string()
                } else {
                    stands
                }
            }
            Err(error @ rethread_workspace::Error::Newer { .. }) => return Err(error.into()),
            Ok(_) | Err(_) => place.locked.write_card(&card)?.to_string(),
        };
        home.told = told;
        let page = self.page_of(own, latest, card).await?;
        place.locked.write_page(&own.kind, &page)?;
        Ok(())
    }

    /// What the description of a session's folder is about; `None` if the folder is another session's.
    async fn described(&self, place: &Place, session: &Session) -> Result<Option<Described>> {
        let mut branches = self.sessions_in(&place.home.root, &place.home.path).await?;
        let root = self.root_of(session).await?;
        let mut index = 0;
        while let Some(branch) = branches.get(index) {
            if branch.deleted_at.is_none() && self.root_of(branch).await? == root {
                index += 1;
            } else if index == 0 && branch.id != session.id {
                return Ok(None);
            } else {
                branches.remove(index);
            }
        }
        let own = branches.first().unwrap_or(session).clone();
        let mut last = Vec::new();
        let mut latest: Option<((Timestamp, String), Session)> = None;
        for branch in branches {
            let line = self.line_before(&branch, branch.last_seq + 1).await?;
            last.push(line.clone());
            let newest = self.store.heads(branch.id, Span::newest(1)).await?;
            let place = (newest.first().map_or(branch.started_at, |message| message.at), line);
            if latest.as_ref().is_none_or(|(known, _)| *known < place) {
                latest = Some((place, branch));
            }
        }
        last.sort();
        last.dedup();
        let latest = latest.map_or_else(|| own.clone(), |(_, latest)| latest);
        Ok(Some(Described { own, latest, last }))
    }

    /// Adds the times by which a merge decides between two descriptions, and for which messages they hold. Returns whether
    /// something of the session was purged.
    async fn stamp(
        &self,
        described: &Described,
        found: Option<&Option<Card>>,
        card: &mut Card,
    ) -> Result<bool> {
        let Described { own, latest, last } = described;
        let set = self.set_at(own).await?;
        card.title_set = Some(set.title.to_string());
        card.status_set = Some(set.status.to_string());
        let of_latest = self.set_at(latest).await?;
        let has_purged = set.has_purged || of_latest.has_purged;
        if card.summary.is_some() {
            let upto = of_latest.summary_upto.min(latest.last_seq);
            card.summary_upto = Some(self.line_before(latest, upto + 1).await?);
        }
        card.last.clone_from(last);
        if latest.id != own.id && !has_purged {
            // Whoever has that branch as the session itself sums it up, as far as it goes.
            let end = Some(self.line_before(latest, latest.last_seq + 1).await?);
            let summaries = found.and_then(Option::as_ref).map_or(&[][..], |card| &card.summaries);
            if let Some((text, upto)) = summaries.iter().find(|(_, upto)| *upto == end) {
                card.summary = Some(self.redactor.redact(text).text.into_owned());
                card.summary_upto.clone_from(upto);
            }
        }
        Ok(has_purged)
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
        let name = |name: &str| shown_name(&self.redactor, name).into_owned();
        Card {
            id: session.id.to_string(),
            kind: name(&session.kind),
            title: session.title.as_deref().map(&mut clean),
            status: session.status().to_string(),
            summary: session.summary.as_deref().map(&mut clean),
            command: session.command.as_deref().map(&mut clean),
            prompt_hash: session.prompt_hash.clone(),
            model: session.model.as_deref().map(name),
            tools: session.tools.iter().map(|tool| clean(tool)).collect(),
            agent: session.agent.as_deref().map(name),
            created: session.started_at.to_string(),
            last_active: session.last_active_at.to_string(),
            ..Card::default()
        }
    }

    async fn page_of(&self, session: &Session, branch: &Session, card: Card) -> Result<Page> {
        let mut latest = self.store.heads(branch.id, Span::newest(LATEST)).await?;
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

/// A merged description with each field once. It follows from what was merged and from the log alone, so that every clone writes
/// the same.
fn once(merged: Card, ours: &Card) -> Card {
    let summed_up = if ours.summary.is_some() { ours } else { &merged };
    let Card { summary, summary_upto, .. } = summed_up.clone();
    let mut last = merged.last.clone();
    last.sort();
    Card { summary, summary_upto, last, ..merged }
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
        is_merged: false,
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
