//! What is held by somebody who lives: a row that names them, which counts as long as they say that they live. A program says so
//! every few seconds; its time is that of the server, whatever its own clock says.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use uuid::Uuid;

use super::jobs::Job;
use super::server::Server;
use super::sql::{Connection, OptionalExtension};
use super::writer::{Order, Orders};
use crate::error::{Error, Result};

/// How often a program says that it lives. It counts as dead after ten seconds without a word.
const HEARTBEAT: Duration = Duration::from_secs(3);
const LIVES: &str =
    "insert into node (id, until) values (?1, clock_timestamp() + interval '10 seconds')
    on conflict (id) do update set until = excluded.until";
/// Whether the holder lives.
const IS_ALIVE: &str =
    "exists (select 1 from node where id = held.node and until > clock_timestamp())";
/// How long it is waited for that others hear of a lock that is given back.
const PATIENCE: Duration = Duration::from_secs(1);

/// The locks of a store.
#[derive(Debug, Clone)]
pub(super) struct Locks(Arc<Node>);

/// This program, as others see it.
#[derive(Debug)]
struct Node {
    id: String,
    orders: Orders,
    /// What we hold.
    own: Mutex<HashSet<String>>,
    beat: Arc<Beat>,
    server: Arc<Server>,
}

/// Held until it is dropped.
pub(super) struct Lock {
    node: Arc<Node>,
    name: String,
}

impl Node {
    fn own(&self) -> MutexGuard<'_, HashSet<String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.node.own().remove(&self.name);
        let (node, name) = (Arc::clone(&self.node), self.name.clone());
        let job = move |connection: &Connection| {
            // Somebody else here may have taken it since.
            if !node.own().contains(&name) {
                connection
                    .prepare_cached("delete from held where name = ?1 and node = ?2")?
                    .execute((&name, &node.id))?;
            }
            Ok(())
        };
        let (done, is_done) = mpsc::channel();
        let job = Box::new(Told { job: Some(job), failed: None, done });
        // Where nobody writes any more, others wait until we count as dead.
        if self.node.orders.give(Order::Write(job)).is_ok() && !self.node.orders.is_own_thread() {
            is_done.recv_timeout(PATIENCE).unwrap_or(());
        }
    }
}

/// A job that somebody waits for who does not run on an executor.
struct Told<F> {
    job: Option<F>,
    /// What could not be given back ends with the lease.
    failed: Option<Error>,
    done: mpsc::Sender<()>,
}

impl<F: FnOnce(&Connection) -> Result<()> + Send> Job for Told<F> {
    fn run(&mut self, connection: &Connection) -> Option<&Error> {
        self.failed = self.job.take().and_then(|job| job(connection).err());
        self.failed.as_ref()
    }

    fn tell(self: Box<Self>, _: Result<()>) {
        self.done.send(()).unwrap_or(());
    }
}

impl Locks {
    pub(super) fn new(server: Arc<Server>, orders: Orders) -> Self {
        let id = Uuid::now_v7().to_string();
        let (own, beat) = (Mutex::default(), Arc::default());
        Self(Arc::new(Node { id, orders, own, beat, server }))
    }

    /// Takes a lock, if nobody has it, in a transaction that writes.
    pub(super) fn lock(&self, connection: &Connection, name: &str) -> Result<Option<Lock>> {
        let node = &self.0;
        let sql = format!("select node, {IS_ALIVE} from held where name = ?1");
        let holder: Option<(String, bool)> = connection
            .prepare_cached(&sql)?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let is_held = match holder {
            None => false,
            Some((holder, _)) if holder == node.id => node.own().contains(name),
            Some((_, is_alive)) => is_alive,
        };
        if is_held {
            return Ok(None);
        }
        connection.prepare_cached(LIVES)?.execute([&node.id])?;
        connection
            .prepare_cached(
                "insert into held (name, node) values (?1, ?2)
                 on conflict (name) do update set node = excluded.node",
            )?
            .execute((name, &node.id))?;
        node.own().insert(name.to_owned());
        let lock = Lock { node: Arc::clone(node), name: name.to_owned() };
        Beat::begin(&node.beat, &node.server, &node.id)?;
        Ok(Some(lock))
    }

    /// Forgets what somebody held who has died.
    #[expect(clippy::unused_self, reason = "the files of SQLite are somewhere")]
    pub(super) fn clear(&self, connection: &Connection, name: &str) -> Result<()> {
        let sql = format!("delete from held where name = ?1 and not {IS_ALIVE}");
        connection.prepare_cached(&sql)?.execute([name])?;
        Ok(())
    }

