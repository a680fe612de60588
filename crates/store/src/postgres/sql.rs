//! What the SQL that both stores share is written with. The names are those of rusqlite, which `sqlite/sql.rs` has; behind them
//! is a connection to PostgreSQL that waits for its answers.

use std::fmt;

pub(super) use super::connection::{CachedStatement, Connection, Rows, Statement};
pub(super) use super::values::{FromSql, Params, Row, ToSql, Value, ValueRef, params_from_iter};
use crate::error::Error;

/// What went wrong with a statement, or with reading what it gave.
#[derive(Debug)]
pub(super) enum SqlError {
    Store(Error),
    NoRow,
    Unreadable(String),
}

/// What reading a row gives.
pub(super) type SqlResult<T> = Result<T, SqlError>;

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NoRow => f.write_str("there is no such row"),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        match error {
            SqlError::Store(error) => error,
            SqlError::NoRow => Self::Failed(error.to_string()),
            SqlError::Unreadable(why) => Self::Damaged(why),
        }
    }
}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// What a column says cannot be read.
pub(super) fn unreadable(index: usize, why: String) -> SqlError {
    SqlError::Unreadable(format!("column {index}: {why}"))
}

/// A row that need not be there.
pub(super) trait OptionalExtension<T> {
    fn optional(self) -> SqlResult<Option<T>>;
}

impl<T> OptionalExtension<T> for SqlResult<T> {
    fn optional(self) -> SqlResult<Option<T>> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(SqlError::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Rows that are gone through one by one.
pub(super) trait FallibleStreamingIterator {
    type Item;

    fn advance(&mut self) -> SqlResult<()>;

    fn get(&self) -> Option<&Self::Item>;
}

/// Values of several types for a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::postgres::sql::ToSql),*] as &[&dyn $crate::postgres::sql::ToSql]
    };
}
pub(super) use params;
