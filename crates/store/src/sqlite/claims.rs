//! Who drives a session: an open file's lock, which the system takes back when its holder dies.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::SessionId;
use rusqlite::Connection;

use super::connection::{self, beside};
use super::rows;
use crate::error::{Error, Result};
use crate::types::{Command, Epoch};

/// The lock of one session. Its name is made from our number, never from a text that came from outside.
fn lock_file(store: &Path, no: i64) -> PathBuf {
    beside(store, "-locks").join(format!("{no}.lock"))
}

/// Takes the lock of a session, if nobody has it.
pub(super) fn lock(store: &Path, no: i64) -> Result<Option<File>> {
    let path = lock_file(store, no);
    connection::create(&path).map_err(|error| match error {
        Error::CannotOpen(why) => Error::ReadOnly(why),
        error => error,
    })?;
    let file = connection::private_file(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
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

/// A session that is gone needs no lock.
pub(super) fn forget_lock(store: &Path, no: i64) {
    drop(std::fs::remove_file(lock_file(store, no)));
}
