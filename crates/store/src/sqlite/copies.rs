//! Copies of a store, and putting one back in its place.

mod restoring;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use self::restoring::Restoring;
use super::connection::{self, beside};
use super::schema::integrity;
use super::summed::with_sums;
use super::sums::TABLES;
use super::{index, schema, writer};
use crate::crash;
use crate::error::{Error, Result};

/// How long others who write are waited for before a store is replaced.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The files of a store, by what follows its name.
const FILES: [&str; 3] = ["", "-wal", "-shm"];

pub(super) use self::restoring::clear_up;

/// A consistent copy of an open store, in a file of its own that appears when it is whole.
pub(super) fn copy(source: &Connection, to: &Path) -> Result<()> {
    appear(to, |half| copy_into(source, half))
}

/// A file that appears when it is whole.
fn appear(to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let half = beside(to, ".part");
    // There is one only after a crash; one that stays in the way fails what follows.
    drop(fs::remove_file(&half));
    let copied = make(&half).and_then(|()| {
        crash::point("copy.half");
        fs::File::open(&half)?.sync_all()?;
        fs::rename(&half, to)?;
        let folder =
            to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(fs::File::open(folder)?.sync_all()?)
    });
    if copied.is_err() {
        // What went wrong before is told.
        drop(fs::remove_file(&half));
    }
    copied
}

fn copy_into(source: &Connection, to: &Path) -> Result<()> {
    connection::create(to)?;
    let mut target = Connection::open(to)?;
    finish(&Backup::new(source, &mut target)?)
}

/// What a table gets: its name, its columns, and whoever takes its rows.
type Rows<'a> = &'a mut dyn FnMut(Vec<Value>) -> Result<()>;

/// Tables of the search index: it is made anew.
const MADE_ANEW: [&str; 3] = ["passage", "posting", "posting_run"];

/// A new store, filled with the rows of another, of every table in turn. It appears when it is whole.
pub(crate) fn fill(
    to: &Path,
    mut give: impl FnMut(&str, &[&str], Rows<'_>) -> Result<()>,
) -> Result<()> {
    appear(to, |half| {
        connection::create(half)?;
        schema::migrate(half, schema::STEPS)?;
        let mut target = connection::writer(half)?;
        let transaction = target.transaction()?;
        transaction.execute("delete from meta", [])?;
        let summed = TABLES.iter().filter(|table| !MADE_ANEW.contains(&table.name));
        let summed = summed.map(|table| (table.name, table.columns.to_vec()));
        let others = [("gone", vec!["id", "at"]), ("meta", vec!["name", "value"])];
        for (name, mut columns) in summed.chain(others) {
            if name == "blob" {
                // Its checksum is that of the text.
                columns.push("data");
            }
            let places: Vec<String> =
                (1..=columns.len()).map(|place| format!("?{place}")).collect();
            let (list, places) = (columns.join(", "), places.join(", "));
            let sql = with_sums(&format!("insert into {name} ({list}) values ({places})"));
            let mut insert = transaction.prepare(&sql)?;
            give(name, &columns, &mut |values| {
                insert.execute(params_from_iter(values))?;
                Ok(())
            })?;
        }
        index::reset(&transaction)?;
        transaction.commit()?;
        writer::fold_log(&target, "truncate");
        drop(target);
        for beside in ["-wal", "-shm"].map(|suffix| connection::beside(half, suffix)) {
            // Nothing is in them any more.
            drop(fs::remove_file(beside));
        }
        Ok(())
    })
}

/// What came of putting a backup back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Where what was there is kept.
    pub kept: Option<PathBuf>,
    /// What an earlier restore that was cut off had left, in words.
    pub earlier: Option<String>,
}

/// Puts a copy back in place of a store.
pub(super) fn restore(from: &Path, to: &Path, at: Timestamp) -> Result<Restored> {
    if !from.try_exists().unwrap_or(true) {
        return Err(Error::CannotOpen(format!("{}: there is no such file", from.display())));
    }
    let (under_way, earlier) = Restoring::begin(from, to)?;
    let restored = restore_from(from, to, at, &under_way);
    under_way.end();
    Ok(Restored { kept: restored?, earlier })
}

