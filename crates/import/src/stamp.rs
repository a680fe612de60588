//! How a file stands: whether it has changed, and whether it was only added to.

use std::fs::Metadata;
use std::io::{self, Read as _, SeekFrom};
use std::os::unix::fs::MetadataExt;

use crate::lines::Input;

/// So much of both ends of what was read is compared.
const COMPARED: u64 = 4096;

/// The same as long as nobody writes to the file.
pub(crate) fn of(metadata: &Metadata) -> String {
    let (size, seconds, nanos) = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    format!("{size}:{seconds}.{nanos:09}:{}", metadata.ino())
}

/// A digest of the beginning and the end of what lies before a position: a file that is written anew has another one.
pub(crate) fn fingerprint(input: &mut dyn Input, position: u64) -> io::Result<String> {
    let mut hash = blake3::Hasher::new();
    hash.update(&position.to_le_bytes());
    for from in [0, position.saturating_sub(COMPARED)] {
        input.seek(SeekFrom::Start(from))?;
        let mut piece = Vec::new();
        let most = COMPARED.min(position - from);
        if (&mut *input).take(most).read_to_end(&mut piece)? as u64 != most {
            return Ok(String::new());
        }
        hash.update(&piece);
    }
    Ok(hash.finalize().to_hex().as_str()[..32].to_owned())
}
