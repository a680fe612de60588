//! The feed: a line for each change, written in the transaction that makes it. SQLite has one writer at a time, so
//! numbers are in the order of commits: whoever has read up to one has missed nothing before it.

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::Session;
use rethread_domain::feed::{FeedEvent, Kind};
use rethread_workflow::{Event, Workflow};

use super::sql::{Connection, Row};
use super::summed::summed;
use super::{ThisStore, rows, sums};
use crate::Feed;
use crate::error::{Error, Result};
use crate::types::FeedPage;
use crate::workflows::WorkflowRow;

/// How many lines are looked at for each that is wanted: what is another user's must not hold up a read for long.
const LOOKED_AT: u32 = 20;

#[async_trait]
impl Feed for ThisStore {
    async fn feed(&self, after: u64, user: Option<&str>, limit: u32) -> Result<FeedPage> {
        self.read(|connection| page(connection, after, user, limit))
    }

    async fn feed_head(&self) -> Result<u64> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("select max(no) from feed")?;
            let head: Option<i64> = statement.query_row([], |row| row.get(0))?;
            Ok(head.and_then(|head| u64::try_from(head).ok()).unwrap_or(0))
        })
    }
}

fn page(connection: &Connection, after: u64, user: Option<&str>, limit: u32) -> Result<FeedPage> {
    let mut page = FeedPage { events: Vec::new(), upto: after };
    let mut statement = connection.prepare_cached(
        "select no, at, user, kind, session, workflow, first, last, sum from feed
         where no > ?1 order by no limit ?2",
    )?;
    let most = i64::from(limit) * i64::from(LOOKED_AT);
    let mut found = statement.query((i64::try_from(after).unwrap_or(i64::MAX), most))?;
    while page.events.len() < limit as usize
        && let Some(row) = found.next()?
    {
        let no = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(page.upto);
        let before = page.events.last().map_or(Timestamp::UNIX_EPOCH, |event| event.at);
        // Numbers have no gaps: what is missing was there.
        if no > page.upto + 1 {
            page.events.push(damaged(no - 1, before));
        }
        page.upto = no;
        let event = if sums::is_intact(row, 8) { read(row).ok() } else { None };
        let event = event.unwrap_or_else(|| damaged(no, before));
        if event.kind == Kind::Damaged || user.is_none_or(|user| event.user == user) {
            page.events.push(event);
        }
    }
    Ok(page)
}

/// What stands for a line that cannot be read. It may be anybody's, so everybody is given it.
fn damaged(no: u64, at: Timestamp) -> FeedEvent {
    let (session, workflow, user) = (None, None, String::new());
    FeedEvent { no, at, kind: Kind::Damaged, user, session, workflow, first: 0, last: 0 }
}

fn read(row: &Row<'_>) -> Result<FeedEvent> {
    let no: i64 = row.get(0)?;
    let damaged = |why: String| Error::Damaged(format!("line {no} of the feed: {why}"));
    let (kind, session, workflow): (String, Option<String>, Option<String>) =
        (row.get(3)?, row.get(4)?, row.get(5)?);
    Ok(FeedEvent {
        no: u64::try_from(no).unwrap_or(0),
        at: Timestamp::from_microsecond(row.get(1)?).map_err(|error| damaged(error.to_string()))?,
        user: row.get(2)?,
        kind: Kind::read(&kind),
        session: session
            .map(|id| id.parse().map_err(|_| damaged(format!("not a session id: {id:?}"))))
            .transpose()?,
        workflow: workflow
            .map(|id| id.parse().map_err(|_| damaged(format!("not a workflow id: {id:?}"))))
            .transpose()?,
        first: row.get(6)?,
        last: row.get(7)?,
    })
}

/// Tells of a session. `first` and `last` are numbers of its messages or facts.
pub(super) fn tell(
    connection: &Connection,
    session: &Session,
    kind: Kind,
    (first, last): (u32, u32),
    at: i64,
) -> Result<()> {
    let id = Some(session.id.to_string());
    write(connection, (at, &session.user, kind.as_str(), id, None, first, last))
}

/// Tells of the latest fact of a session.
pub(super) fn tell_fact(
    connection: &Connection,
    session: &Session,
    kind: Kind,
    at: Timestamp,
) -> Result<()> {
    tell(connection, session, kind, (session.facts, session.facts), rows::micros(at))
}

/// Tells of the messages after `before`, if there are any.
pub(super) fn tell_messages(
    connection: &Connection,
    session: &Session,
    before: u32,
    at: i64,
) -> Result<()> {
    if session.last_seq == before {
        return Ok(());
    }
    tell(connection, session, Kind::MessagesAppended, (before + 1, session.last_seq), at)
}

/// What is to be told of events of one workflow.
#[derive(Default)]
pub(super) struct Lines(Vec<(Kind, Option<String>, u32, u32)>);

impl Lines {
    /// Adds event `no`, which has been applied. Several that only ask for another look are one line.
    pub(super) fn add(&mut self, workflow: &Workflow, event: &Event, no: u32) {
        let kind = event.feed_kind();
        let session = rethread_workflow::session_of(event, workflow).map(|id| id.to_string());
        match self.0.last_mut() {
            Some((Kind::WorkflowChanged, None, _, last))
                if kind == Kind::WorkflowChanged && session.is_none() =>
            {
                *last = no;
            }
            _ => self.0.push((kind, session, no, no)),
        }
    }

    pub(super) fn tell(self, connection: &Connection, workflow: &Workflow, at: i64) -> Result<()> {
        let (user, id) = (&workflow.charter.user, workflow.id.to_string());
        for (kind, session, first, last) in self.0 {
            let line = (at, user.as_str(), kind.as_str(), session, Some(id.as_str()), first, last);
            write(connection, line)?;
        }
        Ok(())
    }
}

/// A workflow is gone: whoever looks again sees it.
pub(super) fn tell_erased(connection: &Connection, row: &WorkflowRow) -> Result<()> {
    let (id, kind, now) = (row.id.to_string(), Kind::WorkflowChanged, rows::now(connection)?);
    write(connection, (now, &row.user, kind.as_str(), None, Some(&id), row.events, row.events))
}

type Line<'a> = (i64, &'a str, &'a str, Option<String>, Option<&'a str>, u32, u32);

fn write(connection: &Connection, line: Line<'_>) -> Result<()> {
    connection
        .prepare_cached(summed!(
            "insert into feed (at, user, kind, session, workflow, first, last)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        ))?
        .execute(line)?;
    Ok(())
}
