//! Stems that were met lately: stemming is most of the work of cutting a text into terms, and few words make most of a text.

use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use crate::words;

/// A word of at most so many bytes is a number, and is found by it.
pub(super) const SHORT: usize = 16;

/// The places of a table, at first and at most: a program that looks at one prompt does not fill many.
const FIRST_SLOTS: usize = 1 << 9;
const MOST_SLOTS: usize = 1 << 13;

/// Words with their stems. Each has one place, where the last that came stays.
#[derive(Default)]
pub(super) struct Stems {
    slots: Vec<Slot>,
    /// Words that were not there since the table has its size.
    misses: usize,
    /// The stem of a word that is too long for the table.
    long: String,
}

#[derive(Default, Clone)]
struct Slot {
    /// The word as a number; no word is 0.
    word: u128,
    stem: Box<str>,
}

impl Stems {
    /// The stem of a word of small letters.
    pub(super) fn of(&mut self, word: &str) -> &str {
        match number(word.as_bytes()) {
            Some(number) => self.of_short(number, word),
            None => {
                self.long = stem(word);
                &self.long
            }
        }
    }

    /// The stem of a word that is also given as a number.
    #[inline]
    pub(super) fn of_short(&mut self, number: u128, word: &str) -> &str {
        let mut at = self.place(number);
        if self.slots.get(at).is_none_or(|slot| slot.word != number) {
            self.grow();
            at = self.place(number);
            self.slots[at] = Slot { word: number, stem: stem(word).into_boxed_str() };
        }
        &self.slots[at].stem
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn place(&self, number: u128) -> usize {
        let mixed = (number as u64 ^ ((number >> 64) as u64).rotate_left(23))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Makes the table, or a larger one where words keep pushing each other out.
    #[cold]
    fn grow(&mut self) {
        self.misses += 1;
        if self.slots.is_empty() || self.misses > self.slots.len() && self.slots.len() < MOST_SLOTS
        {
            let slots = (self.slots.len() * 4).max(FIRST_SLOTS);
            self.slots = vec![Slot::default(); slots];
            self.misses = 0;
        }
    }
}

/// A short word as a number.
fn number(word: &[u8]) -> Option<u128> {
    let mut bytes = [0; SHORT];
    bytes.get_mut(..word.len())?.copy_from_slice(word);
    Some(u128::from_le_bytes(bytes))
}

/// The same of a short word inside of a text.
#[inline]
pub(super) fn number_at(text: &[u8], word: Range<usize>) -> u128 {
    match text.get(word.start..word.start + SHORT).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => {
            let unused = 8 * (SHORT - word.len());
            u128::from_le_bytes(bytes) << unused >> unused
        }
        None => number(&text[word]).unwrap_or(0),
    }
}

pub(super) fn stem(word: &str) -> String {
    let language = if word.is_ascii() { Algorithm::English } else { Algorithm::Russian };
    Stemmer::create(language).stem(words::base(word)).into_owned()
}
