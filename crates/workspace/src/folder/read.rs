//! Reads a log line by line, with bounded memory, and finds all that is intact in it.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;

use super::line::{LONGEST_LINE, Line, Loose};
use super::recover;

/// How much is read at once.
pub(super) const CHUNK: usize = 64 << 10;
/// A buffer that grew larger than this for one line is given back.
const LARGE: usize = 1 << 20;

/// What was found in a log. `at` counts the bytes of the whole log; `number` is that of the line, where 1 is the line
/// with which the reading began.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A record as it was written: its sum is right.
    Line {
        line: Line,
        at: Range<u64>,
        number: u64,
    },
    /// A record without a sum: somebody wrote it by hand.
    Written {
        line: Loose,
        at: Range<u64>,
        number: u64,
    },
    /// A record whose sum is wrong: edited by hand, or damaged.
    Edited {
        line: Loose,
        at: Range<u64>,
        number: u64,
    },
    /// A record with a right sum of a later version of this program: it has to stay as it is.
    Newer {
        at: Range<u64>,
        number: u64,
        version: u64,
    },
    /// A marker that git leaves where it could not merge.
    Conflict {
        at: Range<u64>,
        number: u64,
    },
    Damaged {
        at: Range<u64>,
        number: u64,
        why: &'static str,
    },
}

/// Where reading ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// All before was read; the next reading can begin here.
    pub bytes: u64,
    /// A last line that was not written to its end. Without the lock it may be one that is being written just now.
    pub torn: Option<Range<u64>>,
}

/// Reads a log from any source: what [`Folder::read`](super::Folder::read) does with the file.
pub fn read_log(source: impl Read, visit: &mut dyn FnMut(Item)) -> io::Result<End> {
    read_from(&mut BufReader::with_capacity(CHUNK, source), 0, LONGEST_LINE, visit)
}

/// Reads on from byte `at`.
pub(super) fn read_from(
    source: &mut dyn BufRead,
    mut at: u64,
    longest: usize,
    visit: &mut dyn FnMut(Item),
) -> io::Result<End> {
    let mut buffer = Vec::new();
    let mut number = 0;
    loop {
        buffer.clear();
        buffer.shrink_to(LARGE);
        let limit = longest as u64 + 1;
        let mut length = source.take(limit).read_until(b'\n', &mut buffer)? as u64;
        if length == 0 {
            return Ok(End { bytes: at, torn: None });
        }
        number += 1;
        let mut ended = buffer.last() == Some(&b'\n');
        if !ended && length == limit {
            (length, ended) = skip(source, length)?;
            if !ended {
                return Ok(End { bytes: at, torn: Some(at..at + length) });
            }
            let range = at..at + length - 1;
            visit(Item::Damaged { at: range, number, why: "the line is too long" });
        } else {
            let line = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
            if let Some(torn) = recover::line(line, at, number, ended, visit) {
                return Ok(End { bytes: torn.start, torn: Some(torn) });
            }
        }
        at += length;
    }
}

/// Passes over the rest of a line, in pieces: its whole length, and whether it has an end.
fn skip(source: &mut dyn BufRead, mut length: u64) -> io::Result<(u64, bool)> {
    let mut piece = Vec::with_capacity(CHUNK);
    loop {
        piece.clear();
        let taken = source.take(CHUNK as u64).read_until(b'\n', &mut piece)?;
        length += taken as u64;
        if taken == 0 || piece.last() == Some(&b'\n') {
            return Ok((length, taken != 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_located() {
        let mut log = Vec::new();
        let line = |id: &str| Line { id: id.into(), after: "s".into(), ..Line::default() };
        line("1").render(&mut log).unwrap();
        let from = log.len() as u64;
        let filler = "x".repeat(300_000);
        log.extend_from_slice(filler.as_bytes());
        log.push(b'\n');
        line("2").render(&mut log).unwrap();
        let last = log.len() as u64;
        log.extend_from_slice(filler.as_bytes());
        let mut items = Vec::new();
        let end = read_from(&mut &log[..], 0, 1_000, &mut |item| items.push(item)).unwrap();
        assert_eq!(end, End { bytes: last, torn: Some(last..last + 300_000) });
        let [Item::Line { .. }, damaged, Item::Line { line, number: 3, .. }] = &items[..] else {
            panic!("{items:?}");
        };
        let at = from..from + 300_000;
        assert_eq!(*damaged, Item::Damaged { at, number: 2, why: "the line is too long" });
        assert_eq!(line.id, "2");
    }

    #[test]
    fn the_longest_line_is_still_read() {
        let mut log = Vec::new();
        Line { id: "1".into(), after: "s".into(), ..Line::default() }.render(&mut log).unwrap();
        for (longest, read) in [(log.len() - 1, true), (log.len() - 2, false)] {
            let mut items = Vec::new();
            read_from(&mut &log[..], 0, longest, &mut |item| items.push(item)).unwrap();
            assert_eq!(matches!(items[..], [Item::Line { .. }]), read, "{items:?}");
        }
    }
}
