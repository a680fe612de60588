//! Keeping the file in order: purging, erasing, checks.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::feed::Kind;
use rethread_domain::message::Extras;
use rethread_domain::{Fact, Seq, SessionId};
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use super::connection::beside;
use super::rows::{self, MessageRow, SessionRow, key, seq_of};
use super::scope::Scope;
use super::summed::summed;
use super::{
    blob, claims, damage, facts, feed, index, openings, passages, rebuild, repair, schema, words,
    workflows,
};
use crate::crash;
use crate::error::{Error, Result};
use crate::types::{Dump, Health, Usage};

/// What a title becomes that was made from a purged message, where nothing else gives one.
const UNTITLED: &str = "untitled";

/// Removes the text of a message from the log, from what was made of it, and from the index.
pub(super) fn purge(connection: &Connection, id: SessionId, seq: Seq, at: Timestamp) -> Result<()> {
    let row = rows::session_by_id(connection, id)?;
    let missing = || Error::NoMessage(id, seq);
    let place = Scope::of(connection, &row)?.key(seq).ok_or_else(missing)?;
    let sql = rows::select_message("where id = ?1");
    let message = connection
        .prepare(&sql)?
        .query_row([place], rows::message)
        .optional()?
        .ok_or_else(missing)?;
    let sharers = sharers(connection, place)?;
    let ids: Vec<SessionId> = sharers.iter().map(|sharer| sharer.session.id).collect();
    workflows::purge(connection, &ids, seq, &all_of(connection, &message), at)?;
    clear_message(connection, place, &message, at)?;
    if message.damage.is_some() {
        repair::forget(connection, place, &id.to_string())?;
    }
    for mut sharer in sharers {
        rewrite_facts(connection, &sharer, seq, &message)?;
        claims::forget_answers(connection, sharer.no)?;
        facts::add_told(connection, &mut sharer, &Fact::Purged { seq }, at)?;
        rebuild::session(connection, &sharer)?;
    }
    while index::catch_up(connection, index::STEP)? > 0 {}
    index::merge(connection)?;
    crash::point("purge.done");
    Ok(())
}

/// All that a message says: its text, and what its tools were given and gave. Nothing where it is damaged.
fn all_of(connection: &Connection, message: &MessageRow) -> String {
    if message.damage.is_some() {
        return String::new();
    }
    let body = &message.message.body;
    let mut text = match message.blob {
        Some(blob) => blob::read(connection, blob)
            .unwrap_or_else(|_| format!("{}\n{}", body.head(), body.tail())),
        None => body.head().to_owned(),
    };
    let extras = serde_json::to_value(&message.message.extras);
    add_texts(&extras.unwrap_or_default(), &mut text);
    text
}

