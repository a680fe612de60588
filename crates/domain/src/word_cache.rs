//! A cache of what was worked out for words: few words make most of a text.

use std::ops::Range;

/// A word of at most so many bytes is a number, and is found by it.
pub(crate) const SHORT: usize = size_of::<u128>();

/// Direct-mapped: each word has one slot, and a word that comes later takes it over. The cache begins with `FIRST` slots and grows
/// to `MOST` (both powers of two), so that a program that looks at one prompt does not fill many.
pub(crate) struct WordCache<T, const FIRST: usize, const MOST: usize> {
    /// The word as a number, and what belongs to it. No word is 0.
    slots: Vec<(u128, T)>,
    /// Words that were not there since the cache has its size.
    misses: usize,
}

impl<T, const FIRST: usize, const MOST: usize> Default for WordCache<T, FIRST, MOST> {
    fn default() -> Self {
        Self { slots: Vec::new(), misses: 0 }
    }
}

impl<T: Clone + Default, const FIRST: usize, const MOST: usize> WordCache<T, FIRST, MOST> {
    /// What belongs to a word, worked out where it is not known.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, word: u128, work_out: impl FnOnce() -> T) -> &T {
        let mut slot = self.slot(word);
        if self.slots.get(slot).is_none_or(|(known, _)| *known != word) {
            self.grow();
            slot = self.slot(word);
            self.slots[slot] = (word, work_out());
        }
        &self.slots[slot].1
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn slot(&self, word: u128) -> usize {
        let mixed = (word as u64 ^ ((word >> 64) as u64).rotate_left(23))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Makes the slots, or more of them where words keep pushing each other out.
    #[cold]
    fn grow(&mut self) {
        self.misses += 1;
        let is_crowded = self.misses > self.slots.len() && self.slots.len() < MOST;
        if self.slots.is_empty() || is_crowded {
            let slots = (self.slots.len() * 4).clamp(FIRST, MOST);
            self.slots = vec![(0, T::default()); slots];
            self.misses = 0;
        }
    }
}

/// A short word as a number; `None` for a longer one.
#[inline]
pub(crate) fn number(word: &[u8]) -> Option<u128> {
    let mut bytes = [0; SHORT];
    bytes.get_mut(..word.len())?.copy_from_slice(word);
    Some(u128::from_le_bytes(bytes))
}

/// A short word inside of a text as a number.
#[inline]
pub(crate) fn number_at(text: &[u8], word: Range<usize>) -> u128 {
    match text.get(word.start..word.start + SHORT).and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => {
            let unused = 8 * (SHORT - word.len());
            u128::from_le_bytes(bytes) << unused >> unused
        }
        None => number(&text[word]).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_what_was_worked_out_for_it_however_many_came_in_between() {
        let mut cache = WordCache::<u128, 4, 64>::default();
        let mut worked_out = 0;
        for round in 0..3 {
            for word in 1..=1_000 {
                let found = *cache.get_or_insert_with(word, || {
                    worked_out += 1;
                    word * 2
                });
                assert_eq!(found, word * 2, "round {round}");
            }
        }
        assert!(worked_out > 1_000 && cache.slots.len() == 64, "{worked_out}");
        let before = worked_out;
        cache.get_or_insert_with(1_000, || unreachable!("it came last"));
        assert_eq!(worked_out, before);
    }

    #[test]
    fn only_short_words_are_numbers_and_each_is_its_own() {
        assert_eq!(number(b"0123456789abcdef0"), None);
        let words: [&[u8]; 5] = [b"a", b"b", b"ab", b"ba", b"0123456789abcdef"];
        let numbers: std::collections::HashSet<_> = words.iter().map(|word| number(word)).collect();
        assert!(numbers.len() == words.len() && !numbers.contains(&Some(0)));
    }
}
