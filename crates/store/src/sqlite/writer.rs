//! Who writes: one thread, which takes everything that waits into one transaction, with one sync for all of it; or, for a
//! program that does one thing and ends, whoever calls.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use futures::channel::oneshot;
use rusqlite::{Connection, TransactionBehavior};

use super::connection::{self, Gone, Opened, beside};
use super::jobs::{Job, Task};
use crate::crash;
use crate::error::{Error, Result};

/// The most jobs in one transaction.
const LARGEST_BATCH: usize = 256;
/// The log file is folded into the store when it has grown past this.
const LARGEST_WAL: u64 = 8 << 20;
/// How many batches there may be before its size is looked at.
const BATCHES_BETWEEN: u32 = 64;
/// A program that did one thing leaves a log that is no larger than this to the next: folding it, and beginning another,
/// takes five syncs; reading it takes a fraction of a millisecond.
const LEFT_WAL: u64 = 1 << 20;
/// A store whose tables are only in the log is smaller.
const SMALLEST_STORE: u64 = 1 << 16;

/// How long what can follow later waits for another process.
const IMPATIENCE: std::time::Duration = std::time::Duration::from_millis(250);

enum Order {
    Write(Box<dyn Job>),
    /// Outside any transaction.
    Maintain(Box<dyn FnOnce(&mut Connection) + Send>),
}

/// What writes on the thread of whoever calls.
pub(super) struct Here {
    connection: Connection,
    file: Opened,
    path: PathBuf,
    /// Whether nothing was written yet.
    is_unused: bool,
}

impl Here {
    fn prepare_to_write(&mut self) {
        if std::mem::take(&mut self.is_unused) {
            name_log(&self.path);
        }
    }

    /// Folds a log that has become long, or that has all there is of a new store. The next one is begun at once, so that
    /// whoever records next waits for one sync.
    fn fold_if_long(&self) {
        let is_long = length_of(&beside(&self.path, "-wal")) > LEFT_WAL;
        if !self.is_unused
            && (is_long || length_of(&self.path) < SMALLEST_STORE)
            && fold_at_end(&self.connection, &self.file)
        {
            connection::sync_folder(&self.path);
            // Where that fails, the next one begins it.
            drop(begin_log(&self.connection));
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.fold_if_long();
    }
}

impl Deref for Here {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Here {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

fn length_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

/// Nobody has committed anything to an empty log, so nobody has made its name durable.
fn name_log(path: &Path) {
    if connection::is_log_new(path) {
        connection::sync_folder(path);
    }
}

/// Writes what the store says already, so that there is a beginning of the log.
fn begin_log(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.query_row("pragma user_version", [], |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version)
}

/// Handle to the writer. When it is dropped, what was asked for is written and the thread ends.
pub(super) struct Writer {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    here: Option<Mutex<Here>>,
}

impl Writer {
    /// Without a thread of its own.
    pub(super) fn here(path: &Path, mut connection: Connection, mut file: Opened) -> Result<Self> {
        file.watch(&mut connection)?;
        let here = Here { connection, file, path: path.to_owned(), is_unused: true };
        Ok(Self { orders: None, thread: None, here: Some(Mutex::new(here)) })
    }

    /// The connection of a writer without a thread, to read with, unless it writes just now.
    pub(super) fn idle_here(&self) -> Option<MutexGuard<'_, Here>> {
        self.here.as_ref()?.try_lock().ok()
    }

    /// Ends what has to be ended before the program does. Gives whether nothing is left for when this is dropped.
    pub(super) fn leave(&self) -> bool {
        let Some(here) = self.idle_here() else { return false };
        here.fold_if_long();
        true
    }

    pub(super) fn spawn(path: &Path, mut connection: Connection, mut file: Opened) -> Result<Self> {
        file.watch(&mut connection)?;
        name_log(path);
        let (orders, waiting) = mpsc::channel();
        let wal = beside(path, "-wal");
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(connection, file, &waiting, &wal))?;
        Ok(Self { orders: Some(orders), thread: Some(thread), here: None })
    }

    /// Runs `job` in the next transaction. It answers when that is durable. All that a job wrote before it failed is
    /// taken back.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.order(Order::Write(Box::new(Task::new(job, answer))))?;
        answered.await.map_err(|_| Error::Failed("the writer has stopped".into()))?
    }

    /// Runs `job` in a transaction of its own that nobody waits for to be durable: a power failure may take it back, with
    /// nothing that came after it. For what can be made again, and for claims, which end with the machine.
    pub(super) async fn write_soon<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.maintain(move |connection| {
            without_sync(connection, |connection| {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let done = job(&transaction)?;
                transaction.commit()?;
                Ok(done)
            })
        })
        .await
    }

    /// Runs `job` on the writing connection between two transactions.
    pub(super) async fn maintain<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.order(Order::Maintain(Box::new(move |connection| {
            // The caller may have gone.
            drop(answer.send(job(connection)));
        })))?;
        answered.await.map_err(|_| Error::Failed("the writer has stopped".into()))?
    }

    fn order(&self, order: Order) -> Result<()> {
        if let Some(here) = &self.here {
            let mut here = here.lock().unwrap_or_else(PoisonError::into_inner);
            here.prepare_to_write();
            let Here { connection, file, .. } = &mut *here;
            match order {
                Order::Write(job) => commit(connection, file, vec![job]),
                Order::Maintain(job) => job(connection),
            }
            return Ok(());
        }
        let stopped = || Error::Failed("the writer has stopped".into());
        self.orders.as_ref().ok_or_else(stopped)?.send(order).map_err(|_| stopped())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It ends when the queue is empty. If it panicked there is nothing left to wait for.
            drop(thread.join());
        }
    }
}