    pub(super) fn is_locked(&self, connection: &Connection, name: &str) -> Result<bool> {
        if self.0.own().contains(name) {
            return Ok(true);
        }
        let sql = format!("select 1 from held where name = ?1 and node <> ?2 and {IS_ALIVE}");
        Ok(connection.prepare_cached(&sql)?.exists((name, &self.0.id))?)
    }

    /// Whether somebody drives a session or one of its conversations.
    pub(super) fn is_driven(&self, connection: &Connection, no: i64) -> Result<bool> {
        let (whole, from, to) = names_of(no);
        let is_of = |name: &String| *name == whole || name.starts_with(&from);
        if self.0.own().iter().any(is_of) {
            return Ok(true);
        }
        let sql = format!(
            "select 1 from held where (name = ?1 or name >= ?2 and name < ?3) and node <> ?4 and {IS_ALIVE}"
        );
        Ok(connection.prepare_cached(&sql)?.exists((&whole, &from, &to, &self.0.id))?)
    }

    /// Removes the locks of sessions that nobody holds; gives the numbers of workflows with a lock that nobody holds.
    pub(super) fn sweep(&self, connection: &Connection) -> Result<Vec<i64>> {
        let sql = format!("select name from held where node <> ?1 and not {IS_ALIVE}");
        let names: Vec<String> = connection
            .prepare_cached(&sql)?
            .query_map([&self.0.id], |row| row.get(0))?
            .collect::<super::sql::SqlResult<_>>()?;
        let mut found = Vec::new();
        for name in names {
            match name.strip_prefix('w').and_then(|name| name.split('-').next()?.parse().ok()) {
                Some(no) => found.push(no),
                None => self.clear(connection, &name)?,
            }
        }
        connection.execute(
            "delete from node where until < clock_timestamp() - interval '1 day'
                and not exists (select 1 from held where node = node.id)",
            [],
        )?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// A session that is gone needs no locks.
    #[expect(clippy::unused_self, reason = "the files of SQLite are somewhere")]
    pub(super) fn forget(&self, connection: &Connection, no: i64) {
        let (whole, from, to) = names_of(no);
        let sql = "delete from held where name = ?1 or name >= ?2 and name < ?3";
        // One that stays does no harm.
        drop(connection.execute(sql, (whole, from, to)));
    }

    /// Nor does a workflow that is gone.
    #[expect(clippy::unused_self, reason = "the files of SQLite are somewhere")]
    pub(super) fn forget_workflow(&self, connection: &Connection, no: i64) {
        let (_, from, to) = names_of(no);
        let sql = "delete from held where name >= ?1 and name < ?2";
        // One that stays does no harm.
        drop(connection.execute(sql, (format!("w{from}"), format!("w{to}"))));
    }
}

/// The name of a session's lock, and the bounds of the names of those of its conversations.
fn names_of(no: i64) -> (String, String, String) {
    // A full stop comes after a hyphen.
    (no.to_string(), format!("{no}-"), format!("{no}."))
}

/// Says again and again that a program lives, from the time on when it holds something.
#[derive(Debug, Default)]
struct Beat {
    state: Mutex<BeatState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct BeatState {
    has_begun: bool,
    is_over: bool,
}

impl Beat {
    fn state(&self) -> MutexGuard<'_, BeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(beat: &Arc<Self>, server: &Arc<Server>, id: &str) -> Result<()> {
        let mut state = beat.state();
        if !std::mem::replace(&mut state.has_begun, true) {
            let (beat, server, id) = (Arc::clone(beat), Arc::downgrade(server), id.to_owned());
            std::thread::Builder::new().name("store-heartbeat".into()).spawn(move || {
                let mut connection: Option<Connection> = None;
                while beat.pause() {
                    let Some(server) = server.upgrade() else { return };
                    if !connection.as_ref().is_some_and(Connection::is_usable) {
                        connection = server.connect().ok();
                    }
                    if let Some(one) = &connection
                        && one
                            .prepare_cached(LIVES)
                            .and_then(|mut lives| lives.execute([&id]))
                            .is_err()
                    {
                        connection = None;
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Waits for the next time; gives whether there is one.
    fn pause(&self) -> bool {
        let waited =
            self.stopped.wait_timeout_while(self.state(), HEARTBEAT, |state| !state.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.beat.state().is_over = true;
        self.beat.stopped.notify_all();
    }
}
