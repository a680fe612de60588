//! Removes what the events of a workflow quote of a purged message.
//!
//! What was derived from the message is removed: decisions and errors based on it, and its words wherever they are repeated (in
//! results, questions, reasons, reviews, the output of checks). What the message itself was derived from, the issue and the plan,
//! belongs to its author and stays.

use std::collections::HashMap;

use serde_json::Value;

use super::event::{Event, Outcome, Question};
use super::record::Source;
use rethread_domain::id::{Seq, SessionId};

/// Replaces purged words.
const PURGED: &str = "[purged]";
/// So many consecutive words are a quotation, however common they are.
const QUOTATION: usize = 3;
/// A word of this length that has not only letters is a quotation by itself: a path, a key, a number.
const ODD_WORD: usize = 8;
/// How many occurrences of a word are compared.
const PLACES: usize = 64;

/// A purged message, as events may quote it.
#[derive(Debug)]
pub struct Quoted<'a> {
    sessions: &'a [SessionId],
    seq: Seq,
    words: Vec<&'a str>,
    places: HashMap<&'a str, Vec<usize>>,
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The words of a text, each with where it ends.
fn words(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let start = text.as_ptr() as usize;
    text.split_whitespace().map(move |word| (word, word.as_ptr() as usize - start + word.len()))
}

impl<'a> Quoted<'a> {
    /// Message `seq` of these sessions, which share it, with its whole content.
    pub fn new(sessions: &'a [SessionId], seq: Seq, text: &'a str) -> Self {
        let words: Vec<&str> =
            text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, word) in words.iter().enumerate() {
            let known = places.entry(word).or_default();
            if known.len() < PLACES {
                known.push(at);
            }
        }
        Self { sessions, seq, words, places }
    }

    /// The event without what it quotes; `None` if it quotes nothing.
    pub fn taken_out_of(&self, event: &Event) -> Option<Event> {
        let mut cleaned = event.clone();
        match &mut cleaned {
            Event::Decided(decision) if self.is_source(&decision.source) => {
                PURGED.clone_into(&mut decision.what);
                decision.why.clear();
                decision.alternatives.clear();
            }
            Event::Decided(decision) => {
                self.clean(&mut decision.what);
                self.clean(&mut decision.why);
                self.clean_all(&mut decision.alternatives);
            }
            Event::Erred(error) if self.is_source(&error.source) => {
                PURGED.clone_into(&mut error.message);
                (error.context, error.notes) = (None, None);
            }
            Event::Erred(error) => {
                self.clean(&mut error.message);
                self.clean_all(&mut error.context);
                self.clean_all(&mut error.notes);
            }
            Event::Reviewed(feedback) => self.clean_all(&mut feedback.comments),
            Event::TaskEnded(ended) => {
                match &mut ended.outcome {
                    Outcome::Failed { why }
                    | Outcome::Interrupted { why }
                    | Outcome::PutOff { why, .. } => self.clean(why),
                    Outcome::Refused { what } => self.clean_all(what),
                    Outcome::Completed => (),
                }
                self.clean_all(ended.tests.as_mut().map(|tests| &mut tests.output));
            }
            Event::Asked(question) => self.clean_question(question),
            Event::Answered { question, why, .. } => {
                self.clean_question(question);
                self.clean_all(why);
            }
            Event::PauseAsked { reason, .. } => self.clean(reason),
            Event::Paused(mark) | Event::Closed(mark) => self.clean(&mut mark.reason),
            Event::Failed { why } | Event::Cancelled { why } => self.clean(why),
            Event::Unknown(fields) => {
                fields.values_mut().for_each(|value| self.clean_json(value));
            }
            _ => (),
        }
        (cleaned != *event).then_some(cleaned)
    }

    /// Whether a text quotes the message.
    pub fn is_in(&self, text: &str) -> bool {
        !self.runs(text).is_empty()
    }

    fn is_source(&self, source: &Source) -> bool {
        source.session.is_some_and(|session| self.sessions.contains(&session))
            && source.messages.contains(&self.seq)
    }

    fn clean_question(&self, question: &mut Question) {
        match question {
            Question::TaskFailed { why, .. } => self.clean(why),
            Question::TaskRefused { refused, .. } => self.clean_all(refused),
            Question::Plan
            | Question::TaskRemoved { .. }
            | Question::Command { .. }
            | Question::Gate { .. } => (),
        }
    }

    fn clean_all<'b>(&self, texts: impl IntoIterator<Item = &'b mut String>) {
        texts.into_iter().for_each(|text| self.clean(text));
    }

    fn clean_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.clean_json(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.clean_json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }

    fn clean(&self, text: &mut String) {
        for (start, end) in self.runs(text).into_iter().rev() {
            text.replace_range(start..end, PURGED);
        }
    }

    /// Where a text repeats words of the message.
    fn runs(&self, text: &str) -> Vec<(usize, usize)> {
        let own: Vec<(&str, usize)> =
            words(text).filter(|(word, _)| !bare(word).is_empty()).collect();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while at < own.len() {
            let length = self.longest(&own[at..]);
            let run = &own[at..at + length];
            let is_whole = length > 1 && length == own.len();
            let is_odd = run.iter().any(|(word, _)| is_odd(bare(word)));
            if is_whole || length >= QUOTATION || is_odd {
                let ((first, first_end), (_, end)) = (run[0], run[length - 1]);
                runs.push((first_end - first.len(), end));
            }
            at += length.max(1);
        }
        runs
    }

    /// How many of these words occur in the message in this order.
    fn longest(&self, own: &[(&str, usize)]) -> usize {
        let Some((first, _)) = own.first() else { return 0 };
        let places = self.places.get(bare(first)).map_or(&[][..], Vec::as_slice);
        let length = |place: &usize| {
            let theirs = &self.words[*place..];
            own.iter().zip(theirs).take_while(|((word, _), their)| is_same(word, their)).count()
        };
        places.iter().map(length).max().unwrap_or(0)
    }
}

