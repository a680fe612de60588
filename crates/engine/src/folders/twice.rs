//! Two folders of one session in one workspace: git brought back one that had been renamed because a text was purged.
//!
//! If one has the text of a message and the other the mark that it was purged, the mark wins: the folder with the mark stays, the
//! lines that only the other one has go there, and the other one is removed. Two folders that agree on what is purged are copies,
//! and are left alone.

use std::collections::HashSet;
use std::ops::Range;

use rethread_domain::SessionId;
use rethread_workspace::{Entry, FolderPath, Item, Locked, Workspace, is_kind_name};

use super::moved::Here;
use super::{FolderReport, Place, lock, look};
use crate::{Engine, Result};

/// Which of two folders of one session stay. The one that was examined is returned.
pub(super) enum Kept {
    Both(Place),
    This(Place),
    Other,
}

/// A log: which messages it has, and which of them are purged.
#[derive(Default)]
struct Copy {
    said: HashSet<String>,
    purged: HashSet<String>,
    parts: Vec<Part>,
    torn: Option<Range<u64>>,
}

struct Part {
    at: Range<u64>,
    /// For an intact line.
    id: Option<String>,
    is_purged: bool,
}

impl Copy {
    fn read(locked: &Locked) -> Result<Self> {
        let mut copy = Self::default();
        let end = locked.read(0, &mut |item| {
            let (at, line) = match item {
                Item::Line { line, at, .. } => (at, Some(line)),
                Item::Written { at, .. }
                | Item::Edited { at, .. }
                | Item::Newer { at, .. }
                | Item::Conflict { at, .. }
                | Item::Damaged { at, .. } => (at, None),
            };
            let is_purged = line.as_ref().is_some_and(|line| look::purged_at(line).is_some());
            let id = line.map(|line| line.id);
            let ids = if is_purged { &mut copy.purged } else { &mut copy.said };
            ids.extend(id.clone());
            copy.parts.push(Part { at, id, is_purged });
        })?;
        copy.torn = end.torn;
        Ok(copy)
    }

    /// Whether this has a text that is purged in the other.
    fn says_what_is_purged_in(&self, other: &Self) -> bool {
        self.said.iter().any(|id| other.purged.contains(id))
    }

    /// Whether a line adds nothing to this.
    fn has(&self, part: &Part) -> bool {
        part.id
            .as_ref()
            .is_some_and(|id| self.purged.contains(id) || !part.is_purged && self.said.contains(id))
    }
}

impl Engine {
    /// Another folder of a session that is not known yet: our folder names end with a part of the id.
    pub(super) fn twin(
        workspace: &Workspace,
        id: SessionId,
        path: &FolderPath,
        here: &Here<'_>,
    ) -> Result<Option<FolderPath>> {
        let end = format!("-{}", id.short());
        let named = here.paths.iter().filter(|other| other.ends_with(&end));
        for other in named.filter(|other| **other != path.as_str()) {
            let other: FolderPath = other.parse()?;
            let folder = workspace.folder(&other)?;
            let card = folder.and_then(|folder| folder.card().ok().flatten());
            if card.is_some_and(|card| card.id == id.to_string()) {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Merges two folders that do not agree on what is purged.
    pub(super) async fn bring_together(
        &self,
        place: Place,
        id: SessionId,
        other: &FolderPath,
        followed: &mut FolderReport,
    ) -> Result<Kept> {
        let workspace = self.workspace_of(&place.home)?;
        let Some(folder) = workspace.folder(other)? else { return Ok(Kept::Both(place)) };
        let there = lock(folder).await?;
        let (own, others) = (Copy::read(&place.locked)?, Copy::read(&there)?);
        if own.says_what_is_purged_in(&others) {
            add(&there, &others, &place.locked, &own)?;
            remove(&workspace, place.locked, followed)?;
            followed.purged_again.push(id);
            Ok(Kept::Other)
        } else if others.says_what_is_purged_in(&own) {
            add(&place.locked, &own, &there, &others)?;
            remove(&workspace, there, followed)?;
            followed.purged_again.push(id);
            Ok(Kept::This(place))
        } else {
            Ok(Kept::Both(place))
        }
    }
}

/// Adds what only one log has to the other.
fn add(to: &Locked, known: &Copy, from: &Locked, copy: &Copy) -> Result<()> {
    if let Some(torn) = &copy.torn {
        to.keep_aside(&from.bytes(torn.clone())?)?;
    }
    let mut all = Vec::new();
    for part in &known.parts {
        all.push(to.bytes(part.at.clone())?);
    }
    let here: HashSet<Vec<u8>> = all.iter().map(|line| line.trim_ascii().to_vec()).collect();
    let before = all.len();
    for part in copy.parts.iter().filter(|part| !known.has(part)) {
        let mut bytes = from.bytes(part.at.clone())?;
        if !here.contains(bytes.trim_ascii()) {
            if bytes.last() != Some(&b'\n') {
                bytes.push(b'\n');
            }
            all.push(bytes);
        }
    }
    if all.len() > before {
        to.truncate_torn()?;
        to.replace_log(&mut all.into_iter().map(Entry::Raw))?;
    }
    Ok(())
}

fn remove(workspace: &Workspace, locked: Locked, followed: &mut FolderReport) -> Result<()> {
    let path = locked.path().clone();
    let card = locked.card().ok().flatten();
    let kind = card.map(|card| card.kind).filter(|kind| is_kind_name(kind));
    let left = workspace.remove(locked, kind.as_deref().unwrap_or(path.kind()), false)?;
    for path in left {
        followed.troubles.push(format!(
            "{} is not ours: it stays, in a folder that had a text which was purged",
            path.display()
        ));
    }
    Ok(())
}
