//! Byte-pair encoding of one piece, in linear time.
//!
//! The encoding is defined by merging: of all neighbours that are a token together, those of the lowest rank are merged
//! first, until none are left. Doing just that takes a queue, and time that grows faster than the text. Here is used
//! that a row of tokens is the encoding exactly if each two neighbours are the encoding of their own bytes: so tokens
//! are tried from left to right, the longest first, and where none [`fits`] its neighbour, a step back is taken. A
//! place where it could not go on is not entered again.

use crate::hash::{self, CHUNK};
use crate::table::{self, LONGEST_TOKEN, Token};

/// Counts pieces; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    tokens: Vec<Token>,
    /// A bit for each place of the piece where the row of tokens cannot end.
    dead: Vec<u64>,
    /// Neighbours that were looked at lately, and whether they fit: what repeats itself is not looked at again.
    seen: Vec<(Token, Token, bool)>,
}

const SEEN: usize = 1 << 10;

/// A memory for more tokens than these is not kept.
const LARGE: usize = 1 << 12;

impl Encoder {
    /// Whether a long piece has left it with more memory than most need.
    pub(crate) const fn is_large(&self) -> bool {
        self.tokens.capacity() > LARGE || self.dead.capacity() > LARGE
    }

    pub(crate) fn count(&mut self, piece: &[u8]) -> usize {
        if table::find(piece).is_some() {
            return 1;
        }
        self.tokens.clear();
        self.dead.clear();
        self.dead.resize(piece.len() / 64 + 1, 0);
        if self.seen.is_empty() {
            self.seen.resize(SEEN, (Token::MAX, Token::MAX, false));
        }
        let (mut at, mut most) = (0, LONGEST_TOKEN);
        while at < piece.len() {
            if let Some(token) = self.next(piece, at, most) {
                at += table::length_of(token);
                most = LONGEST_TOKEN;
                self.tokens.push(token);
            } else {
                // Nothing goes on from here: the token before has to be a shorter one.
                let Some(last) = self.tokens.pop() else { return piece.len() };
                self.dead[at / 64] |= 1 << (at % 64);
                let length = table::length_of(last);
                at -= length;
                most = length - 1;
            }
        }
        self.tokens.len()
    }

    /// The longest token of at most `most` bytes at this place that goes with the one before.
    fn next(&mut self, piece: &[u8], at: usize, most: usize) -> Option<Token> {
        let rest = &piece[at..];
        let most = most.min(rest.len());
        let mut lengths = table::lengths_at(rest) & u128::MAX.checked_shr(shift(most))?;
        let mut states = [hash::START; LONGEST_TOKEN / CHUNK + 1];
        for (index, chunk) in rest[..longest(lengths)].chunks_exact(CHUNK).enumerate() {
            states[index + 1] = hash::add(states[index], hash::chunk(chunk));
        }
        while lengths > 0 {
            let length = longest(lengths);
            lengths ^= 1 << (length - 1);
            let end = at + length;
            if self.dead[end / 64] >> (end % 64) & 1 == 1 {
                continue;
            }
            let chunks = length / CHUNK;
            let hash = hash::finish(states[chunks], &rest[chunks * CHUNK..length]);
            let Some(token) = table::find_hashed(&rest[..length], hash) else { continue };
            let before = self.tokens.last().copied();
            if before.is_none_or(|before| self.fits(piece, at, before, token)) {
                return Some(token);
            }
        }
        None
    }

    fn fits(&mut self, piece: &[u8], at: usize, left: Token, right: Token) -> bool {
        let mixed = (left.wrapping_mul(0x9e37_79b1) ^ right).wrapping_mul(0x85eb_ca6b);
        let seen = &mut self.seen[mixed as usize >> 16 & (SEEN - 1)];
        if (seen.0, seen.1) != (left, right) {
            *seen = (left, right, fits(piece, at, left, right));
        }
        seen.2
    }
}

/// The greatest length of a set.
const fn longest(lengths: u128) -> usize {
    (u128::BITS - lengths.leading_zeros()) as usize
}

/// By how much a set of all lengths is shifted to one of those up to `most`.
fn shift(most: usize) -> u32 {
    u128::BITS - u32::try_from(most).map_or(u128::BITS, |most| most.min(u128::BITS))
}

/// Whether two tokens that meet at `at` stay two: whether merging their bytes gives just them.
///
/// Their merges are taken back from the last to the first. Those of higher rank were made later; if what met at the
/// border at some time could have been merged before the next merge on either side, it would have been.
fn fits(piece: &[u8], at: usize, mut left: Token, mut right: Token) -> bool {
    let mut made_before = Token::MAX;
    loop {
        let met = &piece[at - table::length_of(left)..at + table::length_of(right)];
        if table::find(met).is_some_and(|merged| merged < made_before) {
            return false;
        }
        let (left_is_whole, right_is_whole) =
            (table::length_of(left) == 1, table::length_of(right) == 1);
        if left_is_whole && right_is_whole {
            return true;
        }
        // Of two merges of the same rank the left one is made first.
        if right_is_whole || (!left_is_whole && left > right) {
            made_before = left;
            left = table::second_part(left);
        } else {
            made_before = right.saturating_add(1);
            right = table::first_part(right);
        }
    }
}
