//! The embedded store: one SQLite file, one thread that writes, as many readers as are needed.
//!
//! Reads run on the caller's thread: they take microseconds, a change of threads takes longer.

mod append;
mod blob;
mod claims;
mod columns;
mod connection;
mod copies;
mod damage;
mod extras;
mod facts;
mod feed;
mod folders;
mod gone;
mod idempotency;
mod imports;
mod index;
mod mend;
mod open;
mod openings;
mod passages;
mod plain;
mod postings;
mod purges;
mod read;
mod rebuild;
mod recall;
mod records;
mod repair;
mod rows;
mod schema;
mod scope;
mod search;
mod summed;
pub(crate) mod sums;
mod talks;
mod tokens;
mod upkeep;
mod usage;
mod wal;
mod words;
mod workflows;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::opening::Watermark;
use rethread_domain::search::Found;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};
use rusqlite::Connection;

pub use self::copies::Restored;
use self::read::Texts;
use self::writer::Writer;
use crate::error::{Error, Result};
use crate::search::Search;
use crate::types::{
    Append, Appended, Begun, Dump, Grant, Health, ListFilter, OpeningCount, RecallRequest,
    Recalled, Record, Repaired, Span, Usage,
};
use crate::{Finding, Sessions, Talks, Upkeep};

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
    /// What was found wrong when it was opened.
    warning: Option<String>,
    /// Whether the program does one thing and ends.
    is_brief: bool,
}

