//! What stands in the place of a secret, as messages are masked and finds are shown.

use std::ops::Range;

const BEGINS: &str = "[redacted: ";
const ENDS: char = ']';

/// No mask says more than this.
const LONGEST: usize = 96;

pub(crate) fn of(what: &str) -> String {
    format!("{BEGINS}{what}{ENDS}")
}

/// Where masks are in a text, in order.
pub(crate) fn places(text: &str) -> Vec<Range<usize>> {
    // A single byte is found much faster.
    if !text.contains('[') {
        return Vec::new();
    }
    let found = text.match_indices(BEGINS).filter_map(|(start, _)| {
        let inside = start + BEGINS.len();
        let window = &text.as_bytes()[inside..text.len().min(inside + LONGEST)];
        let length = window.iter().position(|byte| *byte == ENDS as u8)?;
        Some(start..inside + length + ENDS.len_utf8())
    });
    found.collect()
}

/// Whether a place is inside one of these masks.
pub(crate) fn is_in(masks: &[Range<usize>], at: usize) -> bool {
    let before = masks.partition_point(|mask| mask.start <= at);
    before.checked_sub(1).and_then(|last| masks.get(last)).is_some_and(|mask| mask.contains(&at))
}
