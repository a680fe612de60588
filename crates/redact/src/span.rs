//! Stretches of a text that have to go, and how several become one.

use std::borrow::Cow;
use std::ops::Range;

use super::mask;

/// A stretch of a text that is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: Range<usize>,
    pub(super) what: Cow<'static, str>,
    pub(super) from: Layer,
}

/// Who found it. Where two find the same, the more certain one names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    Known,
    Vendor,
    Name,
}

impl Span {
    pub(super) fn vendor(what: &'static str, at: Range<usize>) -> Self {
        Self { at, what: Cow::Borrowed(what), from: Layer::Vendor }
    }

    pub(super) fn name(what: &'static str, at: Range<usize>) -> Self {
        Self { at, what: Cow::Borrowed(what), from: Layer::Name }
    }
}

/// In order, with overlapping ones joined.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.at.start, span.from));
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.at.start < last.at.end => {
                last.at.end = last.at.end.max(span.at.end);
                if span.from < last.from {
                    (last.what, last.from) = (span.what, span.from);
                }
            }
            _ => out.push(span),
        }
    }
    out
}

/// Adds what was found after `spans` had been masked, moved to where it is in the original.
pub(super) fn add_later(spans: &mut Vec<Span>, later: Vec<Span>) {
    let mut moved = Vec::with_capacity(later.len());
    let mut earlier = spans.iter().peekable();
    // Where we are: so many bytes of the original are so many of the masked text.
    let (mut original, mut masked) = (0, 0);
    for mut span in later {
        while let Some(done) = earlier.peek() {
            let begins = masked + (done.at.start - original);
            if begins >= span.at.end {
                break;
            }
            original = done.at.end;
            masked = begins + mask::length(&done.what);
            earlier.next();
        }
        let length = span.at.len();
        let start = original + span.at.start.saturating_sub(masked);
        span.at = start..start + length;
        moved.push(span);
    }
    spans.append(&mut moved);
    spans.sort_by_key(|span| span.at.start);
}
