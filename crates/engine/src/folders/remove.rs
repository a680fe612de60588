//! Removes the folder of a deleted session, and keeps it from coming back.

use std::path::Path;

use rethread_domain::{Session, SessionId};
use rethread_store::{Home, Order, Span};
use rethread_workspace::{self as workspace, FolderPath};

use super::{FolderReport, Place, lock, repair, unseen};
use crate::{Engine, Result};

impl Engine {
    /// Whether git has the folder of a session.
    pub async fn is_committed(&self, id: SessionId) -> Result<bool> {
        Ok(self.folder_of(id).await?.is_some_and(|folder| workspace::is_tracked(&folder)))
    }

    /// Removes the folder of a deleted session. Problems are reported later.
    pub(crate) async fn remove_folder(&self, session: &Session, for_good: bool) {
        let mut followed = FolderReport::default();
        if let Err(error) = self.remove_from(session, for_good, &mut followed).await {
            followed.troubles.push(format!("its folder could not be removed: {error}"));
        }
        self.note(followed);
    }

    async fn remove_from(
        &self,
        session: &Session,
        for_good: bool,
        followed: &mut FolderReport,
    ) -> Result<()> {
        let Some(home) = self.store.home(session.id).await? else { return Ok(()) };
        if !Path::new(&home.root).is_dir() {
            followed.troubles.push(format!(
                "its folder {} could not be removed: {} is not there",
                home.path, home.root
            ));
            return Ok(());
        }
        let workspace = self.workspace_of(&home)?;
        let path: FolderPath = home.path.parse()?;
        let Some(folder) = workspace.folder(&path)? else { return Ok(()) };
        let locked = lock(folder).await?;
        let others = self.sessions_in(&home.root, &home.path).await?.into_iter();
        let living = others.filter(|one| one.id != session.id && one.deleted_at.is_none()).count();
        if living > 0 {
            followed.troubles.push(format!(
                "{} stays: {living} other {} of the session there",
                home.path,
                if living == 1 { "branch is" } else { "branches are" }
            ));
            if for_good {
                let place = Place { locked, path, home };
                self.rewrite(&place, Some(session.id), &mut repair::FolderHealth::default())
                    .await?;
                place.locked.remove_card()?;
            }
            return Ok(());
        }
        let left = workspace.remove(locked, &session.kind, for_good)?;
        for path in left {
            followed.troubles.push(format!("{} is not ours: it stays", path.display()));
        }
        // It is written again as a whole if the session is restored.
        let empty = unseen(Path::new(&home.root), &path, session.id);
        self.store.set_home(session.id, Home { told: String::new(), ..empty }).await?;
        Ok(())
    }

    /// Remembers that a session was erased, so that no folder brings it back.
    pub(crate) async fn bury(&self, session: &Session) -> Result<()> {
        let Some(home) = self.store.home(session.id).await? else { return Ok(()) };
        let mut ids = vec![session.id.to_string()];
        // Branches keep what they share with it: only what comes after that is erased.
        let mut firsts = vec![session.forked_from.map_or(1, |origin| origin.seq + 1)];
        for other in self.sessions_in(&home.root, &home.path).await? {
            let shared = other.forked_from.filter(|origin| origin.session == session.id);
            firsts.extend(shared.map(|origin| origin.seq + 1));
        }
        let owners = self.owners(session).await?;
        for seq in firsts {
            let span = Span { from: seq, to: seq, order: Order::OldestFirst, limit: 1 };
            let found = self.store.heads(session.id, span).await?;
            ids.extend(found.iter().map(|message| owners.line_id(message)));
        }
        Ok(self.store.bury(ids, self.clock.now()).await?)
    }
}
