//! Lines of a file that somebody else writes, with their places, in bounded memory.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// A longer line is passed over: nobody says so much at once, and a file without line ends must not fill the memory.
pub(crate) const LONGEST_LINE: usize = 64 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) from: u64,
    pub(crate) bytes: u64,
}

/// What can be read from any place.
pub(crate) trait Input: Read + Seek + Send {}

impl<T: Read + Seek + Send> Input for T {}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Text(&'a [u8]),
    TooLong,
}

/// Reads a file line by line, up to where it ended when it was opened.
pub(crate) struct Lines<I> {
    input: BufReader<io::Take<I>>,
    at: u64,
    line: Vec<u8>,
    is_too_long: bool,
    /// Whether the last line that was read has an end.
    pub(crate) is_ended: bool,
}

impl<I: Input> Lines<I> {
    pub(crate) fn new(mut input: I, from: u64, end: u64) -> io::Result<Self> {
        input.seek(SeekFrom::Start(from))?;
        let input = BufReader::with_capacity(BUFFER, input.take(end.saturating_sub(from)));
        Ok(Self { input, at: from, line: Vec::new(), is_too_long: false, is_ended: true })
    }

    /// The next line that holds anything, without its end. NUL bytes, which a crash of the machine leaves in place of what
    /// was written last, are left out.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Place, Line<'_>)>> {
        loop {
            let from = self.at;
            if !self.read_line()? {
                return Ok(None);
            }
            let place = Place { from, bytes: self.at - from };
            if self.is_too_long {
                return Ok(Some((place, Line::TooLong)));
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((place, Line::Text(&self.line))));
            }
        }
    }

    /// Whether there was another line.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.is_too_long = false;
        let from = self.at;
        loop {
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                // At the end of the file itself, what is known of the last line stays.
                self.is_ended &= self.at == from;
                return Ok(self.at > from);
            }
            if is_zeros(piece) {
                let used = piece.len();
                self.input.consume(used);
                self.at += used as u64;
                continue;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let text = &piece[..end.unwrap_or(piece.len())];
            if self.line.len() + text.len() > LONGEST_LINE {
                self.is_too_long = !text.iter().all(|byte| *byte == 0) || self.is_too_long;
            }
            if self.is_too_long {
                self.line.clear();
            } else if text.contains(&0) {
                self.line.extend(text.iter().filter(|byte| **byte != 0));
            } else {
                self.line.extend_from_slice(text);
            }
            let used = end.map_or(piece.len(), |end| end + 1);
            self.input.consume(used);
            self.at += used as u64;
            if end.is_some() {
                self.is_ended = true;
                return Ok(true);
            }
        }
    }
}

/// As many zeros as a buffer holds: gigabytes of them are left behind by crashes of machines.
static ZEROS: [u8; BUFFER] = [0; BUFFER];

fn is_zeros(piece: &[u8]) -> bool {
    ZEROS.get(..piece.len()) == Some(piece)
}

/// Reads one line again. It may be preceded by any number of NUL bytes, which are left out.
pub(crate) fn read_at(input: &mut impl Input, place: Place) -> io::Result<Vec<u8>> {
    input.seek(SeekFrom::Start(place.from))?;
    if place.bytes <= BUFFER as u64 {
        let mut line = Vec::with_capacity(usize::try_from(place.bytes).unwrap_or(0));
        input.take(place.bytes).read_to_end(&mut line)?;
        line.retain(|byte| *byte != 0);
        return Ok(line);
    }
    let mut line = Vec::new();
    let mut reader = BufReader::with_capacity(BUFFER, input.take(place.bytes));
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() || line.len() > LONGEST_LINE {
            return Ok(line);
        }
        if !is_zeros(piece) {
            line.extend(piece.iter().filter(|byte| **byte != 0));
        }
        let used = piece.len();
        reader.consume(used);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn all(text: &[u8]) -> (Vec<(u64, Option<String>)>, bool) {
        let mut lines = Lines::new(Cursor::new(text.to_vec()), 0, text.len() as u64).unwrap();
        let mut found = Vec::new();
        while let Some((place, line)) = lines.next().unwrap() {
            let text = match line {
                Line::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
                Line::TooLong => None,
            };
            found.push((place.from, text));
        }
        (found, lines.is_ended)
    }

    #[test]
    fn lines_come_with_their_places() {
        let (found, is_ended) = all(b"one\n\n  \ntwo\r\nthree");
        let expected = [(0, "one"), (8, "two\r"), (13, "three")];
        assert_eq!(found, expected.map(|(at, text)| (at, Some(text.to_owned()))));
        assert!(!is_ended);
        assert!(all(b"one\n").1);
    }

    #[test]
    fn nul_bytes_are_left_out() {
        let text = [b"one\n".as_slice(), &[0; 5000], b"two\n", &[0; 5000]].concat();
        let (found, _) = all(&text);
        assert_eq!(found, [(0, Some("one".to_owned())), (4, Some("two".to_owned()))]);
    }

    #[test]
    fn a_line_that_never_ends_is_passed_over() {
        let text = [vec![b'x'; LONGEST_LINE + 1], b"\nnext\n".to_vec()].concat();
        let (found, _) = all(&text);
        assert_eq!(found, [(0, None), (LONGEST_LINE as u64 + 2, Some("next".to_owned()))]);
    }
}