/// The last word of a shortened text may be the beginning of a longer one.
fn is_same(word: &str, their: &str) -> bool {
    let own = bare(word);
    own == their || word.ends_with('…') && their.starts_with(own)
}

fn is_odd(word: &str) -> bool {
    word.chars().count() >= ODD_WORD && !word.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, DecisionKind};
    use jiff::Timestamp;

    const SAID: &str =
        "The staging password is correct-horse-9, so I decided to use it for the login test.";

    fn cleaned(text: &str) -> String {
        let session = [SessionId::generate()];
        let mut text = text.to_owned();
        Quoted::new(&session, 3, SAID).clean(&mut text);
        text
    }

    #[test]
    fn quotations_go_and_everything_else_stays() {
        for (text, left) in [
            ("the staging password is correct-horse-9", "the [purged]"),
            ("login failed: 'correct-horse-9' was refused", "login failed: [purged] was refused"),
            ("I decided to use it for the log…", "[purged]"),
            (
                "it\nsays\n  The staging password is correct-horse-9,\nand ends",
                "it\nsays\n  [purged]\nand ends",
            ),
            ("login test", "[purged]"),
            ("staging", "staging"),
            ("The staging server is down", "The staging server is down"),
            ("for the build to pass", "for the build to pass"),
            ("", ""),
        ] {
            assert_eq!(cleaned(text), left, "{text}");
        }
    }

    #[test]
    fn what_rests_on_the_message_goes_whatever_its_words_are() {
        let (session, other) = (SessionId::generate(), SessionId::generate());
        let decided = |session, seq| {
            let messages = vec![seq];
            let source = Source { by: "model".to_owned(), session: Some(session), messages };
            Event::Decided(Decision {
                id: "d1".to_owned(),
                at: Timestamp::UNIX_EPOCH,
                task: None,
                kind: DecisionKind::Approach,
                what: "It signs in with the shared account".to_owned(),
                why: "because it is there".to_owned(),
                alternatives: vec!["none".to_owned()],
                source,
            })
        };
        let sessions = [session];
        let quoted = Quoted::new(&sessions, 3, SAID);
        let Some(Event::Decided(left)) = quoted.taken_out_of(&decided(session, 3)) else {
            panic!("it stayed")
        };
        assert_eq!((left.what.as_str(), left.why.as_str()), (PURGED, ""));
        assert_eq!(left.alternatives, [] as [String; 0]);
        for (session, seq) in [(session, 4), (other, 3)] {
            assert_eq!(quoted.taken_out_of(&decided(session, seq)), None);
        }
    }

    #[test]
    fn a_question_and_its_answer_stay_the_same_question() {
        let why = format!("its agent said: {SAID}");
        let question = Question::TaskFailed { task: "one".to_owned(), why };
        let sessions = [SessionId::generate()];
        let quoted = Quoted::new(&sessions, 3, SAID);
        let asked = quoted.taken_out_of(&Event::Asked(question.clone()));
        let answered =
            Event::Answered { question, yes: true, why: Some("go on".to_owned()), by: None };
        let answered = quoted.taken_out_of(&answered);
        let (Some(Event::Asked(asked)), Some(Event::Answered { question, why, .. })) =
            (asked, answered)
        else {
            panic!("it stayed")
        };
        assert_eq!(asked, question);
        assert_eq!(why.as_deref(), Some("go on"));
        assert!(!format!("{asked:?}").contains("horse"));
    }
}
