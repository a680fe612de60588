//! JSON documents that hold a list of records: the places of the records are found without the document in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json;
use crate::lines::{self, Input, LONGEST_LINE, Place};
use crate::reading::Source;
use crate::speech::Speech;
use crate::{Error, Unread};

/// A file that only says what a session is may have at most so many bytes.
const LONGEST_NOTE: u64 = 16 * 1024 * 1024;
const BUFFER: usize = 64 * 1024;
/// A list with more records is read up to there: their places are kept in memory.
const MOST_RECORDS: usize = 2_000_000;

/// A small document that lies beside a session; nothing where there is none that can be read.
pub(crate) fn note(path: &Path) -> Value {
    let is_small = std::fs::metadata(path).is_ok_and(|about| about.len() <= LONGEST_NOTE);
    let text = if is_small { std::fs::read(path).ok() } else { None };
    text.and_then(|text| json::parse::<Value>(&text)).map(|parsed| parsed.value).unwrap_or_default()
}

/// Whether a byte is part of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// A walk through the bytes of a document, as far as it matters where records begin and end.
#[derive(Default)]
struct Walk<'a> {
    /// The field that holds the list; nothing where the document itself is the list.
    field: Option<&'a str>,
    depth: usize,
    text: Text,
    /// The last text at the top of the document: a field's name comes right before its value.
    name: Vec<u8>,
    is_inside: bool,
    begun: Option<u64>,
    found: Vec<Place>,
    is_over: bool,
}

impl Walk<'_> {
    /// How deep records lie.
    fn level(&self) -> usize {
        1 + usize::from(self.field.is_some())
    }

    fn step(&mut self, byte: u8, at: u64) {
        if self.text != Text::Outside {
            self.in_string(byte);
            return;
        }
        let is_record_level = self.is_inside && self.depth == self.level();
        if is_record_level && matches!(byte, b',' | b']') {
            if let Some(from) = self.begun.take() {
                self.found.push(Place { from, bytes: at - from });
            }
        } else if is_record_level && self.begun.is_none() && !byte.is_ascii_whitespace() {
            self.begun = Some(at);
        }
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.name.clear();
            }
            b'[' | b'{' => {
                let is_named = self.field.is_none_or(|field| self.name == field.as_bytes());
                self.is_inside |= byte == b'[' && self.depth + 1 == self.level() && is_named;
                self.depth += 1;
            }
            b']' | b'}' => {
                self.is_over |= self.is_inside && self.depth == self.level();
                self.depth = self.depth.saturating_sub(1);
            }
            _ => (),
        }
    }

    fn in_string(&mut self, byte: u8) {
        if self.text == Text::Escaped {
            self.text = Text::Inside;
        } else if byte == b'\\' {
            self.text = Text::Escaped;
        } else if byte == b'"' {
            self.text = Text::Outside;
        } else if self.depth <= 1 && self.name.len() < 64 {
            self.name.push(byte);
        }
    }
}

/// The records in a list of a document, and whether that is all of the list.
pub(crate) fn records(
    input: &mut dyn Input,
    field: Option<&str>,
) -> io::Result<(Vec<Place>, bool)> {
    input.seek(SeekFrom::Start(0))?;
    let mut walk = Walk { field, ..Walk::default() };
    let mut reader = BufReader::with_capacity(BUFFER, input);
    let mut at = 0;
    while !walk.is_over && walk.found.len() < MOST_RECORDS {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        for byte in piece {
            walk.step(*byte, at);
            at += 1;
            if walk.is_over {
                break;
            }
        }
        let used = piece.len();
        reader.consume(used);
    }
    Ok((walk.found, walk.is_over))
}

/// What is made of the records of a format.
pub(crate) trait Records: Send {
    fn take(&mut self, record: &Value, speech: &mut Speech);
}

/// A document whose records are read one by one.
pub(crate) struct Document<R> {
    path: PathBuf,
    input: File,
    places: VecDeque<Place>,
    pub(crate) records: R,
}

impl<R: Records> Document<R> {
    /// Opens a document; `None` where its list has nothing. What is wrong with its end is told.
    pub(crate) fn open(
        path: &Path,
        field: &str,
        records: R,
        unread: &mut Vec<Unread>,
    ) -> Result<Option<Self>, Error> {
        let io = |error| Error::Io { path: path.to_owned(), error };
        let mut input = File::open(path).map_err(io)?;
        let (places, is_whole) = self::records(&mut input, Some(field)).map_err(io)?;
        if !is_whole {
            let why = format!("the list of {field} has no end, or too many records");
            unread.push(Unread { at: places.last().map(|last| last.from + last.bytes), why });
        }
        let is_empty = places.is_empty();
        let document = Self { path: path.to_owned(), input, places: places.into(), records };
        Ok((!is_empty).then_some(document))
    }
}

/// One record, where it can be read.
pub(crate) fn record(
    input: &mut impl Input,
    place: Place,
    unread: &mut Vec<Unread>,
) -> io::Result<Option<Value>> {
    let mut tell = |why: &str| unread.push(Unread { at: Some(place.from), why: why.to_owned() });
    if place.bytes > LONGEST_LINE as u64 {
        tell("the record is too long");
        return Ok(None);
    }
    let text = lines::read_at(input, place)?;
    let parsed = json::parse::<Value>(&text);
    if parsed.as_ref().is_none_or(|parsed| parsed.is_damaged) {
        tell(json::why_not(&text));
    }
    Ok(parsed.map(|parsed| parsed.value))
}

impl<R: Records> Source for Document<R> {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let Some(place) = self.places.pop_front() else { return Ok(false) };
        let found = record(&mut self.input, place, unread).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })?;
        if let Some(found) = found {
            self.records.take(&found, speech);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn found(text: &str, field: Option<&str>) -> (Vec<String>, bool) {
        let (places, is_whole) = records(&mut Cursor::new(text.to_owned()), field).unwrap();
        let of = |place: &Place| {
            let from = usize::try_from(place.from).unwrap();
            text[from..from + usize::try_from(place.bytes).unwrap()].trim_end().to_owned()
        };
        (places.iter().map(of).collect(), is_whole)
    }

    #[test]
    fn records_are_found_wherever_their_list_is() {
        let text = r#"{"a":["x"],"messages" : [ {"t":"],[\"{"} , 2,[3]], "z": 1}"#;
        let (records, is_whole) = found(text, Some("messages"));
        assert_eq!(records, [r#"{"t":"],[\"{"}"#, "2", "[3]"]);
        assert!(is_whole);
        assert_eq!(found("[1,{\"messages\":[2]}]", None).0, ["1", "{\"messages\":[2]}"]);
        assert_eq!(found(r#"{"b":{"messages":[1]}}"#, Some("messages")), (vec![], false));
    }

    #[test]
    fn a_list_without_bounds_is_read_up_to_a_bound() {
        let text = format!("[{}]", "1,".repeat(MOST_RECORDS + BUFFER));
        let (places, is_whole) = records(&mut Cursor::new(text), None).unwrap();
        assert!(!is_whole && places.len() >= MOST_RECORDS && places.len() <= MOST_RECORDS + BUFFER);
    }

    #[test]
    fn a_torn_list_gives_its_whole_records() {
        let (records, is_whole) = found(r#"{"messages":[{"a":1},{"b":"#, Some("messages"));
        assert_eq!((records, is_whole), (vec![r#"{"a":1}"#.to_owned()], false));
    }
}
