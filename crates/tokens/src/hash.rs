//! The hash by which a token is found. The build script makes the table with it.

/// Bytes are hashed eight at a time.
pub(crate) const CHUNK: usize = 8;

/// The state before the first chunk.
pub(crate) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// The state after another chunk.
#[inline]
pub(crate) const fn add(state: u64, chunk: u64) -> u64 {
    (state ^ chunk).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// A whole chunk as a number.
#[inline]
pub(crate) fn chunk(bytes: &[u8]) -> u64 {
    half(bytes) | half(&bytes[4..]) << 32
}

#[inline]
fn half(bytes: &[u8]) -> u64 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()
}

/// What is left after the last whole chunk as a number, together with its length.
#[inline]
fn rest(bytes: &[u8]) -> u64 {
    let (length, number) = match bytes {
        [] => return 0,
        [first, .., last] if bytes.len() < 4 => {
            let middle = bytes[bytes.len() / 2];
            (bytes.len(), u64::from(*first) | u64::from(middle) << 8 | u64::from(*last) << 16)
        }
        [only] => (1, u64::from(*only)),
        _ => (bytes.len(), half(bytes) | half(&bytes[bytes.len() - 4..]) << 32),
    };
    number.rotate_left(61) ^ length as u64
}

/// The hash of bytes, from the state after all their whole chunks and what is left of them.
#[inline]
pub(crate) fn finish(state: u64, left: &[u8]) -> u64 {
    add(state, rest(left))
}

#[inline]
pub(crate) fn of(bytes: &[u8]) -> u64 {
    let chunks = bytes.chunks_exact(CHUNK);
    let left = chunks.remainder();
    finish(chunks.fold(START, |state, bytes| add(state, chunk(bytes))), left)
}

/// There are more slots than tokens, so that a search ends at an empty one: after few steps, with six in ten in use.
pub(crate) const SLOTS: usize = 5 << 16;

/// Ranks fit into this many bits; the rest of a slot, of three bytes, is a part of the hash.
pub(crate) const RANK_BITS: u32 = 18;

/// An empty slot.
pub(crate) const EMPTY: u32 = 0xff_ffff;

/// The slot where a search begins, and what a slot has to hold for a hash beside the rank.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is meant to be cut")]
pub(crate) const fn place(hash: u64) -> (usize, u32) {
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    ((((mixed >> 32) * SLOTS as u64) >> 32) as usize, (mixed as u32) >> (8 + RANK_BITS))
}

/// The slot after this one.
#[inline]
pub(crate) const fn after(slot: usize) -> usize {
    if slot + 1 == SLOTS { 0 } else { slot + 1 }
}
