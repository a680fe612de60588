//! What an agent says, passed on in whole lines: half a secret is not recognised.

use std::sync::Mutex;

use rethread_domain::redact::Redactor;
use rethread_domain::turn::Update;
use serde_json::Value;

use super::held;

/// How much text is held back at most until a line, or a key, ends.
const MOST_HELD: usize = 16 << 10;
const KEY_BEGINS: &str = "-----BEGIN";
const KEY_ENDS: &str = "-----END";

/// What was said of a line that has not ended.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Option<Update>>);

impl Lines {
    /// Takes what is said next; gives what can be passed on now, masked.
    pub(super) fn take(&self, redactor: &Redactor, update: &Update) -> Vec<Value> {
        let mut line = held(&self.0);
        let (mut ready, mut next) = (Vec::new(), update.clone());
        if let Some(mut before) = line.take() {
            if before.join(update) {
                next = before;
            } else {
                ready.push(before);
            }
        }
        let (whole, rest) = split(next);
        *line = rest;
        ready.extend(whole);
        ready.iter().map(|update| masked(redactor, update)).collect()
    }

    /// What was held back, when nothing follows it.
    pub(super) fn rest(&self, redactor: &Redactor) -> Option<Value> {
        held(&self.0).take().map(|rest| masked(redactor, &rest))
    }
}

fn masked(redactor: &Redactor, update: &Update) -> Value {
    let mut value = serde_json::to_value(update).unwrap_or_default();
    redactor.redact_json(&mut value);
    value
}

/// Where a text can be cut without cutting a secret: after its last whole line, and before a key that has not ended.
/// Where that would hold back too much, it is cut after its last word, as secrets have no spaces.
fn cut(text: &str) -> usize {
    let is_long = text.len() > MOST_HELD;
    let after = |found: Option<(usize, &str)>| found.map(|(at, end)| at + end.len());
    let line = after(text.rmatch_indices('\n').next());
    let end = match line {
        Some(end) => end,
        None if is_long => {
            after(text.rmatch_indices(char::is_whitespace).next()).unwrap_or(text.len())
        }
        None => 0,
    };
    match text[..end].rfind(KEY_BEGINS) {
        Some(begin) if !text[begin..end].contains(KEY_ENDS) && (!is_long || begin > 0) => begin,
        _ => end,
    }
}

/// What can be passed on of an update, and what has to wait.
fn split(update: Update) -> (Option<Update>, Option<Update>) {
    let (text, is_thought) = match update {
        Update::Text { text } => (text, false),
        Update::Thought { text } => (text, true),
        other => return (Some(other), None),
    };
    let (whole, rest) = text.split_at(cut(&text));
    let part = |text: &str| {
        let text = Some(text.to_owned()).filter(|text| !text.is_empty())?;
        Some(if is_thought { Update::Thought { text } } else { Update::Text { text } })
    };
    (part(whole), part(rest))
}
