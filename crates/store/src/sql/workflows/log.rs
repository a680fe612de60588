//! The events of workflows: check all first, then write, so that a refusal leaves nothing behind.

use std::collections::BTreeMap;
use std::mem::discriminant;

use jiff::Timestamp;
use rethread_domain::message::DAMAGED;
use rethread_domain::{Seq, SessionId};
use rethread_workflow::{Event, EventRecord, Quoted, Workflow, WorkflowId};

use super::super::feed::{self, Lines};
use super::super::rows::{key, micros, seq_of};
use super::super::sql::{Connection, Row, SqlResult};
use super::super::summed::summed;
use super::super::{damage, sums};
use super::rows::{self, Found};
use crate::crash;
use crate::error::{Error, Result};
use crate::types::{Epoch, Order, Span};
use crate::workflows::{WorkflowRow, whole};

/// The longest event, as it is kept.
const LONGEST: usize = 8 << 20;
/// How many bytes of events are read at once, where only a part is asked for.
const MOST_AT_ONCE: usize = 4 << 20;

/// An event as it is kept, and as it is read back.
pub(super) struct Kept {
    text: String,
    event: Event,
}

/// Events as they are kept.
pub(super) fn encode(id: WorkflowId, events: &[Event]) -> Result<Vec<Kept>> {
    let encode = |event| {
        let bad = |why: serde_json::Error| Error::BadEvent(id, why.to_string());
        let text = serde_json::to_string(event).map_err(bad)?;
        if text.len() > LONGEST {
            return Err(Error::EventTooLong { id, bytes: text.len(), most: LONGEST });
        }
        let kept = Kept { event: serde_json::from_str(&text).map_err(bad)?, text };
        // A number that is none, say, has no form in the log.
        if discriminant(&kept.event) != discriminant(event) {
            return Err(Error::BadEvent(id, "an event would be read back as another".into()));
        }
        Ok(kept)
    };
    events.iter().map(encode).collect()
}

/// The workflow that these events make.
pub(super) fn begin(id: WorkflowId, events: &[Kept], at: Timestamp) -> Result<Workflow> {
    let bad = || Error::BadEvent(id, "a workflow begins with what it is made with".into());
    let (first, rest) = events.split_first().ok_or_else(bad)?;
    let mut workflow = Workflow::create(id, &first.event, whole(at)).ok_or_else(bad)?;
    for kept in rest {
        workflow.apply(&kept.event, whole(at));
    }
    Ok(workflow)
}

/// Writes a new workflow; gives its number.
pub(super) fn create(
    connection: &Connection,
    workflow: &Workflow,
    events: &[Kept],
    at: Timestamp,
) -> Result<i64> {
    let id = workflow.id;
    if rows::find_or_none(connection, id)?.is_some() {
        return Err(Error::WorkflowExists(id));
    }
    let worktree = &workflow.charter.worktree;
    if let Some(by) = rows::user_of_worktree(connection, worktree)? {
        return Err(Error::WorktreeTaken { worktree: worktree.clone(), by });
    }
    let no = rows::write(connection, &WorkflowRow::of(workflow))?;
    insert(connection, no, 0, events, at)?;
    link(connection, no, events.iter().map(|kept| &kept.event))?;
    let mut lines = Lines::default();
    for (n, kept) in (1..).zip(events) {
        lines.add(workflow, &kept.event, n);
    }
    lines.tell(connection, workflow, micros(at))?;
    Ok(no)
}

/// Whether a write is let in: by whoever owns the workflow, and decided on what it is now.
pub(super) fn admit(
    connection: &Connection,
    id: WorkflowId,
    expected: u32,
    epoch: Option<Epoch>,
) -> Result<Found> {
    let row = rows::find(connection, id)?;
    if epoch.is_some_and(|epoch| epoch != row.epoch) {
        return Err(Error::LeaseLost(id));
    }
    if row.sum.events != expected {
        return Err(Error::WorkflowConflict(id));
    }
    Ok(row)
}

/// Adds events to what was admitted. `before` is the workflow without them, where it is known.
pub(super) fn append(
    connection: &Connection,
    row: &Found,
    before: Option<Workflow>,
    events: &[Kept],
    at: Timestamp,
) -> Result<(i64, Workflow)> {
    let mut workflow = match before {
        Some(workflow) => workflow,
        None => fold(connection, row.no, row.sum.id)?,
    };
    insert(connection, row.no, row.sum.events, events, at)?;
    crash::point("workflow.inserted");
    let mut lines = Lines::default();
    for kept in events {
        workflow.apply(&kept.event, whole(at));
        lines.add(&workflow, &kept.event, workflow.events);
    }
    lines.tell(connection, &workflow, micros(at))?;
    link(connection, row.no, events.iter().map(|kept| &kept.event))?;
    rows::write(connection, &WorkflowRow::of(&workflow))?;
    crash::point("workflow.counted");
    Ok((row.no, workflow))
}

