//! A connection that waits for its answers, with statements as the shared SQL uses them.
//!
//! What has to be sent and needs no answer yet goes out with the next statement: a transaction costs no round trip to begin, and
//! a savepoint none.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures::task::{ArcWake, noop_waker, waker};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::dialect;
use super::failure::{lost, of};
use super::sql::{FallibleStreamingIterator, FromSql, SqlError, SqlResult};
use super::values::{Params, Row, Value};
use crate::error::{Error, Result};

/// How long an answer is waited for: longer than the server lets a statement run.
pub(super) const PATIENCE: Duration = Duration::from_secs(35);
/// Messages that are read in one go, at first and at most.
const FIRST_PAGE: i64 = 32;
const LARGEST_PAGE: i64 = 1024;
/// Whoever counts work is asked once for each statement, and once more for so many rows.
const ROWS_A_TICK: usize = 4;

type PgResult<T> = std::result::Result<T, tokio_postgres::Error>;
type Sent = Pin<Box<dyn Future<Output = PgResult<()>> + Send>>;
type Ticked = Box<dyn FnMut() -> bool + Send>;

/// A connection. Who has it has it alone.
pub(super) struct Connection {
    client: Arc<Client>,
    statements: RefCell<HashMap<Box<str>, tokio_postgres::Statement>>,
    /// What was sent, and not answered yet.
    sent: RefCell<Vec<Sent>>,
    ticked: RefCell<Option<Ticked>>,
    /// Nobody knows any more what it will answer next.
    is_broken: Cell<bool>,
    patience: Cell<Duration>,
}

/// Wakes a thread that is parked.
struct Woken(Thread);

impl ArcWake for Woken {
    fn wake_by_ref(woken: &Arc<Self>) {
        woken.0.unpark();
    }
}

