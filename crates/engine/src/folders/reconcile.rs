//! Bringing a folder that somebody else has changed and the log together again.

use std::path::Path;

use rethread_domain::session::{Move, Origin as Forked, Refusal};
use rethread_domain::summary::{Author, Summary};
use rethread_domain::{Fact, Seq, Session, SessionId, Status};
use rethread_store::{Append, Home, Order, Span};
use rethread_workspace::{Entry, Item, Line, Loose, digest};

use super::compare::{self, Arrival, Branch, Comparison, Known, Origin};
use super::{Followed, PAGE, Place, lines};
use crate::{Engine, Error, Result};

/// What was found in a folder's log.
pub(super) struct Found {
    pub(super) branches: Vec<Branch<Line>>,
    /// Lines that somebody wrote by hand, by their place in the file: to be written as ours.
    by_hand: Vec<(std::ops::Range<u64>, Line)>,
    pub(super) troubles: Vec<String>,
    /// Sessions that begin here: more than one where two clones gave them the same folder.
    roots: Vec<String>,
    torn: Option<std::ops::Range<u64>>,
}

/// What became of a branch: its session, and how many messages came to it.
pub(super) struct Taken {
    id: SessionId,
    count: u32,
}

impl Found {
    /// What people wrote is written anew as ours, so that it is known the next time.
    pub(super) fn write_by_hand(&self, place: &Place) -> Result<()> {
        if self.by_hand.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::new();
        let mut from = 0;
        for (at, line) in &self.by_hand {
            if from < at.start {
                entries.push(Entry::Raw(place.locked.bytes(from..at.start)?));
            }
            entries.push(Entry::Line(line.clone()));
            from = at.end;
        }
        let size = place.locked.stamp()?.map_or(0, |stamp| stamp.size);
        if from < size {
            entries.push(Entry::Raw(place.locked.bytes(from..size)?));
        }
        place.locked.replace_log(&mut entries.into_iter())?;
        Ok(())
    }

    /// What is damaged at the end is set aside, so that the next line begins on a line of its own.
    fn set_aside(&self, place: &Place, followed: &mut Followed) -> Result<()> {
        if self.torn.is_none() {
            return Ok(());
        }
        if let Some(torn) = place.locked.truncate_torn()? {
            followed.troubles.push(format!(
                "{}: its log ended in the middle of a line; those {} bytes are kept in {}",
                place.home.path,
                torn.at.end - torn.at.start,
                torn.aside.display()
            ));
        }
        Ok(())
    }
}

impl Engine {
    /// Compares the folder with the log, takes in what is new in either, and tells of the rest.
    pub(super) async fn reconcile(&self, place: &Place, followed: &mut Followed) -> Result<()> {
        let root = place.home.root.clone();
        let sessions = self.sessions_in(&root, &place.home.path).await?;
        let Some(first) = sessions.first() else { return Ok(()) };
        let mut known = Vec::new();
        for session in &sessions {
            known.push(self.known(session, first.id).await?);
        }
        let found = self.look(place, &first.id.to_string(), &known)?;
        let path = Path::new(&place.home.root).join(&place.home.path);
        let named = |trouble: &String| format!("{}: {trouble}", path.display());
        followed.troubles.extend(found.troubles.iter().map(named));
        let card = place.locked.card().ok().flatten();
        let is_news = !found.branches.iter().all(|branch| branch.arrivals.is_empty());
        found.write_by_hand(place)?;
        let mut taken: Vec<Taken> = Vec::new();
        for branch in &found.branches {
            let one = self.arrived_in(branch, &taken, place, followed).await?;
            taken.push(one);
        }
        match card {
            Some(card) if card.id == first.id.to_string() => {
                self.heed(&card, first, is_news).await?;
            }
            Some(card) if found.roots.contains(&card.id) => (),
            Some(card) => followed.troubles.push(format!(
                "{}: session.json names the session {}, its log is that of {}: session.json is left as it is",
                path.display(),
                card.id,
                first.id
            )),
            None => (),
        }
        found.set_aside(place, followed)?;
        self.bring_up(place, &taken, &known, &found, followed).await
    }

