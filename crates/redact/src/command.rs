//! Passwords that are handed to a program in a way of its own: `curl -u name:password`, `mysql -ppassword`.
//!
//! `--password` and variables such as `PGPASSWORD` are names like others, and found with them.

use std::ops::Range;

use super::begun::OPEN;
use super::{Found, judge};

/// No more of a command is looked at.
const LONGEST: usize = 2048;
/// While a command is being written, no more of it is held back: secrets in it may be longer than their masks.
const LONGEST_HELD: usize = 16 * LONGEST;
/// Shorter ones are in every example.
const SHORTEST_PASSWORD: usize = 3;

/// Programs that take a password in a way of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// `-u name:password`
    Curl,
    /// `-ppassword`, and those named alike: `mysqldump`, `mariadb-admin`
    MySql,
}

pub(super) const NAMES: &[(&str, Program)] =
    &[("curl", Program::Curl), ("mysql", Program::MySql), ("mariadb", Program::MySql)];

/// The passwords in the command that begins with the program at `hit`.
pub(super) fn passwords(text: &str, program: Program, hit: Range<usize>) -> Vec<Range<usize>> {
    let Some(command) = command(text, program, hit, LONGEST, &[]) else { return Vec::new() };
    let words = words(text, command);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let value = match program {
            Program::Curl => credentials(text, word, words.get(at + 1)),
            Program::MySql => attached(text, word, "-p"),
        };
        let password = value.and_then(|value| match program {
            Program::Curl => {
                let colon = text[value.clone()].find(':')?;
                Some(value.start + colon + 1..value.end)
            }
            Program::MySql => Some(value),
        });
        found.extend(password.filter(|at| is_password(&text[at.clone()])));
    }
    found
}

/// From the program at `hit` to the end of its command, or [`OPEN`] where that may come after the text. Line ends inside
/// of what was `found` go with it, so the command does not end there.
pub(super) fn extent(
    text: &str,
    program: Program,
    hit: Range<usize>,
    found: &[Found],
) -> Option<Range<usize>> {
    let start = hit.start;
    if hit.end == text.len() {
        return opens(text, start).then_some(start..OPEN);
    }
    let end = command(text, program, hit, LONGEST_HELD, found)?.end;
    let is_open = end == text.len() && end < start + LONGEST_HELD;
    Some(start..if is_open { OPEN } else { end })
}

/// What follows the program, up to the end of the line or of what is looked at.
fn command(
    text: &str,
    program: Program,
    hit: Range<usize>,
    longest: usize,
    found: &[Found],
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = hit.end;
    if program == Program::MySql {
        let part = |byte: &&u8| byte.is_ascii_lowercase() || b"-_".contains(byte);
        at += bytes[at..].iter().take(LONGEST).take_while(part).count();
    }
    // A name that is not whole yet may become one of these.
    let goes_on = bytes.get(at).is_none_or(|byte| b" \t\\".contains(byte));
    if !goes_on || !opens(text, hit.start) {
        return None;
    }
    let most = text.floor_char_boundary((hit.start + longest).min(text.len())).max(at);
    let is_hidden = |place: usize| found.iter().any(|found| found.at.contains(&place));
    let line_ends =
        |end: &usize| bytes[*end] == b'\n' && !is_continued(&bytes[at..*end]) && !is_hidden(*end);
    let end = (at..most).find(line_ends).unwrap_or(most);
    Some(at..end)
}

/// Whether a command goes on in the next line.
fn is_continued(line: &[u8]) -> bool {
    line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"\\")
}

/// Whether a program can begin at `start`.
fn opens(text: &str, start: usize) -> bool {
    let before = text.as_bytes()[..start].last();
    before.is_none_or(|byte| *byte <= b' ' || b"/`\"'(;|&$>".contains(byte))
}

/// The words of a command: what stands between blanks, in quotes or not.
fn words(text: &str, command: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = command.start;
    while at < command.end {
        match bytes[at] {
            byte if byte <= b' ' || byte == b'\\' => at += 1,
            // Another command begins.
            b'|' | b';' | b'&' => break,
            _ => {
                let end = word_ends(bytes, at, command.end);
                out.push(at..end);
                at = end.max(at + 1);
            }
        }
    }
    out
}

fn word_ends(bytes: &[u8], start: usize, most: usize) -> usize {
    let mut quote = None;
    for (at, byte) in bytes.iter().enumerate().take(most).skip(start) {
        match quote {
            Some(open) if *byte == open => quote = None,
            None if b"\"'".contains(byte) => quote = Some(*byte),
            None if *byte <= b' ' => return at,
            _ => (),
        }
    }
    if quote.is_none() {
        return most;
    }
    // A quote that is not closed was opened before the command.
    let rest = &bytes[start..most];
    start + rest.iter().position(|byte| *byte <= b' ').unwrap_or(rest.len())
}

/// The value of curl's `-u` and its like: in the same word, or the next.
fn credentials(
    text: &str,
    word: &Range<usize>,
    next: Option<&Range<usize>>,
) -> Option<Range<usize>> {
    let flag = &text[word.clone()];
    let following = || next.and_then(|next| inside(text, next.clone()));
    for long in ["--user", "--proxy-user"] {
        if let Some(rest) = flag.strip_prefix(long) {
            return match rest.as_bytes() {
                [] => following(),
                [b'=', ..] => inside(text, word.start + long.len() + 1..word.end),
                _ => None,
            };
        }
    }
    let letters = flag.strip_prefix('-')?;
    let is_short = |c: char| c == 'u' || c == 'U';
    if letters.ends_with(is_short) && letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return following();
    }
    attached(text, word, "-u").or_else(|| attached(text, word, "-U"))
}

/// What follows a flag in the same word.
fn attached(text: &str, word: &Range<usize>, flag: &str) -> Option<Range<usize>> {
    text[word.clone()].strip_prefix(flag)?;
    inside(text, word.start + flag.len()..word.end)
}

/// A value without its quotes, and without what ends the text that it is quoted in.
fn inside(text: &str, at: Range<usize>) -> Option<Range<usize>> {
    let value = &text[at.clone()];
    let quote = value.chars().next().filter(|c| "\"'".contains(*c));
    let start = at.start + quote.map_or(0, char::len_utf8);
    let rest = &text[start..at.end];
    let stops = |c: char| match quote {
        Some(quote) => c == quote,
        None => "\"'`\\|;&<>)".contains(c),
    };
    let length = rest.find(stops).unwrap_or(rest.len());
    (length > 0).then_some(start..start + length)
}

fn is_password(value: &str) -> bool {
    value.len() >= SHORTEST_PASSWORD
        && value.bytes().all(|byte| byte > b' ' && byte != 127)
        && !judge::is_number(value)
        && !value.contains("://")
        && judge::is_chosen(value)
}
