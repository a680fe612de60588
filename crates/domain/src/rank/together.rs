//! Words that come together with those of a prompt, learned from the passages that are at hand.
//!
//! "Why is the basket empty?" shares no word with "the cookie is rotated too early". Where a session speaks of baskets and cookies
//! in the same passages, one that has only the other word may still be what is asked for. Nothing is kept for this: the outlines
//! that a prompt chooses from are what it is learned from, so it is of this session and costs no room.

use std::cell::Cell;

use super::{Word, rarity};
use crate::id::Seq;
use crate::passage::{Fingerprint, Outline};

/// A word that comes together with one of the prompt counts this much of it.
const SHARE: f64 = 0.2;
/// For each word of the prompt so many others count, at most.
const MOST: usize = 4;
/// They were in so many passages together, at least.
const OFTEN: u16 = 3;
/// They were together e times as often as chance would have it, at least.
const STRENGTH: f64 = 1.0;
/// A word that is in a larger part of the passages goes with anything.
const COMMON: f64 = 0.1;

/// The words that count for those of a prompt.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// A bit for each word that there is one of these for.
    known: Vec<u64>,
    /// The words, sorted; which of the prompt's each counts for, and how much.
    words: Vec<(Fingerprint, usize, f64)>,
}

impl Together {
    /// `words` are those of the prompt, `held` which of them each message has.
    pub(super) fn learn(words: &[Word], held: &[u64], outlines: &[(Seq, Outline)]) -> Self {
        let mut counts = COUNTS.take();
        counts.begin(outlines);
        let mut together = Self { known: vec![0; ALL / 64], words: Vec::new() };
        for (bit, word) in words.iter().enumerate() {
            let holds = |at: &usize| held[*at] >> bit & 1 == 1;
            for at in (0..outlines.len()).filter(holds) {
                counts.add_company(word, &outlines[at].1);
            }
            for (other, strength) in counts.strongest(word) {
                if words.iter().any(|asked| asked.is(other)) || strength <= 0.0 {
                    continue;
                }
                let count = f64::from(counts.passages_with[usize::from(other)]);
                let worth = SHARE * rarity(count, counts.passages).min(word.rarity);
                together.known[usize::from(other) / 64] |= 1 << (other % 64);
                together.words.push((other, bit, worth));
            }
        }
        COUNTS.set(counts);
        together.words.sort_unstable_by_key(|(word, bit, _)| (*word, *bit));
        together
    }

    /// Visits the words of the prompt that those of a passage count for, and how much.
    pub(super) fn each(&self, passage: &[Fingerprint], mut visit: impl FnMut(usize, f64)) {
        for word in passage {
            if self.known[usize::from(*word) / 64] >> (word % 64) & 1 == 0 {
                continue;
            }
            let from = self.words.partition_point(|(other, ..)| other < word);
            for (_, bit, worth) in self.words[from..].iter().take_while(|one| one.0 == *word) {
                visit(*bit, *worth);
            }
        }
    }
}

const ALL: usize = Fingerprint::MAX as usize + 1;

thread_local! {
    /// Too large to be made anew for each prompt.
    static COUNTS: Cell<Counts> = Cell::default();
}

/// In how many passages each word is.
#[derive(Default)]
struct Counts {
    passages: f64,
    passages_with: Vec<u16>,
    /// Of those that have a word of the prompt. All are 0 but those that are listed.
    company: Vec<u16>,
    listed: Vec<Fingerprint>,
}

impl Counts {
    fn begin(&mut self, outlines: &[(Seq, Outline)]) {
        self.passages_with.clear();
        self.passages_with.resize(ALL, 0);
        self.company.resize(ALL, 0);
        let mut passages = 0_u32;
        for (_, outline) in outlines {
            passages += u32::try_from(outline.passages.len()).unwrap_or(u32::MAX);
            for word in outline.all_words() {
                let count = &mut self.passages_with[usize::from(*word)];
                *count = count.saturating_add(1);
            }
        }
        self.passages = f64::from(passages);
    }