    /// The sessions of a folder, the first of them its own.
    pub(super) async fn sessions_in(&self, root: &str, path: &str) -> Result<Vec<Session>> {
        let mut sessions = Vec::new();
        for housed in self.store.homes(root).await? {
            if housed.home.path == path {
                sessions.push(self.store.session(housed.id).await?);
            }
        }
        Ok(sessions)
    }

    /// What the folder knows the messages of a session by.
    async fn known(&self, session: &Session, first: SessionId) -> Result<Known> {
        let owners = self.owners(session).await?;
        let base = if session.id == first { 0 } else { shared(session) };
        let mut ids = Vec::new();
        let mut from = base + 1;
        while from <= session.last_seq {
            let span =
                Span { from, to: session.last_seq, order: Order::OldestFirst, limit: 10 * PAGE };
            let page = self.store.heads(session.id, span).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            ids.extend(page.iter().map(|message| owners.line_id(message)));
            from = last + 1;
        }
        Ok(Known { id: session.id, base, ids })
    }

    /// Reads the whole log of a folder.
    pub(super) fn look(&self, place: &Place, root: &str, known: &[Known]) -> Result<Found> {
        let mut comparison = Comparison::new(root, known);
        let mut by_hand = Vec::new();
        let mut troubles = Vec::new();
        let now = self.clock.now().to_string();
        let mut written = Vec::new();
        let mut roots = Vec::new();
        let end = place.locked.read(0, &mut |item| match item {
            Item::Line { line, number, .. } => {
                if compare::is_root(&line.after) {
                    roots.push(line.after.clone());
                }
                let is_known = comparison.knows(&line.id);
                match if is_known { Ok(()) } else { lines::check(&line) } {
                    Ok(()) => {
                        let after = line.after.clone();
                        comparison.see(line.id.clone(), Some(&after), line);
                    }
                    Err(why) => troubles.push(format!("line {number} is no message: {why}")),
                }
            }
            Item::Written { line, at, number } => written.push((at, line, number)),
            Item::Edited { line, number, .. } => troubles.push(edited(&line, number)),
            Item::Newer { number, version, .. } => troubles.push(format!(
                "line {number} was written by a newer version ({version}): left as it is"
            )),
            Item::Conflict { number, .. } => {
                troubles.push(format!("line {number} is a mark of a merge that was not finished"));
            }
            Item::Damaged { at, number, why } => troubles.push(format!(
                "line {number} (bytes {} to {}) is damaged: {why}",
                at.start, at.end
            )),
        })?;
        // What people add goes on where the session ends, wherever in the file they wrote it.
        for (at, line, number) in written {
            if line.id.as_deref().is_some_and(|id| comparison.knows(id)) {
                // The sum was taken away with the edit.
                troubles.push(edited(&line, number));
                continue;
            }
            let line = by_a_person(line, comparison.last_id(), &now);
            if let Err(why) = lines::check(&line) {
                troubles.push(format!("line {number} is no message: {why}"));
                continue;
            }
            by_hand.push((at, line.clone()));
            comparison.see(line.id.clone(), Some(&line.after.clone()), line);
        }
        Ok(Found { branches: comparison.finish(), by_hand, troubles, roots, torn: end.torn })
    }

