//! Rows that are damaged: PostgreSQL notices it itself, page by page, and does not give them out. There is nothing to set aside.

use super::sql::Connection;
use crate::error::Result;
use crate::types::Record;

#[expect(clippy::unnecessary_wraps, reason = "SQLite has to look")]
pub(super) const fn records(_: &Connection) -> Result<Vec<Record>> {
    Ok(Vec::new())
}

#[expect(clippy::unnecessary_wraps, reason = "SQLite has to look")]
pub(super) const fn forget(_: &Connection, _: i64, _: &str) -> Result<()> {
    Ok(())
}
