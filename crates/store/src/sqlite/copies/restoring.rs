//! A restore that is under way is noted in a file beside the store, so that one that was cut off is cleared up by whoever opens
//! the store next.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{FILES, move_files};
use crate::error::{Error, Result};
use crate::sqlite::connection::{self, beside};

/// What follows the store's name in that of the note.
const NOTE: &str = ".restoring";
/// What SQLite may leave beside a copy that is half done.
const LEFT: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// The note, locked as long as whoever made it lives.
pub(super) struct Restoring {
    path: PathBuf,
    file: File,
    backup: PathBuf,
    /// Whether a log was beside the backup before it was read.
    had_log: bool,
}

/// What a note says: the backup, whether a log lay beside it, and where the store is kept.
struct Noted {
    backup: PathBuf,
    had_log: bool,
    aside: Option<PathBuf>,
}

/// Clears up what a restore that was cut off has left; gives what is to be told.
pub(in crate::sqlite) fn clear_up(store: &Path) -> Result<Option<String>> {
    let path = beside(store, NOTE);
    let Ok(mut file) = File::options().read(true).write(true).open(&path) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => (),
        // It is going on.
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let told = clear(store, &mut file)?;
    fs::remove_file(&path)?;
    Ok(told)
}

impl Restoring {
    /// Notes that a backup is put back; what an earlier one has left is cleared up first.
    pub(super) fn begin(backup: &Path, store: &Path) -> Result<(Self, Option<String>)> {
        let earlier = clear_up(store)?;
        let path = beside(store, NOTE);
        connection::create(&path)?;
        let file = connection::private_file(&path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Busy,
            TryLockError::Error(error) => error.into(),
        })?;
        let backup = std::path::absolute(backup)?;
        let had_log = connection::has_log(&backup);
        let under_way = Self { path, file, backup, had_log };
        under_way.write(None)?;
        Ok((under_way, earlier))
    }

    /// Notes where the store will be kept, before that file is made.
    pub(super) fn note_aside(&self, aside: &Path) -> Result<()> {
        self.write(Some(&std::path::absolute(aside)?))
    }

    fn write(&self, aside: Option<&Path>) -> Result<()> {
        let had_log: &[u8] = if self.had_log { b"1" } else { b"0" };
        let mut note = [self.backup.as_os_str().as_bytes(), had_log].join(&0);
        note.push(0);
        note.extend(aside.map_or(&b""[..], |aside| aside.as_os_str().as_bytes()));
        // Only ever longer: a note that is half written ends before the part that is new.
        (&self.file).write_all(&note)?;
        std::io::Seek::rewind(&mut &self.file)?;
        Ok(self.file.sync_all()?)
    }

    /// It is over, well or not.
    pub(super) fn end(self) {
        if !self.had_log {
            connection::close_log(&self.backup);
        }
        // Locked until here, so nobody takes it for that of a restore that was cut off; one that stays is cleared up.
        drop(fs::remove_file(&self.path));
    }
}

fn read(file: &mut File) -> Result<Option<Noted>> {
    let mut note = Vec::new();
    file.read_to_end(&mut note)?;
    let mut parts =
        note.split(|byte| *byte == 0).map(|part| PathBuf::from(OsStr::from_bytes(part)));
    let (Some(backup), Some(had_log), Some(aside)) = (parts.next(), parts.next(), parts.next())
    else {
        return Ok(None);
    };
    let aside = Some(aside).filter(|aside| !aside.as_os_str().is_empty());
    Ok(Some(Noted { backup, had_log: had_log == Path::new("1"), aside }))
}

fn clear(store: &Path, file: &mut File) -> Result<Option<String>> {
    let Some(Noted { backup, had_log, aside }) = read(file)? else { return Ok(None) };
    if !had_log {
        connection::close_log(&backup);
    }
    remove_half(store)?;
    let mut told = format!("putting back {} was cut off before its end", backup.display());
    let again = "`rethread restore` puts the backup back";
    let is_empty = |path: &Path| fs::metadata(path).map_or(0, |file| file.len()) == 0;
    let Some(aside) = aside else {
        let state =
            if is_empty(store) { "nothing of it is left" } else { "the store is as it was" };
        told.push_str(&format!("; {state}: {again}"));
        return Ok(Some(told));
    };
    remove_half(&aside)?;
    if is_empty(store) && !is_empty(&aside) {
        // It had been moved out of the way, and nothing had taken its place.
        if store.exists() {
            fs::remove_file(store)?;
        }
        move_files(&aside, store)?;
        told.push_str(&format!("; the store is as it was: {again}"));
    } else if is_empty(&aside) {
        for suffix in FILES {
            let file = beside(&aside, suffix);
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        told.push_str(&format!("; the store is as it was: {again}"));
    } else {
        let state = if is_same(store, &aside) {
            format!("the store is as it was: {again}")
        } else {
            "the backup is in place".to_owned()
        };
        told.push_str(&format!("; {state}. A copy of the store as it was is {}", aside.display()));
    }
    Ok(Some(told))
}

/// Removes a copy that was not finished.
fn remove_half(of: &Path) -> Result<()> {
    let half = beside(of, ".part");
    for suffix in LEFT {
        match fs::remove_file(beside(&half, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => (),
        }
    }
    Ok(())
}

/// Whether a store goes on from where its copy ends: then nothing was put in its place. What changed last tells.
fn is_same(store: &Path, copy: &Path) -> bool {
    let last = |path: &Path, upto: i64| -> Option<(i64, i64, String)> {
        let reader: Connection = connection::reader(path).ok()?;
        let sql = "select no, at, coalesce(session, workflow, '') from feed where no <= ?1 order by no desc limit 1";
        reader.query_row(sql, [upto], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).ok()
    };
    let copied = last(copy, i64::MAX);
    connection::close_log(copy);
    match copied {
        Some(copied) => last(store, copied.0) == Some(copied),
        None => false,
    }
}
