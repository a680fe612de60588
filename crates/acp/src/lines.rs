//! Lines of a byte stream, none longer than a limit, and what is kept of lines that are no frames.

use std::collections::VecDeque;

use rethread_domain::quote;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::latch::Latch;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// A buffer of more than this is given back once its line is done.
const KEPT_BUFFER: usize = 1024 * 1024;
/// How many lines of noise are kept, and how much of each.
const NOISE_LINES: usize = 5;
const NOISE_BYTES: usize = 200;

#[derive(Debug)]
pub(crate) enum LineError {
    TooLong(usize),
    /// The stream cannot be read any more.
    Broken,
}

/// Reads lines. Holds at most the limit and one chunk.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    from: R,
    chunk: Vec<u8>,
    /// What of `chunk` is read, but not given out yet.
    at: usize,
    end: usize,
    /// The beginning of a line that goes on in the next chunk.
    line: Vec<u8>,
    most: usize,
    /// Whether the rest of a line that is too long is still to come.
    skips: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(from: R, most: usize) -> Self {
        Self { from, chunk: vec![0; CHUNK], at: 0, end: 0, line: Vec::new(), most, skips: false }
    }

    /// The next line without its end; also what stands after the last line end. `None` at the end of the stream. The rest of a line
    /// that is too long is skipped by the next call.
    pub(crate) async fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.line.clear();
        self.line.shrink_to(KEPT_BUFFER);
        loop {
            let rest = &self.chunk[self.at..self.end];
            let found = rest.iter().position(|byte| *byte == b'\n');
            let (from, to) = (self.at, self.at + found.unwrap_or(rest.len()));
            if self.skips {
                self.skips = found.is_none();
                self.at = to + usize::from(found.is_some());
                if found.is_some() || self.at < self.end {
                    continue;
                }
                (self.at, self.end) = (0, 0);
                self.end = self.from.read(&mut self.chunk).await.map_err(|_| LineError::Broken)?;
                if self.end == 0 {
                    return Ok(None);
                }
                continue;
            }
            if self.line.len() + (to - from) > self.most {
                self.skips = true;
                if self.line.is_empty() {
                    self.keep(from, to.min(from + self.most));
                }
                return Err(LineError::TooLong(self.most));
            }
            if found.is_some() {
                self.at = to + 1;
                if self.line.is_empty() {
                    return Ok(Some(&self.chunk[from..to]));
                }
                self.keep(from, to);
                return Ok(Some(&self.line));
            }
            self.keep(from, to);
            (self.at, self.end) = (0, 0);
            self.end = self.from.read(&mut self.chunk).await.map_err(|_| LineError::Broken)?;
            if self.end == 0 {
                return Ok((!self.line.is_empty()).then_some(&self.line));
            }
        }
    }

    /// How the line begins that was too long.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.line
    }

    /// Grows by doubling, but never beyond the limit.
    fn keep(&mut self, from: usize, to: usize) {
        let needed = self.line.len() + (to - from);
        if needed > self.line.capacity() {
            let room = needed.max(self.line.capacity() * 2).min(self.most);
            self.line.reserve_exact(room - self.line.len());
        }
        self.line.extend_from_slice(&self.chunk[from..to]);
    }
}

/// Writes lines as they come, until nobody can read or send them any more, or the latch is set.
pub(crate) async fn write_lines(
    mut lines: mpsc::Receiver<String>,
    mut to: impl AsyncWrite + Unpin,
    shut: &Latch,
) {
    let writing = async {
        while let Some(mut line) = lines.recv().await {
            line.push('\n');
            if to.write_all(line.as_bytes()).await.is_err() || to.flush().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = writing => (),
        () = shut.wait() => (),
    }
}

/// The last few lines that were no frames.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    last: VecDeque<String>,
}

impl Noise {
    pub(crate) fn take(&mut self, line: &[u8]) {
        let beginning = &line[..line.len().min(NOISE_BYTES)];
        let shown = quote::safe(String::from_utf8_lossy(beginning).trim());
        if self.last.len() == NOISE_LINES {
            self.last.pop_front();
        }
        self.last.push_back(shown);
    }

