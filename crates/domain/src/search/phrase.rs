//! Texts in quotation marks: to be found as they stand, whatever the case and the white space between their words.

/// Whether all phrases, which are in lower case with single spaces, stand in a text.
pub(super) fn are_in(phrases: &[String], text: &str) -> bool {
    if text.is_ascii() && phrases.iter().all(|phrase| phrase.is_ascii()) {
        return phrases.iter().all(|phrase| is_in(phrase.as_bytes(), text.as_bytes()));
    }
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    phrases.iter().all(|phrase| flat.contains(phrase))
}

/// The same of ASCII, without making another text of it.
fn is_in(phrase: &[u8], text: &[u8]) -> bool {
    let [first, second, ..] = *phrase else {
        return phrase.iter().all(|byte| text.iter().any(|other| other.eq_ignore_ascii_case(byte)));
    };
    if second == b' ' {
        return (0..text.len()).any(|at| starts(phrase, &text[at..]));
    }
    // Eight places at a time: whether a beginning of the phrase can be among them.
    let (first, second) = (Eight::of(first), Eight::of(second));
    let mut at = 0;
    while at + 9 <= text.len() {
        let (one, next) = (eight(&text[at..at + 8]), eight(&text[at + 1..at + 9]));
        if first.is_among(one) & second.is_among(next)
            && (at..at + 8).any(|at| starts(phrase, &text[at..]))
        {
            return true;
        }
        at += 8;
    }
    (at..text.len()).any(|at| starts(phrase, &text[at..]))
}

/// Whether a text begins with a phrase.
fn starts(phrase: &[u8], text: &[u8]) -> bool {
    let mut at = 0;
    for byte in phrase {
        match text.get(at) {
            Some(other) if *byte == b' ' && is_space(*other) => {
                at += text[at..].iter().take_while(|byte| is_space(**byte)).count();
            }
            Some(other) if *byte != b' ' && other.eq_ignore_ascii_case(byte) => at += 1,
            _ => return false,
        }
    }
    true
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// A byte, eight times, and what makes capital letters small.
struct Eight {
    byte: u64,
    case: u64,
}

const EACH: u64 = u64::from_le_bytes([1; 8]);

fn eight(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl Eight {
    const fn of(byte: u8) -> Self {
        let case = if byte.is_ascii_lowercase() { 0x20 } else { 0 };
        Self { byte: byte as u64 * EACH, case: case * EACH }
    }

    /// Whether the byte may be among these; where it is, that is always told.
    const fn is_among(&self, bytes: u64) -> bool {
        let differs = (bytes | self.case) ^ self.byte;
        differs.wrapping_sub(EACH) & !differs & (0x80 * EACH) != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_phrase_is_found_where_it_stands_in_the_flat_text(
            typed in prop_oneof!["[a-c]{1,3}( [a-c@`]{1,2}){0,2}", "(A|the|[error]{1,3})( the)?", "[@`\\[{]{1,2}"],
            said in "[a-cA-C@`\\[{ \t\n\x0b]{0,40}( the\n ERROR the error)?[a-c]{0,3}é?",
        ) {
            let phrase = typed.to_lowercase();
            let flat = said.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            let found = are_in(std::slice::from_ref(&phrase), &said);
            prop_assert_eq!(found, flat.contains(&phrase), "{:?} in {:?}", phrase, said);
        }
    }
}
