//! Long texts: compressed, once for each owner, with both ends kept beside the message.

use std::io::Read;
use std::sync::LazyLock;

use rethread_domain::price::LONGEST_CUT;

use super::sql::{Connection, OptionalExtension};
use super::summed::summed;
use super::sums;
use crate::error::{Error, Result};

/// A text longer than this is kept apart.
const LONGEST_INLINE: usize = 2 * LONGEST_CUT;
const LEVEL: i32 = 3;

/// What a message's row holds of its text.
pub(super) struct Stored {
    pub(super) body: String,
    pub(super) head_bytes: Option<usize>,
    pub(super) bytes: Option<usize>,
    pub(super) blob: Option<i64>,
}

pub(super) fn write(connection: &Connection, owner: &str, text: String) -> Result<Stored> {
    if text.len() <= LONGEST_INLINE {
        return Ok(Stored { body: text, head_bytes: None, bytes: None, blob: None });
    }
    let hash = blake3::hash(text.as_bytes());
    let known: Option<i64> = connection
        .prepare_cached(summed!(
            "update blob set uses = uses + 1 where owner = ?1 and hash = ?2 returning no"
        ))?
        .query_row((owner, hash.as_bytes()), |row| row.get(0))
        .optional()?;
    let blob = match known {
        Some(blob) => blob,
        None => {
            let data = zstd::encode_all(text.as_bytes(), LEVEL)?;
            connection
                .prepare_cached(summed!(
                    "insert into blob (owner, hash, bytes, uses, data) values (?1, ?2, ?3, 1, ?4) returning no"
                ))?
                .query_row((owner, hash.as_bytes(), text.len(), data), |row| row.get(0))?
        }
    };
    let head = &text[..text.ceil_char_boundary(LONGEST_CUT)];
    let tail = &text[text.floor_char_boundary(text.len() - LONGEST_CUT)..];
    Ok(Stored {
        body: format!("{head}{tail}"),
        head_bytes: Some(head.len()),
        bytes: Some(text.len()),
        blob: Some(blob),
    })
}

pub(super) fn read(connection: &Connection, blob: i64) -> Result<String> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("select hash, bytes, data, {} from blob where no = ?1", sums::intact("blob"))
    });
    let (hash, bytes, data, is_intact): (Vec<u8>, u64, Vec<u8>, bool) = connection
        .prepare_cached(&SQL)?
        .query_row([blob], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?
        .ok_or_else(|| Error::Damaged(format!("the long text {blob} is missing")))?;
    let damaged = || Error::Damaged(format!("the long text {blob} does not match its checksum"));
    if !is_intact {
        return Err(damaged());
    }
    let mut text = Vec::new();
    let reader = zstd::Decoder::new(data.as_slice()).map_err(|_| damaged())?;
    // Never more than it should be, whatever the data says.
    reader.take(bytes + 1).read_to_end(&mut text).map_err(|_| damaged())?;
    if blake3::hash(&text).as_bytes() != hash.as_slice() {
        return Err(damaged());
    }
    String::from_utf8(text).map_err(|_| damaged())
}

/// One message less needs it; the last one takes it away.
pub(super) fn release(connection: &Connection, blob: i64) -> Result<()> {
    connection.execute(summed!("update blob set uses = uses - 1 where no = ?1"), [blob])?;
    connection.execute("delete from blob where no = ?1 and uses <= 0", [blob])?;
    Ok(())
}
