//! Terms joined by spaces, each once: the index does not know how often a text has a word.

/// A table has at least so many places, and two for each term.
const FEWEST: usize = 128;
/// A term and what comes between it and the next have about so many bytes.
const BYTES_A_TERM: usize = 6;

/// Puts down terms that are not there yet.
pub(super) struct Distinct<'a> {
    out: &'a mut String,
    /// Where terms are in it.
    places: Vec<(usize, usize)>,
    /// For each hash the number of a term, counted from 1.
    slots: Vec<u32>,
}

impl<'a> Distinct<'a> {
    /// Terms of so many bytes of text, at the end of what is there.
    pub(super) fn new(out: &'a mut String, bytes: usize) -> Self {
        let terms = bytes / BYTES_A_TERM;
        let slots = vec![0; (terms * 2).next_power_of_two().max(FEWEST)];
        Self { out, places: Vec::with_capacity(terms.min(FEWEST)), slots }
    }

    pub(super) fn add(&mut self, term: &str) {
        let mut slot = self.slot_of(term);
        while let Some(number) = (self.slots[slot] as usize).checked_sub(1) {
            let (start, end) = self.places[number];
            if self.out.as_bytes()[start..end] == *term.as_bytes() {
                return;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        let start = self.out.len();
        self.out.push_str(term);
        self.places.push((start, self.out.len()));
        self.slots[slot] = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        if self.places.len() * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 4];
        for (number, (start, end)) in (1..).zip(&self.places) {
            let mut slot = self.slot_of(&self.out[*start..*end]);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = number;
        }
    }

    fn slot_of(&self, term: &str) -> usize {
        let hash = term.as_bytes().chunks(8).fold(0, |hash: u64, bytes| {
            let number = bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
            (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        usize::try_from(hash >> 40).unwrap_or(0) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_term_is_there_once_in_the_order_of_first_mention() {
        let mut out = String::from("before");
        let mut distinct = Distinct::new(&mut out, 10);
        let mut expected = String::from("before");
        for number in [0..700, 0..900].into_iter().flatten() {
            distinct.add(&format!("t{}", number % 800));
        }
        (0..800).for_each(|number| expected.push_str(&format!(" t{number}")));
        assert_eq!(out, expected);
    }
}
