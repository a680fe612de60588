//! Versions of the schema, and getting from one to the next.
//!
//! Steps are only ever added. Each runs in one transaction, under a lock that a second program asks for again and again: whoever
//! waits in it would keep others from building indexes.

use std::time::{Duration, Instant};

use super::connection::Connection;
use super::pool::number;
use crate::crash;
use crate::error::{Error, Result};
use crate::types::Usage;

pub(super) const STEPS: &[&str] = &[include_str!("../../migrations/postgres/0001_store.sql")];

/// "rthd".
const LOCK: i64 = 0x7274_6864;
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// The oldest that is still looked after.
const OLDEST: u64 = 150_000;

/// Whether this is a server that a store can be on.
pub(super) fn check_server(connection: &Connection, shown: &str) -> Result<()> {
    let told = connection.ask(
        "select current_setting('server_version_num') || ' ' || current_setting('server_encoding') || ' '
            || pg_is_in_recovery()",
    )?;
    let told = told.unwrap_or_default();
    let mut words = told.split(' ');
    let version: u64 = words.next().and_then(|version| version.parse().ok()).unwrap_or(0);
    let bad = |why: String| Error::NotAStore { path: shown.to_owned(), why };
    if version < OLDEST {
        return Err(bad(format!(
            "the server is PostgreSQL {}; 15 or newer is needed",
            version / 10_000
        )));
    }
    match (words.next(), words.next()) {
        (Some("UTF8"), Some("false")) => Ok(()),
        (Some("UTF8"), _) => {
            Err(Error::ReadOnly("the server is a standby: use the address of the primary".into()))
        }
        (encoding, _) => Err(bad(format!(
            "the database has the encoding {}; make one with UTF8",
            encoding.unwrap_or_default()
        ))),
    }
}

/// The version of a store, 0 when there is none yet. Refuses what is too new.
fn version(connection: &Connection, shown: &str) -> Result<usize> {
    let is_there =
        connection.ask("select to_regclass('rethread.migration') is not null")?.as_deref()
            == Some("t");
    if !is_there {
        return Ok(0);
    }
    let found = connection.ask("select coalesce(max(no), 0) from rethread.migration")?;
    let found: i64 = found.and_then(|found| found.parse().ok()).unwrap_or(0);
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(Error::Newer { path: shown.to_owned(), found, known });
    }
    Ok(usize::try_from(found).unwrap_or(0))
}

/// Brings a store to the newest version.
pub(super) fn migrate(connection: &Connection, shown: &str) -> Result<()> {
    if version(connection, shown)? == STEPS.len() {
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    let lock = format!("select pg_try_advisory_lock({LOCK})");
    while connection.ask(&lock)?.as_deref() != Some("t") {
        if Instant::now() > deadline {
            return Err(Error::Busy);
        }
        std::thread::sleep(PAUSE);
    }
    let done = steps(connection, shown);
    let unlocked = connection.ask(&format!("select pg_advisory_unlock({LOCK})"));
    done.and(unlocked.map(drop))
}

fn steps(connection: &Connection, shown: &str) -> Result<()> {
    if version(connection, shown)? == 0 {
        connection.execute_batch(
            "begin;
             create schema if not exists rethread;
             create table if not exists rethread.migration (
                no  bigint primary key,
                at  timestamptz not null default clock_timestamp(),
                sum text not null
             );
             commit",
        )?;
    }
    for (no, step) in (1..).zip(STEPS).skip(version(connection, shown)?) {
        let sum = blake3::hash(step.as_bytes()).to_hex();
        let whole = format!(
            "begin; {step}; insert into rethread.migration (no, sum) values ({no}, '{sum}'); commit"
        );
        if let Err(error) = connection.execute_batch(&whole) {
            // Where this fails too, the connection ends, and the transaction with it.
            drop(connection.execute_batch("rollback"));
            return Err(error);
        }
        crash::point("migrate.step");
    }
    Ok(())
}

/// What PostgreSQL itself finds wrong, it says when it is read.
#[expect(clippy::unnecessary_wraps, reason = "SQLite has to look")]
pub(super) const fn integrity(_: &Connection) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// How the tables of a store differ from what they should be, in words.
pub(super) fn differences(connection: &Connection) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (no, step) in (1..).zip(STEPS) {
        let kept =
            connection.ask(&format!("select sum from rethread.migration where no = {no}"))?;
        if kept.as_deref() != Some(blake3::hash(step.as_bytes()).to_hex().as_str()) {
            wrong.push(format!("step {no} of its schema is not the one that this program knows"));
        }
    }
    Ok(wrong)
}

pub(super) fn usage(connection: &Connection) -> Result<Usage> {
    let number = |sql: &str| number(connection, sql);
    Ok(Usage {
        sessions: number("select count(*) from session where deleted_at is null")?,
        deleted_sessions: number("select count(*) from session where deleted_at is not null")?,
        messages: number("select coalesce(sum(last_seq - base_seq), 0) from session")?,
        file_bytes: number(
            "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class
             where relnamespace = (select oid from pg_namespace where nspname = current_schema()) and relkind = 'r'",
        )?,
        // The log and the free space are the server's, for all its databases.
        wal_bytes: 0,
        free_bytes: 0,
        blob_bytes: number("select coalesce(sum(length(data)), 0) from blob")?,
        schema: i64::try_from(STEPS.len()).unwrap_or(0),
    })
}
