//! Checking folders, and writing those anew that are damaged. What was damaged is kept aside.

use std::path::PathBuf;

use rethread_domain::SessionId;
use rethread_store::{Home, Housed};
use rethread_workspace::{Entry, Item, Line};

use super::{Followed, Place, lines};
use crate::{Engine, Result};

/// What is wrong in one folder, and what was done about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderHealth {
    pub path: String,
    pub troubles: Vec<String>,
    /// Where damaged parts are kept, after a repair.
    pub aside: Vec<PathBuf>,
    pub is_repaired: bool,
}

impl Engine {
    /// Reads every folder of the workspace from beginning to end.
    pub async fn check_folders(&self, repair: bool) -> Result<Vec<FolderHealth>> {
        let mut healths = Vec::new();
        let Some(workspace) = self.workspace.clone() else { return Ok(healths) };
        for odd in workspace.odd()? {
            let path = odd.path.display().to_string();
            healths.push(FolderHealth { path, troubles: vec![odd.why], ..FolderHealth::default() });
        }
        let root = workspace.root().to_string_lossy().into_owned();
        let mut seen: Vec<String> = Vec::new();
        for Housed { id, home, .. } in self.store.homes(&root).await? {
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
        Ok(healths)
    }

    async fn check_folder(&self, id: SessionId, home: Home, repair: bool) -> Result<FolderHealth> {
        let mut health = FolderHealth { path: home.path.clone(), ..FolderHealth::default() };
        let Some(place) = self.enter(id, home).await? else { return Ok(health) };
        let mut followed = Followed::default();
        self.reconcile(&place, &mut followed).await?;
        health.troubles = followed.troubles;
        if !repair || health.troubles.is_empty() {
            return Ok(health);
        }
        self.rewrite(&place, &mut health).await?;
        let mut after = Followed::default();
        self.reconcile(&place, &mut after).await?;
        health.is_repaired = after.troubles.is_empty();
        Ok(health)
    }

    /// Writes the log of a folder anew from the store.
    async fn rewrite(&self, place: &Place, health: &mut FolderHealth) -> Result<()> {
        let mut damaged = Vec::new();
        let mut newer = Vec::new();
        place.locked.read(0, &mut |item| match item {
            // What people added is ours by now: what is left of it is none that we could take.
            Item::Edited { at, .. }
            | Item::Written { at, .. }
            | Item::Damaged { at, .. }
            | Item::Conflict { at, .. } => damaged.push(at),
            Item::Line { line, at, .. } if lines::check(&line).is_err() => damaged.push(at),
            Item::Newer { at, .. } => newer.push(at),
            Item::Line { .. } => (),
        })?;
        for at in damaged {
            let bytes = place.locked.bytes(at)?;
            let aside = place.locked.keep_aside(&bytes)?;
            if !health.aside.contains(&aside) {
                health.aside.push(aside);
            }
        }
        let mut entries = self.projection(place).await?;
        for at in newer {
            entries.push(Entry::Raw(place.locked.bytes(at)?));
        }
        place.locked.replace_log(&mut entries.into_iter())?;
        Ok(())
    }

    /// Every line that a folder has to have.
    pub(super) async fn projection(&self, place: &Place) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let sessions = self.sessions_in(&place.home.root, &place.home.path).await?;
        for (index, session) in sessions.iter().enumerate() {
            let owners = self.owners(session).await?;
            let mut seq = if index == 0 { 0 } else { session.forked_from.map_or(0, |one| one.seq) };
            let mut after = self.line_before(session, seq + 1).await?;
            while seq < session.last_seq {
                let page = self.page(session, seq + 1).await?;
                let Some(last) = page.last().map(|message| message.seq) else { break };
                for message in &page {
                    let id = owners.line_id(message);
                    // Of what is damaged in the store, the folder may have the only copy.
                    let kept = if message.is_damaged() { kept(place, &id, &after)? } else { None };
                    let line =
                        kept.unwrap_or_else(|| lines::line(id, &after, message, &self.redactor).0);
                    after.clone_from(&line.id);
                    entries.push(Entry::Line(line));
                }
                seq = last;
            }
        }
        Ok(entries)
    }

    /// Writes the log of a session's folder anew, so that what was purged is not in it any more.
    pub(crate) async fn purge_folder(&self, id: SessionId) -> Result<()> {
        let Some(home) = self.store.home(id).await? else { return Ok(()) };
        let Some(place) = self.enter(id, home).await? else { return Ok(()) };
        let mut followed = Followed::default();
        // What came meanwhile is not to be lost.
        self.reconcile(&place, &mut followed).await?;
        let mut newer = Vec::new();
        place.locked.read(0, &mut |item| {
            if let Item::Newer { at, .. } = item {
                newer.push(at);
            }
        })?;
        let mut entries = self.projection(&place).await?;
        for at in newer {
            entries.push(Entry::Raw(place.locked.bytes(at)?));
        }
        place.locked.replace_log(&mut entries.into_iter())?;
        self.reconcile(&place, &mut followed).await?;
        self.note(followed);
        Ok(())
    }
}

/// The line that a folder has with this id, or after this line.
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
