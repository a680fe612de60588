//! Separates two sessions in one folder, which earlier versions could create when two people started at the same time: each gets a
//! folder of its own, for good.
//!
//! The result depends on the files alone, so that every clone does the same: the session with the lowest id keeps the folder, and
//! the lines of the others go, byte for byte, to a folder that is named after the old one and their id. What git brings back later
//! goes there again; a line that is there already is not added twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use rethread_domain::{Session, SessionId};
use rethread_store::{self as store, Home};
use rethread_workspace::{Card, Entry, FolderPath, Item, Locked, Seen, Workspace};

use super::arrive::roots_of;
use super::{FolderReport, lock, topic_of, unseen};
use crate::{Engine, Result};

/// The sessions of a log's lines, in the order of the file.
struct Shared {
    roots: BTreeSet<SessionId>,
    /// A part of the file, and the session that it belongs to.
    parts: Vec<(Range<u64>, Option<SessionId>)>,
}

/// The id of a line, and that of its predecessor.
type Chained = (String, String);

impl Shared {
    /// A line belongs to the session of its predecessor; anything else, to that of the previous line.
    fn read(locked: &Locked) -> Result<Self> {
        let mut pieces: Vec<(Range<u64>, Option<Chained>)> = Vec::new();
        locked.read(0, &mut |item| {
            pieces.push(match item {
                Item::Line { line, at, .. } => (at, Some((line.id, line.after))),
                Item::Written { at, .. }
                | Item::Edited { at, .. }
                | Item::Newer { at, .. }
                | Item::Conflict { at, .. }
                | Item::Damaged { at, .. } => (at, None),
            });
        })?;
        let lines = || pieces.iter().filter_map(|(_, line)| line.as_ref());
        let after: HashMap<&str, &str> =
            lines().map(|(id, after)| (id.as_str(), after.as_str())).collect();
        let mut known: HashMap<&str, Option<SessionId>> = HashMap::new();
        let mut roots = BTreeSet::new();
        for (id, _) in lines() {
            // Back to the first line, or to one whose session is known: mostly that is the previous line.
            let mut way = Vec::new();
            let mut at = id.as_str();
            let root = loop {
                if let Some(root) = known.get(at) {
                    break *root;
                }
                // A cycle has no beginning.
                known.insert(at, None);
                way.push(at);
                match after.get(at) {
                    Some(before) if after.contains_key(before) => at = before,
                    Some(before) => break before.parse().ok(),
                    None => break None,
                }
            };
            roots.extend(root);
            known.extend(way.into_iter().map(|id| (id, root)));
        }
        let mut before = None;
        let mut parts = Vec::new();
        for (at, line) in &pieces {
            let own = line.as_ref().and_then(|(id, _)| known.get(id.as_str()).copied().flatten());
            before = own.or(before);
            parts.push((at.clone(), before));
        }
        Ok(Self { roots, parts })
    }
}

impl Engine {
    /// Gives every session but one of those that share a folder a folder of its own. Returns whether there were several.
    pub(super) async fn separate(
        &self,
        locked: &Locked,
        workspace: &Arc<Workspace>,
        path: &FolderPath,
        followed: &mut FolderReport,
    ) -> Result<bool> {
        let shared = Shared::read(locked)?;
        if shared.roots.len() < 2 {
            return Ok(false);
        }
        let cards = locked.cards().unwrap_or_default();
        let mut roots = Vec::new();
        for root in shared.roots {
            // A predecessor may also be a missing message whose id looks like a session's.
            let is_named = cards.iter().any(|card| card.id == root.to_string());
            if is_named || self.is_session(root).await? {
                roots.push(root);
            }
        }
        let Some((keeper, others)) = roots.split_first().filter(|(_, others)| !others.is_empty())
        else {
            return Ok(false);
        };
        // An incomplete line is kept aside: it belongs to nobody yet.
        locked.truncate_torn()?;
        let own = |(_, whose): &(Range<u64>, Option<SessionId>)| {
            whose.filter(|whose| others.contains(whose))
        };
        let mut moved: BTreeMap<SessionId, Vec<Vec<u8>>> = BTreeMap::new();
        let mut kept = Vec::new();
        for part in &shared.parts {
            let bytes = locked.bytes(part.0.clone())?;
            match own(part) {
                Some(other) => moved.entry(other).or_default().push(bytes),
                None => kept.push(Entry::Raw(bytes)),
            }
        }
        for (other, lines) in moved {
            let to = self.folder_for(workspace, path, other).await?;
            let place = lock(workspace.restore(&to)?).await?;
            add_lines(&place, lines)?;
            if let Some(card) = cards.iter().find(|card| card.id == other.to_string())
                && place.card().ok().flatten().is_none()
            {
                place.write_card(card)?;
            }
            self.move_home(workspace, path, other, &to).await?;
            followed.separated.push((other, to.to_string()));
        }
        locked.replace_log(&mut kept.into_iter())?;
        keep_card(locked, *keeper, &cards)?;
        self.move_home(workspace, path, *keeper, path).await?;
        Ok(true)
    }

