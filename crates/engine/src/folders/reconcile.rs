//! Merges a folder that somebody else has changed with the store.

use std::collections::HashSet;
use std::path::Path;

use rethread_domain::session::{Move, Origin as Forked, Refusal};
use rethread_domain::summary::{Author, Summary};
use rethread_domain::wording::counted;
use rethread_domain::{Fact, Seq, Session, SessionId, Status};
use rethread_store::{Append, Home, Order, Span};
use rethread_workspace::{Card, Line, digest};

use super::card::SetAt;
use super::compare::{self, Arrival, Branch, Known, Origin};
use super::look::Found;
use super::returned::PutBack;
use super::{FolderReport, PAGE, Place, lines};
use crate::{Engine, Error, Result};

/// The result for a branch: how many messages its session got. Without a session it was left alone.
pub(super) struct Taken {
    id: Option<SessionId>,
    count: u32,
    is_new: bool,
}

impl Taken {
    const LEFT: Self = Self { id: None, count: 0, is_new: false };
}

impl Engine {
    /// Compares the folder with the store, takes over what is new in either, and reports the rest.
    pub(super) async fn reconcile(&self, place: &Place, followed: &mut FolderReport) -> Result<()> {
        let root = place.home.root.clone();
        let sessions = self.sessions_in(&root, &place.home.path).await?;
        let Some(first) = sessions.first() else { return Ok(()) };
        let before = followed.troubles.len();
        let mut known = Vec::new();
        for session in &sessions {
            known.push(self.known(session, first.id).await?);
        }
        let card = place.locked.card().ok().flatten();
        let own = card.as_ref().filter(|card| card.id == first.id.to_string());
        let last = own.map_or(&[][..], |card| card.last.as_slice());
        let found = self.look(place, &first.id.to_string(), &known, last)?;
        match self.put_in_order(place, &sessions, &found, followed).await? {
            PutBack::Nothing => (),
            PutBack::Done => return Box::pin(self.reconcile(place, followed)).await,
            PutBack::Later => return Ok(()),
        }
        let path = Path::new(&place.home.root).join(&place.home.path);
        let named = |trouble: &String| format!("{}: {trouble}", path.display());
        followed.troubles.extend(found.troubles.iter().map(named));
        found.write_by_hand(place)?;
        self.purge_too(&sessions, &found, followed).await?;
        let is_news = found.branches.iter().any(|branch| !branch.arrivals.is_empty());
        let set = self.set_at(first).await?;
        if is_news {
            self.unarchive(&sessions).await?;
        }
        let mut taken: Vec<Taken> = Vec::new();
        for branch in &found.branches {
            let one = self.arrived_in(branch, &taken, place, followed).await?;
            taken.push(one);
        }
        if let Some(card) = own.filter(|_| first.deleted_at.is_none()) {
            self.heed(card, first, set, is_news).await?;
        } else if let Some(card) = &card
            && own.is_none()
            && !found.roots.contains(&card.id)
        {
            followed.troubles.push(named(&format!(
                "session.json names the session {}, its log is that of {}: session.json is left as it is; `rethread doctor --repair` rewrites it",
                card.id, first.id
            )));
        }
        for session in sessions.iter().skip(1).filter(|one| one.status() == Status::Archived) {
            self.move_to(session.id, Status::Archived, session.last_active_at).await?;
        }
        for one in taken.iter().filter(|one| one.count > 0 || one.is_new) {
            if let Some(id) = one.id {
                self.summarise_arrived(id, card.as_ref()).await?;
            }
        }
        found.set_aside(place, followed)?;
        self.bring_up(place, &taken, &known, &found, followed).await?;
        self.forget_purged(place, first.id, &found.purged_texts, followed).await?;
        let has_trouble = followed.troubles.len() > before;
        self.remember(place, &taken, has_trouble).await
    }

    /// Gives sessions that share a folder one each, and puts restored lines in their places.
    async fn put_in_order(
        &self,
        place: &Place,
        sessions: &[Session],
        found: &Found,
        followed: &mut FolderReport,
    ) -> Result<PutBack> {
        let workspace = self.workspace_of(&place.home)?;
        if found.roots.len() > 1
            && self.separate(&place.locked, &workspace, &place.path, followed).await?
        {
            return Ok(PutBack::Done);
        }
        self.put_all_back(place, sessions, &found.returned, followed).await
    }

    /// Purges here what was purged elsewhere.
    async fn purge_too(
        &self,
        sessions: &[Session],
        found: &Found,
        followed: &mut FolderReport,
    ) -> Result<()> {
        for (branch, seq, at) in &found.purged {
            let Some(session) = sessions.get(*branch) else { continue };
            let left = self.purge_arrived(session.id, *seq, *at).await?;
            followed.troubles.extend(left);
            followed.purged.push((session.id, *seq));
        }
        Ok(())
    }