fn run(mut connection: Connection, mut file: Opened, waiting: &mpsc::Receiver<Order>, wal: &Path) {
    let mut batches = 0;
    while let Ok(first) = waiting.recv() {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Write(job) => jobs.push(job),
                Order::Maintain(job) => {
                    commit(&mut connection, &mut file, std::mem::take(&mut jobs));
                    job(&mut connection);
                }
            }
            next = if jobs.len() < LARGEST_BATCH { waiting.try_recv().ok() } else { None };
        }
        commit(&mut connection, &mut file, jobs);
        batches += 1;
        if batches % BATCHES_BETWEEN == 0
            && std::fs::metadata(wal).is_ok_and(|file| file.len() > LARGEST_WAL)
            && file.can_be_folded()
        {
            fold_log(&connection, "passive");
        }
    }
    fold_at_end(&connection, &file);
}

/// Whoever else uses the store folds the log when they end: nobody is waited for. Gives whether it was folded.
fn fold_at_end(connection: &Connection, file: &Opened) -> bool {
    // Where that cannot be set, somebody is waited for.
    drop(connection.busy_timeout(std::time::Duration::ZERO));
    file.can_be_folded() && fold_log(connection, "truncate")
}

/// Does work whose commits wait for no disk. The next commit that does makes it durable as well.
pub(super) fn without_sync<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T>,
) -> Result<T> {
    connection.pragma_update(None, "synchronous", "normal")?;
    let done = work(connection);
    if !connection.is_autocommit() {
        // Inside of a transaction it could not be set back.
        connection.execute_batch("rollback")?;
    }
    connection.pragma_update(None, "synchronous", "full")?;
    done
}

/// Does work in a transaction of its own, without waiting long for another process: it can follow later.
pub(super) fn without_patience<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    connection.busy_timeout(IMPATIENCE)?;
    let done = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(Into::into)
        .and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
    connection::be_patient(connection)?;
    done
}

/// Folds the log file into the store; gives whether all of it. Not folding it now is no failure: it is read all
/// the same.
pub(super) fn fold_log(connection: &Connection, how: &str) -> bool {
    let busy = connection.query_row(&format!("pragma wal_checkpoint({how})"), [], |row| row.get(0));
    matches!(busy, Ok(0))
}

fn commit(connection: &mut Connection, file: &mut Opened, mut jobs: Vec<Box<dyn Job>>) {
    if jobs.is_empty() {
        return;
    }
    let checked = file.check_to_write().map_err(|gone| {
        rescue(connection, &gone);
        gone.into()
    });
    let committed = checked.and_then(|()| begin(connection)).and_then(|()| {
        crash::point("batch.begun");
        for job in &mut jobs {
            run_whole(connection, job.as_mut())?;
        }
        crash::point("batch.applied");
        Ok(connection.prepare_cached("commit")?.raw_execute().map(|_| ())?)
    });
    crash::point("batch.committed");
    if committed.is_err() && !connection.is_autocommit() {
        // SQLite may have rolled back by itself; if this fails too, the next begin says so.
        drop(connection.execute_batch("rollback"));
    }
    // The log may have been deleted while we wrote to it: then only what could be rescued from it was written.
    let committed = committed.and_then(|()| match file.check_to_write() {
        Ok(()) => Ok(()),
        Err(gone) if rescue(connection, &gone) => Ok(()),
        Err(gone) => Err(gone.into()),
    });
    if committed.is_ok() {
        file.remember_commit();
    }
    for job in jobs {
        job.tell(committed.clone());
    }
}

/// Runs a job so that it writes all or nothing: what it wrote before it failed is taken back, and the others of its
/// batch go on. Fails where the store itself cannot be written to, or the whole transaction is gone.
fn run_whole(connection: &Connection, job: &mut dyn Job) -> Result<()> {
    connection.prepare_cached("savepoint job")?.raw_execute()?;
    let Some(error) = job.run(connection) else {
        return Ok(connection.prepare_cached("release job")?.raw_execute().map(|_| ())?);
    };
    if error.is_for_now() || connection.is_autocommit() {
        return Err(error.clone());
    }
    connection.prepare_cached("rollback to job")?.raw_execute()?;
    Ok(connection.prepare_cached("release job")?.raw_execute().map(|_| ())?)
}

/// A log that was deleted still has all that was written, as long as we have it open: it is folded into the store.
/// Gives whether all of it is there now.
fn rescue(connection: &Connection, gone: &Gone) -> bool {
    matches!(gone, Gone::Log(_)) && fold_log(connection, "full")
}

fn begin(connection: &Connection) -> Result<()> {
    Ok(connection.prepare_cached("begin immediate")?.raw_execute().map(|_| ())?)
}

#[cfg(test)]
mod tests;
