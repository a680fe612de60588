//! Where in a text a secret can begin, and where it goes on.

use super::alphabet::{ALNUM, Alphabet, PADDED64};
use super::judge;

/// Before a token in a run of base64 stand so many bytes more of it.
const BLOB: usize = 40;

/// The longest colour code of a terminal that is looked at.
const COLOUR: usize = 12;

/// Indentation of a line that goes on with what was broken.
const INDENT: usize = 8;

/// Whether something new begins at `at`: it does not go on with what stands before.
///
/// So each run of an alphabet is looked at from its beginning only, which keeps the work linear.
pub(super) fn opens(text: &[u8], at: usize, alphabet: Alphabet) -> bool {
    let before = &text[..at];
    match before {
        // After `=` comes a value, even where it is a letter of the alphabet.
        [] | [.., b'='] => true,
        [.., last] if !ALNUM.has(*last) && !alphabet.has(*last) && !b"-_".contains(last) => true,
        // A line of a diff; an escaped line end or tab.
        [b'-' | b'+'] | [.., b'\n', b'-' | b'+'] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', first, second] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => {
            true
        }
        [code @ .., b'm'] => {
            let digits = code.iter().rev().take(COLOUR);
            let length = digits.take_while(|c| c.is_ascii_digit() || **c == b';').count();
            code[..code.len() - length].ends_with(b"\x1b[")
        }
        _ => false,
    }
}

/// Whether what begins at `at` is in the middle of an image or another long run of base64.
pub(super) fn in_blob(text: &[u8], at: usize) -> bool {
    if at < BLOB || !b"+/".contains(&text[at - 1]) {
        return false;
    }
    let before = &text[at - BLOB..at];
    before.iter().all(|byte| PADDED64.has(*byte)) && judge::changes(before) * 4 >= BLOB
}

/// Where the next line goes on, if a line ends at `at`.
pub(super) fn after_break(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
    let indent = rest.iter().take(INDENT).take_while(|byte| **byte == b' ').count();
    Some(text.len() - rest.len() + indent)
}
