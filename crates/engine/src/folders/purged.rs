//! Removes purged texts from folders too: from their lines and their names, even if git brings them back.

use rethread_domain::{SessionId, summary};
use rethread_store::Housed;
use rethread_workspace::topic;

use super::{FolderHealth, FolderReport, Place, topic_of};
use crate::{Engine, Result};

impl Engine {
    /// Removes a purged text from the folders of all sessions that have it. `title` is the one that was made from it.
    pub(crate) async fn purge_folders(&self, id: SessionId, title: Option<&str>) -> Result<()> {
        let Some(home) = self.store.home(id).await? else { return Ok(()) };
        let mut followed = FolderReport::default();
        for Housed { id, home, is_behind, is_deleted } in self.store.homes(&home.root).await? {
            if !is_behind || is_deleted {
                continue;
            }
            let Some(place) = self.enter(id, home).await? else { continue };
            self.reconcile(&place, &mut followed).await?;
            let now = self.store.home(id).await?;
            let has_moved = now.is_none_or(|now| now.path != place.home.path);
            if let Some(title) = title.filter(|_| !has_moved) {
                self.rename_folder(&place, id, title, &mut followed).await?;
            }
        }
        self.note(followed);
        Ok(())
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
            if self.rename_folder(place, id, &title, followed).await? {
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
        title: &str,
        followed: &mut FolderReport,
    ) -> Result<bool> {
        let made = topic(&self.redactor.redact(title).text);
        let made = &made[..made.floor_char_boundary(40)];
        if !place.path.topic().starts_with(made) {
            return Ok(false);
        }
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