fn insert(
    connection: &Connection,
    no: i64,
    after: u32,
    events: &[Kept],
    at: Timestamp,
) -> Result<()> {
    let mut statement = connection
        .prepare_cached(summed!("insert into workflow_event (id, at, what) values (?1, ?2, ?3)"))?;
    for (n, kept) in (after + 1..).zip(events) {
        statement.execute((key(no, n), micros(at), &kept.text))?;
    }
    Ok(())
}

/// The session that an event makes part of a task.
fn linked(event: &Event) -> Option<(String, &str)> {
    match event {
        Event::TaskBegan { task, session, .. } | Event::TaskMoved { task, session, .. } => {
            Some((session.to_string(), task))
        }
        _ => None,
    }
}

fn link<'a>(
    connection: &Connection,
    no: i64,
    events: impl Iterator<Item = &'a Event>,
) -> Result<()> {
    for (session, task) in events.filter_map(linked) {
        connection
            .prepare_cached(summed!(
                "insert into workflow_session (session, workflow, task) values (?1, ?2, ?3)
             on conflict (session, workflow) do update set task = excluded.task, sum = null"
            ))?
            .execute((session, no, task))?;
    }
    Ok(())
}

/// What happened after event `after`.
pub(super) fn events(connection: &Connection, no: i64, after: u32) -> Result<Vec<EventRecord>> {
    let span = Span { from: after.saturating_add(1), ..Span::after(1, u32::MAX) };
    stretch(connection, no, span, usize::MAX)
}

/// A part of what happened: fewer events than asked for where they are long.
pub(super) fn part(connection: &Connection, no: i64, span: Span) -> Result<Vec<EventRecord>> {
    stretch(connection, no, span, MOST_AT_ONCE)
}

fn stretch(
    connection: &Connection,
    no: i64,
    span: Span,
    most_bytes: usize,
) -> Result<Vec<EventRecord>> {
    let order = match span.order {
        Order::OldestFirst => "asc",
        Order::NewestFirst => "desc",
    };
    let mut statement = connection.prepare_cached(&format!(
        "select id, at, what, sum from workflow_event where id between ?1 and ?2 order by id {order} limit ?3"
    ))?;
    let mut found = statement.query((key(no, span.from), key(no, span.to), span.limit))?;
    let mut records = Vec::new();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        let known = if sums::is_intact(row, 3) { read(row) } else { None };
        bytes += row.get_ref(2)?.as_bytes().map_or(0, <[u8]>::len);
        if bytes > most_bytes && !records.is_empty() {
            break;
        }
        records.push(match known {
            Some(record) => record,
            None => EventRecord {
                no: seq_of(row.get(0)?),
                at: records.last().map_or(Timestamp::UNIX_EPOCH, |record: &EventRecord| record.at),
                event: Event::Unknown(damage::unread_entry("event")),
            },
        });
    }
    Ok(records)
}

fn read(row: &Row<'_>) -> Option<EventRecord> {
    let text = row.get_ref(2).ok()?.as_str().ok()?;
    Some(EventRecord {
        no: seq_of(row.get(0).ok()?),
        at: Timestamp::from_microsecond(row.get(1).ok()?).ok()?,
        event: serde_json::from_str(text).ok()?,
    })
}

/// Whether a mark stands in place of an event that cannot be read. One that was set aside says where it is kept.
fn is_damaged(event: &Event) -> bool {
    let Event::Unknown(map) = event else { return false };
    map.get("what").is_some_and(|what| what == DAMAGED) && !map.contains_key("kept")
}

pub(super) fn fold(connection: &Connection, no: i64, id: WorkflowId) -> Result<Workflow> {
    folded(id, &events(connection, no, 0)?)
}

/// The same from what was known of it before, and what came since.
pub(super) fn fold_on(connection: &Connection, no: i64, mut known: Workflow) -> Result<Workflow> {
    for record in events(connection, no, known.events)? {
        if is_damaged(&record.event) || matches!(record.event, Event::Purged { .. }) {
            // The whole log says what is wrong, or what was changed.
            return fold(connection, no, known.id);
        }
        known.apply(&record.event, record.at);
    }
    Ok(known)
}

fn folded(id: WorkflowId, events: &[EventRecord]) -> Result<Workflow> {
    let damaged = |why: &str| Error::Damaged(format!("workflow {id}: {why}"));
    if let Some((n, _)) = (1..).zip(events).find(|(n, record)| record.no != *n) {
        return Err(damaged(&format!("event {n} is missing")));
    }
    if let Some(record) = events.iter().find(|record| is_damaged(&record.event)) {
        // What it amounts to without this is not what happened.
        return Err(damaged(&format!(
            "event {} does not match its checksum; `rethread doctor --repair` brings it back from a backup or sets it aside",
            record.no
        )));
    }
    Workflow::fold(id, events)
        .ok_or_else(|| damaged("its log does not begin with what it is made with"))
}

