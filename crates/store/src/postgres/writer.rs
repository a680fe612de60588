//! Who writes: one thread, which takes everything that waits into one transaction. All programs that use a store wait for each
//! other before they write: what a job decides on is what is there until it commits.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::connection::Connection;
use super::jobs::{Job, Task};
use super::server::Server;
use crate::crash;
use crate::error::{Error, Result};

/// The most jobs in one transaction.
const LARGEST_BATCH: usize = 256;
/// How long a server that went away is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Waits until nobody else writes, and says that something is written. Gives the number of the transaction, by which it can be
/// asked for later how it ended.
const BEGIN: &str = "update head set version = version + 1 returning cast(cast(pg_current_xact_id() as text) as bytea)";

pub(super) enum Order {
    Write(Box<dyn Job>),
    /// Outside any transaction.
    Maintain(Maintenance),
}

type Maintenance = Box<dyn FnOnce(Result<&Connection>) + Send>;

/// The queue of jobs, and the thread that takes them out of it.
type Queue = (mpsc::Sender<Order>, ThreadId);

/// Where jobs are handed in, as long as somebody writes.
#[derive(Clone, Default)]
pub(super) struct Orders(Arc<Mutex<Option<Queue>>>);

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Orders")
    }
}

impl Orders {
    pub(super) fn give(&self, order: Order) -> Result<()> {
        let stopped = || Error::Failed("the writer has stopped".into());
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_ref().ok_or_else(stopped)?.0.send(order).map_err(|_| stopped())
    }

    /// Whether this is the thread that writes: it must not wait for itself.
    pub(super) fn is_own_thread(&self) -> bool {
        let orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_ref().is_some_and(|(_, writer)| *writer == std::thread::current().id())
    }
}

/// Handle to the writer. When it is dropped, what was asked for is written and the thread ends.
pub(super) struct Writer {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn spawn(server: Arc<Server>, orders: Orders) -> Result<Self> {
        let (give, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run(&server, &waiting))?;
        let own = Some((give, thread.thread().id()));
        *orders.0.lock().unwrap_or_else(PoisonError::into_inner) = own;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Runs `job` in the next transaction. It answers when that is durable. All that a job wrote before it failed is
    /// taken back.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.orders.give(Order::Write(Box::new(Task::new(job, answer))))?;
        answered.await.map_err(|_| Error::Failed("the writer has stopped".into()))?
    }

    /// Runs `job` on the writing connection between two transactions.
    pub(super) async fn maintain<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.orders.give(Order::Maintain(Box::new(move |connection| {
            // The caller may have gone.
            drop(answer.send(connection.and_then(job)));
        })))?;
        answered.await.map_err(|_| Error::Failed("the writer has stopped".into()))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        *self.orders.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            // It ends when the queue is empty. If it panicked there is nothing left to wait for.
            drop(thread.join());
        }
    }
}

fn run(server: &Server, waiting: &mpsc::Receiver<Order>) {
    let mut connection = None;
    while let Ok(first) = waiting.recv() {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Write(job) => jobs.push(job),
                Order::Maintain(job) => {
                    commit(server, &mut connection, std::mem::take(&mut jobs));
                    job(connected(server, &mut connection).map(|connection| &*connection));
                }
            }
            next = if jobs.len() < LARGEST_BATCH { waiting.try_recv().ok() } else { None };
        }
        commit(server, &mut connection, jobs);
    }
}

/// The connection that writes, made anew where it was lost.
fn connected<'a>(
    server: &Server,
    connection: &'a mut Option<Connection>,
) -> Result<&'a mut Connection> {
    if connection.as_ref().is_some_and(Connection::is_usable) {
        return connection.as_mut().ok_or(Error::Busy);
    }
    *connection = None;
    Ok(connection.insert(server.connect()?))
}

/// Begins a transaction, once nobody else writes; gives its number. A server that is away is waited for.
fn begin(server: &Server, connection: &mut Option<Connection>) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let begun = connected(server, connection).and_then(|connection| {
            connection.send("begin");
            Ok(connection.prepare(BEGIN)?.query_row([], |row| row.get::<_, String>(0))?)
        });
        match begun {
            Err(Error::CannotOpen(_) | Error::Busy) if Instant::now() < deadline => {
                *connection = None;
                std::thread::sleep(PAUSE);
            }
            Err(error) => {
                *connection = None;
                return Err(error);
            }
            Ok(number) => return Ok(number),
        }
    }
}

fn commit(server: &Server, connection: &mut Option<Connection>, mut jobs: Vec<Box<dyn Job>>) {
    if jobs.is_empty() {
        return;
    }
    let committed = begin(server, connection).and_then(|number| {
        crash::point("batch.begun");
        let written = still(connection.as_ref()).and_then(|connection| {
            let is_alone = jobs.len() == 1;
            for job in &mut jobs {
                run_whole(connection, job.as_mut(), is_alone)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            // Closed, it takes everything back.
            *connection = None;
            return Err(error);
        }
        crash::point("batch.applied");
        let ended = still(connection.as_ref()).and_then(|one| one.execute_batch("commit"));
        match ended {
            Err(error) => {
                *connection = None;
                match became(server, connection, &number) {
                    Ok(true) => Ok(()),
                    _ => Err(error),
                }
            }
            Ok(()) => Ok(()),
        }
    });
    crash::point("batch.committed");
    for job in jobs {
        job.tell(committed.clone());
    }
}

fn still(connection: Option<&Connection>) -> Result<&Connection> {
    connection.ok_or_else(|| Error::CannotOpen("the connection was lost".into()))
}

/// Whether a transaction was committed whose end nobody heard of. Whoever did it held the row that is waited for here: so it is
/// over.
fn became(server: &Server, connection: &mut Option<Connection>, number: &str) -> Result<bool> {
    begin(server, connection)?;
    let connection = still(connection.as_ref())?;
    let told = connection.ask(&format!("select pg_xact_status('{number}'::xid8)"));
    connection.execute_batch("rollback")?;
    Ok(told?.as_deref() == Some("committed"))
}

/// Runs a job so that it writes all or nothing: what it wrote before it failed is taken back, and the others of its
/// batch go on. Fails where the store itself cannot be written to, or the whole transaction is gone. What a job that is alone
/// has sent is waited for with the commit.
fn run_whole(connection: &Connection, job: &mut dyn Job, is_alone: bool) -> Result<()> {
    connection.send("savepoint job");
    let Some(error) = job.run(connection).cloned() else {
        connection.send("release job");
        return if is_alone { Ok(()) } else { Ok(connection.settle()?) };
    };
    if error.is_for_now() || !connection.is_usable() {
        return Err(error);
    }
    // What else it had sent failed or not, it is taken back.
    drop(connection.settle());
    connection.send("rollback to job");
    connection.send("release job");
    Ok(())
}