    /// Takes the new lines of a branch into its session, which is made where there is none.
    async fn arrived_in(
        &self,
        branch: &Branch<Line>,
        before: &[Taken],
        place: &Place,
        followed: &mut Followed,
    ) -> Result<Taken> {
        let mut is_new = false;
        let id = match branch.origin {
            Origin::Session(id) => id,
            Origin::Fork { of, at } => {
                let source = before.get(of).map(|one| one.id).ok_or(Error::Interrupted)?;
                let fork = self.branch_off(source, at, branch).await?;
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
        Ok(Taken { id, count })
    }

    /// Nobody is in a branch that came from elsewhere; its title tells it from the other.
    async fn put_away(&self, id: SessionId) -> Result<()> {
        let session = self.store.session(id).await?;
        if session.status == Status::Active {
            self.change_alone(id, |_| Ok(Fact::Moved { to: Status::Paused })).await?;
        }
        let title = format!("{} (another branch)", session.title.as_deref().unwrap_or_default());
        if rethread_domain::id::check_title(&title).is_ok() {
            let from = rethread_domain::conversation::TitleFrom::Person;
            self.change_alone(id, |_| Ok(Fact::Titled { title: title.clone(), from })).await?;
        }
        Ok(())
    }

    /// The session of a branch: the same in every store that sees it.
    async fn branch_off(
        &self,
        source: SessionId,
        at: Seq,
        branch: &Branch<Line>,
    ) -> Result<SessionId> {
        let first = branch.arrivals.first().map(|arrival| arrival.id.as_str()).unwrap_or_default();
        let id = SessionId::derived(&digest(&format!("{source}\n{first}")));
        match self.store.session(id).await {
            Ok(_) => Ok(id),
            Err(rethread_store::Error::NotFound(_)) => {
                self.store.fork(source, at, id, self.clock.now()).await?;
                Ok(id)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds lines at the end of a session. Those that are there already are not added again.
    pub(super) async fn take_lines(
        &self,
        id: SessionId,
        arrivals: &[Arrival<Line>],
        place: &Place,
        followed: &mut Followed,
    ) -> Result<u32> {
        match self.change_alone(id, reopened).await {
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
            for arrival in part {
                match lines::message(arrival.line.clone()) {
                    // What was purged elsewhere has nothing to say here.
                    Ok((mut message, _)) => {
                        self.prepare(&mut message);
                        messages.push(message);
                    }
                    Err(why) => followed.troubles.push(format!(
                        "{}: {:?} is no message: {why}",
                        place.home.path, arrival.id
                    )),
                }
            }
            let written = self.store.append(Append::new(id, messages)).await?;
            count += u32::try_from(written.iter().filter(|one| one.is_new).count()).unwrap_or(0);
        }
        Ok(count)
    }

    /// Writes what the folder lacks, and remembers how it stands.
    async fn bring_up(
        &self,
        place: &Place,
        taken: &[Taken],
        known: &[Known],
        found: &Found,
        followed: &mut Followed,
    ) -> Result<()> {
        for (index, (Taken { id, .. }, branch)) in taken.iter().zip(&found.branches).enumerate() {
            let session = self.store.session(*id).await?;
            let own = self.store.home(*id).await?.unwrap_or_else(|| place.home.clone());
            let before = known.get(index).map_or(session.last_seq, Known::last);
            let (first, others) = compare::tail(&branch.absent, before);
            if others > 0 {
                followed.troubles.push(format!(
                    "{}: {others} messages of {} are missing or changed in its log; `rethread doctor --repair` writes them anew",
                    place.home.path,
                    id.short()
                ));
            }
            let mut home =
                Home { root: place.home.root.clone(), path: place.home.path.clone(), ..own };
            let came: u32 = taken.iter().filter(|one| one.id == *id).map(|one| one.count).sum();
            // What came from the folder is in it; what it lacks at its end is written there, and so is what was said
            // while we looked.
            home.seq = match first {
                Some(first) => first - 1,
                None if session.last_seq == before.saturating_add(came) => session.last_seq,
                None => before,
            };
            home.last_id = self.line_before(&session, home.seq + 1).await?;
            self.write_on(&place.locked, &session, &mut home, followed).await?;
            self.describe(place, &session, &mut home, followed).await?;
            self.store.set_home(*id, home).await?;
        }
        let log = place.locked.stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default();
        for Taken { id, .. } in taken {
            if let Some(home) = self.store.home(*id).await? {
                self.store.set_home(*id, Home { log: log.clone(), ..home }).await?;
            }
        }
        Ok(())
    }

    /// What the folder knows the message before another by.
    pub(super) async fn line_before(&self, session: &Session, seq: Seq) -> Result<String> {
        let span =
            Span { from: seq.saturating_sub(1), to: seq - 1, order: Order::OldestFirst, limit: 1 };
        let before = self.store.heads(session.id, span).await?;
        let owners = self.owners(session).await?;
        Ok(before.first().map_or_else(|| session.id.to_string(), |one| owners.line_id(one)))
    }

    /// Takes over what a newer description says.
    async fn heed(
        &self,
        card: &rethread_workspace::Card,
        before: &Session,
        is_news: bool,
    ) -> Result<()> {
        let newer =
            card.last_active.parse::<jiff::Timestamp>().is_ok_and(|at| at > before.last_active_at);
        if !newer && !is_news {
            return Ok(());
        }
        let session = self.store.session(before.id).await?;
        let to = match card.status.parse::<Status>() {
            Ok(Status::Completed) => Some(Status::Completed),
            // Whoever has it open elsewhere does not have it open here.
            Ok(Status::Active | Status::Paused) => Some(Status::Paused),
            Ok(Status::Archived) | Err(_) => None,
        };
        // Whoever holds it here goes on, whatever others do.
        let is_held = session.status == Status::Active && self.store.is_claimed(before.id).await?;
        if let Some(to) =
            to.filter(|to| session.status != *to && session.status != Status::Archived && !is_held)
        {
            self.change_alone(before.id, |_| Ok(Fact::Moved { to })).await?;
        }
        if let Some(text) = card.summary.clone().filter(|text| is_news && !text.is_empty()) {
            let (by, upto) = (Author::Model, session.last_seq);
            let summary = Summary { by, upto, folded: 0, text, points: Vec::new() };
            let fact = Fact::Summarised { conversation: None, summary };
            self.change_alone(before.id, |_| Ok(fact.clone())).await?;
        }
        let title = card.title.clone().filter(|title| session.title.as_ref() != Some(title));
        if let Some(title) = title.filter(|title| rethread_domain::id::check_title(title).is_ok()) {
            let from = session.title_from.max(rethread_domain::conversation::TitleFrom::Agent);
            self.change_alone(before.id, |_| Ok(Fact::Titled { title: title.clone(), from }))
                .await?;
        }
        Ok(())
    }
}

/// Up to where a fork shares the messages of another session.
fn shared(session: &Session) -> Seq {
    session.forked_from.map_or(0, |Forked { seq, .. }| seq)
}

/// Whether messages may be added, and what has to be done before.
fn reopened(session: &Session) -> std::result::Result<Fact, Refusal> {
    match session.status {
        Status::Completed => Ok(Fact::Moved { to: session.decide(Move::Reopen)? }),
        _ => {
            session.accepts_messages()?;
            Err(Refusal::Already(session.id, session.status))
        }
    }
}

fn edited(line: &Loose, number: u64) -> String {
    match &line.id {
        Some(id) => format!(
            "line {number} (message {id}) was changed by hand or damaged: the session keeps what was said, the file keeps the change"
        ),
        None => format!("line {number} was changed by hand or damaged"),
    }
}

/// What a person added to a log.
fn by_a_person(line: Loose, before: &str, now: &str) -> Line {
    let id = line.id.unwrap_or_else(|| {
        digest(&format!("{before}\n{}\n{}", line.role, line.content))[..32].to_owned()
    });
    Line {
        id,
        after: before.to_owned(),
        kind: line.kind.unwrap_or_else(|| lines::MESSAGE.to_owned()),
        role: line.role,
        content: line.content,
        timestamp: line.timestamp.unwrap_or_else(|| now.to_owned()),
        conversation: line
            .conversation
            .unwrap_or_else(|| rethread_domain::conversation::DEFAULT.to_owned()),
        agent: line.agent,
        other: line.other,
    }
}
