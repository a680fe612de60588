//! Checks folders and rewrites damaged ones. Damaged parts are kept aside.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rethread_domain::SessionId;
use rethread_store::{Home, Housed, Record};
use rethread_workspace::{Entry, Item, Line, Seen, Workspace};

use super::arrive::roots_of;
use super::moved::Here;
use super::{FolderReport, Place, lines, lock, look};
use crate::{Engine, Error, Result};

const PURGED_AGAIN: &str = "it had come back with a text that was purged: it is removed, and the session goes on in its own folder";

const TWICE: &str = "session.json had fields twice after a merge: it is written anew";

/// The problems of one folder, and what was done about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderHealth {
    pub path: String,
    pub troubles: Vec<String>,
    /// Where damaged parts are kept after a repair.
    pub aside: Vec<PathBuf>,
    pub is_repaired: bool,
    /// Its session was deleted here: whatever brought the folder back, it is left alone.
    pub is_deleted_here: bool,
}

impl Engine {
    /// Reads every folder of the workspace completely.
    pub async fn check_folders(&self, user: &str, repair: bool) -> Result<Vec<FolderHealth>> {
        let mut healths = Vec::new();
        let Some(workspace) = self.workspace.clone() else { return Ok(healths) };
        for odd in workspace.odd()? {
            let path = odd.path.display().to_string();
            healths.push(FolderHealth { path, troubles: vec![odd.why], ..FolderHealth::default() });
        }
        let root = workspace.root().to_string_lossy().into_owned();
        let mut seen: Vec<String> = Vec::new();
        let scanned = workspace.scan()?;
        let homes = self.store.homes(&root).await?;
        for Housed { id, home, .. } in homes.iter().filter(|one| !one.is_deleted).cloned() {
            if seen.contains(&home.path) {
                continue;
            }
            seen.push(home.path.clone());
            let path = home.path.clone();
            let checked = self.check_folder(id, home, repair).await;
            healths.push(checked.unwrap_or_else(|error| FolderHealth {
                path,
                troubles: vec![error.to_string()],
                ..FolderHealth::default()
            }));
        }
        for one in scanned.iter().filter(|one| !seen.iter().any(|path| path == one.path.as_str())) {
            healths.extend(self.check_unknown(&workspace, user, one, &scanned, repair).await);
        }
        Ok(healths)
    }

    /// Checks a folder without a known session.
    async fn check_unknown(
        &self,
        workspace: &Arc<Workspace>,
        user: &str,
        one: &Seen,
        scanned: &[Seen],
        repair: bool,
    ) -> Option<FolderHealth> {
        let here = Here::new(scanned);
        let mut health = FolderHealth { path: one.path.to_string(), ..FolderHealth::default() };
        let mut followed = FolderReport::default();
        let mut looked = self.arrive(workspace, user, one, &here, &mut followed).await;
        if repair && !followed.troubles.is_empty() {
            followed = FolderReport::default();
            looked = match self.set_wrong_card_aside(workspace, one).await {
                Ok(aside) => {
                    health.is_repaired = aside.is_some();
                    health.aside.extend(aside);
                    self.arrive(workspace, user, one, &here, &mut followed).await
                }
                Err(error) => Err(error),
            };
            health.is_repaired &= looked.is_ok() && followed.troubles.is_empty();
            if health.is_repaired {
                health.troubles.push("session.json named another session than its log".to_owned());
            }
        }
        if !followed.purged_again.is_empty() {
            health.is_repaired = followed.troubles.is_empty();
            health.troubles.push(PURGED_AGAIN.to_owned());
        }
        health.troubles.extend(followed.troubles);
        health.troubles.extend(looked.err().map(|error| error.to_string()));
        health.is_deleted_here = !followed.deleted_here.is_empty();
        let is_worth_telling = health.is_deleted_here || !health.troubles.is_empty();
        is_worth_telling.then_some(health)
    }

