//! What stands in the place of a secret.

use std::ops::Range;

use super::span::Span;

pub(super) const BEGINS: &str = "[redacted: ";
const ENDS: char = ']';

/// No mask of ours says more than this.
pub(super) const LONGEST: usize = 96;

pub(super) fn of(what: &str) -> String {
    format!("{BEGINS}{what}{ENDS}")
}

pub(super) fn length(what: &str) -> usize {
    BEGINS.len() + what.len() + ENDS.len_utf8()
}

/// The text with every span replaced.
pub(super) fn apply(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.at.start]);
        out.push_str(&of(&span.what));
        at = span.at.end;
    }
    out.push_str(&text[at..]);
    out
}

/// The masks in a text that say something which is `made` by us: others could have a secret inside.
pub(super) fn places(text: &str, made: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let found = text.match_indices(BEGINS).filter_map(|(start, _)| {
        let inside = start + BEGINS.len();
        let window = &text.as_bytes()[inside..text.len().min(inside + LONGEST)];
        let length = window.iter().position(|byte| *byte == ENDS as u8)?;
        made(&text[inside..inside + length]).then(|| start..inside + length + ENDS.len_utf8())
    });
    found.collect()
}

/// Words that can stand in a mask, made of any name.
pub(super) fn words(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.- ".contains(c) { c } else { '_' };
    name.chars().take(LONGEST / 2).map(plain).collect()
}
