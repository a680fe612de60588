//! The vocabulary: tokens by rank, their bytes, and where the two parts meet that each is merged from. Made by the build
//! script.

use crate::hash;

/// How many tokens there are.
const COUNT: usize = 199_998;
const BLOCKS: usize = COUNT.div_ceil(8);

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bytes"));
/// How long each token is, and where every eighth begins: a third of what it would take to say where each begins.
static LENGTHS: &[u8; 8 * BLOCKS] = include_bytes!(concat!(env!("OUT_DIR"), "/lengths"));
static STARTS: &[u8; 4 * BLOCKS] = include_bytes!(concat!(env!("OUT_DIR"), "/starts"));
static SLOTS: &[u8; 3 * hash::SLOTS] = include_bytes!(concat!(env!("OUT_DIR"), "/slots"));
/// How long the first of the two tokens is that each is merged from.
static FIRSTS: &[u8; COUNT] = include_bytes!(concat!(env!("OUT_DIR"), "/firsts"));
static WHICH: &[u8; 2 << 16] = include_bytes!(concat!(env!("OUT_DIR"), "/which"));
static SETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sets"));

/// No token is longer than this.
pub(crate) const LONGEST_TOKEN: usize = 128;

/// A token, by its rank: what has a lower rank is merged first.
pub(crate) type Token = u32;

#[inline]
pub(crate) fn bytes_of(token: Token) -> &'static [u8] {
    let (block, place) = (token as usize / 8, token % 8);
    let (lengths, _) = LENGTHS.as_chunks();
    let (starts, _) = STARTS.as_chunks();
    // The lengths of those before it in its block, and their sum: four at a time, in 16 bits each.
    let before = u64::from_le_bytes(lengths[block]) & ((1 << (8 * place)) - 1);
    let pairs = (before & 0x00ff_00ff_00ff_00ff) + (before >> 8 & 0x00ff_00ff_00ff_00ff);
    let sum = pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    let start = u32::from_le_bytes(starts[block]) as usize + usize::from(sum as u16);
    &BYTES[start..start + length_of(token)]
}

#[inline]
pub(crate) fn length_of(token: Token) -> usize {
    usize::from(LENGTHS[token as usize])
}

/// The first of the two tokens that are merged into this one, which has more than one byte.
#[inline]
pub(crate) fn first_part(token: Token) -> Token {
    part(token, |bytes, at| &bytes[..at])
}

/// The second of them.
#[inline]
pub(crate) fn second_part(token: Token) -> Token {
    part(token, |bytes, at| &bytes[at..])
}

#[inline]
fn part(token: Token, side: impl Fn(&[u8], usize) -> &[u8]) -> Token {
    let bytes = bytes_of(token);
    // The build script has found it: it is always there.
    find(side(bytes, usize::from(FIRSTS[token as usize]))).unwrap_or(token)
}

/// The token of these bytes, whose hash is given.
#[inline]
pub(crate) fn find_hashed(bytes: &[u8], hash: u64) -> Option<Token> {
    let (mut at, mark) = hash::place(hash);
    let (slots, _) = SLOTS.as_chunks();
    loop {
        let [low, middle, high] = slots[at];
        let slot = u32::from_le_bytes([low, middle, high, 0]);
        if slot == hash::EMPTY {
            return None;
        }
        if slot >> hash::RANK_BITS == mark {
            let token = slot & ((1 << hash::RANK_BITS) - 1);
            if bytes_of(token) == bytes {
                return Some(token);
            }
        }
        at = hash::after(at);
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
