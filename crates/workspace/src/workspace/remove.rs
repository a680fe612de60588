//! Removing the folder of a session that is deleted, and giving a folder another name.

use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::{Workspace, lock};
use crate::beneath::Directory;
use crate::error::{Doing, Error};
use crate::folder::{CARD, CONVERSATIONS, DAMAGED, Folder, FolderPath, LOG, Locked, SESSION};

impl Workspace {
    /// Removes what is ours in a session's folder, and the folder itself where nothing else is in it. With `for_good` also
    /// what was kept aside as damaged. Gives what stays, below the root: it is somebody's own.
    pub fn remove(
        &self,
        locked: Locked,
        kind: &str,
        for_good: bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let path = locked.path().clone();
        let is_page_ours = locked.page_is_ours(kind)?;
        let Some(conversations) = self.place.directory(CONVERSATIONS)? else { return Ok(vec![]) };
        let Some(day) = conversations.directory(path.date())? else { return Ok(vec![]) };
        let Some(folder) = day.directory(path.name())? else { return Ok(vec![]) };
        if let Some(session) = folder.directory(SESSION)? {
            if for_good && let Some(damaged) = session.directory(DAMAGED)? {
                for (name, what) in damaged.entries()? {
                    if what == FileType::RegularFile {
                        unlink(&damaged, &name, AtFlags::empty())?;
                    }
                }
                unlink(&session, DAMAGED, AtFlags::REMOVEDIR)?;
            }
            for name in [LOG, CARD] {
                unlink(&session, name, AtFlags::empty())?;
                unlink(&session, &format!(".{name}.new"), AtFlags::empty())?;
            }
        }
        drop(locked);
        if is_page_ours {
            unlink(&folder, &format!("{kind}.md"), AtFlags::empty())?;
        }
        for (above, name) in
            [(&folder, SESSION), (&day, path.name()), (&conversations, path.date())]
        {
            unlink(above, name, AtFlags::REMOVEDIR)?;
        }
        let Some(left) = day.directory(path.name())? else { return Ok(vec![]) };
        let names = left.entries()?.into_iter().map(|(name, _)| name);
        Ok(names.map(|name| PathBuf::from(path.as_str()).join(name)).collect())
    }

    /// Gives a session's folder another topic, on the same day; the path that it has then.
    pub fn rename(&self, from: &FolderPath, topic: &str) -> Result<FolderPath, Error> {
        let to = from.with_topic(topic)?;
        if to == *from {
            return Ok(to);
        }
        let Some(day) = self.place.make(CONVERSATIONS)?.directory(from.date())? else {
            return Ok(from.clone());
        };
        lock(&day)?;
        let renamed =
            match renameat_with(&day, from.name(), &day, to.name(), RenameFlags::NOREPLACE) {
                // Not every file system can; nobody else is here.
                Err(Errno::INVAL | Errno::NOSYS) if Folder::open(&self.place, &to)?.is_none() => {
                    renameat(&day, from.name(), &day, to.name())
                }
                outcome => outcome,
            };
        renamed.map_err(|errno| day.failed(from.name(), Doing::Write, errno))?;
        day.sync()?;
        Ok(to)
    }
}

/// Removes a name; one that is not there, or a folder that is not empty, is left.
fn unlink(place: &Directory, name: &str, flags: AtFlags) -> Result<(), Error> {
    match unlinkat(place, name, flags) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(place.failed(name, Doing::Write, errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::folder::{Line, Page};

    fn workspace() -> (tempfile::TempDir, Workspace, FolderPath) {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::init(root.path(), None).unwrap().workspace;
        let path = workspace.create("2026-11-16", "debug", "Login").unwrap();
        let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
        let line = Line { id: "1".into(), after: "s".into(), ..Line::default() };
        locked.append(&[line], false).unwrap();
        locked.write_page("debug", &Page { title: "Login".into(), ..Page::default() }).unwrap();
        locked.keep_aside(b"half a line").unwrap();
        drop(locked);
        (root, workspace, path)
    }

    #[test]
    fn what_is_ours_goes_and_what_people_wrote_stays() {
        let (root, workspace, path) = workspace();
        let folder = root.path().join(path.as_str());
        fs::write(folder.join("notes.md"), "mine").unwrap();
        let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
        let left = workspace.remove(locked, "debug", true).unwrap();
        assert_eq!(left, [PathBuf::from(path.as_str()).join("notes.md")]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn a_page_with_words_of_somebody_stays_and_a_whole_folder_goes() {
        let (root, workspace, path) = workspace();
        let page = root.path().join(path.as_str()).join("debug.md");
        let text = fs::read_to_string(&page).unwrap();
        fs::write(&page, format!("{text}\nMy own words\n")).unwrap();
        let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
        assert_eq!(workspace.remove(locked, "debug", true).unwrap().len(), 1);
        fs::write(&page, text).unwrap();
        let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
        assert_eq!(workspace.remove(locked, "debug", true).unwrap(), [] as [PathBuf; 0]);
        assert!(!root.path().join("conversations/2026-11-16").exists());
    }

    #[test]
    fn a_folder_gets_another_topic_and_keeps_its_number() {
        let (root, workspace, path) = workspace();
        let to = workspace.rename(&path, "Something else").unwrap();
        assert_eq!(to.as_str(), "conversations/2026-11-16/001-debug-something-else");
        assert!(root.path().join(to.as_str()).join(".session/messages.jsonl").exists());
        assert!(!root.path().join(path.as_str()).exists());
    }
}
