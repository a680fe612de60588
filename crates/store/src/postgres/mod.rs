//! The store on a PostgreSQL server, for several programs at once: one thread that writes, and a few connections that read.
//!
//! What it reads and writes is the same as in SQLite, by the same files (`sql/`); what differs has the same names here as there.

mod address;
mod connection;
mod copies;
mod dialect;
mod failure;
mod locks;
mod pool;
mod repair;
mod schema;
mod server;
mod sql;
mod summed;
mod sums;
mod titles;
mod tls;
mod values;
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

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::{Seq, Session, SessionId};

use self::PostgresStore as ThisStore;
use self::connection::Connection;
use self::locks::{Lock, Locks};
use self::pool::{Pool, number};
use self::server::Server;
use self::writer::{Orders, Writer};
use crate::Upkeep;
use crate::error::{Error, Result};
use crate::types::{Dump, Health, Record, Repaired, Usage};
use crate::url::PostgresUrl;

pub(crate) struct PostgresStore {
    /// Started by the first write: who only reads needs no thread. It ends before the connections do.
    writer: OnceLock<Writer>,
    starting: Mutex<()>,
    orders: Orders,
    pool: Pool,
    locks: Locks,
    folded: Arc<workflows::Cache>,
    server: Arc<Server>,
    shown: String,
}

impl PostgresStore {
    const HAS_OWN_FILES: bool = false;

    pub(crate) fn open(url: &PostgresUrl) -> Result<Self> {
        let shown = url.to_string();
        let server = Server::new(&url.target()?)?;
        let pool = Pool::new(Arc::clone(&server));
        let prepared = pool.with(|connection| {
            schema::check_server(connection, &shown)?;
            schema::migrate(connection, &shown)
        });
        prepared.map_err(|error| match error {
            Error::CannotOpen(why) => Error::CannotOpen(format!("{shown}: {why}")),
            error => error,
        })?;
        let orders = Orders::default();
        let locks = Locks::new(Arc::clone(&server), orders.clone());
        let (writer, starting, folded) = (OnceLock::new(), Mutex::new(()), Arc::default());
        Ok(Self { writer, starting, orders, pool, locks, folded, server, shown })
    }

    fn writer(&self) -> Result<&Writer> {
        if let Some(writer) = self.writer.get() {
            return Ok(writer);
        }
        let _one_at_a_time = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.writer.get().is_none() {
            let writer = Writer::spawn(Arc::clone(&self.server), self.orders.clone())?;
            // Nobody else sets it meanwhile.
            drop(self.writer.set(writer));
        }
        self.writer.get().ok_or_else(|| Error::Failed("the writer did not start".into()))
    }

    /// Reads one state of the store.
    fn read<T>(&self, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.pool.read(|connection| job(connection))
    }

    /// The same, for work that takes long and need not hurry.
    fn read_at_length<T>(&self, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.read(|connection| {
            connection.send(
                "set local idle_in_transaction_session_timeout = 0; set local statement_timeout = 0",
            );
            job(connection)
        })
    }

    fn read_metered<T>(&self, job: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        self.pool.read(job)
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer()?.write(job).await
    }

    /// Here everything is durable when it is told.
    async fn write_before<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write(job).await
    }

    async fn write_soon<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write(job).await
    }

    /// Brings up to `most` messages into the search index; gives how many it was.
    async fn bring_in(&self, most: u32) -> Result<u32> {
        self.write(move |connection| index::catch_up(connection, most)).await
    }

    /// What was removed stays in the files of the server until it has cleaned up, and in its log and its backups for longer.
    #[expect(clippy::unused_async, reason = "the file of SQLite is emptied here")]
    async fn empty_written(&self, _: bool) -> Result<bool> {
        Ok(false)
    }

    const fn locks(&self) -> &Locks {
        &self.locks
    }

    const fn folded(&self) -> &Arc<workflows::Cache> {
        &self.folded
    }

    async fn take_lock(&self, name: String) -> Result<Option<Lock>> {
        let locks = self.locks.clone();
        self.write(move |connection| locks.lock(connection, &name)).await
    }

    async fn sweep(&self) -> Result<Vec<i64>> {
        let locks = self.locks.clone();
        self.write(move |connection| locks.sweep(connection)).await
    }

    /// A number that changes when anybody has written.
    fn written(&self) -> Result<u64> {
        self.pool.with(|connection| Ok(number(connection, "select version from head")?))
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("url", &self.shown).finish_non_exhaustive()
    }
}

#[async_trait]
impl Upkeep for PostgresStore {
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
        let locks = self.locks.clone();
        self.write(move |connection| {
            let no = rows::session_by_id(connection, dump.id)?.no;
            if locks.is_driven(connection, no)? {
                return Ok(false);
            }
            upkeep::replace(connection, &locks, dump, expected)
        })
        .await
    }

    async fn backup(&self, to: &Path) -> Result<()> {
        self.read_at_length(|connection| copies::copy(connection, to))
    }

    async fn check(&self) -> Result<Health> {
        self.read_at_length(upkeep::check)
    }

    async fn warning(&self) -> Result<Option<String>> {
        Ok(None)
    }

    fn leave(&self) -> bool {
        // What is held is given back when this is dropped.
        self.writer.get().is_none()
    }

    /// There are no texts here that are known to be damaged.
    async fn mend(&self, _: SessionId, _: Vec<String>) -> Result<Vec<Record>> {
        Ok(Vec::new())
    }

    async fn repair(&self, _: Option<&Path>, _: Timestamp) -> Result<Repaired> {
        Ok(Repaired::default())
    }

    async fn rebuild(&self) -> Result<()> {
        self.folded.clear();
        self.write(rebuild::everything).await
    }

    async fn compact(&self) -> Result<()> {
        self.write(index::merge).await?;
        self.writer()?
            .maintain(|connection| {
                connection.execute_batch("set statement_timeout = 0")?;
                connection.set_patience(std::time::Duration::from_hours(24));
                let done = connection.execute_batch("vacuum");
                connection.set_patience(connection::PATIENCE);
                done.and(connection.execute_batch("reset statement_timeout"))
            })
            .await
    }

    async fn usage(&self) -> Result<Usage> {
        self.read(schema::usage)
    }
}