    /// Reopens archived sessions that get messages; they are archived again unless somebody else continued
    /// later.
    async fn unarchive(&self, sessions: &[Session]) -> Result<()> {
        for session in sessions {
            if session.status() == Status::Archived && session.deleted_at.is_none() {
                self.move_to(session.id, Status::Paused, session.last_active_at).await?;
            }
        }
        Ok(())
    }

    async fn move_to(&self, id: SessionId, to: Status, at: jiff::Timestamp) -> Result<()> {
        let moved = self.change_alone_at(id, at, |session| match session.status() {
            status if status == to => Err(Refusal::Already(id, to)),
            _ => Ok(Fact::Moved { to }),
        });
        match moved.await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The summary of a session that got messages: the one that came with them, if it covers exactly these; otherwise it is made
    /// here. A summary of another branch is never used.
    pub(super) async fn summarise_arrived(&self, id: SessionId, card: Option<&Card>) -> Result<()> {
        let session = self.store.session(id).await?;
        let last = self.line_before(&session, session.last_seq + 1).await?;
        // Summaries of others may mention what was purged here.
        let has_purged = self.set_at(&session).await?.has_purged;
        let card = card.filter(|_| !has_purged);
        let summaries = card.map_or(&[][..], |card| card.summaries.as_slice());
        let came = summaries
            .iter()
            .find(|(text, upto)| !text.is_empty() && upto.as_deref() == Some(last.as_str()));
        let Some((text, _)) = came else { return self.sum_up_alone(session).await };
        if session.summary.as_ref() == Some(text) {
            return Ok(());
        }
        let (by, upto) = (Author::Model, session.last_seq);
        let summary = Summary { by, upto, folded: 0, text: text.clone(), points: Vec::new() };
        let fact = Fact::Summarised { conversation: None, summary };
        self.change_alone(id, |_| Ok(fact.clone())).await?;
        Ok(())
    }

    /// The sessions of a folder; the first of them is its own.
    pub(super) async fn sessions_in(&self, root: &str, path: &str) -> Result<Vec<Session>> {
        let mut sessions = Vec::new();
        for housed in self.store.homes(root).await? {
            if housed.home.path == path {
                sessions.push(self.store.session(housed.id).await?);
            }
        }
        Ok(sessions)
    }

    /// The line ids of a session's messages.
    async fn known(&self, session: &Session, first: SessionId) -> Result<Known> {
        let owners = self.owners(session).await?;
        let base = if session.id == first { 0 } else { shared(session) };
        let mut ids = Vec::new();
        let mut purged = HashSet::new();
        let mut from = base + 1;
        while from <= session.last_seq {
            let span =
                Span { from, to: session.last_seq, order: Order::OldestFirst, limit: 10 * PAGE };
            let page = self.store.heads(session.id, span).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in &page {
                let id = owners.line_id(message);
                if message.purged_at.is_some() {
                    purged.insert(id.clone());
                }
                ids.push(id);
            }
            from = last + 1;
        }
        Ok(Known { id: session.id, base, ids, purged })
    }

    /// Appends the new lines of a branch to its session, which is created if needed.
    async fn arrived_in(
        &self,
        branch: &Branch<Line>,
        before: &[Taken],
        place: &Place,
        followed: &mut FolderReport,
    ) -> Result<Taken> {
        let mut is_new = false;
        let id = match branch.origin {
            Origin::Session(id) if self.store.session(id).await?.deleted_at.is_some() => {
                return Ok(Taken { id: Some(id), ..Taken::LEFT });
            }
            Origin::Session(id) => id,
            Origin::Fork { of, at } => {
                let Some(source) = before.get(of).and_then(|one| one.id) else {
                    return Ok(Taken::LEFT);
                };
                let Some(fork) = self.branch_off(source, at, branch, place).await? else {
                    return Ok(Taken::LEFT);
                };
                let home = Home { seq: at, told: String::new(), ..place.home.clone() };
                self.store.place(fork, Home { log: String::new(), ..home }).await?;
                followed.forked.push((fork, source));
                is_new = true;
                fork
            }
        };
        let mut count = 0;
        if !branch.arrivals.is_empty() {
            count = self.take_lines(id, &branch.arrivals, place, followed).await?;
            if matches!(branch.origin, Origin::Session(_)) && count > 0 {
                followed.went_on.push((id, count));
            }
        }
        if is_new {
            self.put_away(id).await?;
        }
        Ok(Taken { id: Some(id), count, is_new })
    }

    /// Pauses a branch that came from elsewhere; its title distinguishes it from the other.
    async fn put_away(&self, id: SessionId) -> Result<()> {
        let session = self.store.session(id).await?;
        if session.status() == Status::Active {
            self.change_alone(id, |_| Ok(Fact::Moved { to: Status::Paused })).await?;
        }
        let title = format!("{} (another branch)", session.title.as_deref().unwrap_or_default());
        if rethread_domain::id::check_title(&title).is_ok() {
            let from = rethread_domain::conversation::TitleFrom::Person;
            self.change_alone(id, |_| Ok(Fact::Titled { title: title.clone(), from })).await?;
        }
        Ok(())
    }

    /// The session of a branch: the same in every store that sees it. `None` if it was deleted here, or lives in a folder of its
    /// own.
    async fn branch_off(
        &self,
        source: SessionId,
        at: Seq,
        branch: &Branch<Line>,
        place: &Place,
    ) -> Result<Option<SessionId>> {
        let Some(first) = branch.arrivals.first() else { return Ok(None) };
        // Another session that got the same folder in another clone stays itself.
        let other = first.line.after.parse::<SessionId>().ok().filter(|id| *id != source);
        let id = other.filter(|_| at == 0);
        let id =
            id.unwrap_or_else(|| SessionId::derived(&digest(&format!("{source}\n{}", first.id))));
        for gone in [first.id.as_str(), id.to_string().as_str()] {
            if self.store.is_buried(gone).await? {
                return Ok(None);
            }
        }
        match self.store.session(id).await {
            Ok(session) if session.deleted_at.is_some() => Ok(None),
            Ok(_) => {
                let home = self.store.home(id).await?;
                let is_elsewhere = home.is_some_and(|home| {
                    (home.root, home.path) != (place.home.root.clone(), place.home.path.clone())
                });
                Ok((!is_elsewhere).then_some(id))
            }
            Err(rethread_store::Error::NotFound(_)) => {
                if self.store.session(source).await?.deleted_at.is_some() {
                    return Ok(None);
                }
                self.store.fork(source, at, id, self.said_at(first)).await?;
                Ok(Some(id))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// When a line was said: what comes from a folder is as old as that.
    fn said_at(&self, arrival: &Arrival<Line>) -> jiff::Timestamp {
        let now = self.clock.now();
        arrival.line.timestamp.parse().map_or(now, |at: jiff::Timestamp| at.min(now))
    }

    /// Appends lines to a session. Known ones are skipped.
    pub(super) async fn take_lines(
        &self,
        id: SessionId,
        arrivals: &[Arrival<Line>],
        place: &Place,
        followed: &mut FolderReport,
    ) -> Result<u32> {
        let at = arrivals.last().map_or_else(|| self.clock.now(), |last| self.said_at(last));
        match self.change_alone_at(id, at, reopened).await {
            Ok(_) | Err(Error::Refused(Refusal::Already(..))) => (),
            Err(Error::Refused(refusal)) => {
                followed.troubles.push(format!("{}: {refusal}: left alone", place.home.path));
                return Ok(0);
            }
            Err(error) => return Err(error),
        }
        let mut count = 0;
        for part in arrivals.chunks(PAGE as usize) {
            let mut messages = Vec::new();
            let mut purged = Vec::new();
            for arrival in part {
                match lines::message(arrival.line.clone()) {
                    Ok((mut message, purged_at)) => {
                        self.prepare(&mut message);
                        messages.push(message);
                        purged.push(purged_at);
                    }
                    Err(why) => followed.troubles.push(format!(
                        "{}: {:?} is no message: {why}",
                        place.home.path, arrival.id
                    )),
                }
            }
            let written = self.store.append(Append::new(id, messages)).await?;
            count += u32::try_from(written.iter().filter(|one| one.is_new).count()).unwrap_or(0);
            for (one, at) in written.iter().zip(purged) {
                if let Some(at) = at {
                    self.store.purge(id, one.seq, at).await?;
                }
            }
        }
        Ok(count)
    }

    /// Writes what the folder lacks, and remembers its state.
    async fn bring_up(
        &self,
        place: &Place,
        taken: &[Taken],
        known: &[Known],
        found: &Found,
        followed: &mut FolderReport,
    ) -> Result<()> {
        for (index, (one, branch)) in taken.iter().zip(&found.branches).enumerate() {
            let Some(id) = &one.id else { continue };
            let session = self.store.session(*id).await?;
            if session.deleted_at.is_some() {
                continue;
            }
            let stored = self.store.home(*id).await?;
            let own = stored.clone().unwrap_or_else(|| place.home.clone());
            let own_card = own.card.clone();
            let before = known.get(index).map_or(session.last_seq, Known::last);
            let (first, others) = compare::tail(&branch.absent, before);
            if others > 0 {
                followed.troubles.push(format!(
                    "{}: {} of {} missing or changed in its log; `rethread doctor --repair` rewrites them",
                    place.home.path,
                    counted(others, "message"),
                    id.short()
                ));
            }
            let mut home =
                Home { root: place.home.root.clone(), path: place.home.path.clone(), ..own };
            let came: u32 =
                taken.iter().filter(|one| one.id == Some(*id)).map(|one| one.count).sum();
            // What came from the folder is in it; what it lacks at its end is written, and so is what was said meanwhile.
            home.seq = match first {
                Some(first) => first - 1,
                None if session.last_seq == before.saturating_add(came) => session.last_seq,
                None => before,
            };
            home.last_id = self.line_before(&session, home.seq + 1).await?;
            self.write_on(&place.locked, &session, &mut home, followed).await?;
            self.describe(place, &session, &mut home, followed).await?;
            if home.card == place_stamp(place)? && own_card.is_empty() {
                // There was a problem the last time: it is judged again at the end.
                home.card.clear();
            }
            if stored.as_ref() != Some(&home) {
                self.store.set_home(*id, home).await?;
            }
        }
        Ok(())
    }

    /// Remembers the state of a folder. One with a problem is examined and reported again until it is mended.
    async fn remember(&self, place: &Place, taken: &[Taken], has_trouble: bool) -> Result<()> {
        let log = place.locked.stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default();
        for id in taken.iter().filter_map(|one| one.id) {
            let Some(before) = self.store.home(id).await? else { continue };
            let card = if has_trouble { String::new() } else { place_stamp(place)? };
            let home = Home { log: log.clone(), card, ..before.clone() };
            if home != before {
                self.store.set_home(id, home).await?;
            }
        }
        Ok(())
    }

    /// The line id of the message before another one.
    pub(super) async fn line_before(&self, session: &Session, seq: Seq) -> Result<String> {
        let span =
            Span { from: seq.saturating_sub(1), to: seq - 1, order: Order::OldestFirst, limit: 1 };
        let before = self.store.heads(session.id, span).await?;
        let owners = self.owners(session).await?;
        Ok(before.first().map_or_else(|| session.id.to_string(), |one| owners.line_id(one)))
    }

    /// Takes over a newer description: of two titles, or two statuses, the one that was set later.
    async fn heed(&self, card: &Card, before: &Session, set: SetAt, is_news: bool) -> Result<()> {
        let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        // Descriptions of earlier versions do not say when.
        let is_later =
            card.last_active.parse::<jiff::Timestamp>().is_ok_and(|at| at > before.last_active_at);
        let unsaid = (is_later || is_news).then(|| self.clock.now());
        let title_at = time(&card.title_set).or(unsaid).filter(|at| *at > set.title);
        let status_at = time(&card.status_set).or(unsaid).filter(|at| *at > set.status);
        let theirs = match card.status.parse::<Status>() {
            Ok(status @ (Status::Completed | Status::Archived)) => Some(status),
            // A session that is active elsewhere need not be active here.
            Ok(Status::Active | Status::Paused) => Some(Status::Paused),
            Err(_) => None,
        };
        let (to, at) = match theirs.zip(status_at) {
            Some(theirs) => theirs,
            // New messages have reactivated it.
            None if before.status() == Status::Active => (Status::Paused, set.status),
            None => (before.status(), set.status),
        };
        // A process that drives it here continues, whatever others do.
        let is_held = self.store.is_claimed(before.id).await?;
        let is_open = before.status() == Status::Active && status_at.is_none() && !is_news;
        if !is_held && !is_open {
            self.move_to(before.id, to, at).await?;
        }
        let title = card.title.clone().filter(|title| before.title.as_ref() != Some(title));
        let title = title.filter(|title| rethread_domain::id::check_title(title).is_ok());
        if let Some((title, at)) = title.zip(title_at) {
            let from = before.title_from.max(rethread_domain::conversation::TitleFrom::Agent);
            self.change_alone_at(before.id, at, |_| {
                Ok(Fact::Titled { title: title.clone(), from })
            })
            .await?;
        }
        Ok(())
    }
}

/// The state of a folder's description.
fn place_stamp(place: &Place) -> Result<String> {
    Ok(place.locked.card_stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default())
}

/// How far a fork shares the messages of another session.
fn shared(session: &Session) -> Seq {
    session.forked_from.map_or(0, |Forked { seq, .. }| seq)
}

/// Whether messages may be appended, and what has to be done before.
fn reopened(session: &Session) -> std::result::Result<Fact, Refusal> {
    match session.status() {
        Status::Completed => Ok(Fact::Moved { to: session.decide(Move::Reopen)? }),
        _ => {
            session.accepts_messages()?;
            Err(Refusal::Already(session.id, session.status()))
        }
    }
}
