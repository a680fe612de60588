//! What a text costs in a context, counted once, when it is written.
//!
//! Costs add up exactly because every piece of a context ends with a line end and the next begins with
//! neither white space nor `/`: there the tokenizer always cuts. `retell` has the test.

mod count;

use std::ops::Range;

use crate::quote;
use crate::tokens;
use count::Counted;

/// A text at least this long can be shown shortened at known prices.
const CUTS_FROM: usize = 1000;
const FIRST_CUT: usize = 250;
/// The longest beginning or end of a text that a context can show.
pub const LONGEST_CUT: usize = 16 * 1024;

/// What a text costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Price {
    /// Tokens of the text itself; `None` where nobody counted.
    pub tokens: Option<u32>,
    /// Tokens of the text as a quotation.
    pub quoted: Option<u32>,
    pub cuts: Cuts,
}

/// Beginnings and ends of a long text with their prices as quotations, shortest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cuts {
    pub heads: Vec<Cut>,
    pub tails: Vec<Cut>,
}

/// So many bytes of a text, from its beginning or up to its end, and their price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub bytes: u32,
    pub tokens: u32,
}

impl Price {
    pub fn of(text: &str) -> Self {
        if !quote::is_unchanged(text) {
            return Self::by_parts(text);
        }
        let mut counted = Counted::of(text);
        let (tokens, quoted) = (Some(counted.tokens()), Some(counted.quoted()));
        Self { tokens, quoted, cuts: Cuts::of(text, |at| counted.part(at)) }
    }

    /// Every part counted by itself, as prices are defined.
    fn by_parts(text: &str) -> Self {
        let quoted = |part: &str| tokens::count(&quote::quoted(part));
        Self {
            tokens: Some(tokens::count(text)),
            quoted: Some(quoted(text)),
            cuts: Cuts::of(text, |at| quoted(&text[at])),
        }
    }
}

impl Cuts {
    /// Beginnings and ends at the prices that `price` gives for parts of the text.
    fn of(text: &str, mut price: impl FnMut(Range<usize>) -> u32) -> Self {
        let mut cuts = Self::default();
        if text.len() < CUTS_FROM {
            return cuts;
        }
        let mut cut = |at: Range<usize>| Cut {
            bytes: u32::try_from(at.len()).unwrap_or(u32::MAX),
            tokens: price(at),
        };
        let mut bytes = FIRST_CUT;
        while bytes < text.len() && bytes <= LONGEST_CUT {
            cuts.heads.push(cut(0..head(text, bytes).len()));
            cuts.tails.push(cut(text.len() - tail(text, bytes).len()..text.len()));
            bytes *= 2;
        }
        cuts
    }

    /// A few bytes that [`Cuts::decode`] reads back.
    pub fn encode(&self) -> Vec<u8> {
        let cuts = self.heads.iter().chain(&self.tails);
        encode_numbers(cuts.flat_map(|cut| [cut.bytes, cut.tokens]))
    }

    /// Damaged bytes give no cuts: the text is then shortened at a price that is safe but not exact.
    pub fn decode(bytes: &[u8]) -> Self {
        let numbers = decode_numbers(bytes);
        if !numbers.len().is_multiple_of(4) {
            return Self::default();
        }
        let cuts = |part: &[u32]| {
            part.chunks(2).map(|pair| Cut { bytes: pair[0], tokens: pair[1] }).collect()
        };
        let (heads, tails) = numbers.split_at(numbers.len() / 2);
        Self { heads: cuts(heads), tails: cuts(tails) }
    }
}

/// At most `bytes` of the beginning, ending at a line, a sentence or a word where one is near.
pub fn head(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let whole = &text[..text.floor_char_boundary(bytes)];
    let near = &whole[whole.ceil_char_boundary(whole.len() - whole.len() / 3)..];
    let sentence = || sentence_ends(near).last();
    match near.rfind('\n').or_else(sentence).or_else(|| near.rfind(' ')) {
        Some(at) => &whole[..whole.len() - near.len() + at],
        None => whole,
    }
}

/// Where sentences end, behind their marks.
fn sentence_ends(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices(['.', '!', '?', '。', '！', '？']).filter_map(|(at, mark)| {
        let end = at + mark.len();
        (!mark.is_ascii() || text[end..].starts_with(' ')).then_some(end)
    })
}

/// At most `bytes` of the end, beginning at a line, a sentence or a word where one is near.
pub fn tail(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let whole = &text[text.ceil_char_boundary(text.len() - bytes)..];
    let near = &whole[..whole.floor_char_boundary(whole.len() / 3)];
    let sentence = || sentence_ends(near).next();
    match near.find('\n').or_else(sentence).or_else(|| near.find(' ')) {
        Some(at) => whole[at..].trim_start(),
        None => whole,
    }
}

/// Small numbers in few bytes.
pub fn encode_numbers(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut out = Vec::new();
    for mut number in numbers {
        while number >= 0x80 {
            out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        out.push(number.to_le_bytes()[0]);
    }
    out
}

/// Undoes [`encode_numbers`]; what it did not write gives nothing.
pub fn decode_numbers(bytes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    let mut shift = 0;
    for byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            match u32::try_from(number) {
                Ok(whole) => numbers.push(whole),
                Err(_) => return Vec::new(),
            }
            (number, shift) = (0, 0);
        } else if shift > 28 {
            return Vec::new();
        }
    }
    if shift == 0 { numbers } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cuts_are_parts_of_the_text_at_their_prices() {
        let text = "A line of words, and then\nanother \u{1b} one with ünïcödé.\n".repeat(900);
        let price = Price::of(&text);
        assert_eq!(price.cuts.heads.len(), 7);
        for (head, tail) in price.cuts.heads.iter().zip(&price.cuts.tails) {
            let start = &text[..head.bytes as usize];
            let end = &text[text.len() - tail.bytes as usize..];
            assert_eq!(tokens::count(&quote::quoted(start)), head.tokens);
            assert_eq!(tokens::count(&quote::quoted(end)), tail.tokens);
        }
        assert_eq!(Cuts::decode(&price.cuts.encode()), price.cuts);
    }

    proptest! {
        #[test]
        fn counting_what_is_common_once_gives_the_same_prices(
            parts in prop::collection::vec(
                prop_oneof![
                    4 => "[a-zA-Z]{1,9}",
                    4 => "[ \t\n]{1,3}",
                    2 => "[0-9]{1,7}",
                    2 => "[-!-/:-@{|}~'_\n ]{1,5}",
                    1 => "('s|'RE|I'll| x'd\n|';\n/|\n\n/)",
                    1 => "[éßǅ中ア\u{301}\u{a0}\u{3000}\u{2019}\u{17f}]{1,3}",
                    1 => "[\r\u{1b}\u{2028}\u{241b}]",
                ],
                0..400,
            ),
            times in 1..6usize,
        ) {
            let text = parts.concat().repeat(times);
            prop_assert_eq!(Price::of(&text), Price::by_parts(&text), "{:?}", text);
        }
    }

    #[test]
    fn damaged_cuts_are_no_cuts() {
        for damaged in [&[0x80u8][..], &[1, 2, 3], &[1, 2], &[0xff; 40]] {
            assert_eq!(Cuts::decode(damaged), Cuts::default(), "{damaged:?}");
        }
    }

    #[test]
    fn a_text_without_spaces_is_cut_all_the_same() {
        let text = "é".repeat(5000);
        assert_eq!(head(&text, 251).len(), 250);
        assert_eq!(tail(&text, 251).len(), 250);
    }
}
