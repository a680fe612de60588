//! Text that was purged leaves folders too: their lines, their names, and whatever git puts back later.

use rethread_domain::{SessionId, summary};
use rethread_store::Housed;
use rethread_workspace::topic;

use super::{FolderHealth, Followed, Place, topic_of};
use crate::{Engine, Result};

impl Engine {
    /// Takes a purged text out of the folders of all sessions that have it. `title` is the one that was made of it.
    pub(crate) async fn purge_folders(&self, id: SessionId, title: Option<&str>) -> Result<()> {
        let Some(home) = self.store.home(id).await? else { return Ok(()) };
        let mut followed = Followed::default();
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

    /// Takes texts that are purged out of a folder, and out of its name where that was made of one of them.
    pub(super) async fn forget_purged(
        &self,
        place: &Place,
        id: SessionId,
        texts: &[String],
        followed: &mut Followed,
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

    /// Gives a folder another name where its own was made of a text that is gone. Gives whether it has moved.
    async fn rename_folder(
        &self,
        place: &Place,
        id: SessionId,
        title: &str,
        followed: &mut Followed,
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
