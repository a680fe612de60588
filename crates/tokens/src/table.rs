//! The vocabulary: tokens by rank, their bytes, and the two parts that each is merged from. Made by the build script.

use crate::hash;

/// How many tokens there are.
const COUNT: usize = 199_998;

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bytes"));
static STARTS: &[u8; 4 * (COUNT + 1)] = include_bytes!(concat!(env!("OUT_DIR"), "/starts"));
static SLOTS: &[u8; 4 * hash::SLOTS] = include_bytes!(concat!(env!("OUT_DIR"), "/slots"));
static PARTS: &[u8; 8 * COUNT] = include_bytes!(concat!(env!("OUT_DIR"), "/parts"));
static WHICH: &[u8; 2 << 16] = include_bytes!(concat!(env!("OUT_DIR"), "/which"));
static SETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sets"));

/// No token is longer than this.
pub(crate) const LONGEST_TOKEN: usize = 128;

/// A token, by its rank: what has a lower rank is merged first.
pub(crate) type Token = u32;

#[inline]
fn number(table: &[u8], at: usize) -> u32 {
    let bytes = &table[4 * at..4 * at + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
pub(crate) fn bytes_of(token: Token) -> &'static [u8] {
    let at = token as usize;
    &BYTES[number(STARTS, at) as usize..number(STARTS, at + 1) as usize]
}

#[inline]
pub(crate) fn length_of(token: Token) -> usize {
    let at = token as usize;
    (number(STARTS, at + 1) - number(STARTS, at)) as usize
}

/// The tokens that are merged into this one; itself twice where it is a single byte.
#[inline]
pub(crate) fn parts_of(token: Token) -> (Token, Token) {
    let at = 2 * token as usize;
    (number(PARTS, at), number(PARTS, at + 1))
}

/// The token of these bytes, whose hash is given.
#[inline]
pub(crate) fn find_hashed(bytes: &[u8], hash: u64) -> Option<Token> {
    let (mut at, mark) = hash::place(hash);
    loop {
        let slot = number(SLOTS, at);
        if slot == u32::MAX {
            return None;
        }
        if slot >> hash::RANK_BITS == mark {
            let token = slot & ((1 << hash::RANK_BITS) - 1);
            if bytes_of(token) == bytes {
                return Some(token);
            }
        }
        at = (at + 1) % hash::SLOTS;
    }
}

/// The token of these bytes.
#[inline]
pub(crate) fn find(bytes: &[u8]) -> Option<Token> {
    (bytes.len() <= LONGEST_TOKEN).then(|| find_hashed(bytes, hash::of(bytes)))?
}

/// How long the tokens are that `bytes` may begin with: a bit for each length, the lowest for 1.
#[inline]
pub(crate) fn lengths_at(bytes: &[u8]) -> u128 {
    let [first, second, ..] = bytes else { return 1 };
    let at = 2 * (usize::from(*first) << 8 | usize::from(*second));
    let set = usize::from(u16::from_le_bytes([WHICH[at], WHICH[at + 1]]));
    let (sets, _) = SETS.as_chunks();
    u128::from_le_bytes(sets[set])
}
