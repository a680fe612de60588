//! Scores of messages, added up word by word. Places come newest first, so everything is a merge of two lists in that order.

use super::{NEAR, Places};
use crate::id::Seq;

/// Messages with what they score, newest first.
#[derive(Debug, Default)]
pub(super) struct Scores {
    all: Vec<(Seq, f64)>,
    /// What is added next, and room for the result.
    next: Vec<(Seq, f64)>,
    merged: Vec<(Seq, f64)>,
}

impl Scores {
    /// A word of this rarity counts for the messages that have it, and less for those around them.
    pub(super) fn add_word(&mut self, places: &Places, rarity: f64, newest: Seq) {
        self.next.clear();
        let mut seqs = places.seqs.iter().copied().peekable();
        let mut below = Seq::MAX;
        while let Some(seq) = seqs.next() {
            let older = seqs.peek().copied().unwrap_or(0);
            let last = seq.saturating_add(REACH).min(newest).max(seq).min(below - 1);
            let first = seq.saturating_sub(REACH).max(older + 1);
            // What lies between two places goes by the nearer one.
            for at in (first..=last).rev() {
                let to_older = if older > 0 { at - older } else { Seq::MAX };
                let score = match at.abs_diff(seq).min(to_older) {
                    0 => rarity,
                    distance => rarity * NEAR[distance as usize - 1],
                };
                self.next.push((at, score));
            }
            below = first;
        }
        self.merge();
    }

    /// Every message counts this much more as often as it is named.
    pub(super) fn add(&mut self, seqs: &[Seq], score: f64) {
        self.next.clear();
        self.next.extend(seqs.iter().map(|seq| (*seq, score)));
        self.next.sort_unstable_by_key(|(seq, _)| std::cmp::Reverse(*seq));
        self.next.dedup_by(|again, kept| {
            let is_same = again.0 == kept.0;
            kept.1 += if is_same { again.1 } else { 0.0 };
            is_same
        });
        self.merge();
    }

    pub(super) fn into_list(self) -> Vec<(Seq, f64)> {
        self.all
    }

    fn merge(&mut self) {
        if self.all.is_empty() {
            std::mem::swap(&mut self.all, &mut self.next);
            return;
        }
        self.merged.clear();
        self.merged.reserve(self.all.len() + self.next.len());
        let mut known = self.all.iter().copied().peekable();
        for (seq, score) in self.next.drain(..) {
            while let Some(newer) = known.next_if(|(other, _)| *other > seq) {
                self.merged.push(newer);
            }
            let before = known.next_if(|(other, _)| *other == seq).map_or(0.0, |(_, score)| score);
            self.merged.push((seq, before + score));
        }
        self.merged.extend(known);
        std::mem::swap(&mut self.all, &mut self.merged);
    }
}

/// How far off a message still counts.
#[expect(clippy::cast_possible_truncation, reason = "a few messages")]
const REACH: Seq = NEAR.len() as Seq;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_message_gets_the_most_that_a_place_near_it_gives_for_each_word(
            words in prop::collection::vec(prop::collection::btree_set(1_u32..60, 0..20), 0..5),
            days in prop::collection::vec(1_u32..60, 0..10),
            newest in 59_u32..64,
        ) {
            let mut scores = Scores::default();
            let mut expected: BTreeMap<Seq, f64> = BTreeMap::new();
            for (number, seqs) in (1_u32..).zip(&words) {
                let rarity = f64::from(number);
                let places = Places { seqs: seqs.iter().rev().copied().collect(), cut: false };
                scores.add_word(&places, rarity, newest);
                for at in 1..=newest {
                    let nearest = seqs.iter().map(|seq| seq.abs_diff(at)).min();
                    match nearest {
                        Some(0) => *expected.entry(at).or_default() += rarity,
                        Some(far) if far <= REACH => {
                            *expected.entry(at).or_default() += rarity * NEAR[far as usize - 1];
                        }
                        _ => (),
                    }
                }
            }
            scores.add(&days, 0.5);
            for day in &days {
                *expected.entry(*day).or_default() += 0.5;
            }
            let list = scores.into_list();
            prop_assert!(list.windows(2).all(|two| two[0].0 > two[1].0));
            prop_assert_eq!(list.len(), expected.len());
            for (seq, score) in list {
                prop_assert!((score - expected[&seq]).abs() < 1e-9, "{} has {}", seq, score);
            }
        }
    }
}
