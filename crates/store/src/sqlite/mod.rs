//! The embedded store: one SQLite file, one thread that writes, as many readers as are needed.
//!
//! Reads run on the caller's thread: they take microseconds, a change of threads takes longer.

mod connection;
mod copies;
mod dialect;
mod locks;
mod mend;
mod open;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod postings_tests;
mod records;
mod repair;
mod schema;
mod sql;
mod summed;
pub(crate) mod sums;
mod titles;
mod wal;
mod writer;

#[path = "../sql/append.rs"]
mod append;
#[path = "../sql/blob.rs"]
mod blob;
#[path = "../sql/claims.rs"]
mod claims;
#[path = "../sql/columns.rs"]
mod columns;
#[path = "../sql/damage.rs"]
mod damage;
#[path = "../sql/extras.rs"]
mod extras;
#[path = "../sql/facts.rs"]
mod facts;
#[path = "../sql/feed.rs"]
mod feed;
#[path = "../sql/folders.rs"]
mod folders;
#[path = "../sql/gone.rs"]
mod gone;
#[path = "../sql/idempotency.rs"]
mod idempotency;
#[path = "../sql/imports.rs"]
mod imports;
#[path = "../sql/index.rs"]
mod index;
#[path = "../sql/jobs.rs"]
mod jobs;
#[path = "../sql/openings.rs"]
mod openings;
#[path = "../sql/passages.rs"]
mod passages;
#[path = "../sql/plain.rs"]
mod plain;
#[path = "../sql/postings/mod.rs"]
mod postings;
#[path = "../sql/purges.rs"]
mod purges;
#[path = "../sql/read.rs"]
mod read;
#[path = "../sql/rebuild.rs"]
mod rebuild;
#[path = "../sql/recall.rs"]
mod recall;
#[path = "../sql/rows.rs"]
mod rows;
#[path = "../sql/scope.rs"]
mod scope;
#[path = "../sql/search/mod.rs"]
mod search;
#[path = "../sql/store.rs"]
mod store;
#[path = "../sql/talks.rs"]
mod talks;
#[path = "../sql/tokens.rs"]
mod tokens;
#[path = "../sql/upkeep.rs"]
mod upkeep;
#[path = "../sql/usage.rs"]
mod usage;
#[path = "../sql/words.rs"]
mod words;
#[path = "../sql/workflows/mod.rs"]
mod workflows;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::{Seq, Session, SessionId};
use rusqlite::Connection;

use self::SqliteStore as ThisStore;
pub use self::copies::Restored;
pub(crate) use self::copies::fill;
use self::locks::{Lock, Locks};
use self::writer::Writer;
use crate::Upkeep;
use crate::crash;
use crate::error::{Error, Result};
use crate::types::{Dump, Health, Record, Repaired, Usage};

/// Readers that are kept open.
const READERS: usize = 8;

pub(crate) struct SqliteStore {
    path: PathBuf,
    file: connection::Opened,
    readers: Mutex<Vec<Connection>>,
    /// Started by the first write: who only reads needs no thread.
    writer: OnceLock<Writer>,
    starting: Mutex<()>,
    /// Tells whether anybody has written, this process too: it is no connection that writes.
    watcher: Mutex<Option<Connection>>,
    folded: Arc<workflows::Cache>,
    locks: Locks,
    /// What was found wrong when it was opened.
    warning: Option<String>,
    /// Whether the program does one thing and ends.
    is_brief: bool,
}

impl SqliteStore {
    const HAS_OWN_FILES: bool = true;

    fn writer(&self) -> Result<&Writer> {
        if let Some(writer) = self.writer.get() {
            return Ok(writer);
        }
        let _one_at_a_time = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.writer.get().is_none() {
            let (connection, file) = (connection::writer(&self.path)?, self.file.clone());
            let make = if self.is_brief { Writer::here } else { Writer::spawn };
            let writer = make(&self.path, connection, file)?;
            // Nobody else sets it meanwhile.
            drop(self.writer.set(writer));
        }
        self.writer.get().ok_or_else(|| Error::Failed("the writer did not start".into()))
    }

    /// Reads one state of the store.
    fn read<T>(&self, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.read_metered(|connection| job(connection))
    }

