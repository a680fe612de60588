//! Masks an agent's stream: text is passed on as soon as it cannot be a part of a secret any more.

use std::sync::Mutex;

use rethread_domain::turn::Update;
use rethread_redact::Redactor;
use serde_json::Value;

use super::lock;

/// How much undecided text is held back at most.
const MOST_HELD: usize = 16 << 10;

/// The text that is held back.
#[derive(Debug, Default)]
pub(super) struct StreamMasker(Mutex<Option<Update>>);

impl StreamMasker {
    /// Takes the next update and returns what can be passed on, masked.
    pub(super) fn take(&self, redactor: &Redactor, update: &Update) -> Vec<Value> {
        let mut waiting = lock(&self.0);
        let (mut ready, mut next) = (Vec::new(), update.clone());
        if let Some(mut before) = waiting.take() {
            if before.join(update) {
                next = before;
            } else {
                ready.push(masked(redactor, &before));
            }
        }
        let (sure, rest) = split(redactor, next);
        *waiting = rest;
        ready.extend(sure);
        ready
    }

    /// The remaining text, once nothing follows it.
    pub(super) fn rest(&self, redactor: &Redactor) -> Option<Value> {
        lock(&self.0).take().map(|rest| masked(redactor, &rest))
    }
}

fn masked(redactor: &Redactor, update: &Update) -> Value {
    let mut value = serde_json::to_value(update).unwrap_or_default();
    redactor.redact_json(&mut value);
    value
}

/// The decided beginning of a text, masked, and how much of the text that is. Where too much would be held back, it
/// ends at the last space, as secrets hardly ever contain spaces.
fn begun(redactor: &Redactor, text: &str) -> (String, usize) {
    let (sure, end) = redactor.redact_begun(text);
    if text.len() - end <= MOST_HELD {
        return (sure, end);
    }
    let blank = text.rmatch_indices(char::is_whitespace).next();
    let end = blank.map_or(text.len(), |(at, blank)| at + blank.len());
    (redactor.redact(&text[..end]).text.into_owned(), end)
}

/// The part of an update that can be passed on, masked, and the part that has to wait.
fn split(redactor: &Redactor, update: Update) -> (Option<Value>, Option<Update>) {
    let (text, is_thought) = match update {
        Update::Text { text } => (text, false),
        Update::Thought { text } => (text, true),
        other => return (Some(masked(redactor, &other)), None),
    };
    let part = |text: String| {
        let text = Some(text).filter(|text| !text.is_empty())?;
        Some(if is_thought { Update::Thought { text } } else { Update::Text { text } })
    };
    let (sure, end) = begun(redactor, &text);
    let sure = part(sure).map(|sure| serde_json::to_value(&sure).unwrap_or_default());
    (sure, part(text[end..].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Update {
        Update::Text { text: text.to_owned() }
    }

    /// What is passed on when these are said one after the other.
    fn passed(updates: &[Update]) -> Vec<String> {
        let (redactor, lines) = (Redactor::new([]), StreamMasker::default());
        let mut told: Vec<Value> =
            updates.iter().flat_map(|update| lines.take(&redactor, update)).collect();
        told.extend(lines.rest(&redactor));
        told.iter().map(|told| told["text"].as_str().unwrap_or("?").to_owned()).collect()
    }

    #[test]
    fn a_sentence_without_an_end_is_told_as_it_comes() {
        let words = ["Half ", "of ", "a ", "long ", "sentence ", "and ", "no ", "end"];
        let passed = passed(&words.map(said));
        assert_eq!(passed.concat(), words.concat());
        assert!(passed.len() >= words.len() - 1, "{passed:?}");
    }

    #[test]
    fn what_waits_comes_before_what_is_of_another_kind() {
        let thought = Update::Thought { text: "hm".to_owned() };
        assert_eq!(passed(&[said("one"), thought, said("two")]), ["one", "hm", "two"]);
    }

    #[test]
    fn no_more_is_held_than_may_be() {
        let begin = "-----BEGIN PRIVATE KEY----- is how ";
        let passed = passed(&[said(begin), said(&"it begins ".repeat(2_000)), said("end")]);
        assert_eq!(passed.len(), 2, "{passed:?}");
    }

    /// In parts: this file holds no secret.
    const TOKEN: &str = concat!("ghp", "_16C7e42F292c6912", "E7710c838347Ae178B4a");

    /// What is passed on of a text that comes in these pieces.
    fn joined<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        passed(&pieces.into_iter().map(said).collect::<Vec<_>>()).concat()
    }

    #[test]
    fn a_secret_is_masked_wherever_it_is_cut() {
        let text = format!("The key is {TOKEN}, keep it.\nThat is all.\n");
        let expected = joined([text.as_str()]);
        assert!(expected.contains("[redacted: ") && expected.ends_with("That is all.\n"));
        for first in 0..text.len() {
            for second in first..text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(joined(pieces), expected, "{pieces:?}");
            }
        }
    }

    #[test]
    fn a_key_of_several_lines_is_masked_whole() {
        let line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt";
        let name = "OPENSSH PRIVATE KEY";
        let text = format!(
            "Here:\n-----BEGIN {name}-----\n{line}\n{line}\n{line}\n-----END {name}-----\nafter\n"
        );
        let expected = joined([text.as_str()]);
        assert!(!expected.contains("b3Bl"), "{expected}");
        assert!(expected.starts_with("Here:\n[redacted: ") && expected.ends_with("\nafter\n"));
        assert_eq!(joined(text.split_inclusive('\n')), expected);
        assert_eq!(joined((0..text.len()).map(|at| &text[at..=at])), expected);
    }

    #[test]
    fn a_long_line_is_passed_on_in_parts_and_loses_nothing() {
        for begin in 0..4 {
            for letter in ["ü", "語", "🦊", "a "] {
                let text = "x".repeat(begin) + &letter.repeat(3 * MOST_HELD / letter.len());
                let chars: Vec<char> = text.chars().collect();
                for size in [MOST_HELD / 4 - 1, MOST_HELD - 1, MOST_HELD, MOST_HELD + 1] {
                    let pieces: Vec<String> =
                        chars.chunks(size).map(|piece| piece.iter().collect()).collect();
                    assert!(joined(pieces.iter().map(String::as_str)) == text, "{letter} {size}");
                }
            }
        }
    }

    #[test]
    fn a_secret_at_the_end_of_a_long_part_is_masked() {
        let before = "word ".repeat(MOST_HELD / 5 + 1);
        let (begin, end) = TOKEN.split_at(9);
        let told = joined([&format!("{before}{begin}"), end, " after"]);
        assert!(
            told.ends_with("] after") && told.contains("[redacted: "),
            "{}",
            &told[before.len()..]
        );
        assert!(!told.contains(begin));
    }

    #[test]
    fn what_only_begins_like_a_key_is_passed_on() {
        let endless = format!("-----BEGIN RSA PRIVATE KEY-----\n{}", "no key\n".repeat(5_000));
        let told = joined(endless.split_inclusive('\n'));
        assert!(told.ends_with("no key\nno key\n"));
        let lines = StreamMasker::default();
        let piece = Update::Text { text: "no key\n".repeat(1_000) };
        let begin = Update::Text { text: "-----BEGIN PRIVATE KEY-----\n".to_owned() };
        let redactor = Redactor::new([]);
        assert_eq!(lines.take(&redactor, &begin), [] as [Value; 0]);
        assert!(
            (0..4).any(|_| !lines.take(&redactor, &piece).is_empty()),
            "it is not held for ever"
        );
    }
}
