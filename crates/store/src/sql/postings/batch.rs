//! Terms of messages that are brought in together, gathered by term.

use std::ops::Range;

/// A table of terms has at least so many places, and two for each term.
const FEWEST: usize = 1 << 10;

/// Terms with the messages that have them.
#[derive(Debug, Default)]
pub(in super::super) struct Batch {
    /// The keys of the messages.
    pub(super) messages: Vec<i64>,
    text: Vec<u8>,
    terms: Vec<Term>,
    /// For each hash a part of it, and the number of a term, counted from 1.
    slots: Vec<(u32, u32)>,
    /// Numbers of terms and of messages, in the order of messages.
    places: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Term {
    /// Where it is in the text.
    at: Range<usize>,
    hash: u64,
    count: u32,
    /// The number of the last message that has it.
    last: u32,
}

impl Batch {
    /// What is added now are terms of this message.
    pub(in super::super) fn begin(&mut self, key: i64) {
        self.messages.push(key);
    }

    /// Adds a term of the message, as often as it has it.
    pub(in super::super) fn add(&mut self, term: &str) {
        if self.terms.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash(term.as_bytes());
        let mut slot = self.slot_of(hash);
        let message = u32::try_from(self.messages.len()).unwrap_or(u32::MAX) - 1;
        let number = loop {
            let (part, number) = self.slots[slot];
            let Some(number) = (number as usize).checked_sub(1) else {
                break self.insert(term, hash, slot);
            };
            if part == part_of(hash) && self.text[self.terms[number].at.clone()] == *term.as_bytes()
            {
                break number;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        };
        let known = &mut self.terms[number];
        if known.count == 0 || known.last != message {
            known.count += 1;
            known.last = message;
            self.places.push((u32::try_from(number).unwrap_or(u32::MAX), message));
        }
    }

    fn insert(&mut self, term: &str, hash: u64, slot: usize) -> usize {
        let start = self.text.len();
        self.text.extend(term.as_bytes());
        self.terms.push(Term { at: start..self.text.len(), hash, count: 0, last: 0 });
        self.slots[slot] = (part_of(hash), u32::try_from(self.terms.len()).unwrap_or(u32::MAX));
        self.terms.len() - 1
    }

    fn slot_of(&self, hash: u64) -> usize {
        usize::try_from(hash >> 32).unwrap_or(0) & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![(0, 0); (self.slots.len() * 4).max(FEWEST)];
        for number in 0..self.terms.len() {
            let hash = self.terms[number].hash;
            let mut slot = self.slot_of(hash);
            while self.slots[slot].1 != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (part_of(hash), u32::try_from(number + 1).unwrap_or(u32::MAX));
        }
    }

    /// Visits the terms in order, each with the keys of its messages in order.
    pub(super) fn each<E>(
        &self,
        mut visit: impl FnMut(&[u8], &[i64]) -> Result<(), E>,
    ) -> Result<(), E> {
        // All places of a term side by side.
        let mut ends = Vec::with_capacity(self.terms.len());
        let mut end = 0_usize;
        for term in &self.terms {
            ends.push(end);
            end += term.count as usize;
        }
        let mut keys = vec![0_i64; self.places.len()];
        for (term, message) in &self.places {
            let end = &mut ends[*term as usize];
            keys[*end] = self.messages[*message as usize];
            *end += 1;
        }
        let mut order: Vec<(u64, u32)> =
            (0..).zip(&self.terms).map(|(at, term)| (beginning(self.text(term)), at)).collect();
        order.sort_unstable_by(|a, b| {
            let text = |at: u32| self.text(&self.terms[at as usize]);
            a.0.cmp(&b.0).then_with(|| text(a.1).cmp(text(b.1)))
        });
        for (_, at) in order {
            let term = &self.terms[at as usize];
            let end = ends[at as usize];
            let own = &mut keys[end - term.count as usize..end];
            if !own.is_sorted() {
                own.sort_unstable();
            }
            visit(&self.text[term.at.clone()], own)?;
        }
        Ok(())
    }

    fn text(&self, term: &Term) -> &[u8] {
        &self.text[term.at.clone()]
    }
}

/// The first bytes of a term as a number, in the same order.
fn beginning(term: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = term.len().min(8);
    bytes[..length].copy_from_slice(&term[..length]);
    u64::from_be_bytes(bytes)
}

/// The part of a hash that does not say where it is.
#[expect(clippy::cast_possible_truncation, reason = "a part of it")]
const fn part_of(hash: u64) -> u32 {
    hash as u32
}

fn hash(term: &[u8]) -> u64 {
    let mix = |hash: u64, number: u64| {
        (hash.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let mut hash = term.len() as u64;
    if let (Some(first), Some(last)) = (term.first_chunk::<8>(), term.last_chunk::<8>()) {
        // All of it, the last bytes twice where they overlap.
        let (chunks, _) = term[8..].as_chunks::<8>();
        hash = mix(hash, u64::from_le_bytes(*first));
        hash = chunks.iter().fold(hash, |hash, bytes| mix(hash, u64::from_le_bytes(*bytes)));
        hash = mix(hash, u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (term.first_chunk::<4>(), term.last_chunk::<4>()) {
        let both =
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
        hash = mix(hash, both);
    } else {
        hash = mix(hash, term.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    }
    hash ^ hash >> 29
}
