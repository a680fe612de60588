//! The row that sums up a workflow, and what is found by it.

use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_workflow::{Pause, Status, WorkflowId};

use super::super::rows::micros;
use super::super::sql::{
    Connection, OptionalExtension, Row, SqlResult, Value, params, params_from_iter, unreadable,
};
use super::super::summed::summed;
use super::super::{dialect, sums};
use crate::error::{Error, Result};
use crate::types::Epoch;
use crate::workflows::{WorkflowFilter, WorkflowRow};

/// The most that a shortened id is said to mean.
const CANDIDATES: usize = 8;

const COLUMNS: &str = "no, id, user, worktree, title, agent, status, tasks_done, tasks, sessions, task, paused_at,
    pause_reason, until, created_at, updated_at, cost_usd, tokens, events, epoch, lease_until, told";

/// A workflow's row, with what is not in its log.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) no: i64,
    pub(super) sum: WorkflowRow,
    pub(super) epoch: Epoch,
    /// In microseconds.
    pub(super) lease_until: i64,
    pub(super) told: u32,
    /// Its row cannot be trusted: only its number is known until it is healed.
    damaged: bool,
}

const WIDTH: usize = 22;

/// Final ones have the highest numbers.
pub(super) const fn status_number(status: Status) -> i64 {
    match status {
        Status::Pending => 0,
        Status::InProgress => 1,
        Status::Blocked => 2,
        Status::Paused => 3,
        Status::Completed => 4,
        Status::Failed => 5,
        Status::Cancelled => 6,
    }
}

fn time_or_none(row: &Row<'_>, index: usize) -> SqlResult<Option<Timestamp>> {
    let time = |micros| {
        Timestamp::from_microsecond(micros).map_err(|error| unreadable(index, error.to_string()))
    };
    row.get::<_, Option<i64>>(index)?.map(time).transpose()
}

fn time(row: &Row<'_>, index: usize) -> SqlResult<Timestamp> {
    time_or_none(row, index)?.ok_or_else(|| unreadable(index, "no time".into()))
}

/// Reads a row; one that is damaged has to be healed.
fn read(row: &Row<'_>) -> SqlResult<Found> {
    let (no, id) = (row.get(0)?, row.get::<_, String>(1).ok().and_then(|id| id.parse().ok()));
    if sums::is_intact(row, WIDTH)
        && let Ok(found) = read_intact(row)
    {
        return Ok(found);
    }
    let sum = WorkflowRow::unknown(id.unwrap_or_else(WorkflowId::generate));
    let number = |index: usize| row.get(index).unwrap_or(0);
    Ok(Found {
        no,
        sum,
        epoch: number(19),
        lease_until: row.get(20).unwrap_or(0),
        told: number(21),
        damaged: true,
    })
}

/// A workflow as its log says, where its row is damaged.
fn healed(connection: &Connection, mut found: Found) -> Result<Found> {
    if found.damaged {
        // Its id too may be what is damaged; the index has it once more.
        let id: Option<String> = connection
            .prepare_cached(dialect::WORKFLOW_ID)?
            .query_row([found.no], |row| row.get(0))
            .ok();
        let id = id.and_then(|id| id.parse().ok()).unwrap_or(found.sum.id);
        found.sum = WorkflowRow::of(&super::log::fold(connection, found.no, id)?);
    }
    Ok(found)
}

fn read_intact(row: &Row<'_>) -> SqlResult<Found> {
    let (id, status): (String, i64) = (row.get(1)?, row.get(6)?);
    let known = Status::ALL.into_iter().find(|known| status_number(*known) == status);
    let sum = WorkflowRow {
        id: id.parse().map_err(|_| unreadable(1, format!("not a workflow id: {id:?}")))?,
        user: row.get(2)?,
        worktree: row.get(3)?,
        title: row.get(4)?,
        agent: row.get(5)?,
        status: known.ok_or_else(|| unreadable(6, format!("not a status: {status}")))?,
        tasks_done: row.get(7)?,
        tasks: row.get(8)?,
        sessions: row.get(9)?,
        task: row.get(10)?,
        pause: paused(row).filter(|_| known == Some(Status::Paused)),
        created_at: time(row, 14)?,
        updated_at: time(row, 15)?,
        cost_usd: row.get(16)?,
        tokens: u64::try_from(row.get::<_, i64>(17)?).unwrap_or(0),
        events: row.get(18)?,
    };
    Ok(Found {
        no: row.get(0)?,
        sum,
        epoch: row.get(19)?,
        lease_until: row.get(20)?,
        told: row.get(21)?,
        damaged: false,
    })
}