/// Waits on this thread, whatever else runs on it; `None` where it took too long.
fn wait_for<T>(future: impl Future<Output = T>, patience: Duration) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let waker = waker(Arc::new(Woken(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let deadline = Instant::now() + patience;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        std::thread::park_timeout(left);
    }
}

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client: Arc::new(client),
            statements: RefCell::default(),
            sent: RefCell::default(),
            ticked: RefCell::default(),
            is_broken: Cell::new(false),
            patience: Cell::new(PATIENCE),
        }
    }

    /// Whether it can be used on.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_broken.get() && !self.client.is_closed()
    }

    pub(super) fn set_patience(&self, patience: Duration) {
        self.patience.set(patience);
    }

    /// Has every so much work told, until there is nobody to tell it to. Ends what is asked meanwhile when it gives `true`.
    #[expect(clippy::unnecessary_wraps, reason = "SQLite may refuse")]
    pub(super) fn progress_handler<F>(&mut self, _: i32, ticked: Option<F>) -> SqlResult<()>
    where
        F: FnMut() -> bool + Send + 'static,
    {
        *self.ticked.borrow_mut() = ticked.map(|ticked| Box::new(ticked) as Ticked);
        Ok(())
    }

    fn tick(&self, rows: usize) -> SqlResult<()> {
        if let Some(ticked) = self.ticked.borrow_mut().as_mut()
            && (0..=rows / ROWS_A_TICK).any(|_| ticked())
        {
            return Err(SqlError::Store(Error::Interrupted));
        }
        Ok(())
    }

    fn wait<T>(&self, future: impl Future<Output = PgResult<T>>) -> SqlResult<T> {
        match wait_for(future, self.patience.get()) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                if error.code().is_none() || error.is_closed() {
                    self.is_broken.set(true);
                }
                Err(SqlError::Store(of(&error)))
            }
            None => {
                self.is_broken.set(true);
                Err(SqlError::Store(lost("it did not answer in time")))
            }
        }
    }

    /// Sends what has no answer to be waited for. If it fails, what comes next fails.
    pub(super) fn send(&self, sql: &str) {
        let (client, sql) = (Arc::clone(&self.client), sql.to_owned());
        self.send_off(Box::pin(async move { client.batch_execute(&sql).await }));
    }

    fn send_off(&self, mut sent: Sent) {
        let first = sent.as_mut().poll(&mut Context::from_waker(&noop_waker()));
        if let Poll::Ready(done) = first {
            sent = Box::pin(futures::future::ready(done));
        }
        self.sent.borrow_mut().push(sent);
    }

    /// Waits for all that was sent.
    pub(super) fn settle(&self) -> SqlResult<()> {
        let sent = std::mem::take(&mut *self.sent.borrow_mut());
        let mut settled = Ok(());
        for one in sent {
            let done = self.wait(one);
            settled = settled.and(done);
        }
        settled
    }

    /// Waits for an answer, and before it for those of all that was sent before.
    fn answer<T>(&self, future: impl Future<Output = PgResult<T>>) -> SqlResult<T> {
        if !self.is_usable() {
            return Err(SqlError::Store(lost("it was closed")));
        }
        let mut future = std::pin::pin!(future);
        let first = future.as_mut().poll(&mut Context::from_waker(&noop_waker()));
        self.settle()?;
        match first {
            Poll::Ready(done) => self.wait(futures::future::ready(done)),
            Poll::Pending => self.wait(future),
        }
    }

    /// Carries out statements that give nothing.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<()> {
        Ok(self.answer(self.client.batch_execute(sql))?)
    }

    /// The first column of what a statement without values gives, as text.
    pub(super) fn ask(&self, sql: &str) -> Result<Option<String>> {
        let rows = self.answer(self.client.simple_query(sql))?;
        Ok(rows.into_iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    fn prepared(&self, sql: &str) -> SqlResult<tokio_postgres::Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let prepared = self.answer(self.client.prepare(&dialect::spoken(sql)))?;
        self.statements.borrow_mut().insert(sql.into(), prepared.clone());
        Ok(prepared)
    }

    fn rows(
        &self,
        statement: &tokio_postgres::Statement,
        values: &[Value],
    ) -> SqlResult<Vec<Row<'static>>> {
        let rows = self.answer(self.client.query(statement, &given(values)))?;
        self.tick(rows.len())?;
        rows.iter().map(Row::of).collect()
    }

    pub(super) fn prepare(&self, sql: &str) -> SqlResult<Statement<'_>> {
        let stretch = Stretch::of(sql);
        let prepared = match stretch {
            Some(_) => self.prepared(&format!("{sql} limit ?3"))?,
            None => self.prepared(sql)?,
        };
        Ok(Statement { connection: self, prepared, stretch, changes_one: changes_one(sql) })
    }

    pub(super) fn prepare_cached(&self, sql: &str) -> SqlResult<CachedStatement<'_>> {
        self.prepare(sql)
    }

    pub(super) fn execute(&self, sql: &str, params: impl Params) -> SqlResult<usize> {
        self.prepare(sql)?.execute(params)
    }

    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.prepare(sql)?.query_row(params, read)
    }
}

fn given(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// Messages between two keys are read in pages: all of them may be the whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    OldestFirst,
    NewestFirst,
}

impl Stretch {
    fn of(sql: &str) -> Option<Self> {
        let (_, rest) = sql.split_once(" from message where id between ?1 and ?2 order by id")?;
        match rest {
            "" => Some(Self::OldestFirst),
            " desc" => Some(Self::NewestFirst),
            _ => None,
        }
    }
}

/// A statement that was prepared.
pub(super) struct Statement<'c> {
    connection: &'c Connection,
    prepared: tokio_postgres::Statement,
    stretch: Option<Stretch>,
    changes_one: bool,
}

/// Whether a statement changes one row, if it does not fail: then nobody waits for it.
fn changes_one(sql: &str) -> bool {
    let is_insert = sql.starts_with("insert into ") && !sql.contains("do nothing");
    (is_insert || sql.starts_with("update session set ")) && !sql.contains("returning")
}

/// Every statement stays prepared as long as its connection.
pub(super) type CachedStatement<'c> = Statement<'c>;

