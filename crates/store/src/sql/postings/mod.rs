//! The places of terms: which messages have which words.
//!
//! What is brought in together becomes a run, a sorted tree of blocks that is never changed. Once there are several of about the
//! same size they are merged, so that there are few, each place is written a few times only, and a small addition stays a
//! small one. A term is found in a run by its place in the tree, and its messages from any key on, newest first: so it costs the
//! same wherever a session lies in the store.

mod batch;
mod block;
mod cursor;
mod merge;
pub(super) mod run;

pub(super) use self::batch::Batch;
pub(super) use self::cursor::{Node, Reader};
pub(super) use self::merge::{each, merge_all};
use self::run::Builder;
use super::sql::Connection;
use crate::error::Result;

/// Brings a batch in.
pub(super) fn add(connection: &Connection, batch: &Batch) -> Result<()> {
    let Some((lo, hi)) = batch.messages.iter().min().zip(batch.messages.iter().max()) else {
        return Ok(());
    };
    let mut builder = Builder::new(connection, *lo, *hi)?;
    batch.each(|term, keys| builder.add(term, keys))?;
    builder.finish(u32::try_from(batch.messages.len()).unwrap_or(u32::MAX))?;
    merge::merge_some(connection)
}

/// Takes a message out. Its places stay until its run is merged, and are not shown.
pub(super) fn remove(connection: &Connection, key: i64) -> Result<()> {
    connection
        .prepare_cached("insert into posting_gone (key) values (?1) on conflict (key) do nothing")?
        .execute([key])?;
    Ok(())
}

/// Takes everything out.
pub(super) fn clear(connection: &Connection) -> Result<()> {
    connection.execute("delete from posting", [])?;
    connection.execute("delete from posting_run", [])?;
    connection.execute("delete from posting_gone", [])?;
    Ok(())
}

/// A reader for who need not count what it reads.
pub(super) fn reader(connection: &Connection) -> Result<Reader<'_>> {
    Reader::new(connection, &|| Ok(()))
}