/// What its row says of a pause; a row of an older version may still have it when the workflow is over.
fn paused(row: &Row<'_>) -> Option<Pause> {
    let (at, until) = (time(row, 11).ok()?, time_or_none(row, 13).ok()?);
    Some(Pause { at, reason: row.get(12).ok()?, until })
}

/// The id of the workflow with this number, if there is one.
pub(super) fn id_of(connection: &Connection, no: i64) -> Result<Option<WorkflowId>> {
    let sql = format!("select {COLUMNS}, sum from workflow where no = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([no], read).optional()?;
    Ok(found.map(|found| healed(connection, found)).transpose()?.map(|found| found.sum.id))
}

pub(super) fn find(connection: &Connection, id: WorkflowId) -> Result<Found> {
    find_or_none(connection, id)?.ok_or(Error::NoWorkflow(id))
}

pub(super) fn find_or_none(connection: &Connection, id: WorkflowId) -> Result<Option<Found>> {
    let mut statement =
        connection.prepare_cached(&format!("select {COLUMNS}, sum from workflow where id = ?1"))?;
    let found = statement.query_row([id.to_string()], read).optional()?;
    found.map(|found| healed(connection, found)).transpose()
}

pub(super) fn find_by_no(connection: &Connection, no: i64) -> Result<Option<Found>> {
    let mut statement =
        connection.prepare(&format!("select {COLUMNS}, sum from workflow where no = ?1"))?;
    let found = statement.query_row([no], read).optional()?;
    found.map(|found| healed(connection, found)).transpose()
}

/// Every one, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<Found>> {
    let mut statement =
        connection.prepare(&format!("select {COLUMNS}, sum from workflow order by no"))?;
    let found: Vec<Found> = statement.query_map([], read)?.collect::<SqlResult<_>>()?;
    found.into_iter().map(|found| healed(connection, found)).collect()
}

/// Another workflow that still needs the folder.
pub(super) fn user_of_worktree(
    connection: &Connection,
    worktree: &str,
) -> Result<Option<WorkflowId>> {
    let found = connection
        .prepare_cached(&format!(
            "select {COLUMNS}, sum from workflow where worktree = ?1 and status < ?2 limit 1"
        ))?
        .query_row((worktree, status_number(Status::Completed)), read)
        .optional()?;
    let found = found.map(|found| healed(connection, found)).transpose()?;
    Ok(found.map(|found| found.sum.id))
}

/// Writes what the log amounts to; a row that is not there yet is made. Gives its number.
pub(super) fn write(connection: &Connection, sum: &WorkflowRow) -> Result<i64> {
    let no = connection
        .prepare_cached(
            summed!("insert into workflow (id, user, worktree, title, agent, status, tasks_done, tasks, sessions, task,
                paused_at, pause_reason, until, created_at, updated_at, cost_usd, tokens, events)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
             on conflict (id) do update set user = ?2, worktree = ?3, title = ?4, agent = ?5, status = ?6,
                tasks_done = ?7, tasks = ?8, sessions = ?9, task = ?10, paused_at = ?11, pause_reason = ?12,
                until = ?13, created_at = ?14, updated_at = ?15, cost_usd = ?16, tokens = ?17, events = ?18
             returning no"),
        )?
        .query_row(params![
            sum.id.to_string(),
            sum.user,
            sum.worktree,
            sum.title,
            sum.agent,
            status_number(sum.status),
            sum.tasks_done,
            sum.tasks,
            sum.sessions,
            sum.task,
            sum.pause.as_ref().map(|pause| micros(pause.at)),
            sum.pause.as_ref().map(|pause| pause.reason.as_str()),
            sum.pause.as_ref().and_then(|pause| pause.until).map(micros),
            micros(sum.created_at),
            micros(sum.updated_at),
            sum.cost_usd,
            i64::try_from(sum.tokens).unwrap_or(i64::MAX),
            sum.events,
        ], |row| row.get(0))?;
    Ok(no)
}

