//! Folders that have to be there again, and those that were made for nothing.

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::Workspace;
use crate::error::{Doing, Error};
use crate::folder::{CONVERSATIONS, Folder, FolderPath, SESSION};

impl Workspace {
    /// Opens a session's folder, which is made where it is gone.
    pub fn restore(&self, path: &FolderPath) -> Result<Folder, Error> {
        if let Some(folder) = self.folder(path)? {
            return Ok(folder);
        }
        let day = self.place.make(CONVERSATIONS)?.make(path.date())?;
        Folder::prepare(&day, path.name())?;
        self.folder(path)?.ok_or_else(|| Error::Busy(day.shown(path.name())))
    }

    /// Removes a session's folder in which there is nothing yet.
    pub fn discard(&self, path: &FolderPath) -> Result<(), Error> {
        let Some(conversations) = self.place.directory(CONVERSATIONS)? else { return Ok(()) };
        let Some(day) = conversations.directory(path.date())? else { return Ok(()) };
        if let Some(folder) = day.directory(path.name())? {
            for (above, name) in [(&folder, SESSION), (&day, path.name())] {
                match unlinkat(above, name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => (),
                    Err(errno) => return Err(above.failed(name, Doing::Write, errno)),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_made_again_and_an_empty_one_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::init(root.path(), None).unwrap().workspace;
        let path: FolderPath = "conversations/2026-11-16/004-debug-login".parse().unwrap();
        assert!(workspace.folder(&path).unwrap().is_none());
        assert_eq!(workspace.restore(&path).unwrap().path(), &path);
        std::fs::write(root.path().join(path.as_str()).join("note"), "kept").unwrap();
        workspace.discard(&path).unwrap();
        assert!(root.path().join(path.as_str()).join("note").exists());
        std::fs::remove_file(root.path().join(path.as_str()).join("note")).unwrap();
        workspace.discard(&path).unwrap();
        assert!(workspace.folder(&path).unwrap().is_none());
        workspace.discard(&path).unwrap();
    }
}
