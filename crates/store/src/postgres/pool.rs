//! Connections that read, a few, kept open.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::connection::Connection;
use super::server::Server;
use super::sql::SqlResult;
use crate::error::{Error, Result};

/// The most that are open at a time.
const MOST: usize = 6;
/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Pool {
    server: Arc<Server>,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
}

impl Pool {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, state: Mutex::default(), returned: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<Connection> {
        let is_full = |state: &mut State| {
            let before = state.idle.len();
            state.idle.retain(Connection::is_usable);
            state.open -= before - state.idle.len();
            state.idle.is_empty() && state.open >= MOST
        };
        let found = self.returned.wait_timeout_while(self.state(), PATIENCE, is_full);
        let (mut state, _) = found.unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = state.idle.pop() {
            return Ok(idle);
        }
        if state.open >= MOST {
            return Err(Error::Busy);
        }
        state.open += 1;
        drop(state);
        let connected = self.server.connect();
        if connected.is_err() {
            self.give_up();
        }
        connected
    }

    fn give_up(&self) {
        self.state().open -= 1;
        self.returned.notify_one();
    }

    fn give_back(&self, connection: Connection) {
        if connection.is_usable() {
            self.state().idle.push(connection);
            self.returned.notify_one();
        } else {
            self.give_up();
        }
    }

    /// Does something with a connection, outside of any transaction.
    pub(super) fn with<T>(&self, job: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut taken = Taken { pool: self, connection: Some(self.take()?) };
        match &mut taken.connection {
            Some(connection) => job(connection),
            None => Err(Error::Failed("there is no connection".into())),
        }
    }

    /// Reads one state of the store.
    pub(super) fn read<T>(&self, job: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        self.with(|connection| {
            connection.send("begin isolation level repeatable read read only");
            let answer = job(connection);
            // Nobody waits for the end of what only read; whoever comes next hears if that failed.
            connection.send("commit");
            answer
        })
    }
}

/// A connection that goes back whatever happens, a panic too.
struct Taken<'p> {
    pool: &'p Pool,
    connection: Option<Connection>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            if std::thread::panicking() {
                self.pool.give_up();
            } else {
                self.pool.give_back(connection);
            }
        }
    }
}

/// What a connection is asked outside of transactions has one answer.
pub(super) fn number(connection: &Connection, sql: &str) -> SqlResult<u64> {
    connection.prepare(sql)?.query_row([], |row| row.get(0))
}
