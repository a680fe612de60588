//! The shape of a vendor's secrets, and whether it stands at a place in a text.

use std::ops::Range;

use super::alphabet::Alphabet;
use super::{judge, place};

/// A long secret is broken over at most so many lines more.
pub(super) const MOST_BREAKS: usize = 4;

/// An anchor of so many bytes is not met by chance.
const SURE: usize = 4;

/// Further than any secret goes.
pub(super) const OPEN: usize = 1 << 16;

/// So many bytes of an alphabet, all that stand there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) alphabet: Alphabet,
    pub(super) least: usize,
    pub(super) most: usize,
}

/// What follows the first run of a secret.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    Text(&'static str),
    Run(Run),
}

/// A secret that is recognised by a text in it.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) what: &'static str,
    pub(super) anchor: &'static str,
    /// The anchor only says what follows, and stays.
    kept: bool,
    before: Option<Run>,
    body: Run,
    more: &'static [Piece],
}

/// A secret that is recognised by the vendor in the name it is assigned to.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) what: &'static str,
    /// Lower case, without separators.
    pub(super) vendor: &'static str,
    pub(super) body: Run,
}

pub(super) const fn run(alphabet: Alphabet, least: usize, most: usize) -> Run {
    Run { alphabet, least, most }
}

pub(super) const fn rule(
    what: &'static str,
    anchor: &'static str,
    alphabet: Alphabet,
    least: usize,
    most: usize,
) -> Rule {
    Rule { what, anchor, kept: false, before: None, body: run(alphabet, least, most), more: &[] }
}

pub(super) const fn named(
    what: &'static str,
    vendor: &'static str,
    alphabet: Alphabet,
    least: usize,
    most: usize,
) -> Named {
    Named { what, vendor, body: run(alphabet, least, most) }
}

impl Rule {
    /// The secret begins with this, before the anchor.
    pub(super) const fn after(mut self, before: Run) -> Self {
        self.before = Some(before);
        self
    }

    /// The anchor is not a part of the secret.
    pub(super) const fn kept(mut self) -> Self {
        self.kept = true;
        self
    }

    pub(super) const fn then(mut self, more: &'static [Piece]) -> Self {
        self.more = more;
        self
    }

    /// Whether its beginning is so much its own that it is recognised within a longer word, too.
    fn is_sure(&self) -> bool {
        let is_marked = |anchor: &str| anchor.bytes().any(|byte| b"-_.".contains(&byte));
        let is_own = self.anchor.len() >= SURE || is_marked(self.anchor) || !self.more.is_empty();
        self.before.is_none() && is_own
    }

    /// The secret around the anchor, if there is one.
    pub(super) fn find(&self, text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
        let start = match self.before {
            Some(before) => before.back(text, anchor.start)?,
            None => anchor.start,
        };
        let alphabet = self.before.unwrap_or(self.body).alphabet;
        let is_joined = || self.is_sure() && place::is_joined(text, start);
        if !place::opens(text, start, alphabet) && !is_joined() {
            return None;
        }
        let mut end = self.body.forward(text, anchor.end)?;
        for piece in self.more {
            end = match piece {
                Piece::Text(piece) => {
                    text[end..].starts_with(piece.as_bytes()).then_some(end + piece.len())?
                }
                Piece::Run(run) => run.forward(text, end)?,
            };
        }
        if self.body.alphabet.has(b'+') {
            end += text[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        }
        let closes = text.get(end).is_none_or(|next| !next.is_ascii_alphanumeric());
        let body = if self.before.is_some() { start..end } else { anchor.end..end };
        let secret = if self.kept { anchor.end..end } else { start..end };
        (closes && judge::is_varied(&text[body]) && !place::in_blob(text, start)).then_some(secret)
    }
}

impl Run {
    /// Where the run from `at` ends. One that is too short goes on after a line break.
    fn forward(self, text: &[u8], at: usize) -> Option<usize> {
        let (mut end, mut count) = (at, 0);
        for _ in 0..=MOST_BREAKS {
            let here = text[end..].iter().take(self.most + 1 - count);
            let length = here.take_while(|byte| self.alphabet.has(**byte)).count();
            count += length;
            end += length;
            if count >= self.least || length == 0 {
                break;
            }
            match place::after_break(text, end) {
                Some(next) => end = next,
                None => break,
            }
        }
        // The end of an emphasis in markdown may be a letter of the alphabet: `_KEY_`.
        let is_emphasis = count == self.most + 1
            && text[..end].ends_with(b"_")
            && text.get(end).is_none_or(|next| !self.alphabet.has(*next));
        if is_emphasis {
            (end, count) = (end - 1, count - 1);
        }
        (self.least..=self.most).contains(&count).then_some(end)
    }

    /// Where the run up to `end` begins.
    fn back(self, text: &[u8], end: usize) -> Option<usize> {
        let here = text[..end].iter().rev().take(self.most + 1);
        let count = here.take_while(|byte| self.alphabet.has(**byte)).count();
        (self.least..=self.most).contains(&count).then(|| end - count)
    }

    /// Whether the whole of `text` is such a run.
    pub(super) fn is(self, text: &str) -> bool {
        (self.least..=self.most).contains(&text.len())
            && text.bytes().all(|byte| self.alphabet.has(byte))
    }
}
