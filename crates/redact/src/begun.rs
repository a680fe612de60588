//! How much of a text that is still being written is decided: what follows can neither make a secret of it nor undo one.
//!
//! Everything that is recognised stands in one stretch without blanks, with few exceptions, and for each of them there is
//! a rule here: a name and its value, `Bearer` and its token, a command that takes a password, a long token that is broken over lines, a key with its
//! lines, a known value, and a mask. None of these is cut in two, and what reaches the end of the text is held back from the
//! blank before it. A held text begins with that blank, so that what is looked at before a secret is there too.

use std::ops::Range;

use super::assigned::Names;
use super::rule::MOST_BREAKS;
use super::scan::{self, LONGEST_LABEL, PEM_BEGINS, Trigger};
use super::{Found, Redacted, command, mask, place};

/// No rule has more runs that may be broken over lines.
const MOST_RUNS: usize = 4;
const DASHES: &str = "-----";
const PEM_ENDS: &str = "-----END ";

/// Goes on after the text.
pub(super) const OPEN: usize = usize::MAX;

/// Where the part begins that is not decided; at a blank, at something that is not ASCII, or at the beginning.
/// `redacted` is the text without what was found in it, and `known` how much of its end could be the beginning of a known value.
pub(super) fn decided(text: &str, redacted: &Redacted<'_>, known: usize) -> usize {
    let found = &redacted.found;
    let mut whole: Vec<Range<usize>> = found.iter().map(|found| found.at.clone()).collect();
    whole.push(text.len() - known..OPEN);
    whole.extend(text.match_indices(mask::BEGINS).map(|(at, _)| written_mask(text, at)));
    whole.extend(extents(text, found));
    // Once a secret is masked, a name may begin where it ended: in `SECRETauth=` it is `auth`.
    if !found.is_empty() {
        let places = masked_places(found);
        let open = extents(&redacted.text, &[]);
        whole.extend(open.into_iter().map(|at| in_original(at, found, &places)));
    }
    // What stands before the last blank has ended. What is whole is not cut in two: to go back for one may be to cut
    // another that begins before it, and none that begins after it.
    whole.sort_by_key(|at| std::cmp::Reverse(at.start));
    whole.into_iter().fold(back(text, text.len()), |cut, at| {
        if at.start < cut && cut < at.end { back(text, at.start) } else { cut }
    })
}

/// From each text that a secret can be recognised by to where it is sure what it makes a secret of.
fn extents(text: &str, found: &[Found]) -> Vec<Range<usize>> {
    let names = Names::new(text);
    let mut extents = Vec::new();
    scan::hits(text, |trigger, at| {
        extents.extend(match trigger {
            Trigger::Vendor(_) => is_broken_off(text, at.end).then_some(at.start..OPEN),
            Trigger::Name => names.extent(at),
            Trigger::Pem => is_open_key(text, at.start).then_some(at.start..OPEN),
            Trigger::Address => Some(at.start..word_ends(text, at.end)),
            Trigger::Bearer | Trigger::Basic => {
                let blanks = text[at.end..].len() - text[at.end..].trim_start_matches(' ').len();
                Some(at.start..word_ends(text, at.end + blanks))
            }
            Trigger::Command(program) => command::extent(text, program, at, found),
        });
    });
    extents
}

/// Where the masks of what was found stand in the redacted text.
fn masked_places(found: &[Found]) -> Vec<Range<usize>> {
    let (mut original, mut masked) = (0, 0);
    let places = found.iter().map(|found| {
        let start = masked + found.at.start - original;
        (original, masked) = (found.at.end, start + mask::length(&found.what));
        start..masked
    });
    places.collect()
}

/// A stretch of the redacted text in the original. What begins or ends in a mask takes all of the secret along.
fn in_original(at: Range<usize>, found: &[Found], masks: &[Range<usize>]) -> Range<usize> {
    let place = |at: usize, inside: fn(&Found) -> usize| {
        // The last mask that begins before it.
        match masks.partition_point(|mask| mask.start < at).checked_sub(1) {
            Some(last) if at < masks[last].end => inside(&found[last]),
            Some(last) => found[last].at.end + (at - masks[last].end),
            None => at,
        }
    };
    let end = if at.end == OPEN { OPEN } else { place(at.end, |found| found.at.end) };
    place(at.start, |found| found.at.start)..end
}

/// Where the word from `at` on ends, if it does.
fn word_ends(text: &str, at: usize) -> usize {
    text[at..].find(is_blank).map_or(OPEN, |length| at + length)
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// The last place up to `at` where a text can be cut: something begins there that is no part of a name, a token or a key.
fn back(text: &str, at: usize) -> usize {
    let here = text[at..].chars().next().filter(|c| parts(*c)).map(|_| at);
    here.or_else(|| text[..at].rfind(parts)).unwrap_or_default()
}

fn parts(c: char) -> bool {
    c.is_ascii_whitespace() || !c.is_ascii()
}

/// Whether a token that begins before `at` may go on after the text: over the end of a line, or of the text.
fn is_broken_off(text: &str, mut at: usize) -> bool {
    for _ in 0..=(MOST_BREAKS + 1) * MOST_RUNS {
        let Some(length) = text[at..].find(is_blank) else { return true };
        at += length;
        match place::after_break(text.as_bytes(), at) {
            // A line break in two: its end may come.
            None if text[at..] == *"\r" => return true,
            None => return false,
            Some(next) => at = next,
        }
    }
    false
}

/// Whether the key that begins at `start` may go on after the text.
fn is_open_key(text: &str, start: usize) -> bool {
    let label = start + PEM_BEGINS.len();
    let Some(length) = text[label..].find(DASHES) else {
        return text.len() < label + LONGEST_LABEL;
    };
    if length + DASHES.len() > LONGEST_LABEL || !text[label..label + length].contains("PRIVATE KEY")
    {
        return false;
    }
    let body = label + length + DASHES.len();
    let Some(next) = text[body..].find(DASHES).map(|at| body + at) else { return true };
    let rest = &text[next..];
    match rest.strip_prefix(PEM_ENDS) {
        Some(rest) => rest.len() < LONGEST_LABEL && !rest.contains(DASHES),
        None => rest.len() < PEM_ENDS.len(),
    }
}

/// A mask that stands in the text itself, or as much of it as there is.
fn written_mask(text: &str, at: usize) -> Range<usize> {
    let inside = at + mask::BEGINS.len();
    let window = &text.as_bytes()[inside..text.len().min(inside + mask::LONGEST)];
    let end = window.iter().position(|byte| *byte == b']').map_or(window.len() + 1, |end| end + 1);
    at..inside + end
}
