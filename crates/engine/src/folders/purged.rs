//! Removes purged texts from folders too: from their lines and their names, even if git brings them back.

use rethread_domain::{Seq, SessionId, summary};
use rethread_workspace::{FolderPath, topic};

use super::{FolderHealth, FolderReport, Place, topic_of};
use crate::{Engine, Result};

impl Engine {
    /// The sessions that have a message and whose folder has a name that was made from it. `title` is the one that is made from it.
    pub(crate) async fn named_after(
        &self,
        id: SessionId,
        seq: Seq,
        title: &str,
    ) -> Result<Vec<SessionId>> {
        let mut named = Vec::new();
        for sharer in self.store.sharers(id, seq).await? {
            let home = self.store.home(sharer).await?;
            let path = home.and_then(|home| home.path.parse::<FolderPath>().ok());
            if path.is_some_and(|path| self.is_named_after(&path, title)) {
                named.push(sharer);
            }
        }
        Ok(named)
    }

    fn is_named_after(&self, path: &FolderPath, title: &str) -> bool {
        let made = topic(&self.redactor.redact(title).text);
        path.topic().starts_with(&made[..made.floor_char_boundary(40)])
    }

    /// Removes a purged text from the folders of the sessions that have it, and renames those whose name was made from it. Returns
    /// whether any was renamed.
    pub(crate) async fn purge_folders(
        &self,
        sharers: &[SessionId],
        renames: &[SessionId],
    ) -> Result<bool> {
        let mut followed = FolderReport::default();
        let mut any_renamed = false;
        for id in sharers {
            let Some(home) = self.store.home(*id).await? else { continue };
            if self.store.session(*id).await?.deleted_at.is_some() {
                continue;
            }
            let Some(place) = self.enter(*id, home).await? else { continue };
            self.reconcile(&place, &mut followed).await?;
            let now = self.store.home(*id).await?;
            let has_moved = now.is_none_or(|now| now.path != place.home.path);
            any_renamed |= has_moved;
            if renames.contains(id) && !has_moved {
                any_renamed |= self.rename_folder(&place, *id, &mut followed).await?;
            }
        }
        self.note(followed);
        Ok(any_renamed)
    }

    /// Removes purged texts from a folder, and from its name if that was made from one of them.
    pub(super) async fn forget_purged(
        &self,
        place: &Place,
        id: SessionId,
        texts: &[String],
        followed: &mut FolderReport,
    ) -> Result<()> {
        if !texts.is_empty() {
            self.rewrite(place, None, &mut FolderHealth::default()).await?;
        }
        for title in texts.iter().filter_map(|text| summary::title(text)) {
            if self.is_named_after(&place.path, &title)
                && self.rename_folder(place, id, followed).await?
            {
                break;
            }
        }
        Ok(())
    }

    /// Renames a folder whose name was made from a purged text. Returns whether it has moved.
    async fn rename_folder(
        &self,
        place: &Place,
        id: SessionId,
        followed: &mut FolderReport,
    ) -> Result<bool> {
        let session = self.store.session(id).await?;
        let title = session.title.as_deref().unwrap_or_default();
        let topic = topic_of(&self.redactor.redact(title).text, id);
        let workspace = self.workspace_of(&place.home)?;
        let to = match workspace.rename(&place.path, &topic) {
            Ok(to) => to,
            Err(error) => {
                followed.troubles.push(format!(
                    "{}: its name has words of a text that was purged, and could not be changed: {error}",
                    place.path
                ));
                return Ok(false);
            }
        };
        if to == place.path {
            return Ok(false);
        }
        self.move_homes(&place.home, &place.home.root, &to).await?;
        Ok(true)
    }
}
