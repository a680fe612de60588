//! A copy of the whole store, as a store of SQLite: it can be looked into, and put back, anywhere.

use std::path::Path;

use super::connection::Connection;
use super::values::{Row, Value};
use crate::error::{Error, Result};
use crate::sqlite;

/// Columns that are not text.
const BYTES: [&str; 6] = ["cuts", "summary_prices", "hash", "data", "key", "request"];

/// A consistent copy, while others write.
pub(super) fn copy(connection: &Connection, to: &Path) -> Result<()> {
    sqlite::fill(to, |table, columns, take| {
        let list = columns.join(", ");
        let (rest, order) = match table {
            // Read in pages: all messages are the whole store.
            "message" => (" where id between ?1 and ?2 order by id", ""),
            "meta" => (" where name <> 'terms'", ""),
            // In the order of commits.
            "fact" => ("", " order by no"),
            _ => ("", ""),
        };
        let mut statement =
            connection.prepare(&format!("select {list} from {table}{rest}{order}"))?;
        let mut found = match table {
            "message" => statement.query((i64::MIN, i64::MAX))?,
            _ => statement.query([])?,
        };
        while let Some(row) = found.next()? {
            take(values(row, columns)?)?;
        }
        Ok(())
    })
}

fn values(row: &Row<'_>, columns: &[&str]) -> Result<Vec<rusqlite::types::Value>> {
    let value = |value: &Value, column: &str| {
        Ok(match value {
            Value::Null => rusqlite::types::Value::Null,
            Value::Integer(number) => (*number).into(),
            Value::Real(number) => (*number).into(),
            Value::Bytes(bytes) if BYTES.contains(&column) => bytes.clone().into(),
            Value::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes);
                text.map_err(|_| Error::Damaged(format!("{column} is not text")))?.to_owned().into()
            }
        })
    };
    row.values().iter().zip(columns).map(|(one, column)| value(one, column)).collect()
}
