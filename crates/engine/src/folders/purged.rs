//! Text that was purged leaves folders too: their lines, their names, and whatever git puts back later.

use rethread_domain::SessionId;
use rethread_store::Housed;
use rethread_workspace::{FolderPath, topic};

use super::{Followed, Place, topic_of};
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
            let Some(mut place) = self.enter(id, home).await? else { continue };
            self.reconcile(&place, &mut followed).await?;
            let has_moved = followed.separated.iter().any(|(moved, _)| *moved == id);
            if let Some(title) = title.filter(|_| !has_moved) {
                self.rename_folder(&mut place, id, title).await?;
            }
        }
        self.note(followed);
        Ok(())
    }

    /// Gives a folder another name where its own was made of a text that is gone.
    async fn rename_folder(&self, place: &mut Place, id: SessionId, title: &str) -> Result<()> {
        let made = topic(&self.redactor.redact(title).text);
        let made = &made[..made.floor_char_boundary(40)];
        if !place.path.topic().starts_with(made) {
            return Ok(());
        }
        let session = self.store.session(id).await?;
        let title = session.title.as_deref().unwrap_or_default();
        let topic = topic_of(&self.redactor.redact(title).text, id);
        let workspace = self.workspace_of(&place.home)?;
        let to: FolderPath = workspace.rename(&place.path, &topic)?;
        let root = place.home.root.clone();
        self.move_homes(&place.home, &root, &to).await?;
        place.path = to;
        Ok(())
    }
}
