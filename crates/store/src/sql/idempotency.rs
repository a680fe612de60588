//! Keys, and what was asked for under them.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::rows::micros;
use super::sql::{Connection, OptionalExtension};
use super::summed::summed;
use super::{ThisStore, sums};
use crate::IdempotencyKeys;
use crate::access::ReservedId;
use crate::error::{Error, Result};

/// How long a key stands for what was asked for under it.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

type Hash = [u8; 32];

#[async_trait]
impl IdempotencyKeys for ThisStore {
    async fn reserve(
        &self,
        key: &str,
        request: &[u8],
        id: Uuid,
        at: Timestamp,
    ) -> Result<ReservedId> {
        let key: Hash = blake3::hash(key.as_bytes()).into();
        let request: Hash = blake3::hash(request).into();
        self.write(move |connection| reserve(connection, key, request, id, at)).await
    }
}

fn reserve(
    connection: &Connection,
    key: Hash,
    request: Hash,
    id: Uuid,
    at: Timestamp,
) -> Result<ReservedId> {
    let oldest = micros(at.saturating_sub(KEPT_FOR).unwrap_or(at));
    let known: Option<(Hash, String)> = connection
        .prepare_cached(&format!(
            "select request, id from reserved where key = ?1 and at >= ?2 and {}",
            sums::insist("reserved", "what an idempotency key stands for")
        ))?
        .query_row((key, oldest), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((before, id)) = known {
        if before != request {
            return Err(Error::KeyReused);
        }
        let id = id.parse().map_err(|_| Error::Damaged(format!("not a reserved id: {id:?}")))?;
        return Ok(ReservedId { id, is_new: false });
    }
    connection.prepare_cached("delete from reserved where at < ?1")?.execute([oldest])?;
    connection
        .prepare_cached(summed!(
            "insert into reserved (key, request, id, at) values (?1, ?2, ?3, ?4)"
        ))?
        .execute((key, request, id.to_string(), micros(at)))?;
    Ok(ReservedId { id, is_new: true })
}
