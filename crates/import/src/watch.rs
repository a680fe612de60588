//! Whether something has changed where agents keep their sessions, by inotify where the system has it.

use std::path::PathBuf;

use crate::{AGENTS, Roots};

/// So many folders are watched: beyond that, a look from time to time finds what changes.
const MOST_WATCHED: usize = 8_192;

/// Watches the folders of agents. Nothing of theirs is opened for it.
#[derive(Debug)]
pub struct Watch {
    queue: Option<queue::Queue>,
    is_complete: bool,
}

impl Watch {
    /// Begins to watch all that is there.
    pub fn new(roots: &Roots, agents: &[String]) -> Self {
        let mut watch = Self { queue: queue::Queue::new(), is_complete: false };
        watch.refresh(roots, agents);
        watch
    }

    /// Watches folders that have come since, too. Those that are watched already stay so.
    pub fn refresh(&mut self, roots: &Roots, agents: &[String]) {
        let Some(queue) = &self.queue else { return };
        let folders = folders(roots, agents);
        self.is_complete = folders.len() <= MOST_WATCHED;
        for folder in folders.iter().take(MOST_WATCHED) {
            self.is_complete &= queue.add(folder);
        }
    }

    /// Whether every folder is watched. Where not, changes are only found by looking.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether something was written, added or removed since the last call. One system call where nothing was.
    pub fn has_changed(&self) -> bool {
        self.queue.as_ref().is_some_and(queue::Queue::drain)
    }
}

/// The folders and files that are to be watched: one more than the most says that there are others.
fn folders(roots: &Roots, agents: &[String]) -> Vec<PathBuf> {
    let is_wanted = |agent: &str| agents.is_empty() || agents.iter().any(|one| one == agent);
    let roots = AGENTS.iter().filter(|agent| is_wanted(agent)).flat_map(|agent| roots.of(agent));
    let mut found: Vec<PathBuf> = Vec::new();
    let mut left: Vec<PathBuf> = roots.collect();
    left.reverse();
    while let Some(path) = left.pop().filter(|_| found.len() <= MOST_WATCHED) {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        let is_root_file = metadata.is_file() && path.file_name().is_some();
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            left.extend(folders.map(|entry| entry.path()));
        }
        if metadata.is_dir() || is_root_file {
            found.push(path);
        }
    }
    found
}

#[cfg(target_os = "linux")]
mod queue {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

    /// The system's queue of what has changed: it has a bound of its own, and says when something was lost.
    #[derive(Debug)]
    pub(super) struct Queue(OwnedFd);

    impl Queue {
        pub(super) fn new() -> Option<Self> {
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Self)
        }

        /// Whether a folder is watched now. Not that somebody closes a file: we do that ourselves when we read.
        pub(super) fn add(&self, folder: &Path) -> bool {
            let what = WatchFlags::MODIFY
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO;
            inotify::add_watch(&self.0, folder, what).is_ok()
        }

        pub(super) fn drain(&self) -> bool {
            let mut buffer = [const { MaybeUninit::uninit() }; 4096];
            let mut events = Reader::new(&self.0, &mut buffer);
            let mut has_changed = false;
            while events.next().is_ok() {
                has_changed = true;
            }
            has_changed
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod queue {
    use std::path::Path;

    /// There is none: changes are found by looking.
    #[derive(Debug)]
    pub(super) struct Queue;

    impl Queue {
        pub(super) const fn new() -> Option<Self> {
            None
        }

        pub(super) const fn add(&self, _: &Path) -> bool {
            false
        }

        pub(super) const fn drain(&self) -> bool {
            false
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_in_folders_that_came_later_too() {
        let home = tempfile::tempdir().unwrap();
        let projects = home.path().join(".claude/projects");
        std::fs::create_dir_all(projects.join("one")).unwrap();
        let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
        let mut watch = Watch::new(&roots, &[]);
        assert!(watch.is_complete() && !watch.has_changed());
        std::fs::write(projects.join("one/a.jsonl"), "x").unwrap();
        assert!(watch.has_changed());
        assert!(!watch.has_changed(), "told once");
        std::fs::read(projects.join("one/a.jsonl")).unwrap();
        assert!(!watch.has_changed(), "reading changes nothing");
        std::fs::create_dir(projects.join("two")).unwrap();
        assert!(watch.has_changed());
        watch.refresh(&roots, &[]);
        std::fs::write(projects.join("two/b.jsonl"), "x").unwrap();
        assert!(watch.has_changed());
        let only = Watch::new(&roots, &["codex".to_owned()]);
        std::fs::write(projects.join("two/b.jsonl"), "y").unwrap();
        assert!(!only.has_changed(), "of other agents nothing is watched");
    }
}
