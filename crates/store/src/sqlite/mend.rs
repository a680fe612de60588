//! Mending messages with texts that were kept elsewhere: those of the session's folder.

use rethread_domain::{Seq, SessionId};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::records::{Bad, Kept, columns_of};
use super::repair::write;
use super::rows::{self, key};
use super::sums::{self, Sum, Table};
use crate::error::Result;
use crate::types::Record;

/// Puts a text in place of a damaged one wherever that makes the message match its checksum: then it is the text that
/// was there. Gives the messages that were mended.
pub(super) fn mend(
    connection: &Connection,
    id: SessionId,
    texts: &[String],
) -> Result<Vec<Record>> {
    let Some(table) = Table::of("message") else { return Ok(Vec::new()) };
    let Some(body) = table.columns.iter().position(|column| *column == "body") else {
        return Ok(Vec::new());
    };
    let mut mended = Vec::new();
    for bad in damaged(connection, table, rows::session_by_id(connection, id)?.no)? {
        let Some(mut values) = bad.read(connection, &columns_of(table))? else { continue };
        let Some(expected) = values.pop().and_then(|sum| sum.number()) else { continue };
        for text in texts {
            values[body] = Kept::Text(text.clone().into_bytes());
            if sum_of(&values) == expected {
                write(connection, &bad, &values)?;
                mended.push(bad.record(connection));
                break;
            }
        }
    }
    Ok(mended)
}

fn damaged(connection: &Connection, table: &'static Table, no: i64) -> Result<Vec<Bad>> {
    let sql = format!(
        "select id from message where id between ?1 and ?2 and not {} order by id",
        sums::intact(table.name)
    );
    let mut statement = connection.prepare(&sql)?;
    let found = statement.query_map((key(no, 0), key(no, Seq::MAX)), |row| row.get(0))?;
    let keys: Vec<i64> = found.collect::<rusqlite::Result<_>>()?;
    let bad = |id| Bad { table, key: vec![Kept::Other(Value::Integer(id))] };
    Ok(keys.into_iter().map(bad).collect())
}

pub(super) fn sum_of(values: &[Kept]) -> i64 {
    let mut sum = Sum::default();
    for value in values {
        sum.add(value.value());
    }
    sum.value()
}