fn restore_from(
    from: &Path,
    to: &Path,
    at: Timestamp,
    under_way: &Restoring,
) -> Result<Option<PathBuf>> {
    if !connection::check_file(from)? {
        return Err(connection::not_a_store(from, "there is nothing in it"));
    }
    let source = connection::reader(from)?;
    crash::point("restore.read");
    if schema::version(&source, from, schema::STEPS.len())? == 0 {
        return Err(connection::not_a_store(from, "there is nothing in it"));
    }
    let damage = integrity(&source)?;
    if let Some(first) = damage.first() {
        return Err(Error::Damaged(format!("{}: {first}", from.display())));
    }
    if !connection::check_file(to)? {
        put(&source, to)?;
        return Ok(None);
    }
    let aside = reserve_aside(to, at, under_way)?;
    crash::point("restore.reserved");
    match exchange(&source, to, &aside) {
        Ok(true) => schema::migrate(to, schema::STEPS)?,
        Ok(false) => {
            move_files(to, &aside)?;
            crash::point("restore.moved");
            put(&source, to)?;
        }
        Err(error) => {
            // What went wrong before is told.
            drop(fs::remove_file(&aside));
            return Err(error);
        }
    }
    Ok(Some(aside))
}

/// Makes a store of a copy, where there is none.
fn put(source: &Connection, to: &Path) -> Result<()> {
    connection::create(to)?;
    copy(source, to)?;
    schema::migrate(to, schema::STEPS)
}

/// Keeps a copy of a store and puts another in its place. Nobody writes in between: whatever was acknowledged is in the
/// copy, and whoever comes later finds the other store. `false` where what is there cannot be read.
fn exchange(source: &Connection, to: &Path, aside: &Path) -> Result<bool> {
    let is_unreadable = |error: &Error| {
        matches!(error, Error::NotAStore { .. } | Error::Damaged(_) | Error::Failed(_))
    };
    let opened = connection::reader(to).and_then(|reader| Ok((reader, connection::writer(to)?)));
    let (reader, mut target) = match opened {
        Err(error) if is_unreadable(&error) => return Ok(false),
        opened => opened?,
    };
    let backup = Backup::new(source, &mut target)?;
    // The first page takes the lock on the store; nobody sees it before the last.
    match lock(&backup).and_then(|()| copy(&reader, aside)) {
        Err(error) if is_unreadable(&error) => return Ok(false),
        copied => copied?,
    }
    crash::point("restore.copied");
    finish(&backup)?;
    crash::point("restore.replaced");
    Ok(true)
}

/// Copies the first page, once nobody else writes.
fn lock(backup: &Backup<'_, '_>) -> Result<()> {
    let began = Instant::now();
    while let StepResult::Busy | StepResult::Locked = backup.step(1)? {
        if began.elapsed() > PATIENCE {
            return Err(Error::Busy);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// All pages in one step: one state of the store, whoever writes meanwhile.
fn finish(backup: &Backup<'_, '_>) -> Result<()> {
    Ok(backup.run_to_completion(i32::MAX, Duration::ZERO, None)?)
}

/// Moves the files of a store that cannot be read.
fn move_files(store: &Path, to: &Path) -> Result<()> {
    for suffix in FILES {
        let file = beside(store, suffix);
        if file.exists() {
            fs::rename(&file, beside(to, suffix))?;
        }
    }
    Ok(())
}

/// Takes a name that nobody has, so that no copy replaces an earlier one.
fn reserve_aside(store: &Path, at: Timestamp, under_way: &Restoring) -> Result<PathBuf> {
    let time = at.strftime("%Y%m%dT%H%M%SZ");
    for count in 1u32.. {
        let counter = if count == 1 { String::new() } else { format!("-{count}") };
        let aside = beside(store, &format!(".before-restore-{time}{counter}.bak"));
        if aside.exists() {
            continue;
        }
        under_way.note_aside(&aside)?;
        match connection::new_file(&aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Failed("every name for a copy is taken".into()))
}
