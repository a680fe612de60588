//! What is held by somebody who lives: a file's lock, which the system takes back when its holder dies.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::connection::{self, beside};
use crate::error::{Error, Result};

/// How often a lock that is held is tried again before it counts as held.
const LOOKS: u32 = 3;

/// Held while a session is driven. The file goes with it.
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked, so nobody else takes it for theirs; a file that stays does no harm.
        drop(std::fs::remove_file(&self.path));
    }
}

/// The locks of a store. What is asked of them has nothing to do with a connection; in PostgreSQL it has.
#[derive(Debug, Clone)]
pub(super) struct Locks {
    store: PathBuf,
}

impl Locks {
    pub(super) fn of(store: &Path) -> Self {
        Self { store: store.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        beside(&self.store, "-locks").join(format!("{name}.lock"))
    }

    /// The locks that there are, held or not.
    fn names(&self) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(beside(&self.store, "-locks")) else { return Vec::new() };
        files
            .filter_map(|file| {
                file.ok()?.file_name().to_str()?.strip_suffix(".lock").map(str::to_owned)
            })
            .collect()
    }

    /// Takes a lock, if nobody has it.
    pub(super) fn take(&self, name: &str) -> Result<Option<Lock>> {
        let path = self.file(name);
        let mut looks = 0;
        loop {
            connection::create(&path).map_err(|error| match error {
                Error::CannotOpen(why) => Error::ReadOnly(why),
                error => error,
            })?;
            let file = connection::private_file(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Some(Lock { path, _file: file })),
                // Its holder took the file away just now.
                Ok(()) => (),
                // Somebody may only be looking whether it is held, which takes no time.
                Err(TryLockError::WouldBlock) if looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }

    /// The same in the transaction of who writes that it is held.
    pub(super) fn lock(&self, _: &Connection, name: &str) -> Result<Option<Lock>> {
        self.take(name)
    }

    /// Forgets what somebody held who was killed.
    pub(super) fn clear(&self, _: &Connection, name: &str) -> Result<()> {
        // Taken and dropped, it is gone.
        self.take(name).map(drop)
    }

    pub(super) fn is_locked(&self, _: &Connection, name: &str) -> Result<bool> {
        self.is_held(name)
    }

    fn is_held(&self, name: &str) -> Result<bool> {
        let file = match File::open(self.file(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Whether somebody drives a session or one of its conversations.
    pub(super) fn is_driven(&self, _: &Connection, no: i64) -> Result<bool> {
        for name in self.names().iter().filter(|name| is_of(name, no)) {
            if self.is_held(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes away the lock files of drivers that died.
    pub(super) fn sweep_all(&self) -> Result<()> {
        for name in self.names() {
            drop(self.take(&name)?);
        }
        Ok(())
    }

    /// Removes the locks of sessions that nobody holds; gives the numbers of workflows with a lock that nobody holds.
    pub(super) fn sweep(&self) -> Result<Vec<i64>> {
        let mut found = Vec::new();
        for name in self.names() {
            if self.is_held(&name)? {
                continue;
            }
            match name.strip_prefix('w').and_then(|name| name.split('-').next()?.parse().ok()) {
                Some(no) => found.push(no),
                // Taken and dropped, it is gone.
                None => drop(self.take(&name)?),
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// A session that is gone needs no locks.
    pub(super) fn forget(&self, _: &Connection, no: i64) {
        for name in self.names().iter().filter(|name| is_of(name, no)) {
            // A file that stays does no harm.
            drop(std::fs::remove_file(self.file(name)));
        }
    }

    /// Nor does a workflow that is gone.
    pub(super) fn forget_workflow(&self, _: &Connection, no: i64) {
        let of = format!("w{no}-");
        for name in self.names().iter().filter(|name| name.starts_with(&of)) {
            // A file that stays does no harm.
            drop(std::fs::remove_file(self.file(name)));
        }
    }
}

/// Whether a lock is of this session, or of one of its conversations.
fn is_of(name: &str, no: i64) -> bool {
    name.split('-').next().and_then(|first| first.parse().ok()) == Some(no)
}

/// Whether the open file is the one that the path names now.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: std::io::Result<std::fs::Metadata>| {
        found.map(|found| (found.dev(), found.ino())).ok()
    };
    number(file.metadata()).is_some_and(|own| Some(own) == number(std::fs::metadata(path)))
}
