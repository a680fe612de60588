//! Scans a workspace: imports sessions that came by git, and merges changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::NewMessage;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::{Fact, Seq, SessionId, Status, id, quote};
use rethread_store::{self as store, Dump, Home, Housed};
use rethread_workspace::{Card, Folder, FolderPath, Item, Line, Locked, Seen, Workspace};

use super::compare::{Branch, Known};
use super::moved::Here;
use super::twice::Kept;
use super::{FolderReport, Place, lines, lock, unseen};
use crate::{Engine, Logged as _, Result};

impl Engine {
    /// Scans the workspace. An unchanged folder costs two system calls.
    pub async fn gather(&self, user: &str) -> Result<FolderReport> {
        let mut followed = self.gather_once(user).await?;
        if !followed.separated.is_empty() {
            // Folders that were created meanwhile.
            followed.add(self.gather_once(user).await?);
        }
        Ok(followed)
    }

    async fn gather_once(&self, user: &str) -> Result<FolderReport> {
        let mut followed = FolderReport::default();
        let Some(workspace) = self.workspace.clone() else { return Ok(followed) };
        let root = workspace.root().to_string_lossy().into_owned();
        let seen = match workspace.scan() {
            Ok(seen) => seen,
            Err(error) => {
                followed.troubles.push(error.to_string());
                return Ok(followed);
            }
        };
        self.follow_separated(&workspace, &seen).await?;
        let mut homes: HashMap<String, Vec<Housed>> = HashMap::new();
        for housed in self.store.homes(&root).await? {
            homes.entry(housed.home.path.clone()).or_default().push(housed);
        }
        let here = Here::new(&seen);
        for one in &seen {
            let looked = match homes.get(one.path.as_str()).map(Vec::as_slice) {
                Some(all) if !all.is_empty() && all.iter().all(|one| one.is_deleted) => {
                    if one.log.is_some() || one.card.is_some() {
                        followed.deleted_here.push(one.path.to_string());
                    }
                    continue;
                }
                Some([first, others @ ..]) => {
                    let is_behind = first.is_behind || others.iter().any(|one| one.is_behind);
                    if stands(one, &first.home)
                        && !is_behind
                        && !self.is_shared(first, others).await?
                    {
                        continue;
                    }
                    self.look_again(first, &mut followed).await
                }
                Some([]) | None => self.arrive(&workspace, user, one, &here, &mut followed).await,
            };
            if let Err(error) = looked {
                followed.troubles.push(format!("{}: {error}", one.path));
            }
        }
        for id in self.store.without_home(&root).await? {
            // The process that recorded it was killed before its folder was created.
            match self.follow(id).await {
                Ok(made) => followed.add(made),
                Err(error) => followed.troubles.push(format!("{}: {error}", id.short())),
            }
        }
        Ok(followed)
    }

