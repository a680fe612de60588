//! Versions of the schema, and getting from one to the next.
//!
//! Steps are only ever added. Each runs in one transaction, under a lock that a second process waits for.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::connection::{self, beside, not_a_store};
use super::{index, openings, usage};
use crate::crash;
use crate::error::{Error, Result};
use crate::types::Usage;

/// "rthd": tells our files from other SQLite files.
const APPLICATION: i32 = 0x7274_6864;

pub(super) const STEPS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_sessions.sql"),
    include_str!("../../migrations/sqlite/0002_folders.sql"),
    include_str!("../../migrations/sqlite/0003_parents.sql"),
    include_str!("../../migrations/sqlite/0004_workflows.sql"),
    include_str!("../../migrations/sqlite/0005_feed.sql"),
    include_str!("../../migrations/sqlite/0006_access.sql"),
    include_str!("../../migrations/sqlite/0007_openings.sql"),
    include_str!("../../migrations/sqlite/0008_checksums.sql"),
    include_str!("../../migrations/sqlite/0009_gone.sql"),
    include_str!("../../migrations/sqlite/0010_no_triggers.sql"),
    include_str!("../../migrations/sqlite/0011_imported.sql"),
    include_str!("../../migrations/sqlite/0012_passages.sql"),
    include_str!("../../migrations/sqlite/0013_imported_sums.sql"),
    include_str!("../../migrations/sqlite/0014_natives.sql"),
    include_str!("../../migrations/sqlite/0015_postings.sql"),
];

/// The version of a store, 0 when nothing is in it. Refuses what is not ours or too new.
pub(super) fn version(connection: &Connection, path: &Path, known: usize) -> Result<usize> {
    let pragma = |name: &str| {
        connection.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0)).map_err(
            |error| match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => not_a_store(path, &error.to_string()),
                _ => error.into(),
            },
        )
    };
    let version = pragma("user_version")?;
    if pragma("application_id")? != i64::from(APPLICATION) {
        let tables: i64 = connection
            .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
            .unwrap_or(1);
        if tables > 0 || version != 0 {
            return Err(not_a_store(path, "it is a database of another program"));
        }
    }
    let known = i64::try_from(known).unwrap_or(i64::MAX);
    if version > known {
        return Err(Error::Newer { path: path.display().to_string(), found: version, known });
    }
    Ok(usize::try_from(version).unwrap_or(0))
}

