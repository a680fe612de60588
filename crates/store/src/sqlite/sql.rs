//! What the SQL that both stores share is written with; here it is rusqlite's. `postgres/sql.rs` has the same names.

pub(super) use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
pub(super) use rusqlite::types::{FromSql, Type, Value, ValueRef};
pub(super) use rusqlite::{
    CachedStatement, Connection, Error as SqlError, OptionalExtension, Params, Row, Rows,
    Statement, params, params_from_iter,
};

/// What reading a row gives.
pub(super) type SqlResult<T> = rusqlite::Result<T>;

/// What a column says cannot be read.
pub(super) fn unreadable(index: usize, why: String) -> SqlError {
    SqlError::FromSqlConversionFailure(index, Type::Text, why.into())
}
