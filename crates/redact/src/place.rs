//! Where in a text a secret can begin, and where it goes on.

use super::alphabet::{ALNUM, Alphabet, PADDED64};
use super::judge;

/// Before a token in a run of base64 stand so many bytes more of it.
const BLOB: usize = 40;

/// The longest colour code of a terminal that is looked at.
const COLOUR: usize = 12;

/// A token that is a part of a longer word (`backup_KEY`, `deploy-KEY`) begins at most so many bytes after the word does.
const LONGEST_LEAD: usize = 48;

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
        // A line of a diff.
        [b'-' | b'+'] | [.., b'\n', b'-' | b'+'] => true,
        [.., b'%' | b'=', first, second]
            if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
        {
            true
        }
        [code @ .., b'm'] => {
            let digits = code.iter().rev().take(COLOUR);
            let length = digits.take_while(|c| c.is_ascii_digit() || **c == b';').count();
            let code = code[..code.len() - length].strip_suffix(b"[");
            code.is_some_and(|code| code.ends_with(b"\x1b") || ends_in_escape(code))
        }
        before => ends_in_escape(before),
    }
}

/// Whether a text ends in a character that is written as an escape: `\n`, `\e`, `\x1b`, `\u003d`, `\033`.
fn ends_in_escape(text: &[u8]) -> bool {
    let ends = |before: &[u8], length: usize, is_digit: fn(&u8) -> bool| {
        let (head, digits) = text.split_at(text.len().saturating_sub(length));
        digits.iter().all(is_digit) && head.ends_with(before)
    };
    matches!(text, [.., b'\\', b'n' | b'r' | b't' | b'e'])
        || ends(b"\\x", 2, u8::is_ascii_hexdigit)
        || ends(b"\\u", 4, u8::is_ascii_hexdigit)
        || ends(b"\\", 3, |byte| (b'0'..=b'7').contains(byte))
}

/// Whether a token may begin at `at` in the middle of a word: after `_` or `-`, near the beginning of the word, so that the work
/// stays linear for words of any length.
pub(super) fn is_joined(text: &[u8], at: usize) -> bool {
    let is_part = |byte: &&u8| ALNUM.has(**byte) || b"-_".contains(byte);
    let lead = text[..at].iter().rev().take(LONGEST_LEAD + 1);
    (text[..at].ends_with(b"_") || text[..at].ends_with(b"-"))
        && lead.take_while(is_part).count() <= LONGEST_LEAD
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
