//! aider: `<project>/.aider.chat.history.md`, what was said as text, of all chats in that folder one after the other.
//!
//! aider restores all of the file when it is asked to go on, so that it is one session.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rethread_domain::message::Usage;
use serde_json::json;

use crate::lines::LONGEST_LINE;
use crate::reading::{Reading, Source};
use crate::speech::{Call, Outcome, Speech, digest};
use crate::{Error, Found, Head, Unread};

/// The name of the file.
pub(crate) const NAME: &str = ".aider.chat.history.md";
const STARTED: &str = "# aider chat started at ";

/// Whose lines are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// What aider says of itself when it starts.
    Start,
    User,
    Model,
}

pub(crate) struct Aider {
    input: BufReader<File>,
    who: Who,
    text: String,
    at: Timestamp,
    number: u64,
    /// Where the next line begins.
    place: u64,
}

impl Aider {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Self>>, Error> {
        let io = |error| Error::Io { path: found.path.clone(), error };
        let input = BufReader::new(File::open(&found.path).map_err(io)?);
        let folder = found.source.parent().map(|folder| folder.display().to_string());
        let head = Head { native: folder.clone().unwrap_or_default(), folder, ..Head::default() };
        let at = found.changed_at;
        let own = Self { input, who: Who::Start, text: String::new(), at, number: 0, place: 0 };
        Ok(Some(Reading::new(own, head, Speech::new(found.agent), Vec::new())))
    }

    /// What was said up to here, as a message. Its id follows from its place among the others.
    fn end(&mut self, speech: &mut Speech) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim_matches('\n');
        if text.trim().is_empty() {
            return;
        }
        self.number += 1;
        let id = format!("{}-{}", self.number, &digest(text.as_bytes())[..12]);
        match self.who {
            Who::User => speech.user(&id, self.at, text.trim_end(), &[]),
            Who::Model => speech.assistant(&id, self.at, text.trim_end(), &[]),
            Who::Start => (),
        }
    }

    fn add(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn line(&mut self, line: &str, speech: &mut Speech) {
        if let Some(when) = line.strip_prefix(STARTED) {
            self.end(speech);
            self.who = Who::Start;
            let at = when.trim().replace(' ', "T").parse::<DateTime>().ok();
            let at = at.and_then(|at| at.to_zoned(TimeZone::system()).ok());
            self.at = at.map_or(self.at, |at| at.timestamp());
            return;
        }
        // What a person or aider itself says ends with two blanks; what the model says is as it came.
        let own = line.strip_suffix("  ");
        if let Some(said) = own.and_then(|line| line.strip_prefix("#### ")) {
            if self.who != Who::User {
                self.end(speech);
                self.who = Who::User;
            }
            self.add(said);
        } else if let Some(note) = own.and_then(|line| line.strip_prefix("> ")) {
            self.note(note, speech);
        } else if self.who == Who::User && !line.trim().is_empty() {
            self.end(speech);
            self.who = Who::Model;
            self.add(line);
        } else if self.who == Who::Model {
            self.add(line);
        }
    }

    /// A line of aider itself.
    fn note(&mut self, note: &str, speech: &mut Speech) {
        if let Some(rest) =
            note.strip_prefix("Model: ").or_else(|| note.strip_prefix("Main model: "))
        {
            speech.model = rest.split(" with ").next().map(|name| name.trim().to_owned());
        } else if let Some(tokens) = note.strip_prefix("Tokens: ") {
            self.end(speech);
            speech.used_before(usage(tokens));
        } else if let Some(file) = note.strip_prefix("Applied edit to ") {
            self.end(speech);
            self.number += 1;
            let id = format!("{}-edit", self.number);
            speech.call(Call::new(&id, "edit", json!({ "path": file }), self.at));
            speech.result(&id, self.at, Outcome::default());
        }
    }
}

impl Source for Aider {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let mut line = Vec::new();
        let most = LONGEST_LINE as u64;
        let read = (&mut self.input).take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            self.end(speech);
            return Ok(false);
        }
        let from = self.place;
        self.place += read as u64;
        if read as u64 == most || self.text.len() + read > LONGEST_LINE {
            let why = "the text is too long".to_owned();
            unread.push(Unread { at: Some(from), why });
            self.text.clear();
            return Ok(true);
        }
        line.retain(|byte| *byte != 0);
        let line = String::from_utf8_lossy(&line);
        self.line(line.trim_end_matches(['\n', '\r']), speech);
        Ok(true)
    }
}

/// Whether a file has the name that aider gives its own.
pub(crate) fn is_named(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}

/// From `2.4k sent, 8 received. Cost: $0.01 message, $0.02 session.`
fn usage(told: &str) -> Usage {
    let before = |word: &str| {
        let (before, _) = told.split_once(word)?;
        before.rsplit([' ', '$']).find(|text| !text.is_empty()).map(str::to_owned)
    };
    let tokens = |word: &str| before(word).map_or(0, |text| count(&text));
    let cost = before(" message").and_then(|text| text.parse::<f64>().ok());
    Usage {
        input_tokens: tokens(" sent"),
        output_tokens: tokens(" received"),
        cost_usd: cost.filter(|cost| *cost > 0.0 && *cost <= 1e6),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
fn count(text: &str) -> u64 {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let number = number.parse::<f64>().unwrap_or(0.0) * unit;
    if number.is_finite() { number.clamp(0.0, 1e15).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_read_from_a_line() {
        let cost_usd = Some(0.01);
        let told = "2.4k sent, 8 received. Cost: $0.01 message, $0.02 session.";
        assert_eq!(usage(told), Usage { input_tokens: 2_400, output_tokens: 8, cost_usd });
        let told = "591 sent, inf received.";
        assert_eq!(usage(told), Usage { input_tokens: 591, output_tokens: 0, cost_usd: None });
    }
}
