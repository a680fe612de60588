//! Copies.

use std::path::Path;

use super::connection::Connection;
use crate::error::{Error, Result};

pub(super) fn copy(_: &Connection, _: &Path) -> Result<()> {
    Err(Error::Failed("use pg_dump".into()))
}