    /// Follows another clone that has separated sessions which share a folder here.
    pub(super) async fn follow_separated(
        &self,
        workspace: &Arc<Workspace>,
        seen: &[Seen],
    ) -> Result<()> {
        let homes = self.store.homes(&workspace.root().to_string_lossy()).await?;
        let is_home = |path: &FolderPath| homes.iter().any(|one| one.home.path == path.as_str());
        for one in seen.iter().filter(|one| one.card.is_some() && !is_home(&one.path)) {
            let card = workspace.folder(&one.path)?.and_then(|folder| folder.card().ok().flatten());
            let id = card.and_then(|card| card.id.parse::<SessionId>().ok());
            let Some(housed) = homes.iter().find(|housed| Some(housed.id) == id) else { continue };
            let before: FolderPath = housed.home.path.parse()?;
            let Some(folder) = workspace.folder(&before)? else { continue };
            let is_described = folder.card().ok().flatten().map(|card| card.id);
            let is_another = is_described.is_some_and(|other| other != housed.id.to_string());
            if is_another && !roots_of(&folder)?.contains(&housed.id) {
                self.move_home(workspace, &before, housed.id, &one.path).await?;
            }
        }
        Ok(())
    }

    /// Whether a session with this id is, or was, known here.
    async fn is_session(&self, id: SessionId) -> Result<bool> {
        match self.store.session(id).await {
            Ok(_) => Ok(true),
            Err(store::Error::NotFound(_)) => Ok(self.store.is_buried(&id.to_string()).await?),
            Err(error) => Err(error.into()),
        }
    }

    /// The new folder of a session that shared one: the same in every clone, unless it has a folder already.
    async fn folder_for(
        &self,
        workspace: &Workspace,
        shared: &FolderPath,
        id: SessionId,
    ) -> Result<FolderPath> {
        let root = workspace.root().to_string_lossy();
        let home = self.store.home(id).await?;
        if let Some(home) = home.filter(|home| home.root == root && home.path != shared.as_str()) {
            return Ok(home.path.parse()?);
        }
        Ok(shared.with_topic(&topic_of(shared.topic(), id))?)
    }

    /// Moves a session and its branches to another folder, which is examined again.
    async fn move_home(
        &self,
        workspace: &Workspace,
        from: &FolderPath,
        root: SessionId,
        to: &FolderPath,
    ) -> Result<()> {
        for session in self.sessions_in(&workspace.root().to_string_lossy(), from.as_str()).await? {
            if self.root_of(&session).await? == root {
                let empty = unseen(workspace.root(), to, session.id);
                self.store.set_home(session.id, Home { told: String::new(), ..empty }).await?;
            }
        }
        Ok(())
    }

    /// The session that a branch descends from. One that shares nothing with another is its own root.
    pub(super) async fn root_of(&self, session: &Session) -> Result<SessionId> {
        let (mut id, mut origin) = (session.id, session.forked_from);
        while let Some(from) = origin.filter(|from| from.seq > 0) {
            id = from.session;
            origin = match self.store.session(id).await {
                Ok(session) => session.forked_from,
                Err(store::Error::NotFound(_)) => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(id)
    }
}

/// Describes the remaining folder as that of its session.
fn keep_card(locked: &Locked, keeper: SessionId, cards: &[Card]) -> Result<()> {
    match cards.iter().find(|card| card.id == keeper.to_string()) {
        Some(_) if cards.len() == 1 => (),
        Some(card) => {
            locked.remove_card()?;
            locked.write_card(card)?;
        }
        // There is no description of the remaining session: it is made again from the store.
        None => drop(locked.set_card_aside()?),
    }
    Ok(())
}

/// Adds lines, unchanged, to a folder that may have some of them.
fn add_lines(place: &Locked, lines: Vec<Vec<u8>>) -> Result<()> {
    place.truncate_torn()?;
    let mut here = Vec::new();
    place.read(0, &mut |item| {
        here.push(match item {
            Item::Line { at, .. }
            | Item::Written { at, .. }
            | Item::Edited { at, .. }
            | Item::Newer { at, .. }
            | Item::Conflict { at, .. }
            | Item::Damaged { at, .. } => at,
        });
    })?;
    let mut all = Vec::new();
    for at in here {
        all.push(place.bytes(at)?);
    }
    let known: HashSet<Vec<u8>> = all.iter().map(|line| line.trim_ascii().to_vec()).collect();
    all.extend(lines.into_iter().filter(|line| !known.contains(line.trim_ascii())));
    place.replace_log(&mut all.into_iter().map(Entry::Raw))?;
    Ok(())
}
