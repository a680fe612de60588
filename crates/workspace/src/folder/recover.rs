//! What one line of a log holds: usually one record, after an accident several, or parts of some.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Value};

use super::line::{
    BAD_FIELD, BEFORE_SUM, Loose, VERSION, begins_with_sum, has_right_sum, is_known, is_sum,
};
use super::read::Item;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line of nothing but beginnings could be searched for ever: this many times its length is enough for any accident.
const PATIENCE: usize = 8;

/// Finds all records in a line (without its newline) that begins at byte `at` of the log.
///
/// Returns what is torn: the rest of a line that has no end and is no record.
pub(super) fn line(
    bytes: &[u8],
    at: u64,
    number: u64,
    ended: bool,
    visit: &mut dyn FnMut(Item),
) -> Option<Range<u64>> {
    let mut found = Finder { bytes, at, number, visit };
    let whole = trim(bytes, 0..bytes.len());
    if has_right_sum(&bytes[whole.clone()]) {
        found.record(whole);
        return None;
    }
    let rest = found.search(whole);
    let torn = found.gap(rest, ended)?;
    // White space at its end is torn as well.
    Some(found.place(torn.start..bytes.len()))
}

struct Finder<'line> {
    bytes: &'line [u8],
    at: u64,
    number: u64,
    visit: &'line mut dyn FnMut(Item),
}

impl Finder<'_> {
    fn place(&self, range: Range<usize>) -> Range<u64> {
        self.at + range.start as u64..self.at + range.end as u64
    }

    /// Finds the records with a right sum wherever they begin in the line; returns what is left behind the last.
    fn search(&mut self, whole: Range<usize>) -> Range<usize> {
        let mut patience = whole.len().saturating_mul(PATIENCE);
        let (mut left, mut from) = (whole.start, whole.start);
        while let Some(start) = find(self.bytes, from..whole.end, BEFORE_SUM) {
            let (length, valid) = extent(&self.bytes[start..whole.end]);
            if patience < length {
                break;
            }
            patience -= length;
            let record = start..start + length;
            if valid && has_right_sum(&self.bytes[record.clone()]) {
                // A line that has no end is torn behind its last record only.
                self.gap(left..start, true);
                self.record(record.clone());
                left = record.end;
            }
            // What is inside of a value is part of it, not a record that was welded on.
            from = if valid { record.end } else { start + 1 };
        }
        left..whole.end
    }

    /// Tells of bytes whose sum is right.
    fn record(&mut self, range: Range<usize>) {
        let (at, number) = (self.place(range.clone()), self.number);
        let item = match serde_json::from_slice::<Map<String, Value>>(&self.bytes[range]) {
            Err(_) => Item::Damaged { at, number, why: "it is not JSON" },
            Ok(fields) => match fields.get("v").map(Value::as_u64) {
                Some(Some(version)) if version > VERSION => Item::Newer { at, number, version },
                Some(None) => Item::Damaged { at, number, why: BAD_FIELD },
                _ => match Loose::from_fields(fields).map(Loose::complete) {
                    Ok(Some(line)) => Item::Line { line, at, number },
                    Ok(None) => Item::Damaged { at, number, why: "one of its fields is missing" },
                    Err(why) => Item::Damaged { at, number, why },
                },
            },
        };
        (self.visit)(item);
    }

    /// Tells of what lies between records; returns what is torn.
    fn gap(&mut self, range: Range<usize>, ended: bool) -> Option<Range<usize>> {
        let mut rest = trim(self.bytes, range);
        while !rest.is_empty() {
            let bytes = &self.bytes[rest.clone()];
            let number = self.number;
            if is_marker(bytes) {
                let at = self.place(rest);
                (self.visit)(Item::Conflict { at, number });
                return None;
            }
            let mut objects = Deserializer::from_slice(bytes).into_iter::<Map<String, Value>>();
            let Some(Ok(fields)) = objects.next() else {
                if !ended {
                    return Some(rest);
                }
                let (at, why) = (self.place(rest.clone()), cause(bytes));
                (self.visit)(Item::Damaged { at, number, why });
                return None;
            };
            let object = rest.start..rest.start + objects.byte_offset();
            let at = self.place(object.clone());
            let edited = was_ours(&fields);
            (self.visit)(match Loose::from_fields(fields) {
                Ok(line) if edited => Item::Edited { line, at, number },
                Ok(line) => Item::Written { line, at, number },
                Err(why) => Item::Damaged { at, number, why },
            });
            rest = trim(self.bytes, object.end..rest.end);
        }
        None
    }
}

/// How far a record that begins here can reach: to the end of the JSON value, or to where it stops being one.
fn extent(bytes: &[u8]) -> (usize, bool) {
    if !begins_with_sum(bytes) {
        return (1, false);
    }
    let mut values = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => (values.byte_offset(), true),
        // A line has no line breaks, so the column is the place.
        Some(Err(error)) => (error.column().clamp(1, bytes.len()), false),
        None => (1, false),
    }
}

/// Whether an object has a sum, if only under a name that was damaged itself.
fn was_ours(fields: &Map<String, Value>) -> bool {
    let first = fields.iter().next();
    fields.contains_key("sum")
        || first.is_some_and(|(key, value)| !is_known(key) && value.as_str().is_some_and(is_sum))
}

/// `<<<<<<< ours`, `||||||| base`, `=======` or `>>>>>>> theirs`.
fn is_marker(bytes: &[u8]) -> bool {
    let Some((sign, rest)) = bytes.split_first_chunk::<7>() else { return false };
    matches!(sign, b"<<<<<<<" | b"|||||||" | b"=======" | b">>>>>>>")
        && matches!(rest.first(), None | Some(b' '))
}

/// Why bytes are no record.
fn cause(bytes: &[u8]) -> &'static str {
    if bytes.contains(&0) {
        "it has NUL bytes"
    } else if std::str::from_utf8(bytes).is_err() {
        "it is not UTF-8"
    } else if serde_json::from_slice::<IgnoredAny>(bytes).is_err() {
        "it is not JSON"
    } else if bytes.starts_with(b"{") {
        "it is JSON with half a character, or nested too deeply"
    } else {
        "it is not a JSON object"
    }
}

/// Without the white space around it, and without a byte order mark.
fn trim(bytes: &[u8], mut range: Range<usize>) -> Range<usize> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    loop {
        let inside = &bytes[range.clone()];
        if inside.starts_with(BYTE_ORDER_MARK) {
            range.start += BYTE_ORDER_MARK.len();
        } else if inside.first().is_some_and(is_space) {
            range.start += 1;
        } else if inside.last().is_some_and(is_space) {
            range.end -= 1;
        } else {
            return range;
        }
    }
}

/// Where `wanted` begins.
fn find(bytes: &[u8], range: Range<usize>, wanted: &[u8]) -> Option<usize> {
    let start = range.start;
    let inside = bytes.get(range)?;
    inside.windows(wanted.len()).position(|window| window == wanted).map(|place| start + place)
}
