//! The files of a tar, one after the other: `ustar`, with the long names of GNU and POSIX.
//!
//! A reader of our own, since what says how a name goes on is read into memory, and has to have a bound there.

use std::io::{self, BufRead, Read};

/// Everything in a tar is a multiple of this.
pub(super) const BLOCK: u64 = 512;
const SIZE: usize = 512;
/// So long may be what is said about a file beside its header.
const LONGEST_NOTE: u64 = 1024 * 1024;

/// One entry.
pub(super) struct Inside {
    pub(super) name: Vec<u8>,
    pub(super) is_plain: bool,
    pub(super) is_folder: bool,
    /// Seconds since 1970.
    pub(super) changed_at: u64,
}

/// A tar that is read.
pub(super) struct Tar<'a, R> {
    input: &'a mut R,
    /// What is left of the content of the last entry, and of its last block.
    left: u64,
    rest: u64,
}

/// What the entries before one say about it.
#[derive(Default)]
struct Notes {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Whether a block begins an entry: its sum is right, and it says that it is one.
pub(super) fn is_header(block: &[u8]) -> bool {
    let Some(block) = block.first_chunk::<SIZE>() else { return false };
    let sum = |at: usize, byte: u8| u64::from(if (148..156).contains(&at) { b' ' } else { byte });
    let sum: u64 = block.iter().enumerate().map(|(at, byte)| sum(at, *byte)).sum();
    block[257..].starts_with(b"ustar") && number(&block[148..156]) == Some(sum)
}

/// A number in octal digits, or in binary where it is larger.
fn number(field: &[u8]) -> Option<u64> {
    if let [first, rest @ ..] = field
        && *first == 0x80
    {
        let (high, low) = rest.split_at(rest.len().checked_sub(8)?);
        return high
            .iter()
            .all(|byte| *byte == 0)
            .then(|| low.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(|c: char| c == '\0' || c == ' ');
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the archive is damaged, or not of a kind that is known",
    )
}

impl<'a, R: BufRead> Tar<'a, R> {
    pub(super) const fn new(input: &'a mut R) -> Self {
        Self { input, left: 0, rest: 0 }
    }

    /// The next entry; nothing at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Inside>> {
        let mut notes = Notes::default();
        loop {
            self.pass_over()?;
            let mut block = [0; SIZE];
            if super::read_up_to(self.input, &mut block)? == 0
                || block.iter().all(|byte| *byte == 0)
            {
                return Ok(None);
            }
            if !is_header(&block) {
                return Err(damaged());
            }
            let size = number(&block[124..136]).ok_or_else(damaged)?;
            let kind = block[156];
            // What the last note says about the size is about a file, not about another note.
            let is_note = matches!(kind, b'L' | b'K' | b'x' | b'g' | b'X');
            let size = notes.size.filter(|_| !is_note).unwrap_or(size);
            (self.left, self.rest) = (size, size.wrapping_neg() % BLOCK);
            match kind {
                b'L' => notes.name = Some(until_nul(&self.note()?).to_vec()),
                b'x' => notes.hear(&self.note()?),
                b'K' | b'g' | b'X' => (),
                _ => return Ok(Some(inside(&block, kind, notes))),
            }
        }
    }

    /// What is in the last entry.
    pub(super) fn content(&mut self) -> impl Read + '_ {
        Content { input: self.input, left: &mut self.left }
    }

    fn note(&mut self) -> io::Result<Vec<u8>> {
        if self.left > LONGEST_NOTE {
            return Err(damaged());
        }
        let mut note = Vec::new();
        self.content().read_to_end(&mut note)?;
        Ok(note)
    }

    fn pass_over(&mut self) -> io::Result<()> {
        let wanted = self.left.checked_add(self.rest).ok_or_else(damaged)?;
        (self.left, self.rest) = (0, 0);
        let passed = io::copy(&mut self.input.take(wanted), &mut io::sink())?;
        if passed == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

struct Content<'a, R> {
    input: &'a mut R,
    left: &'a mut u64,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.take(*self.left).read(into)?;
        if read == 0 && !into.is_empty() && *self.left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *self.left -= read as u64;
        Ok(read)
    }
}

fn inside(block: &[u8; SIZE], kind: u8, notes: Notes) -> Inside {
    let (name, prefix) = (until_nul(&block[..100]), until_nul(&block[345..500]));
    // GNU's own form has times there instead.
    let has_prefix = !prefix.is_empty() && &block[257..263] == b"ustar\0";
    let named = if has_prefix { [prefix, b"/", name].concat() } else { name.to_vec() };
    let name = notes.name.unwrap_or(named);
    let is_folder = kind == b'5' || name.ends_with(b"/");
    let is_plain = !is_folder && matches!(kind, b'0' | 0 | b'7');
    Inside { name, is_plain, is_folder, changed_at: number(&block[136..148]).unwrap_or(0) }
}

impl Notes {
    /// Reads lines of the form `LENGTH NAME=VALUE`, where the length is that of the whole line.
    fn hear(&mut self, note: &[u8]) {
        let mut rest = note;
        while let Some(blank) = rest.iter().position(|byte| *byte == b' ') {
            let length =
                std::str::from_utf8(&rest[..blank]).ok().and_then(|text| text.parse().ok());
            let Some(line) = length.and_then(|length: usize| rest.get(blank + 1..length)) else {
                return;
            };
            rest = &rest[blank + 1 + line.len()..];
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if let Some(path) = line.strip_prefix(b"path=") {
                self.name = Some(path.to_vec());
            } else if let Some(size) = line.strip_prefix(b"size=") {
                self.size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
            }
        }
    }
}
