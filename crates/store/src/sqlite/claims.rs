//! Who drives a session: an open file's lock, which the system takes back when its holder dies.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::SessionId;
use rusqlite::Connection;

use super::connection::{self, beside};
use super::rows;
use crate::error::{Error, Result};
use crate::types::{Command, Epoch};

/// How often a lock that is held is tried again before it counts as held.
const LOOKS: u32 = 3;

/// The lock of one session. Its name is made from our number, never from a text that came from outside.
fn lock_file(store: &Path, no: i64) -> PathBuf {
    beside(store, "-locks").join(format!("{no}.lock"))
}

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

/// Takes the lock of a session, if nobody has it.
pub(super) fn lock(store: &Path, no: i64) -> Result<Option<Lock>> {
    let path = lock_file(store, no);
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

/// Whether the open file is the one that the path names now.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: std::io::Result<std::fs::Metadata>| {
        found.map(|found| (found.dev(), found.ino())).ok()
    };
    number(file.metadata()).is_some_and(|own| Some(own) == number(std::fs::metadata(path)))
}

pub(super) fn is_locked(store: &Path, no: i64) -> Result<bool> {
    let file = match File::open(lock_file(store, no)) {
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

/// A new epoch: whoever drove the session before can no longer write as its driver. What was asked of them is
/// theirs no more.
pub(super) fn begin_epoch(connection: &Connection, id: SessionId) -> Result<Epoch> {
    let row = rows::session_by_id(connection, id)?;
    connection.execute("delete from command where session = ?1", [row.no])?;
    connection.execute("update session set epoch = epoch + 1 where no = ?1", [row.no])?;
    Ok(row.epoch + 1)
}

pub(super) fn ask(
    connection: &Connection,
    id: SessionId,
    command: Command,
    at: Timestamp,
) -> Result<u64> {
    let row = rows::session_by_id(connection, id)?;
    connection
        .prepare_cached("insert into command (session, at, what) values (?1, ?2, ?3)")?
        .execute((row.no, rows::micros(at), command.as_str()))?;
    Ok(u64::try_from(connection.last_insert_rowid()).unwrap_or(0))
}

pub(super) fn has_asked(connection: &Connection, id: SessionId) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "select exists (select 1 from command where session = (select no from session where id = ?1))",
    )?;
    Ok(statement.query_row([id.to_string()], |row| row.get(0))?)
}

pub(super) fn take_asked(connection: &Connection, id: SessionId) -> Result<Vec<Command>> {
    let row = rows::session_by_id(connection, id)?;
    let mut statement =
        connection.prepare_cached("delete from command where session = ?1 returning no, what")?;
    let mut asked: Vec<(i64, String)> = statement
        .query_map([row.no], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    asked.sort_unstable();
    asked
        .into_iter()
        .map(|(_, what)| {
            let known = [Command::Pause, Command::Complete]
                .into_iter()
                .find(|command| command.as_str() == what);
            known.ok_or_else(|| Error::Damaged(format!("unknown command {what:?}")))
        })
        .collect()
}

/// Takes away the lock files of drivers that died.
pub(super) fn sweep_locks(store: &Path) -> Result<()> {
    let Ok(files) = std::fs::read_dir(beside(store, "-locks")) else { return Ok(()) };
    for file in files {
        let name = file?.file_name();
        let no = name.to_str().and_then(|name| name.strip_suffix(".lock")?.parse().ok());
        if let Some(no) = no {
            drop(lock(store, no)?);
        }
    }
    Ok(())
}

/// A session that is gone needs no lock.
pub(super) fn forget_lock(store: &Path, no: i64) {
    drop(std::fs::remove_file(lock_file(store, no)));
}
