//! Finding the folder of a session again after it was moved: by the remote of its repository, or by a commit that it had.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rethread_domain::fact::Origin;
use rethread_domain::{Fact, Session};
use rethread_store::ListFilter;
use rethread_workspace::{self as workspace, remote};

use crate::{Engine, Result};

/// So many folders beside the one that is gone are looked at, and so many sessions are asked for theirs.
const MOST_BESIDE: usize = 500;
const MOST_SESSIONS: u32 = 1_000;

/// The repository of a session's folder: as its files say, or as an agent noted it when the folder is gone already.
pub(crate) fn origin_of(folder: Option<&str>, noted: Option<&str>) -> Option<Origin> {
    let here = folder.and_then(|folder| remote(Path::new(folder)));
    let here = here.map(|found| Origin { remote: found.address, within: found.within });
    let noted = || {
        let remote = workspace::address(noted?)?;
        Some(Origin { remote, within: String::new() })
    };
    here.or_else(noted)
}

impl Engine {
    /// Where the folder of a session is now, if it is gone: every clone of its repository that is known here or lies beside the
    /// old place. `near` is looked at first.
    pub async fn moved_to(&self, session: &Session, near: &Path) -> Result<Vec<PathBuf>> {
        let facts = self.store.facts(session.id).await?;
        let origin = facts.into_iter().rev().find_map(|one| match one.fact {
            Fact::Imported { origin, .. } => origin,
            _ => None,
        });
        let commit = session.repository.as_ref().map(|repository| repository.head.clone());
        if origin.is_none() && commit.is_none() {
            return Ok(Vec::new());
        }
        let mut found = BTreeSet::new();
        for place in self.places(session, near).await? {
            let Some(top) = place.ancestors().find(|folder| folder.join(".git").exists()) else {
                continue;
            };
            let is_origin =
                |origin: &Origin| remote(top).is_some_and(|remote| remote.address == origin.remote);
            let within = match &origin {
                Some(origin) => is_origin(origin).then_some(origin.within.as_str()),
                None => commit.as_ref().filter(|it| workspace::has_commit(top, it)).map(|_| ""),
            };
            let Some(within) = within else { continue };
            let folder = if within.is_empty() { top.to_owned() } else { top.join(within) };
            if folder.is_dir() {
                found.insert(folder);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Folders that may be the new place.
    async fn places(&self, session: &Session, near: &Path) -> Result<Vec<PathBuf>> {
        let mut places = vec![near.to_owned()];
        let old = Path::new(&session.project);
        if let Some(above) = old.ancestors().skip(1).find(|folder| folder.is_dir()) {
            let beside = std::fs::read_dir(above).into_iter().flatten().flatten();
            places.extend(beside.take(MOST_BESIDE).map(|entry| entry.path()));
        }
        let filter = ListFilter {
            user: Some(session.user.clone()),
            limit: MOST_SESSIONS,
            ..ListFilter::default()
        };
        places.extend(self.store.list(&filter).await?.into_iter().map(|one| one.project.into()));
        places.sort();
        places.dedup();
        places.retain(|place: &PathBuf| place.is_dir());
        Ok(places)
    }
}
