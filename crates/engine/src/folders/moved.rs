//! A known session that turns up in another folder: it was moved, its workspace was moved or cloned, or somebody copied the folder
//! into another project. A copy is never written to, and nothing is imported from it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rethread_domain::{Fact, SessionId};
use rethread_store::Home;
use rethread_workspace::{self as workspace, FolderPath, Seen, Workspace};

use super::twice::Kept;
use super::{FolderReport, Place};
use crate::{Engine, Result};

/// The folders of a workspace during a scan.
pub(super) struct Here<'seen> {
    pub(super) paths: HashSet<&'seen str>,
    /// Other workspaces, and whether each belongs to the same repository: git is asked once for each.
    related: Mutex<HashMap<String, bool>>,
}

impl<'seen> Here<'seen> {
    pub(super) fn new(seen: &'seen [Seen]) -> Self {
        let paths = seen.iter().map(|one| one.path.as_str()).collect();
        Self { paths, related: Mutex::default() }
    }

    fn is_related(&self, root: &Path, other: &str) -> bool {
        let mut related = self.related.lock().unwrap_or_else(PoisonError::into_inner);
        *related
            .entry(other.to_owned())
            .or_insert_with(|| workspace::is_same_repository(root, Path::new(other)))
    }
}

impl Engine {
    pub(super) async fn moved_here(
        &self,
        place: Place,
        id: SessionId,
        workspace: &Workspace,
        here: &Here<'_>,
        followed: &mut FolderReport,
    ) -> Result<()> {
        match self.store.home(id).await? {
            Some(home) if home.root != place.home.root => {
                if self.is_copied(&home, workspace, here).await? {
                    followed.troubles.push(format!(
                        "{}: this folder is a copy of session {}, which lives in {}: left alone, nothing is read from it or written to it",
                        place.home.path,
                        id.short(),
                        home.root
                    ));
                    return Ok(());
                }
                self.move_homes(&home, &place.home.root, &place.path).await?;
            }
            Some(home) if home.path == place.home.path => (),
            Some(home) if here.paths.contains(home.path.as_str()) => {
                return self.found_twice(place, id, &home, followed).await;
            }
            Some(home) => self.move_homes(&home, &place.home.root, &place.path).await?,
            None => self.store.set_home(id, place.home.clone()).await?,
        }
        let session = self.store.session(id).await?;
        if !Path::new(&session.project).exists() {
            let project = place.home.root.clone();
            self.change_alone(id, |_| Ok(Fact::Rehomed { project: project.clone() })).await?;
        }
        self.reconcile(&place, followed).await
    }

    /// Whether the session still lives in another project, so that this folder is only a copy. Clones of one repository, and moved
    /// ones, are the same project.
    async fn is_copied(&self, home: &Home, here: &Workspace, seen: &Here<'_>) -> Result<bool> {
        if !Path::new(&home.root).is_dir() {
            return Ok(false);
        }
        let there = match Workspace::open(Path::new(&home.root)) {
            Ok(there) => there,
            Err(workspace::Error::NotAWorkspace(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let path: FolderPath = home.path.parse()?;
        let is_there = match there.folder(&path)? {
            Some(folder) => folder.stamp()?.is_some() || folder.card_stamp()?.is_some(),
            None => self.renamed(&there, home).await?.is_some(),
        };
        Ok(is_there && !seen.is_related(here.root(), &home.root))
    }

    /// Two folders of this workspace claim to be the same session.
    async fn found_twice(
        &self,
        place: Place,
        id: SessionId,
        home: &Home,
        followed: &mut FolderReport,
    ) -> Result<()> {
        let (root, path) = (place.home.root.clone(), place.path.clone());
        match self.bring_together(place, id, &home.path.parse()?, followed).await? {
            Kept::Both(place) => {
                followed.troubles.push(format!(
                    "{} and {} both say that they are session {}: the second is left alone",
                    home.path,
                    place.home.path,
                    id.short()
                ));
                return Ok(());
            }
            Kept::This(place) => {
                drop(place);
                self.move_homes(home, &root, &path).await?;
            }
            Kept::Other => (),
        }
        followed.add(self.follow(id).await?);
        Ok(())
    }
}