/// The query for those of one status.
pub(in super::super) fn listing(filter: &WorkflowFilter) -> String {
    let index = match (&filter.worktree, &filter.user) {
        (Some(_), _) => "workflow_in_worktree",
        (None, Some(_)) => "workflow_of_user",
        (None, None) => "workflow_by_status",
    };
    let index = dialect::by_index(index);
    let whose = match (&filter.worktree, &filter.user) {
        (Some(_), _) => "worktree = ?1 and (?2 is null or user = ?2)",
        (None, Some(_)) => "?1 is null and user = ?2",
        (None, None) => "?1 is null and ?2 is null",
    };
    let place = if filter.before.is_some() { "and (created_at, id) < (?5, ?6)" } else { "" };
    format!(
        "select {COLUMNS}, sum from workflow {index} where {whose} and status = ?3 {place}
         order by created_at desc, id desc limit ?4"
    )
}

/// The newest that fit. Those of each status are in order in the index; they are merged.
pub(super) fn list(connection: &Connection, filter: &WorkflowFilter) -> Result<Vec<WorkflowRow>> {
    let mut statement = connection.prepare_cached(&listing(filter))?;
    let mut found: Vec<Found> = Vec::new();
    let is_wanted =
        |status: &Status| filter.statuses.is_empty() || filter.statuses.contains(status);
    for status in Status::ALL.into_iter().filter(is_wanted) {
        let mut wanted: Vec<Value> = vec![
            filter.worktree.clone().into(),
            filter.user.clone().into(),
            status_number(status).into(),
            filter.limit.into(),
        ];
        if let Some((at, id)) = filter.before {
            wanted.extend([micros(at).into(), id.to_string().into()]);
        }
        for row in statement.query_map(params_from_iter(wanted), read)? {
            found.push(healed(connection, row?)?);
        }
    }
    found.sort_unstable_by_key(|found| std::cmp::Reverse((found.sum.created_at, found.sum.id)));
    found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|found| found.sum).collect())
}

/// What a whole or shortened id may mean.
pub(super) fn resolve(
    connection: &Connection,
    text: &str,
    user: Option<&str>,
) -> Result<Vec<WorkflowId>> {
    let from = text.to_ascii_lowercase();
    if from.is_empty() || !from.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Ok(Vec::new());
    }
    // No hexadecimal digit comes after this, so it ends the range of what begins with `from`.
    let to = format!("{from}g");
    let mut found: Vec<WorkflowId> = Vec::new();
    for sql in [
        "select id from workflow where id >= ?1 and id < ?2 and (?4 is null or user = ?4) limit ?3",
        "select id from workflow where substr(id, 25) >= ?1 and substr(id, 25) < ?2
         and (?4 is null or user = ?4) limit ?3",
    ] {
        let mut statement = connection.prepare_cached(sql)?;
        let ids =
            statement.query_map((&from, &to, CANDIDATES, user), |row| row.get::<_, String>(0))?;
        for id in ids {
            let id = id?;
            found.push(id.parse().map_err(|_| Error::Damaged(format!("workflow id {id:?}")))?);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The workflow that a session is part of, the newest where there are several, and its task.
pub(super) fn workflow_of(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<(WorkflowId, String)>> {
    let found: Option<(String, String)> = connection
        .prepare_cached(&format!(
            "select id, workflow_session.task from workflow_session join workflow on no = workflow
             where session = ?1 and {} order by workflow desc limit 1",
            sums::insist("workflow_session", "the task of a session")
        ))?
        .query_row([session.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, task)) = found else { return Ok(None) };
    let id = id.parse().map_err(|_| Error::Damaged(format!("workflow id {id:?}")))?;
    Ok(Some((id, task)))
}
