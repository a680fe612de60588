//! Files with a JSON object on each line, read twice: once for what they are, once for what was said.
//!
//! In between only the places of lines are in memory, so that it does not matter how long the texts are.

use std::io;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::json;
use crate::lines::{self, Input, Line, Lines, Place};
use crate::reading::{Reading, Source};
use crate::speech::{Call, Speech};
use crate::stamp;
use crate::{Cursor, Head, Unread};

/// What is told of a line of which only a part can be read.
const DAMAGED: &str = "not valid JSON";
/// So much is told of what cannot be read.
const MOST_UNREAD: usize = 20;

/// A record that is to be read, and the conversation that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) place: Place,
    /// A number that the format gives its conversations.
    pub(crate) conversation: u32,
    /// Which part of the record, where it has several.
    pub(crate) part: u32,
}

/// One format.
pub(crate) trait Format: Send {
    /// What is looked at the first time.
    type Peek: DeserializeOwned;

    /// The first time: what kind of record it is, and how it hangs together with others.
    fn survey(&mut self, place: Place, peek: Self::Peek, line: &[u8]);

    /// What is to be read, in order. `None` where that cannot be told from what was looked at: then all of it has to be.
    fn plan(&mut self) -> Option<(Head, Vec<Step>)>;

    /// The name of a conversation.
    fn conversation(&self, number: u32) -> String;

    /// The second time: what was said.
    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech);

    /// What has to be known to go on after the last line.
    fn state(&self) -> Option<Value> {
        None
    }
}

/// A file that is being read.
pub(crate) struct Reader<F> {
    input: Box<dyn Input>,
    format: F,
    steps: std::vec::IntoIter<Step>,
    conversation: Option<u32>,
    /// The record that was read last, where it has several parts.
    last: Option<(Place, Value)>,
    position: u64,
    fingerprint: String,
    is_continued: bool,
}

impl<F: Format> Reader<F> {
    /// Opens a file at its beginning; `None` where nothing was said in it.
    pub(crate) fn open(
        input: Box<dyn Input>,
        agent: &'static str,
        format: F,
    ) -> io::Result<Option<Reading<Self>>> {
        Self::read(input, Speech::new(agent), format, 0, false)
    }

    /// Goes on where the last reading ended; `None` where that is not possible.
    pub(crate) fn go_on(
        mut input: Box<dyn Input>,
        agent: &'static str,
        cursor: &Cursor,
        format: impl FnOnce(&Value, Head) -> Option<F>,
    ) -> io::Result<Option<Reading<Self>>> {
        if stamp::fingerprint(&mut *input, cursor.position)? != cursor.fingerprint {
            return Ok(None);
        }
        let head = cursor.state.get("head").cloned().map(serde_json::from_value);
        let Some(Ok(head)) = head else { return Ok(None) };
        let own = cursor.state.get("format").unwrap_or(&Value::Null);
        let Some(format) = format(own, head) else { return Ok(None) };
        let mut speech = Speech::new(agent);
        for call in json::list(&cursor.state, "calls").iter().filter_map(Call::from_state) {
            speech.call(call);
        }
        Self::read(input, speech, format, cursor.position, true)
    }

    fn read(
        mut input: Box<dyn Input>,
        speech: Speech,
        mut format: F,
        from: u64,
        is_continued: bool,
    ) -> io::Result<Option<Reading<Self>>> {
        let end = input.seek(io::SeekFrom::End(0))?;
        let mut lines = Lines::new(&mut input, from, end)?;
        let mut unread = Vec::new();
        let mut position = from;
        while let Some((place, line)) = lines.next()? {
            let (parsed, why) = match line {
                Line::Text(text) => {
                    let parsed = json::parse::<F::Peek>(text);
                    let is_damaged = parsed.as_ref().map(|parsed| parsed.is_damaged);
                    let why = if parsed.is_none() { json::why_not(text) } else { DAMAGED };
                    if let Some(parsed) = parsed {
                        format.survey(place, parsed.value, text);
                    }
                    (is_damaged, why)
                }
                Line::TooLong => (None, "the line is too long"),
            };
            // The last line may still be being written.
            if parsed.is_none() && !lines.is_ended {
                break;
            }
            position = place.from + place.bytes;
            if parsed != Some(false) && unread.len() < MOST_UNREAD {
                unread.push(Unread { at: Some(place.from), why: why.to_owned() });
            }
        }
        let Some((head, steps)) = format.plan() else { return Ok(None) };
        let fingerprint = stamp::fingerprint(&mut *input, position)?;
        let reader = Self {
            input,
            format,
            steps: steps.into_iter(),
            conversation: None,
            last: None,
            position,
            fingerprint,
            is_continued,
        };
        Ok(Some(Reading::new(reader, head, speech, unread)))
    }

    fn step(
        &mut self,
        step: Step,
        speech: &mut Speech,
        unread: &mut Vec<Unread>,
    ) -> io::Result<()> {
        let record = match self.last.take() {
            Some((place, record)) if place == step.place => record,
            _ => {
                let line = lines::read_at(&mut self.input, step.place)?;
                match json::parse(&line) {
                    Some(parsed) => parsed.value,
                    // It was recognised a moment ago: somebody has written over it, or only its beginning could be read.
                    None => {
                        if unread.len() < MOST_UNREAD {
                            let why = "not readable".to_owned();
                            unread.push(Unread { at: Some(step.place.from), why });
                        }
                        return Ok(());
                    }
                }
            }
        };
        if self.conversation != Some(step.conversation) {
            self.conversation = Some(step.conversation);
            speech.conversation = self.format.conversation(step.conversation);
        }
        self.format.take(step, &record, speech);
        if step.part > 0 {
            self.last = Some((step.place, record));
        }
        Ok(())
    }
}

impl<F: Format> Source for Reader<F> {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        match self.steps.next() {
            Some(step) => self.step(step, speech, unread).map(|()| true),
            None => Ok(false),
        }
    }

    fn cursor(&self, head: &Head, speech: &Speech) -> Option<Cursor> {
        let state = self.format.state()?;
        let calls: Vec<Value> = speech.given_up().iter().map(Call::to_state).collect();
        let state = json!({"head": head, "format": state, "calls": calls});
        Some(Cursor { position: self.position, fingerprint: self.fingerprint.clone(), state })
    }

    fn is_continued(&self) -> bool {
        self.is_continued
    }
}
