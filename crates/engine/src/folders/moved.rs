//! A known session that turns up in another folder: it was moved, its workspace was moved or cloned, or somebody copied the folder
//! into another project. A copy is never written to, and nothing is imported from it.
//!
//! Anybody can write the id of a session into a folder. That alone gives a folder no right to what was said in the session, nor to
//! change it: the session was held in this project, or the folder has what was said.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rethread_domain::{Fact, Seq, Session, SessionId};
use rethread_store::{Home, Order, Span};
use rethread_workspace::{self as workspace, FolderPath, Item, Seen, Workspace};

use super::twice::Kept;
use super::{FolderReport, PAGE, Place};
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

/// What is said of a folder that has the id of a session and nothing else of it.
fn foreign(place: &Place, session: &Session) -> String {
    format!(
        "{}: this folder says that it is session {}, which was held in {}: left alone, nothing is read from it or written to it",
        place.home.path,
        session.id.short(),
        session.project
    )
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
        let session = self.store.session(id).await?;
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
                if !Self::is_held_here(&session, workspace, here)
                    && !self.has_what_was_said(&session, &place).await?
                {
                    followed.troubles.push(foreign(&place, &session));
                    return Ok(());
                }
                self.move_homes(&home, &place.home.root, &place.path).await?;
            }
            Some(home) if home.path == place.home.path => (),
            Some(home) if here.paths.contains(home.path.as_str()) => {
                return self.found_twice(place, id, &home, followed).await;
            }
            Some(home) => self.move_homes(&home, &place.home.root, &place.path).await?,
            None => {
                let is_gone = !Path::new(&session.project).exists();
                let is_held = Self::is_held_here(&session, workspace, here)
                    || is_gone && self.has_what_was_said(&session, &place).await?;
                if !is_held {
                    followed.troubles.push(foreign(&place, &session));
                    return Ok(());
                }
                self.store.set_home(id, place.home.clone()).await?;
            }
        }
        if !Path::new(&session.project).exists() {
            let project = place.home.root.clone();
            self.change_alone(id, |_| Ok(Fact::Rehomed { project: project.clone() })).await?;
        }
        self.reconcile(&place, followed).await
    }

    /// Whether a session was held in the project of this workspace, or in a clone of it.
    fn is_held_here(session: &Session, here: &Workspace, seen: &Here<'_>) -> bool {
        Path::new(&session.project).starts_with(here.root())
            || seen.is_related(here.root(), &session.project)
    }

    /// Whether the log of a folder has one of the first messages of a session, with its text.
    async fn has_what_was_said(&self, session: &Session, place: &Place) -> Result<bool> {
        let masked = |text: &str| self.redactor().redact(text).text.into_owned();
        let owners = self.owners(session).await?;
        let span = Span { from: 1, to: Seq::MAX, order: Order::OldestFirst, limit: PAGE };
        let said: HashMap<String, String> = self
            .store
            .messages(session.id, span)
            .await?
            .iter()
            .filter(|message| message.purged_at.is_none())
            .filter_map(|message| Some((message, message.body.whole()?)))
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(message, text)| (owners.line_id(message), masked(text)))
            .collect();
        let mut has_it = false;
        place.locked.read(0, &mut |item| {
            if let Item::Line { line, .. } = item {
                has_it |= said.get(&line.id).is_some_and(|text| *text == masked(&line.content));
            }
        })?;
        Ok(has_it)
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