fn add_texts(value: &Value, text: &mut String) {
    match value {
        Value::String(more) => {
            text.push('\n');
            text.push_str(more);
        }
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, text)),
        Value::Object(fields) => fields.values().for_each(|value| add_texts(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn clear_message(
    connection: &Connection,
    place: i64,
    message: &MessageRow,
    at: Timestamp,
) -> Result<()> {
    let extras = &message.message.extras;
    let kept = Extras {
        agent: extras.agent.clone(),
        model: extras.model.clone(),
        usage: extras.usage,
        ..Extras::default()
    };
    let kept = (!kept.is_empty()).then(|| serde_json::to_string(&kept).unwrap_or_default());
    connection.execute(
        summed!("update message set body = '', head_bytes = null, bytes = null, blob = null, cuts = null, tokens = 0,
            price = null, extras = ?2, purged_at = coalesce(purged_at, ?3)
         where id = ?1"),
        (place, kept, rows::micros(at)),
    )?;
    passages::remove(connection, place)?;
    match message.blob {
        Some(blob) => blob::release(connection, blob),
        None => Ok(()),
    }
}

/// The sessions that have a message of this one.
pub(super) fn sharers_of(
    connection: &Connection,
    id: SessionId,
    seq: Seq,
) -> Result<Vec<SessionId>> {
    let row = rows::session_by_id(connection, id)?;
    let place = Scope::of(connection, &row)?.key(seq).ok_or(Error::NoMessage(id, seq))?;
    Ok(sharers(connection, place)?.iter().map(|sharer| sharer.session.id).collect())
}

/// Every session that has the message: the one it was said in, and forks.
fn sharers(connection: &Connection, place: i64) -> Result<Vec<SessionRow>> {
    let sql = rows::select_session(
        "where no = ?1 or no in (select session from segment where source = ?1 and ?2 between lo and hi)",
    );
    damage::sessions(connection, &mut connection.prepare(&sql)?, (place >> 32, seq_of(place)))
}

/// Summaries and titles that were made from the message are in the log as well.
fn rewrite_facts(
    connection: &Connection,
    row: &SessionRow,
    seq: Seq,
    message: &MessageRow,
) -> Result<()> {
    let made = rethread_domain::summary::title(message.message.body.head());
    for (n, record) in facts::numbered(connection, row.no)? {
        let cleaned = match record.fact {
            Fact::Summarised { conversation, summary } if summary.speaks_of(seq) => {
                Fact::Summarised { conversation, summary: summary.without(seq) }
            }
            Fact::Started(mut beginning)
                if beginning.title.is_some() && beginning.title == made =>
            {
                beginning.title = None;
                Fact::Started(beginning)
            }
            // Also where it was made longer, as the title of a branch is. Nobody's title counts as none.
            Fact::Titled { title, .. }
                if made.as_deref().is_some_and(|made| title.starts_with(made)) =>
            {
                Fact::Titled { title: UNTITLED.to_owned(), from: TitleFrom::Nobody }
            }
            _ => continue,
        };
        let what =
            serde_json::to_string(&cleaned).map_err(|error| Error::Failed(error.to_string()))?;
        connection.execute(
            summed!("update fact set what = ?3 where session = ?1 and n = ?2"),
            (row.no, n, what),
        )?;
    }
    Ok(())
}

/// Removes sessions that were deleted before a time, with all that no fork needs.
pub(super) fn erase_deleted(
    connection: &Connection,
    store: &Path,
    before: Timestamp,
) -> Result<u32> {
    let sql = rows::select_session("where deleted_at < ?1");
    let found =
        damage::sessions(connection, &mut connection.prepare(&sql)?, [rows::micros(before)])?;
    for row in &found {
        erase(connection, store, row)?;
    }
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}

/// Removes a session for good.
pub(super) fn erase(connection: &Connection, store: &Path, row: &SessionRow) -> Result<()> {
    let (no, facts) = (row.no, row.session.facts);
    index_shared(connection, no)?;
    openings::discount(connection, row)?;
    let mut sources: Vec<i64> = connection
        .prepare("select source from segment where session = ?1")?
        .query_map([no], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let tables = [
        "fact",
        "conversation",
        "agent_use",
        "segment",
        "command",
        "holding",
        "underway",
        "stream",
        "folder",
        "usage_day",
    ];
    for table in tables {
        connection.execute(&format!("delete from {table} where session = ?1"), [no])?;
    }
    for key in [index::title_key(no), index::summary_key(no)] {
        connection.execute("delete from title_index where rowid = ?1", [key])?;
    }
    connection.execute("delete from session where no = ?1", [no])?;
    sources.push(no);
    for source in sources {
        sweep(connection, source)?;
    }
    connection
        .execute("delete from quarantine where session = ?1", [row.session.id.to_string()])?;
    let now = rows::now(connection)?;
    feed::tell(connection, &row.session, Kind::SessionErased, (facts, facts), now)?;
    claims::forget_locks(store, no);
    Ok(())
}

/// Puts another log in place of a session's own, unless it changed or somebody depends on its numbers.
pub(super) fn replace(
    connection: &Connection,
    store: &Path,
    dump: Dump,
    expected: (Seq, u32),
) -> Result<bool> {
    let row = rows::session_by_id(connection, dump.id)?;
    let is_used: bool = connection.query_row(
        "select exists (select 1 from segment where session = ?1 or source = ?1)
            or exists (select 1 from underway where session = ?1)
            or exists (select 1 from quarantine where session = ?2)
            or exists (select 1 from workflow_session where session = ?2)",
        (row.no, dump.id.to_string()),
        |row| row.get(0),
    )?;
    if is_used || (row.session.last_seq, row.session.facts) != expected {
        return Ok(false);
    }
    erase(connection, store, &row)?;
    rebuild::take_in(connection, dump)?;
    Ok(true)
}

/// Brings what forks have of a session into the index: once it is gone, no row tells that the index lacks it. Mostly
/// there is nothing to do, unless the index was begun anew since the fork.
fn index_shared(connection: &Connection, no: i64) -> Result<()> {
    let shared: Option<Seq> =
        connection
            .query_row("select max(hi) from segment where source = ?1", [no], |row| row.get(0))?;
    let Some(shared) = shared else { return Ok(()) };
    match damage::session_by_no(connection, no)? {
        Some(row) => index::reach(connection, &row, shared),
        None => Ok(()),
    }
}

/// Removes the messages of a session that is gone, but for those that a fork has.
fn sweep(connection: &Connection, no: i64) -> Result<()> {
    let lives: bool = connection.query_row(
        "select exists (select 1 from session where no = ?1)",
        [no],
        |row| row.get(0),
    )?;
    if lives {
        return Ok(());
    }
    let unused: Vec<(i64, Option<i64>)> = connection
        .prepare(
            "select id, blob from message where id between ?1 and ?2 and not exists
                (select 1 from segment where source = ?3 and (message.id & 4294967295) between lo and hi)",
        )?
        .query_map((key(no, 0), key(no, Seq::MAX), no), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, blob) in unused {
        passages::remove(connection, id)?;
        connection.prepare_cached("delete from message where id = ?1")?.execute([id])?;
        if let Some(blob) = blob {
            self::blob::release(connection, blob)?;
        }
    }
    Ok(())
}

/// What SQLite itself finds wrong with the file.
pub(super) fn integrity(connection: &Connection) -> Result<Vec<String>> {
    let lines: Vec<String> = connection
        .prepare("pragma integrity_check(20)")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

pub(super) fn check(connection: &Connection) -> Result<Health> {
    let damage = match integrity(connection) {
        Err(Error::Damaged(why)) => vec![why],
        damage => damage?,
    };
    let mut health = Health { damage, ..Health::default() };
    if let Err(error) = check_derived(connection, &mut health) {
        if health.damage.is_empty() {
            return Err(error);
        }
        // What is damaged cannot be compared; that it is damaged is known.
        health.damage.push(error.to_string());
    }
    Ok(health)
}

fn check_derived(connection: &Connection, health: &mut Health) -> Result<()> {
    health.records = repair::records(connection)?;
    health.damage.extend(schema::differences(connection)?);
    rebuild::each(connection, |row| {
        health.drift.extend(rebuild::drift(connection, &row)?);
        Ok(())
    })?;
    health.drift.extend(workflows::drift(connection)?);
    health.drift.extend(openings::drift(connection)?);
    health.drift.extend(words::drift(connection)?);
    health.unindexed = index::lag(connection)?;
    let (indexed, expected): (i64, i64) = connection.query_row(
        "select (select count(*) from message_index_docsize),
                (select coalesce(sum(indexed_seq - base_seq), 0) from session)
                + (select count(*) from message where id >> 32 not in (select no from session))
                - (select count(*) from message where (purged_at is not null or set_aside is not null) and not exists
                    (select 1 from session where no = message.id >> 32
                        and indexed_seq < (message.id & 4294967295)))",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if indexed != expected {
        health.drift.push(format!("the search index has {indexed} messages instead of {expected}"));
    }
    Ok(())
}

pub(super) fn usage(connection: &Connection, path: &Path) -> Result<Usage> {
    let number = |sql: &str| -> Result<u64> {
        let number: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let page = number("select page_size from pragma_page_size")?;
    Ok(Usage {
        sessions: number("select count(*) from session where deleted_at is null")?,
        deleted_sessions: number("select count(*) from session where deleted_at is not null")?,
        messages: number("select coalesce(sum(last_seq - base_seq), 0) from session")?,
        file_bytes: size(path),
        wal_bytes: size(&beside(path, "-wal")),
        free_bytes: page * number("select freelist_count from pragma_freelist_count")?,
        blob_bytes: number("select coalesce(sum(length(data)), 0) from blob")?,
        schema: i64::try_from(schema::STEPS.len()).unwrap_or(0),
    })
}