/// Takes a message that is purged out of the events that quote it, in every workflow that one of its sessions worked for.
pub(in super::super) fn purge(
    connection: &Connection,
    sessions: &[SessionId],
    seq: Seq,
    text: &str,
    at: Timestamp,
) -> Result<()> {
    let quoted = Quoted::new(sessions, seq, text);
    let mut concerned: BTreeMap<i64, SessionId> = BTreeMap::new();
    for session in sessions {
        let mut statement = connection.prepare(
            "select workflow from workflow_session where session = ?1
             union select id >> 32 from workflow_event where instr(what, ?1) > 0",
        )?;
        let found = statement.query_map([session.to_string()], |row| row.get(0))?;
        for no in found {
            concerned.entry(no?).or_insert(*session);
        }
    }
    for (no, session) in concerned {
        let mut is_changed = false;
        for record in events(connection, no, 0)?.iter().filter(|one| !is_damaged(&one.event)) {
            let Some(event) = quoted.taken_out_of(&record.event) else { continue };
            let text =
                serde_json::to_string(&event).map_err(|bad| Error::Failed(bad.to_string()))?;
            connection.execute(
                summed!("update workflow_event set what = ?2 where id = ?1"),
                (key(no, record.no), text),
            )?;
            is_changed = true;
        }
        if is_changed {
            match tell_purged(connection, no, Event::Purged { session, message: seq }, at) {
                // It cannot go on before it is repaired; until then its row need not say why it stands.
                Err(Error::Damaged(_)) => {
                    let sql = summed!("update workflow set pause_reason = null where no = ?1");
                    connection.execute(sql, [no])?;
                }
                told => told?,
            }
        }
    }
    Ok(())
}

/// Whoever has the workflow in memory reads it anew when they see this event.
fn tell_purged(connection: &Connection, no: i64, event: Event, at: Timestamp) -> Result<()> {
    let Some(row) = rows::find_by_no(connection, no)? else { return Ok(()) };
    let told = encode(row.sum.id, &[event])?;
    append(connection, &row, None, &told, at).map(drop)
}

/// Removes all that is kept of a workflow.
pub(super) fn erase(connection: &Connection, row: &Found) -> Result<()> {
    let (no, sum) = (row.no, &row.sum);
    connection.execute(
        "delete from workflow_event where id between ?1 and ?2",
        (key(no, 0), key(no, u32::MAX)),
    )?;
    connection.execute("delete from workflow_session where workflow = ?1", [no])?;
    connection.execute("delete from workflow where no = ?1", [no])?;
    feed::tell_erased(connection, sum)
}

type Links = BTreeMap<String, String>;

fn links(connection: &Connection, no: i64) -> Result<Links> {
    let mut statement = connection
        .prepare_cached("select session, task from workflow_session where workflow = ?1")?;
    let found = statement.query_map([no], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<SqlResult<_>>()?)
}

/// What differs between the rows of workflows and their logs, in words.
pub(in super::super) fn drift(connection: &Connection) -> Result<Vec<String>> {
    let mut drift = Vec::new();
    for row in rows::all(connection)? {
        let id = row.sum.id;
        let told = events(connection, row.no, 0)
            .and_then(|events| folded(id, &events).map(|workflow| (events, workflow)));
        let (events, workflow) = match told {
            Ok(told) => told,
            Err(Error::Damaged(why)) => {
                drift.push(why);
                continue;
            }
            Err(error) => return Err(error),
        };
        if WorkflowRow::of(&workflow) != row.sum {
            drift.push(format!("workflow {id}: its row differs from its log"));
        }
        let linked = events.iter().filter_map(|record| linked(&record.event));
        let expected: Links = linked.map(|(session, task)| (session, task.to_owned())).collect();
        if links(connection, row.no)? != expected {
            drift.push(format!("workflow {id}: its sessions differ from its log"));
        }
    }
    let orphans: i64 = connection.query_row(
        "select (select count(*) from workflow_event where id >> 32 not in (select no from workflow))
            + (select count(*) from workflow_session where workflow not in (select no from workflow))",
        [],
        |row| row.get(0),
    )?;
    if orphans > 0 {
        drift.push(format!("{orphans} rows belong to no workflow"));
    }
    Ok(drift)
}

/// Makes the rows of workflows anew from their logs.
pub(in super::super) fn rebuild(connection: &Connection) -> Result<()> {
    connection.execute("delete from workflow_session", [])?;
    for row in rows::all(connection)? {
        let events = events(connection, row.no, 0)?;
        rows::write(connection, &WorkflowRow::of(&folded(row.sum.id, &events)?))?;
        link(connection, row.no, events.iter().map(|record| &record.event))?;
    }
    Ok(())
}