    /// The last lines, fit to be shown; empty where there was no noise.
    pub(crate) fn describe(&self) -> String {
        self.last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// The end of what was written to a stream.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
    /// Whether the beginning is gone.
    cut: bool,
}

impl Tail {
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most, cut: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.most);
        self.cut |= over > 0;
        let (old, new) = (over.min(self.bytes.len()), over.saturating_sub(self.bytes.len()));
        self.bytes.drain(..old);
        self.bytes.extend(&bytes[new..]);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// All that is kept, as it came.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.bytes.iter().copied()
    }

    /// The last `most` bytes, from a whole character to a whole one.
    pub(crate) fn text(&self, most: usize) -> String {
        let from = self.bytes.len().saturating_sub(most);
        let continues = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let is_cut = self.cut || from > 0;
        let skip = self.bytes.iter().skip(from).take(3).take_while(|byte| continues(byte)).count();
        let from = if is_cut { from + skip } else { from };
        let bytes: Vec<u8> = self.bytes.iter().skip(from).copied().collect();
        whole_characters(&bytes)
    }
}

/// The text without an incomplete character at its end: the rest of it comes with what is written next.
pub(crate) fn whole_characters(bytes: &[u8]) -> String {
    let mut end = bytes.len();
    // Behind a byte that is no text, too.
    for length in 1..=bytes.len().min(3) {
        let last = &bytes[bytes.len() - length..];
        if std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none()) {
            end = bytes.len() - length;
        }
    }
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], most: usize) -> (Vec<Vec<u8>>, bool) {
        let run = async {
            let mut reader = LineReader::new(input, most);
            let mut found = Vec::new();
            loop {
                match reader.next().await {
                    Ok(Some(line)) => found.push(line.to_vec()),
                    Ok(None) => return (found, false),
                    Err(_) => return (found, true),
                }
            }
        };
        futures::executor::block_on(run)
    }

    #[test]
    fn lines_are_found_across_chunks() {
        let long = vec![b'x'; CHUNK * 3 + 7];
        let input = [b"a\n\n".as_slice(), &long, b"\nend"].concat();
        let (found, broken) = lines(&input, CHUNK * 4);
        assert!(!broken);
        assert_eq!(found, [b"a".to_vec(), Vec::new(), long, b"end".to_vec()]);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        for most in [1, 10, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * 2] {
            let fits = [vec![b'x'; most], vec![b'\n']].concat();
            assert_eq!(lines(&fits, most), (vec![vec![b'x'; most]], false), "{most}");
            let longer = [vec![b'x'; most + 1], vec![b'\n']].concat();
            assert_eq!(lines(&longer, most), (Vec::new(), true), "{most}");
        }
    }

    #[test]
    fn what_follows_a_line_that_is_too_long_is_read() {
        for most in [1, 10, CHUNK - 1, CHUNK, CHUNK + 1] {
            let long = vec![b'x'; CHUNK * 2 + 3];
            let input = [b"a\n".as_slice(), &long, b"\nb\nc"].concat();
            let run = async {
                let mut reader = LineReader::new(&*input, most);
                assert_eq!(reader.next().await.unwrap(), Some(b"a".as_slice()));
                assert!(reader.next().await.is_err());
                assert!(!reader.beginning().is_empty());
                assert_eq!(reader.next().await.unwrap(), Some(b"b".as_slice()), "{most}");
                assert_eq!(reader.next().await.unwrap(), Some(b"c".as_slice()));
                assert_eq!(reader.next().await.unwrap(), None);
            };
            futures::executor::block_on(run);
        }
    }

    #[test]
    fn the_buffer_never_grows_beyond_the_limit() {
        let run = async {
            let mut reader = LineReader::new(tokio::io::repeat(b'x'), 300_000);
            assert!(matches!(reader.next().await, Err(LineError::TooLong(300_000))));
            assert!(reader.line.capacity() <= 300_000, "{}", reader.line.capacity());
        };
        futures::executor::block_on(run);
    }

    #[test]
    fn a_tail_begins_with_a_whole_character() {
        let mut tail = Tail::new(4);
        tail.push("aäöü".as_bytes());
        assert!(tail.is_cut());
        assert_eq!(tail.text(4), "öü");
        assert_eq!(tail.text(3), "ü");
        tail.push(b"\xff");
        assert_eq!(tail.text(4), "ü\u{fffd}");
    }

    #[test]
    fn a_character_of_which_a_part_has_come_is_not_shown_yet() {
        let emoji = "😀".as_bytes();
        for at in 1..emoji.len() {
            let mut tail = Tail::new(100);
            tail.push(b"a\xff");
            tail.push(&emoji[..at]);
            assert_eq!(tail.text(100), "a\u{fffd}", "{at}");
            tail.push(&emoji[at..]);
            assert_eq!(tail.text(100), "a\u{fffd}😀", "{at}");
        }
    }
}
