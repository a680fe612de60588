//! An outline in a few bytes, as it is kept.

use super::{Fingerprint, Lead, Outline, Passage};
use crate::meaning::Meaning;
use crate::message::Role;
use crate::outcome::Outcome;

/// Grows when outlines are kept differently: none of another version is read. Where they are made differently the version
/// of terms grows, and the index is built anew.
const VERSION: u8 = 3;

const ASKS: u8 = 4;
const IS_BARE: u8 = 8;
const IS_PLAN: u8 = 16;
const HAS_SPEAKER: u8 = 32;
const IS_MASKED: u8 = 64;

const WORKED: u8 = 1;
const FAILED: u8 = 2;
const OUTCOME: u8 = WORKED | FAILED;
const ANNOUNCES: u8 = 4;

/// No more passages than a text that can be shown has.
const MOST_PASSAGES: u32 = 1 << 12;

impl Outline {
    /// Bytes that [`Outline::decode`] reads back.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 40 * self.passages.len() + 2 * self.words.len());
        let role = Role::ALL.iter().position(|role| *role == self.role).unwrap_or(0);
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(VERSION);
        out.push(
            role.to_le_bytes()[0]
                | flag(self.asks, ASKS)
                | flag(self.is_bare, IS_BARE)
                | flag(self.is_plan, IS_PLAN)
                | flag(self.is_masked, IS_MASKED)
                | flag(self.speaker.is_some(), HAS_SPEAKER),
        );
        let outcome = match self.outcome {
            None => 0,
            Some(Outcome::Worked) => WORKED,
            Some(Outcome::Failed) => FAILED,
        };
        out.push(outcome | flag(self.announces, ANNOUNCES));
        out.extend(self.day.to_le_bytes());
        out.extend(self.speaker.into_iter().flat_map(Fingerprint::to_le_bytes));
        push(&mut out, self.passages.len());
        let mut end = 0;
        for passage in &self.passages {
            let words = self.words(passage);
            push(&mut out, passage.from.saturating_sub(end) as usize);
            push(&mut out, passage.to.saturating_sub(passage.from) as usize);
            push(&mut out, passage.price as usize);
            match passage.lead {
                Some(lead) => {
                    push(&mut out, passage.from.saturating_sub(lead.from) as usize);
                    push(&mut out, lead.to.saturating_sub(lead.from) as usize);
                    push(&mut out, lead.price as usize);
                }
                None => push(&mut out, 0),
            }
            push(&mut out, words.len() * 2 + usize::from(passage.meaning.is_some()));
            out.extend(passage.meaning.iter().flat_map(Meaning::bytes));
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            end = passage.to;
        }
        out
    }

    /// Undoes [`Outline::encode`]; `None` for what it did not write, or for another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        if rest.byte()? != VERSION {
            return None;
        }
        let flags = rest.byte()?;
        let ending = rest.byte().filter(|ending| ending & !(OUTCOME | ANNOUNCES) == 0)?;
        let outcome = match ending & OUTCOME {
            0 => None,
            WORKED => Some(Outcome::Worked),
            FAILED => Some(Outcome::Failed),
            _ => return None,
        };
        let day = i64::from_le_bytes(rest.take(8)?.try_into().ok()?);
        let speaker = if flags & HAS_SPEAKER == 0 { None } else { Some(rest.word()?) };
        let count = rest.number().filter(|count| *count <= MOST_PASSAGES)?;
        let mut passages = Vec::with_capacity(count as usize);
        let mut words = Vec::with_capacity(rest.0.len() / 2);
        let mut end = 0_u32;
        for _ in 0..count {
            let from = end.checked_add(rest.number()?)?;
            let to = from.checked_add(rest.number()?)?;
            let price = rest.number()?;
            let lead = match rest.number()? {
                0 => None,
                above => {
                    let start = from.checked_sub(above)?;
                    let end = start.checked_add(rest.number()?)?;
                    Some(Lead { from: start, to: end, price: rest.number()? })
                }
            };
            let own = rest.number()?;
            let meaning = match own & 1 {
                0 => None,
                _ => Some(Meaning::from_bytes(rest.take(Meaning::BYTES)?.try_into().ok()?)),
            };
            let start = words.len();
            let bytes = rest.take((own & !1) as usize)?;
            words.extend(bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])));
            passages.push(Passage { from, to, price, lead, meaning, words: start..words.len() });
            end = to;
        }
        let role = Role::ALL[usize::from(flags & 3)];
        let is_set = |bit: u8| flags & bit != 0;
        rest.0.is_empty().then_some(Self {
            role,
            day,
            asks: is_set(ASKS),
            is_bare: is_set(IS_BARE),
            announces: ending & ANNOUNCES != 0,
            is_plan: is_set(IS_PLAN),
            is_masked: is_set(IS_MASKED),
            outcome,
            speaker,
            passages,
            words,
        })
    }
}

fn push(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|one| one[0])
    }

    fn word(&mut self) -> Option<Fingerprint> {
        self.take(2).map(|two| u16::from_le_bytes([two[0], two[1]]))
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn an_outline_is_read_back_and_nothing_else_is() {
        let long = "Anna: the parser fails on the second line.\n\n".repeat(40);
        for text in ["", "Yes?", "Anna: no", "$ make\nexit code 2", "exit code: 0", &long] {
            for role in Role::ALL {
                let at = Timestamp::from_second(-86_400 * 20).unwrap();
                let outline = Outline::of(role, at, text, None);
                let bytes = outline.encode();
                assert_eq!(Outline::decode(&bytes), Some(outline));
                for end in 0..bytes.len() {
                    assert_eq!(Outline::decode(&bytes[..end]), None);
                }
                assert_eq!(Outline::decode(&[&bytes[..], &[0]].concat()), None);
            }
        }
        for damaged in [&[2, 0, 0, 255][..], &[0xff; 40], &[1; 40], &[2; 40]] {
            assert_eq!(Outline::decode(damaged), None);
        }
    }
}