    /// Removes a `session.json` that names another session than the log, which has checksums and is trusted.
    async fn set_wrong_card_aside(
        &self,
        workspace: &Workspace,
        one: &Seen,
    ) -> Result<Option<PathBuf>> {
        let Some(folder) = workspace.folder(&one.path)? else { return Ok(None) };
        let locked = lock(folder).await?;
        let roots = roots_of(&locked)?;
        let named = locked.card().ok().flatten().and_then(|card| card.id.parse().ok());
        match named {
            Some(id) if !roots.is_empty() && !roots.contains(&id) => Ok(locked.set_card_aside()?),
            _ => Ok(None),
        }
    }

    /// Restores messages that are damaged in the store from the session's folder, if they match.
    pub(crate) async fn mend_from_folders(&self) -> Result<Vec<Record>> {
        let damaged = self.store.check().await?.records;
        let sessions: BTreeSet<SessionId> = damaged
            .iter()
            .filter(|record| record.kind == "message")
            .filter_map(|record| record.of.as_deref()?.parse().ok())
            .collect();
        let mut mended = Vec::new();
        for id in sessions {
            // A folder that cannot be read must not keep the others from being used.
            let Ok(Some(home)) = self.store.home(id).await else { continue };
            let Ok(Some(place)) = self.enter(id, home).await else { continue };
            let mut texts = Vec::new();
            place.locked.read(0, &mut |item| {
                if let Item::Line { line, .. } = item {
                    texts.push(line.content);
                }
            })?;
            mended.extend(self.store.mend(id, texts).await?);
        }
        Ok(mended)
    }

    async fn check_folder(&self, id: SessionId, home: Home, repair: bool) -> Result<FolderHealth> {
        let mut health = FolderHealth { path: home.path.clone(), ..FolderHealth::default() };
        let Some(place) = self.enter(id, home).await? else { return Ok(health) };
        let mut followed = FolderReport::default();
        let is_merged = || place.locked.card().ok().flatten().is_some_and(|card| card.is_merged);
        let was_merged = is_merged();
        self.reconcile(&place, &mut followed).await?;
        health.troubles = followed.troubles;
        if was_merged && health.troubles.is_empty() {
            health.is_repaired = !is_merged();
            health.troubles.push(TWICE.to_owned());
            return Ok(health);
        }
        if !repair || health.troubles.is_empty() {
            return Ok(health);
        }
        drop(place);
        // It may have been renamed.
        let Some(home) = self.store.home(id).await? else { return Ok(health) };
        let Some(place) = self.enter(id, home).await? else { return Ok(health) };
        self.rewrite(&place, None, &mut health).await?;
        if place.locked.card().ok().flatten().is_some_and(|card| card.id != id.to_string()) {
            health.aside.extend(place.locked.set_card_aside()?);
        }
        let mut after = FolderReport::default();
        self.reconcile(&place, &mut after).await?;
        health.is_repaired = after.troubles.is_empty();
        if !health.is_repaired {
            health.troubles = after.troubles;
        }
        Ok(health)
    }

