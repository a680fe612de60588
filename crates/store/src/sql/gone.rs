//! What was deleted here, so that nothing brings it back.

use jiff::Timestamp;
use rethread_domain::SessionId;

use super::rows;
use super::sql::{Connection, SqlResult};
use crate::error::{Error, Result};

/// Remembers ids of sessions, or of lines in their folders, that are gone for good.
pub(super) fn bury(connection: &Connection, ids: &[String], at: Timestamp) -> Result<()> {
    let mut statement = connection
        .prepare_cached("insert into gone (id, at) values (?1, ?2) on conflict (id) do nothing")?;
    for id in ids {
        statement.execute((id, rows::micros(at)))?;
    }
    Ok(())
}

pub(super) fn unbury(connection: &Connection, id: &str) -> Result<()> {
    connection.prepare_cached("delete from gone where id = ?1")?.execute([id])?;
    Ok(())
}

pub(super) fn is_buried(connection: &Connection, id: &str) -> Result<bool> {
    let found = connection
        .prepare_cached("select exists (select 1 from gone where id = ?1)")?
        .query_row([id], |row| row.get(0))?;
    Ok(found)
}

/// Sessions that were deleted before a time and are still kept.
pub(super) fn deleted_before(connection: &Connection, before: Timestamp) -> Result<Vec<SessionId>> {
    let found: Vec<String> = connection
        .prepare_cached("select id from session where deleted_at < ?1")?
        .query_map([rows::micros(before)], |row| row.get(0))?
        .collect::<SqlResult<_>>()?;
    let parse =
        |id: String| id.parse().map_err(|_| Error::Damaged(format!("not a session id: {id:?}")));
    found.into_iter().map(parse).collect()
}