/// Brings a store to the newest version. An older one is copied aside first.
pub(super) fn migrate(path: &Path, steps: &[&str]) -> Result<()> {
    let mut connection = connection::writer(path)?;
    let before = version(&connection, path, steps.len())?;
    if before == steps.len() {
        return Ok(());
    }
    if before > 0 {
        let copy = beside(path, &format!(".v{before}.bak"));
        super::copies::copy(&connection, &copy)?;
    }
    switch_to_wal(&connection)?;
    if version(&connection, path, steps.len())? == steps.len() {
        // Another process was quicker: nobody has to wait for those that write already.
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let before = version(&transaction, path, steps.len())?;
    let had_usage = has_table(&transaction, "usage_day")?;
    let had_openings = has_table(&transaction, "opening_sum")?;
    let had_postings = has_table(&transaction, "posting")?;
    for step in &steps[before..] {
        transaction.execute_batch(step)?;
        crash::point("migrate.step");
    }
    if !had_usage && has_table(&transaction, "usage_day")? {
        // Not in SQL: what comes with a message is not always JSON as it is kept.
        fill_usage(&transaction)?;
    }
    if !had_openings && has_table(&transaction, "opening_sum")? {
        openings::rebuild(&transaction)?;
    }
    if !had_postings && has_table(&transaction, "posting")? {
        // What was indexed is brought in anew by whoever uses the store.
        index::reset(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", i64::try_from(steps.len()).unwrap_or(0))?;
    transaction.commit()?;
    connection::sync_folder(path);
    Ok(())
}

/// Writes the rows of all sessions, once there are such rows.
fn fill_usage(connection: &Connection) -> Result<()> {
    let sessions: Vec<(i64, Option<String>)> = connection
        .prepare("select no, agent from session order by no")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (session, agent) in sessions {
        usage::rewrite(connection, session, agent.as_deref())?;
    }
    Ok(())
}

/// Whether a store is of a version that has this table.
fn has_table(connection: &Connection, name: &str) -> Result<bool> {
    let sql = "select exists (select 1 from sqlite_schema where name = ?1)";
    Ok(connection.query_row(sql, [name], |row| row.get(0))?)
}

/// What SQLite itself finds wrong with the file.
pub(super) fn integrity(connection: &Connection) -> Result<Vec<String>> {
    let lines: Vec<String> = connection
        .prepare("pragma integrity_check(20)")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

pub(super) fn usage(connection: &Connection, path: &Path) -> Result<Usage> {
    let number = |sql: &str| -> Result<u64> {
        let number: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let page = number("select page_size from pragma_page_size")?;
    Ok(Usage {
        sessions: number("select count(*) from session where deleted_at is null")?,
        deleted_sessions: number("select count(*) from session where deleted_at is not null")?,
        messages: number("select coalesce(sum(last_seq - base_seq), 0) from session")?,
        file_bytes: size(path),
        wal_bytes: size(&beside(path, "-wal")),
        free_bytes: page * number("select freelist_count from pragma_freelist_count")?,
        blob_bytes: number("select coalesce(sum(length(data)), 0) from blob")?,
        schema: i64::try_from(STEPS.len()).unwrap_or(0),
    })
}

/// How the tables, indexes and triggers of a store differ from what they should be, in words.
pub(super) fn differences(connection: &Connection) -> Result<Vec<String>> {
    let fresh = Connection::open_in_memory()?;
    super::sums::register(&fresh)?;
    for step in STEPS {
        fresh.execute_batch(step)?;
    }
    let described = |connection: &Connection| -> Result<BTreeMap<String, Option<Vec<u8>>>> {
        let sql =
            "select name, cast(sql as blob) from sqlite_schema where name not like 'sqlite_stat%'";
        let mut statement = connection.prepare(sql)?;
        let found = statement.query_map([], |row| {
            Ok((String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned(), row.get(1)?))
        })?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    };
    let (expected, found) = (described(&fresh)?, described(connection)?);
    let names: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let differs = names.into_iter().filter(|name| expected.get(*name) != found.get(*name));
    Ok(differs.map(|name| format!("the definition of {name:?} is not what it should be")).collect())
}

/// SQLite does not wait by itself here when two processes do this at once.
fn switch_to_wal(connection: &Connection) -> Result<()> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let switched = connection
            .query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0))
            .map_err(Error::from);
        match switched {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(Error::Failed(format!(
                    "the file system allows only journal mode {mode}"
                )));
            }
            Err(Error::Busy) if std::time::Instant::now() < deadline => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

/// How a query is carried out on a new store.
#[cfg(test)]
pub(in crate::sqlite) fn plan_of(sql: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    connection::create(&path).unwrap();
    migrate(&path, STEPS).unwrap();
    let connection = connection::reader(&path).unwrap();
    let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
    let plan = statement.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>();
    plan.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_store_is_copied_aside_and_brought_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        connection::create(&path).unwrap();
        migrate(&path, &STEPS[..1]).unwrap();
        let steps = [STEPS[0], "create table added (n integer) strict"];
        migrate(&path, &steps).unwrap();

        let connection = connection::reader(&path).unwrap();
        assert_eq!(version(&connection, &path, 2).unwrap(), 2);
        let old = connection::reader(&beside(&path, ".v1.bak")).unwrap();
        assert_eq!(version(&old, &path, 2).unwrap(), 1);
    }

    #[test]
    fn a_newer_store_is_refused_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        connection::create(&path).unwrap();
        let newer = [STEPS, &["create table added (n integer) strict"]].concat();
        migrate(&path, &newer).unwrap();
        let before = std::fs::read(&path).unwrap();
        let refused = super::super::SqliteStore::open(&path);
        let steps = i64::try_from(STEPS.len()).unwrap();
        assert!(
            matches!(refused, Err(Error::Newer { found, known, .. }) if (found, known) == (steps + 1, steps))
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