    /// Rewrites the log of a folder: what the store has is written from there, and what it does not have is kept, as it may be
    /// somebody's text. The lines of `without`, which is about to be erased, are left out.
    pub(super) async fn rewrite(
        &self,
        place: &Place,
        without: Option<SessionId>,
        health: &mut FolderHealth,
    ) -> Result<()> {
        let mut pieces = Vec::new();
        place.locked.read(0, &mut |item| pieces.push(Piece::of(item)))?;
        let wanted = self.projection(place, without).await?;
        let order: Vec<&str> = wanted.iter().map(|line| line.id.as_str()).collect();
        let at: HashMap<&str, usize> = order.iter().copied().zip(0..).collect();
        let intact: HashMap<&str, &Piece> = pieces
            .iter()
            .filter(|piece| piece.is_intact)
            .filter_map(|piece| Some((piece.id.as_deref()?, piece)))
            .collect();
        // Unknown parts stay behind the line that they follow.
        let mut behind: HashMap<Option<usize>, Vec<&Piece>> = HashMap::new();
        let mut before = None;
        for piece in &pieces {
            let place_of = piece.id.as_deref().and_then(|id| at.get(id)).copied();
            let next = before.map_or(0, |before: usize| before + 1);
            // Unreadable bytes stand for the message that is missing there, if there is one.
            let is_known = place_of.is_some()
                || piece.id.is_none() && order.get(next).is_some_and(|id| !intact.contains_key(id));
            if let Some(place_of) = place_of {
                before = Some(place_of);
            }
            let is_erased = without.is_some() && piece.is_intact;
            if !piece.is_intact && (is_known || piece.is_mark) {
                let aside = place.locked.keep_aside(&place.locked.bytes(piece.at.clone())?)?;
                if !health.aside.contains(&aside) {
                    health.aside.push(aside);
                }
            } else if !is_known && !is_erased {
                behind.entry(before).or_default().push(piece);
            }
        }
        let mut entries = Vec::new();
        let raw = |piece: &Piece| Ok::<_, Error>(Entry::Raw(place.locked.bytes(piece.at.clone())?));
        for piece in behind.remove(&None).unwrap_or_default() {
            entries.push(raw(piece)?);
        }
        for (index, line) in wanted.iter().enumerate() {
            // An intact line is kept byte for byte, unless its text was purged.
            entries.push(match intact.get(line.id.as_str()) {
                Some(piece)
                    if without.is_none()
                        && (piece.is_purged || look::purged_at(line).is_none()) =>
                {
                    raw(piece)?
                }
                _ => Entry::Line(line.clone()),
            });
            for piece in behind.remove(&Some(index)).unwrap_or_default() {
                entries.push(raw(piece)?);
            }
        }
        place.locked.replace_log(&mut entries.into_iter())?;
        Ok(())
    }

    /// Every line that a folder has to have.
    async fn projection(&self, place: &Place, without: Option<SessionId>) -> Result<Vec<Line>> {
        let mut entries = Vec::new();
        let mut sessions = self.sessions_in(&place.home.root, &place.home.path).await?;
        sessions.retain(|session| Some(session.id) != without);
        for (index, session) in sessions.iter().enumerate() {
            let owners = self.owners(session).await?;
            let mut seq = if index == 0 { 0 } else { session.forked_from.map_or(0, |one| one.seq) };
            let mut after = self.line_before(session, seq + 1).await?;
            while seq < session.last_seq {
                let page = self.page(session, seq + 1).await?;
                let Some(last) = page.last().map(|message| message.seq) else { break };
                for message in &page {
                    let id = owners.line_id(message);
                    // If a message is damaged in the store, the folder may have the only copy.
                    let kept = if message.is_damaged() { kept(place, &id, &after)? } else { None };
                    let line =
                        kept.unwrap_or_else(|| lines::line(id, &after, message, &self.redactor).0);
                    after.clone_from(&line.id);
                    entries.push(line);
                }
                seq = last;
            }
        }
        Ok(entries)
    }
}

/// A line of a log, or what is left of one.
struct Piece {
    id: Option<String>,
    at: Range<u64>,
    /// Whether it is intact.
    is_intact: bool,
    is_purged: bool,
    /// Whether it is a conflict marker of git.
    is_mark: bool,
}

impl Piece {
    fn of(item: Item) -> Self {
        let broken = |id, at| Self { id, at, is_intact: false, is_purged: false, is_mark: false };
        match item {
            Item::Line { line, at, .. } if lines::check(&line).is_ok() => {
                let is_purged = look::purged_at(&line).is_some();
                Self { id: Some(line.id), at, is_intact: true, is_purged, is_mark: false }
            }
            Item::Line { line, at, .. } => broken(Some(line.id), at),
            Item::Written { line, at, .. } | Item::Edited { line, at, .. } => broken(line.id, at),
            Item::Damaged { at, .. } => broken(None, at),
            Item::Conflict { at, .. } => Self { is_mark: true, ..broken(None, at) },
            // It stays where it is, whatever it says.
            Item::Newer { at, .. } => Self { is_intact: true, ..broken(None, at) },
        }
    }
}

/// The folder's line with this id, or with this predecessor.
fn kept(place: &Place, id: &str, after: &str) -> Result<Option<Line>> {
    let mut found = None;
    place.locked.read(0, &mut |item| {
        if let Item::Line { line, .. } = item
            && (line.id == id || line.after == after)
        {
            found = Some(line);
        }
    })?;
    Ok(found)
}