    fn read_metered<T>(&self, job: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let lock = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.check()?;
        if let Some(mut only) = self.writer.get().and_then(Writer::idle_here) {
            let (answer, is_ended) = connection::read_one_state(&mut only, job)?;
            if !is_ended {
                only.execute_batch("rollback")?;
            }
            return answer;
        }
        let idle = lock().pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => connection::reader(&self.path)?,
        };
        let (answer, is_ended) = connection::read_one_state(&mut reader, job)?;
        let mut readers = lock();
        if is_ended && readers.len() < READERS {
            readers.push(reader);
        }
        answer
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer()?.write(job).await
    }

    /// Writes what comes before an append: a program that ends with it needs no sync for this.
    async fn write_before<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let writer = self.writer()?;
        if self.is_brief { writer.write_soon(job).await } else { writer.write(job).await }
    }

    /// Writes what need not outlive the machine.
    async fn write_soon<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer()?.write_soon(job).await
    }

    /// Brings up to `most` messages into the search index, in a transaction of its own; gives how many it was.
    async fn bring_in(&self, most: u32) -> Result<u32> {
        let job = move |connection: &mut Connection| {
            writer::without_sync(connection, |connection| {
                writer::without_patience(connection, |connection| index::catch_up(connection, most))
            })
        };
        self.writer()?.maintain(job).await
    }

    /// Takes what was removed out of the log file; gives whether it could.
    async fn empty_written(&self, is_patient: bool) -> Result<bool> {
        let fold = move |connection: &mut Connection| {
            if !is_patient {
                connection.busy_timeout(std::time::Duration::ZERO)?;
            }
            let is_empty = writer::fold_log(connection, "truncate");
            connection::be_patient(connection)?;
            crash::point("purge.folded");
            Ok(is_empty)
        };
        self.writer()?.maintain(fold).await
    }

    fn locks(&self) -> &Locks {
        &self.locks
    }

    fn folded(&self) -> &Arc<workflows::Cache> {
        &self.folded
    }

    #[expect(clippy::unused_async, reason = "a store behind a network waits here")]
    async fn take_lock(&self, name: String) -> Result<Option<Lock>> {
        self.locks.take(&name)
    }

    #[expect(clippy::unused_async, reason = "a store behind a network waits here")]
    async fn sweep(&self) -> Result<Vec<i64>> {
        self.locks.sweep()
    }

    /// A number that changes when anybody has written.
    fn written(&self) -> Result<u64> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match watcher.take() {
            Some(connection) => connection,
            None => connection::reader(&self.path)?,
        };
        let version: i64 = connection.query_row("pragma data_version", [], |row| row.get(0))?;
        *watcher = Some(connection);
        Ok(u64::try_from(version).unwrap_or(0))
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn erase(&self, id: SessionId) -> Result<()> {
        let locks = self.locks.clone();
        self.write(move |connection| {
            upkeep::erase(connection, &locks, &rows::session_by_id(connection, id)?)
        })
        .await
    }

    async fn erase_if_empty(&self, id: SessionId) -> Result<()> {
        let locks = self.locks.clone();
        self.write(move |connection| {
            let row = rows::session_by_id(connection, id)?;
            if row.session.last_seq == 0 { upkeep::erase(connection, &locks, &row) } else { Ok(()) }
        })
        .await
    }

    async fn erase_deleted(&self, before: Timestamp) -> Result<u32> {
        let locks = self.locks.clone();
        self.write(move |connection| upkeep::erase_deleted(connection, &locks, before)).await
    }

    async fn take_in(&self, dump: Dump) -> Result<Session> {
        self.write(move |connection| rebuild::take_in(connection, dump)).await
    }

    async fn replace(&self, dump: Dump, expected: (Seq, u32)) -> Result<bool> {
        let is_driven = self.read(|connection| {
            self.locks.is_driven(connection, rows::session_by_id(connection, dump.id)?.no)
        })?;
        if is_driven {
            return Ok(false);
        }
        let locks = self.locks.clone();
        self.write(move |connection| upkeep::replace(connection, &locks, dump, expected)).await
    }

    async fn backup(&self, to: &Path) -> Result<()> {
        copies::copy(&connection::reader(&self.path)?, to)
    }

    async fn check(&self) -> Result<Health> {
        // On a connection that has searched before, SQLite compares the index with what it was then.
        let mut reader = connection::reader(&self.path)?;
        let state = reader.transaction()?;
        let health = upkeep::check(&state)?;
        Ok(Health { damaged_logs: wal::kept(&self.path), ..health })
    }

    async fn warning(&self) -> Result<Option<String>> {
        Ok(self.warning.clone())
    }

    fn leave(&self) -> bool {
        self.writer.get().is_none_or(Writer::leave)
    }

    async fn mend(&self, id: SessionId, texts: Vec<String>) -> Result<Vec<Record>> {
        self.write(move |connection| mend::mend(connection, id, &texts)).await
    }

    async fn repair(&self, backup: Option<&Path>, at: Timestamp) -> Result<Repaired> {
        self.folded.clear();
        let backup = backup.map(Path::to_owned);
        self.write(move |connection| repair::repair(connection, backup.as_deref(), at)).await
    }

    async fn rebuild(&self) -> Result<()> {
        self.folded.clear();
        self.write(rebuild::everything).await
    }

    async fn compact(&self) -> Result<()> {
        self.locks.sweep_all()?;
        self.writer()?
            .maintain(|connection| {
                index::merge(connection)?;
                connection.execute_batch("vacuum")?;
                writer::fold_log(connection, "truncate");
                Ok(())
            })
            .await
    }

    async fn usage(&self) -> Result<Usage> {
        self.read(|connection| schema::usage(connection, &self.path))
    }
}

/// Puts a backup in place of the file of a store. Gives the file that keeps what was there: each time another.
pub fn restore(from: &Path, to: &Path, at: Timestamp) -> Result<Restored> {
    copies::restore(from, to, at)
}

pub use sums::{checked_columns, is_intact, register as register_checksums};

/// The version of SQLite in this program.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}