    /// Whether unrelated sessions share a folder.
    async fn is_shared(&self, first: &Housed, others: &[Housed]) -> Result<bool> {
        if others.is_empty() {
            return Ok(false);
        }
        let root = self.root_of(&self.store.session(first.id).await?).await?;
        for other in others {
            if self.root_of(&self.store.session(other.id).await?).await? != root {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn look_again(&self, housed: &Housed, followed: &mut FolderReport) -> Result<()> {
        // Another folder may have been merged with it meanwhile.
        let Some(home) = self.store.home(housed.id).await? else { return Ok(()) };
        match self.enter(housed.id, home).await? {
            Some(place) => self.reconcile(&place, followed).await,
            None => Ok(()),
        }
    }

    /// Imports a folder that is not known here.
    pub(super) async fn arrive(
        &self,
        workspace: &Arc<Workspace>,
        user: &str,
        seen: &Seen,
        here: &Here<'_>,
        followed: &mut FolderReport,
    ) -> Result<()> {
        if let Some(odd) = &seen.odd {
            followed.troubles.push(format!("{}: {odd}: left alone", seen.path));
            return Ok(());
        }
        let Some(folder) = workspace.folder(&seen.path)? else { return Ok(()) };
        if seen.log.is_none() && seen.card.is_none() {
            // Its process died before writing anything. A folder that is about to be used will be created again.
            workspace.discard(&seen.path).or_log("an empty session folder could not be removed");
            return Ok(());
        }
        let locked = lock(folder).await?;
        self.arrive_at(locked, workspace, user, seen, here, followed).await
    }

    async fn arrive_at(
        &self,
        locked: Locked,
        workspace: &Arc<Workspace>,
        user: &str,
        seen: &Seen,
        here: &Here<'_>,
        followed: &mut FolderReport,
    ) -> Result<()> {
        if roots_of(&locked)?.len() > 1 {
            self.separate(&locked, workspace, &seen.path, followed).await?;
        }
        let card = match locked.card() {
            Ok(card) => card,
            Err(error) => {
                followed.troubles.push(format!("{}: {error}", seen.path));
                None
            }
        };
        let roots = roots_of(&locked)?;
        let Some(id) = identified(card.as_ref(), &roots, &seen.path, followed) else {
            return Ok(());
        };
        let home = unseen(workspace.root(), &seen.path, id);
        let place = Place { locked, path: seen.path.clone(), home };
        match self.store.session(id).await {
            Ok(session) if session.deleted_at.is_some() => {
                followed.deleted_here.push(seen.path.to_string());
                Ok(())
            }
            Ok(session) if session.user != user => Ok(()),
            Ok(_) => self.moved_here(place, id, workspace, here, followed).await,
            Err(store::Error::NotFound(_)) if self.store.is_buried(&id.to_string()).await? => {
                followed.deleted_here.push(seen.path.to_string());
                Ok(())
            }
            Err(store::Error::NotFound(_)) => {
                let place = match Self::twin(workspace, id, &seen.path, here)? {
                    Some(twin) => self.bring_together(place, id, &twin, followed).await?,
                    None => Kept::Both(place),
                };
                match place {
                    Kept::Both(place) | Kept::This(place) => {
                        self.take_in(place, id, user, card.unwrap_or_default(), followed).await
                    }
                    // It is examined by itself.
                    Kept::Other => Ok(()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The new path of a session's folder, if it has moved.
    pub(super) async fn renamed(
        &self,
        workspace: &Workspace,
        home: &Home,
    ) -> Result<Option<FolderPath>> {
        let homes = self.store.homes(&home.root).await?;
        let own = homes.iter().find(|one| one.home.path == home.path);
        let Some(id) = own.map(|one| one.id.to_string()) else { return Ok(None) };
        for seen in workspace.scan()? {
            let is_free = !homes.iter().any(|one| one.home.path == seen.path.as_str());
            if !is_free || seen.card.is_none() || seen.odd.is_some() {
                continue;
            }
            let folder = workspace.folder(&seen.path)?;
            let card = folder.and_then(|folder| folder.card().ok().flatten());
            if card.is_some_and(|card| card.id == id) {
                self.move_homes(home, &home.root, &seen.path).await?;
                return Ok(Some(seen.path));
            }
        }
        Ok(None)
    }

    /// Moves every session of a folder to another path.
    pub(super) async fn move_homes(
        &self,
        before: &Home,
        root: &str,
        path: &FolderPath,
    ) -> Result<()> {
        for Housed { id, home, .. } in self.store.homes(&before.root).await? {
            if home.path == before.path {
                let (root, path) = (root.to_owned(), path.to_string());
                let home = Home { root, path, log: String::new(), ..home };
                self.store.set_home(id, home).await?;
            }
        }
        Ok(())
    }

    /// Imports a session that came with the code.
    async fn take_in(
        &self,
        place: Place,
        id: SessionId,
        user: &str,
        card: Card,
        followed: &mut FolderReport,
    ) -> Result<()> {
        let known = [Known { id, base: 0, ids: Vec::new(), purged: HashSet::new() }];
        let found = self.look(&place, &id.to_string(), &known, &[])?;
        if found.is_empty {
            // A folder is only created once there is a message, so this one has lost its log.
            followed.troubles.push(format!(
                "{}: its log is empty, so the session {} is not taken in; `git log -p` of messages.jsonl shows what was in it",
                place.home.path,
                id.short()
            ));
            return Ok(());
        }
        found.write_by_hand(&place)?;
        let own = found.branches.first();
        let mut messages = Vec::new();
        for arrival in own.map_or(&[][..], |branch: &Branch<Line>| branch.arrivals.as_slice()) {
            match lines::message(arrival.line.clone()) {
                Ok((mut message, purged_at)) => {
                    if purged_at.is_none() {
                        self.prepare(&mut message);
                    }
                    messages.push((message, purged_at));
                }
                Err(why) => followed
                    .troubles
                    .push(format!("{}: {:?} is no message: {why}", place.home.path, arrival.id)),
            }
        }
        let beginning = beginning(&card, &place.path, user, &place.home.root);
        let began = card.created.parse().ok().or(messages.first().map(|(first, _)| first.at));
        let began = began.unwrap_or_else(|| self.clock.now());
        let facts = facts(beginning, &card, &messages, began);
        self.store.take_in(Dump { id, facts, messages }).await?;
        self.store.set_home(id, place.home.clone()).await?;
        followed.arrived.push(id);
        let mut card = card;
        if let [(_, upto @ None)] = card.summaries.as_mut_slice()
            && found.branches.len() == 1
        {
            // Earlier versions did not record which messages a summary covers; it can only be these.
            let last = own.and_then(|branch| branch.arrivals.last());
            *upto = last.map(|last| last.id.clone());
        }
        self.summarise_arrived(id, Some(&card)).await?;
        self.reconcile(&place, followed).await
    }
}

/// Whether nothing has changed since we last wrote.
fn stands(seen: &Seen, home: &Home) -> bool {
    let same = |stamp: Option<rethread_workspace::Stamp>, known: &str| {
        stamp.map(|stamp| stamp.to_string()).unwrap_or_default() == known
    };
    same(seen.log, &home.log) && same(seen.card, &home.card)
}

/// The sessions that begin in a log, in the order of the file.
pub(super) fn roots_of(folder: &Folder) -> Result<Vec<SessionId>> {
    let mut roots = Vec::new();
    folder.read(0, &mut |item| {
        if let Item::Line { line, .. } = item {
            roots.extend(line.after.parse::<SessionId>().ok());
        }
    })?;
    Ok(roots)
}

/// Identifies the session of a folder by its description and its log.
fn identified(
    card: Option<&Card>,
    roots: &[SessionId],
    path: &FolderPath,
    followed: &mut FolderReport,
) -> Option<SessionId> {
    let named = card.map(|card| card.id.parse::<SessionId>());
    match (named, roots.first().copied()) {
        (Some(Ok(named)), Some(root)) if !roots.contains(&named) => {
            followed.troubles.push(format!(
                "{path}: session.json says {named}, its log says {root}: left alone; `rethread doctor --repair` rewrites session.json"
            ));
            None
        }
        (Some(Ok(named)), _) => Some(named),
        (_, Some(root)) => Some(root),
        (Some(Err(error)), None) => {
            followed.troubles.push(format!("{path}: session.json: {error}"));
            None
        }
        (None, None) => {
            followed.troubles.push(format!("{path}: nothing says which session it is"));
            None
        }
    }
}

/// The beginning of a session, as far as its folder tells. Invalid values are dropped.
fn beginning(card: &Card, path: &FolderPath, user: &str, root: &str) -> Beginning {
    let kind = if id::check_kind(&card.kind).is_ok() { &card.kind } else { path.kind() };
    let name = |what: &'static str, name: &Option<String>| {
        name.clone().filter(|name| id::check_agent(what, name).is_ok())
    };
    let short = |text: &Option<String>| text.clone().filter(|text| is_plain(text));
    Beginning {
        kind: kind.to_owned(),
        title: card.title.clone().filter(|title| id::check_title(title).is_ok()),
        agent: name("agent", &card.agent),
        model: name("model", &card.model),
        command: short(&card.command),
        prompt_hash: short(&card.prompt_hash),
        tools: card.tools.iter().filter(|tool| is_plain(tool)).take(200).cloned().collect(),
        ..Beginning::new(user, root)
    }
}

/// Whether a name that is only displayed may be kept.
fn is_plain(text: &str) -> bool {
    text.len() <= 200 && !text.contains(|c: char| c.is_control() || quote::is_unsafe(c))
}

/// The facts of an imported session.
fn facts(
    beginning: Beginning,
    card: &Card,
    messages: &[(NewMessage, Option<Timestamp>)],
    began: Timestamp,
) -> Vec<FactRecord> {
    let last = Seq::try_from(messages.len()).unwrap_or(Seq::MAX);
    let ended = messages.iter().map(|(message, _)| message.at).max().unwrap_or(began);
    let mut facts = vec![FactRecord { after: 0, at: began, fact: Fact::Started(beginning) }];
    let mut names: HashSet<&str> = HashSet::new();
    for (after, (message, _)) in (0..).zip(messages) {
        if names.insert(&message.conversation) {
            let n = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let fact = Fact::Opened { n, name: message.conversation.clone() };
            facts.push(FactRecord { after, at: message.at, fact });
        }
    }
    let set =
        |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let title = card.title.clone().filter(|title| id::check_title(title).is_ok());
    if let Some((title, at)) = title.zip(set(&card.title_set).filter(|at| *at != began)) {
        let fact = Fact::Titled { title, from: TitleFrom::Agent };
        facts.push(FactRecord { after: last, at, fact });
    }
    let to = match card.status.parse() {
        Ok(status @ (Status::Completed | Status::Archived)) => status,
        Ok(Status::Active | Status::Paused) | Err(_) => Status::Paused,
    };
    let at = set(&card.status_set).unwrap_or(ended);
    facts.push(FactRecord { after: last, at, fact: Fact::Moved { to } });
    facts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_domain::session::Beginning;
    use rethread_testkit::{TestStore, beginning, user};

    use super::*;
    use crate::Clock;

    #[tokio::test]
    async fn whoever_is_killed_before_the_folder_is_made_is_made_up_for() {
        let store = TestStore::sqlite().await;
        let root = store.beside("project");
        std::fs::create_dir(&root).unwrap();
        let workspace = Arc::new(Workspace::init(&root, None).unwrap().workspace);
        let engine =
            Engine::new(store.open_again().await, Clock::Wall).with_workspace(Some(workspace));
        let about = |title: &str| Beginning {
            project: root.display().to_string(),
            title: Some(title.into()),
            ..beginning()
        };
        let before = store.begin_as(about("Before this was a workspace")).await;
        store.add(before, vec![user("not for the repository")]).await.unwrap();
        let silent = engine.start(about("Nothing was said")).await.unwrap().id;
        let killed = engine.start(about("Killed")).await.unwrap().id;
        // Straight into the store: nobody follows with a folder.
        store.add(killed, vec![user("one")]).await.unwrap();
        assert_eq!(engine.folder_of(killed).await.unwrap(), None);

        let followed = engine.gather("anna").await.unwrap();
        assert_eq!(followed, FolderReport::default());
        let folder = engine.folder_of(killed).await.unwrap().unwrap();
        let log = std::fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
        assert_eq!((log.lines().count(), log.contains("\"one\"")), (1, true), "{log}");
        assert!(folder.display().to_string().contains("killed-"), "{}", folder.display());
        for none in [before, silent] {
            assert_eq!(engine.folder_of(none).await.unwrap(), None);
        }
        store.expect_sound().await;
    }
}
