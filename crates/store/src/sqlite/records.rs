//! A row that is damaged, as it is in the file.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use serde_json::json;

use super::rows::seq_of;
use super::sums::Table;
use crate::error::Result;
use crate::types::Record;

/// What is damaged: which table, and where in it.
pub(super) struct Bad {
    pub(super) table: &'static Table,
    pub(super) key: Vec<Kept>,
}

/// A value as it is in the file: a text need not be one that can be read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kept {
    Other(Value),
    Text(Vec<u8>),
}

impl Kept {
    pub(super) fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Other(Value::Null),
            ValueRef::Integer(number) => Self::Other(Value::Integer(number)),
            ValueRef::Real(number) => Self::Other(Value::Real(number)),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(blob) => Self::Other(Value::Blob(blob.to_vec())),
        }
    }

    pub(super) fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Other(value) => value.into(),
            Self::Text(text) => ValueRef::Text(text),
        }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Other(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// As it is kept in quarantine: what is no text in hexadecimal digits.
    pub(super) fn json(&self) -> serde_json::Value {
        let hex = |bytes: &[u8]| {
            let mut out = String::new();
            for byte in bytes {
                out.push_str(&format!("{byte:02x}"));
            }
            out
        };
        match self {
            Self::Other(Value::Null) => serde_json::Value::Null,
            Self::Other(Value::Integer(number)) => json!(number),
            Self::Other(Value::Real(number)) => json!(number),
            Self::Other(Value::Blob(bytes)) => json!({ "hex": hex(bytes) }),
            Self::Other(Value::Text(text)) => json!(text),
            Self::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => json!(text),
                Err(_) => json!({ "hex": hex(bytes) }),
            },
        }
    }
}

impl ToSql for Kept {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.value()))
    }
}

impl Bad {
    pub(super) fn condition(&self) -> String {
        let parts = self.table.key.iter().enumerate();
        let parts: Vec<String> =
            parts.map(|(n, column)| format!("{column} = ?{}", n + 1)).collect();
        parts.join(" and ")
    }

    /// The columns of the row and its checksum, in this store or in another.
    pub(super) fn read(
        &self,
        connection: &Connection,
        columns: &[String],
    ) -> Result<Option<Vec<Kept>>> {
        let sql = format!(
            "select {} from {} where {}",
            columns.join(", "),
            self.table.name,
            self.condition()
        );
        let mut statement = connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&self.key))?;
        let Some(row) = found.next()? else { return Ok(None) };
        let values: rusqlite::Result<Vec<Kept>> =
            (0..columns.len()).map(|column| row.get_ref(column).map(Kept::of)).collect();
        Ok(Some(values?))
    }

    /// Which record it is, for people and programs.
    pub(super) fn record(&self, connection: &Connection) -> Record {
        let number = |index: usize| self.key.get(index).and_then(Kept::number);
        let name_of = |table: &str, no: i64| -> Option<String> {
            let sql = format!("select cast(id as blob) from {table} where no = ?1");
            let id = connection.query_row(&sql, [no], |row| row.get::<_, Vec<u8>>(0)).ok()?;
            Some(String::from_utf8_lossy(&id).into_owned())
        };
        let place = |key: i64| Some(u64::from(seq_of(key)));
        let (of, number) = match (self.table.name, number(0)) {
            ("message", Some(key)) => (name_of("session", key >> 32), place(key)),
            ("workflow_event", Some(key)) => (name_of("workflow", key >> 32), place(key)),
            ("session", Some(no)) => (name_of("session", no), None),
            ("workflow", Some(no)) => (name_of("workflow", no), None),
            (_, Some(no)) if self.table.key[0] == "session" => {
                (name_of("session", no), number(1).and_then(|n| u64::try_from(n).ok()))
            }
            (_, no) => (None, no.and_then(|no| u64::try_from(no).ok())),
        };
        Record { kind: self.table.name.to_owned(), of, number }
    }
}

pub(super) fn columns_of(table: &Table) -> Vec<String> {
    table.columns.iter().copied().chain(["sum"]).map(str::to_owned).collect()
}