impl Statement<'_> {
    pub(super) fn execute(&mut self, params: impl Params) -> SqlResult<usize> {
        let values = params.values();
        if self.changes_one {
            let (client, prepared) = (Arc::clone(&self.connection.client), self.prepared.clone());
            self.connection.send_off(Box::pin(async move {
                client.execute(&prepared, &given(&values)).await.map(drop)
            }));
            return Ok(1);
        }
        let client = &self.connection.client;
        let changed = self.connection.answer(client.execute(&self.prepared, &given(&values)))?;
        self.connection.tick(0)?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    fn all(&self, params: impl Params) -> SqlResult<Vec<Row<'static>>> {
        let mut values = params.values();
        if self.stretch.is_some() {
            values.push(Value::Integer(i64::MAX));
        }
        self.connection.rows(&self.prepared, &values)
    }

    pub(super) fn query(&mut self, params: impl Params) -> SqlResult<Rows<'_>> {
        let Some(stretch) = self.stretch else {
            let read = self.all(params)?.into_iter();
            return Ok(Rows { statement: self, read, current: None, more: None });
        };
        let more = match params.values()[..] {
            [Value::Integer(lo), Value::Integer(hi)] => {
                Some(Page { stretch, lo, hi, size: FIRST_PAGE })
            }
            _ => None,
        };
        Ok(Rows { statement: self, read: Vec::new().into_iter(), current: None, more })
    }

    pub(super) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let rows = self.all(params)?;
        read(rows.first().ok_or(SqlError::NoRow)?)
    }

    pub(super) fn exists(&mut self, params: impl Params) -> SqlResult<bool> {
        Ok(!self.all(params)?.is_empty())
    }

    pub(super) fn query_map<T, F>(&mut self, params: impl Params, read: F) -> SqlResult<Mapped<F>>
    where
        F: FnMut(&Row<'_>) -> SqlResult<T>,
    {
        Ok(Mapped { rows: self.all(params)?.into_iter(), read })
    }
}

/// Rows as something else.
pub(super) struct Mapped<F> {
    rows: std::vec::IntoIter<Row<'static>>,
    read: F,
}

impl<T, F: FnMut(&Row<'_>) -> SqlResult<T>> Iterator for Mapped<F> {
    type Item = SqlResult<T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next().map(|row| (self.read)(&row))
    }
}

/// What is left of a stretch.
struct Page {
    stretch: Stretch,
    lo: i64,
    hi: i64,
    size: i64,
}

/// Rows, one after the other.
pub(super) struct Rows<'s> {
    statement: &'s Statement<'s>,
    read: std::vec::IntoIter<Row<'static>>,
    current: Option<Row<'s>>,
    more: Option<Page>,
}

impl<'s> Rows<'s> {
    pub(super) fn next(&mut self) -> SqlResult<Option<&Row<'s>>> {
        self.advance()?;
        Ok(self.current.as_ref())
    }

    fn turn(&mut self) -> SqlResult<()> {
        let Some(Page { stretch, lo, hi, size }) = self.more.take() else { return Ok(()) };
        if lo > hi {
            return Ok(());
        }
        let values = [Value::Integer(lo), Value::Integer(hi), Value::Integer(size)];
        let rows = self.statement.connection.rows(&self.statement.prepared, &values)?;
        if let Some(last) = rows.last().filter(|_| i64::try_from(rows.len()) == Ok(size)) {
            let key = i64::column_result(last.get_ref(0)?)?;
            let size = (size * 2).min(LARGEST_PAGE);
            self.more = Some(match stretch {
                Stretch::OldestFirst => Page { stretch, lo: key + 1, hi, size },
                Stretch::NewestFirst => Page { stretch, lo, hi: key - 1, size },
            });
        }
        self.read = rows.into_iter();
        Ok(())
    }
}

impl<'s> FallibleStreamingIterator for Rows<'s> {
    type Item = Row<'s>;

    fn advance(&mut self) -> SqlResult<()> {
        self.current = self.read.next();
        if self.current.is_none() && self.more.is_some() {
            self.turn()?;
            self.current = self.read.next();
        }
        Ok(())
    }

    fn get(&self) -> Option<&Row<'s>> {
        self.current.as_ref()
    }
}
