//! Keeping the file in order: erasing, checks.

use jiff::Timestamp;
use rethread_domain::Seq;
use rethread_domain::feed::Kind;

use super::locks::Locks;
use super::rows::{self, SessionRow, key};
use super::sql::{Connection, SqlResult};
use super::{
    blob, damage, feed, index, openings, passages, rebuild, repair, schema, titles, words,
    workflows,
};
use crate::error::{Error, Result};
use crate::types::{Dump, Health};

/// Removes sessions that were deleted before a time, with all that no fork needs.
pub(super) fn erase_deleted(
    connection: &Connection,
    locks: &Locks,
    before: Timestamp,
) -> Result<u32> {
    let sql = rows::select_session("where deleted_at < ?1");
    let found =
        damage::sessions(connection, &mut connection.prepare(&sql)?, [rows::micros(before)])?;
    for row in &found {
        erase(connection, locks, row)?;
    }
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}

/// Removes a session for good.
pub(super) fn erase(connection: &Connection, locks: &Locks, row: &SessionRow) -> Result<()> {
    let (no, facts) = (row.no, row.session.facts);
    index_shared(connection, no)?;
    openings::discount(connection, row)?;
    let mut sources: Vec<i64> = connection
        .prepare("select source from segment where session = ?1")?
        .query_map([no], |row| row.get(0))?
        .collect::<SqlResult<_>>()?;
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
        titles::put(connection, key, None)?;
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
    locks.forget(connection, no);
    Ok(())
}

/// Puts another log in place of a session's own, unless it changed or somebody depends on its numbers.
pub(super) fn replace(
    connection: &Connection,
    locks: &Locks,
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
    erase(connection, locks, &row)?;
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
        .collect::<SqlResult<_>>()?;
    for (id, blob) in unused {
        passages::remove(connection, id)?;
        connection.prepare_cached("delete from message where id = ?1")?.execute([id])?;
        if let Some(blob) = blob {
            self::blob::release(connection, blob)?;
        }
    }
    Ok(())
}

pub(super) fn check(connection: &Connection) -> Result<Health> {
    let damage = match schema::integrity(connection) {
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
        "select (select count(*) from passage),
                (select coalesce(sum(indexed_seq - base_seq), 0) from session)
                + (select count(*) from message where id >> 32 not in (select no from session))
                - (select count(*) from message where (purged_at is not null or set_aside is not null) and not exists
                    (select 1 from session where no = message.id >> 32
                        and indexed_seq < (message.id & 4294967295)))",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if indexed != expected && index::is_current(connection)? {
        health.drift.push(format!("the search index has {indexed} messages instead of {expected}"));
    }
    Ok(())
}