impl SqliteStore {
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
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sessions for SqliteStore {
    async fn start(&self, id: SessionId, beginning: Beginning, at: Timestamp) -> Result<Session> {
        self.write_before(move |connection| facts::start(connection, id, beginning, at)).await
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>> {
        self.write(move |connection| append::append(connection, append)).await
    }

    async fn change(&self, before: &Session, fact: Fact, at: Timestamp) -> Result<Session> {
        let (id, decided_on) = (before.id, before.facts);
        self.write_before(move |connection| facts::change(connection, id, decided_on, &fact, at))
            .await
    }

    async fn fork(
        &self,
        source: SessionId,
        at_seq: Seq,
        id: SessionId,
        at: Timestamp,
    ) -> Result<Session> {
        self.write(move |connection| facts::fork(connection, source, at_seq, id, at)).await
    }

    async fn session(&self, id: SessionId) -> Result<Session> {
        self.read(|connection| Ok(rows::session_by_id(connection, id)?.session))
    }

    async fn resolve(&self, reference: &SessionRef, user: Option<&str>) -> Result<Vec<SessionId>> {
        self.read(|connection| read::resolve(connection, reference, user))
    }

    async fn list(&self, filter: &ListFilter) -> Result<Vec<Session>> {
        self.read(|connection| read::list(connection, filter))
    }

    async fn conversations(&self, id: SessionId) -> Result<Vec<Conversation>> {
        self.read(|connection| {
            facts::conversations(connection, rows::session_by_id(connection, id)?.no)
        })
    }

    async fn message_by_id(&self, id: SessionId, message: &str) -> Result<Option<Seq>> {
        self.read(|connection| {
            let row = rows::session_by_id(connection, id)?;
            match id.seq_of(message) {
                Some(seq) => Ok(Some(seq).filter(|seq| (1..=row.session.last_seq).contains(seq))),
                None => scope::Scope::of(connection, &row)?.given(connection, message),
            }
        })
    }

    async fn messages(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        self.read(|connection| {
            read::messages(connection, &rows::session_by_id(connection, id)?, span, Texts::Whole)
        })
    }

    async fn heads(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        self.read(|connection| {
            read::messages(connection, &rows::session_by_id(connection, id)?, span, Texts::Ends)
        })
    }

    async fn facts(&self, id: SessionId) -> Result<Vec<FactRecord>> {
        self.read(|connection| facts::facts(connection, rows::session_by_id(connection, id)?.no))
    }

    async fn agents(&self, id: SessionId) -> Result<Vec<AgentUse>> {
        self.read(|connection| {
            read::agent_runs(connection, rows::session_by_id(connection, id)?.no, recall::AGENTS)
        })
    }

    async fn recall(&self, request: &RecallRequest) -> Result<Recalled> {
        self.read(|connection| recall::recall(connection, request))
    }
}

#[async_trait]
impl Talks for SqliteStore {
    async fn stream(
        &self,
        id: SessionId,
        conversation: &str,
        updates: Vec<(Timestamp, Update)>,
    ) -> Result<()> {
        let conversation = conversation.to_owned();
        self.write(move |connection| talks::stream(connection, id, &conversation, &updates)).await
    }

    async fn begun(&self, id: SessionId, conversation: &str) -> Result<Option<Begun>> {
        self.read(|connection| talks::begun(connection, id, conversation))
    }

    async fn underway(&self) -> Result<Vec<(SessionId, String)>> {
        self.read(talks::underway)
    }

    async fn watermark(
        &self,
        id: SessionId,
        conversation: &str,
        agent: &str,
    ) -> Result<Option<Watermark>> {
        self.read(|connection| talks::watermark(connection, id, conversation, agent))
    }

    async fn last_agent(
        &self,
        id: SessionId,
        conversation: Option<&str>,
    ) -> Result<Option<String>> {
        self.read(|connection| {
            let session = rows::session_by_id(connection, id)?;
            talks::last_agent(connection, &session, conversation)
        })
    }

    async fn attached(&self, id: SessionId, after: Range<Seq>) -> Result<Vec<(u32, FactRecord)>> {
        self.read(|connection| facts::attached(connection, id, &after))
    }

    async fn openings(&self, user: Option<&str>) -> Result<Vec<OpeningCount>> {
        self.read(|connection| openings::counts(connection, user))
    }

    async fn quiet_since(&self, before: Timestamp, limit: u32) -> Result<Vec<SessionId>> {
        self.read(|connection| talks::quiet_since(connection, before, limit))
    }

    async fn granted(
        &self,
        user: &str,
        project: &str,
        agent: &str,
        what: &str,
    ) -> Result<Option<bool>> {
        self.read(|connection| talks::granted(connection, user, project, agent, what))
    }

    async fn grants(&self) -> Result<Vec<Grant>> {
        self.read(talks::grants)
    }

    async fn grant(&self, grant: Grant, at: Timestamp) -> Result<()> {
        self.write(move |connection| talks::grant(connection, &grant, at)).await
    }

    async fn ungrant(&self, project: &str) -> Result<u32> {
        let project = project.to_owned();
        self.write(move |connection| talks::ungrant(connection, &project)).await
    }

    async fn ungrant_unlike(&self, agent: &str, beginning: &str) -> Result<u32> {
        let (agent, beginning) = (agent.to_owned(), beginning.to_owned());
        self.write(move |connection| talks::ungrant_unlike(connection, &agent, &beginning)).await
    }
}

#[async_trait]
impl Finding for SqliteStore {
    async fn search(&self, search: &Search) -> Result<Found> {
        self.read_metered(|connection| search::search(connection, search))
    }

    async fn index(&self, most: u32) -> Result<u64> {
        if !self.read(index::is_behind)? {
            return Ok(0);
        }
        let mut left = most;
        let large = self.read(index::step)?;
        while left > 0 {
            let step = left.min(large);
            let job = move |connection: &mut Connection| {
                writer::without_sync(connection, |connection| {
                    index::catch_up_soon(connection, step)
                })
            };
            if self.writer()?.maintain(job).await? < step {
                break;
            }
            left -= step;
        }
        self.read(index::left)
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn erase(&self, id: SessionId) -> Result<()> {
        let path = self.path.clone();
        self.write(move |connection| {
            upkeep::erase(connection, &path, &rows::session_by_id(connection, id)?)
        })
        .await
    }

    async fn erase_if_empty(&self, id: SessionId) -> Result<()> {
        let path = self.path.clone();
        self.write(move |connection| {
            let row = rows::session_by_id(connection, id)?;
            if row.session.last_seq == 0 { upkeep::erase(connection, &path, &row) } else { Ok(()) }
        })
        .await
    }

    async fn erase_deleted(&self, before: Timestamp) -> Result<u32> {
        let path = self.path.clone();
        self.write(move |connection| upkeep::erase_deleted(connection, &path, before)).await
    }

    async fn take_in(&self, dump: Dump) -> Result<Session> {
        self.write(move |connection| rebuild::take_in(connection, dump)).await
    }

    async fn replace(&self, dump: Dump, expected: (Seq, u32)) -> Result<bool> {
        let no = self.read(|connection| Ok(rows::session_by_id(connection, dump.id)?.no))?;
        if claims::is_driven(&self.path, no)? {
            return Ok(false);
        }
        let path = self.path.clone();
        self.write(move |connection| upkeep::replace(connection, &path, dump, expected)).await
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
        claims::sweep_locks(&self.path)?;
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
        self.read(|connection| upkeep::usage(connection, &self.path))
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
