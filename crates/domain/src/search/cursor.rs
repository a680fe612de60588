//! Where a search goes on.
//!
//! Finds are ranked within stretches of the store, the newest first: titles and summaries by their keys, messages by theirs.
//! A cursor says which stretch, and which find of it was the last.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// The place after the last find that was given. Only of use for the same words and filters.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cursor {
    /// Everything that has the words was given: now those that only begin with the last one.
    pub unfinished: bool,
    pub titles: Stretch,
    pub messages: Stretch,
    /// The last find that was given of this stretch.
    pub last: Option<Rank>,
}

/// The keys below one, down to another where that is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub below: i64,
    pub from: Option<i64>,
}

/// The place of a find among others: the best first, of equal ones the newest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    pub score: f64,
    pub at: Timestamp,
    pub is_message: bool,
    pub key: i64,
}

/// Not what was given as a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no place where a search goes on")]
pub struct BadCursor;

impl Stretch {
    /// All below a key.
    pub const fn below(below: i64) -> Self {
        Self { below, from: None }
    }
}

impl Default for Stretch {
    fn default() -> Self {
        Self::below(i64::MAX)
    }
}

impl Rank {
    pub fn order(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        let by_time = || other.at.cmp(&self.at);
        let by_kind = || self.is_message.cmp(&other.is_message);
        by_score.then_with(by_time).then_with(by_kind).then_with(|| other.key.cmp(&self.key))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u8::from(self.unfinished))?;
        for stretch in [self.titles, self.messages] {
            write!(f, ".{:x}.", stretch.below)?;
            stretch.from.map_or(Ok(()), |from| write!(f, "{from:x}"))?;
        }
        self.last.map_or(Ok(()), |last| {
            let (score, at) = (last.score.to_bits(), last.at.as_microsecond());
            write!(f, ".{score:x}.{at:x}.{}.{:x}", u8::from(last.is_message), last.key)
        })
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        parse(text).ok_or(BadCursor)
    }
}

fn parse(text: &str) -> Option<Cursor> {
    let mut parts = text.split('.');
    let unfinished = flag(parts.next()?)?;
    let mut stretch = || {
        let below = number(parts.next()?)?;
        let from = parts.next()?;
        let from = if from.is_empty() { None } else { Some(number(from)?) };
        Some(Stretch { below, from })
    };
    let (titles, messages) = (stretch()?, stretch()?);
    let last = match parts.next() {
        None => None,
        Some(score) => Some(Rank {
            score: f64::from_bits(u64::from_str_radix(score, 16).ok()?),
            at: Timestamp::from_microsecond(number(parts.next()?)?).ok()?,
            is_message: flag(parts.next()?)?,
            key: number(parts.next()?)?,
        }),
    };
    parts.next().is_none().then_some(Cursor { unfinished, titles, messages, last })
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Times before 1970 are written as their two's complement.
#[expect(clippy::cast_possible_wrap, reason = "as it was written")]
fn number(text: &str) -> Option<i64> {
    u64::from_str_radix(text, 16).ok().map(|number| number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let last = Rank { score: 0.75, at: Timestamp::UNIX_EPOCH, is_message: true, key: 7 << 32 };
        let early = Rank { at: Timestamp::from_microsecond(-5).unwrap(), ..last };
        let from = Stretch { below: 9 << 32, from: Some(3) };
        for cursor in [
            Cursor::default(),
            Cursor { unfinished: true, messages: from, ..Cursor::default() },
            Cursor { last: Some(last), titles: from, ..Cursor::default() },
            Cursor { last: Some(early), ..Cursor::default() },
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor), "{cursor}");
        }
        for bad in ["", "0", "2.1..1.", "0.1..x.", "0.1..1..5", "0.1..1..0.0.0.0.0", "x"] {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor), "{bad}");
        }
    }
}