    /// Counts the words of those passages of a message that have this one.
    fn add_company(&mut self, word: &Word, outline: &Outline) {
        for passage in &outline.passages {
            let own = outline.words(passage);
            if !word.is_in(own) {
                continue;
            }
            for other in own {
                let count = &mut self.company[usize::from(*other)];
                if *count == 0 {
                    self.listed.push(*other);
                }
                *count = count.saturating_add(1);
            }
        }
    }

    /// The words that go with this one most clearly, and how clearly. What was counted for it is forgotten.
    fn strongest(&mut self, word: &Word) -> [(Fingerprint, f64); MOST] {
        let mut best = [(0, 0.0); MOST];
        let with = |form: Fingerprint| self.passages_with[usize::from(form)];
        let own = f64::from(word.forms.map(with).into_iter().max().unwrap_or(0));
        for other in self.listed.drain(..) {
            let together = std::mem::take(&mut self.company[usize::from(other)]);
            let others = f64::from(self.passages_with[usize::from(other)]);
            if together < OFTEN || word.is(other) || others > COMMON * self.passages {
                continue;
            }
            let together = f64::from(together);
            let more_than_chance = (together * self.passages / (own * others)).ln();
            let strength = together * more_than_chance;
            let at = best.partition_point(|(_, known)| *known >= strength);
            if more_than_chance > STRENGTH && at < MOST {
                best[at..].rotate_right(1);
                best[at] = (other, strength);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::message::Role;
    use crate::passage::fingerprint;

    /// What the words of a text count for a prompt of one word, in a session where these were said.
    fn counted(said: &[&str], asked: &str, text: &str) -> f64 {
        let outline = |text: &str| Outline::of(Role::User, Timestamp::UNIX_EPOCH, text, None);
        let outlines: Vec<(Seq, Outline)> =
            (1..).zip(said.iter().map(|one| outline(one))).collect();
        let word = fingerprint(asked);
        let held: Vec<u64> = outlines.iter().map(|(_, one)| u64::from(one.has(word))).collect();
        let together = Together::learn(&[Word { forms: [word; 2], rarity: 5.0 }], &held, &outlines);
        let one = outline(text);
        let mut sum = 0.0;
        together.each(one.words(&one.passages[0]), |bit, worth| {
            assert_eq!(bit, 0);
            sum += worth;
        });
        sum
    }

    #[test]
    fn what_is_said_together_counts_for_each_other() {
        let mut said = vec!["The weather is fine."; 60];
        said.extend(["The basket keeps its cookie."; 4]);
        said.extend(["The garden is dug."; 10]);
        let cookie = counted(&said, "basket", "Who rotates the cookie?");
        assert!(cookie > 0.0 && cookie <= SHARE * 5.0, "{cookie}");
        assert!(counted(&said, "basket", "Who digs the garden?") <= 0.0);
        assert!(counted(&said, "basket", "The basket itself.") <= 0.0);
        // Said together too seldom, or with everything.
        assert!(counted(&said[..62], "basket", "Who rotates the cookie?") <= 0.0);
        let all = vec!["The basket keeps its cookie."; 40];
        assert!(counted(&all, "basket", "Who rotates the cookie?") <= 0.0);
    }

    #[test]
    fn nothing_is_learned_of_one_prompt_for_the_next() {
        let mut said = vec!["The weather is fine."; 60];
        said.extend(["The basket keeps its cookie."; 4]);
        let before = counted(&said, "basket", "The cookie.");
        assert!(counted(&["The basket is blue."; 5], "basket", "The cookie.") <= 0.0);
        let after = counted(&said, "basket", "The cookie.");
        assert!((before - after).abs() < 1e-9, "{before} {after}");
    }

    #[test]
    fn a_session_without_passages_teaches_nothing() {
        let together = Together::learn(&[Word { forms: [1; 2], rarity: 1.0 }], &[], &[]);
        together.each(&[1, 2, 3], |_, _| panic!("nothing was said"));
    }
}
