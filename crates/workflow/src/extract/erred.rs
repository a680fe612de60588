//! Extracts errors by rules: failed tool calls, lines that report an error, and how they were resolved.

use std::collections::HashSet;

use serde_json::Value;

use super::super::record::{ErrorRecord, Resolution};
use super::{CHARS, Origin, ends};
use rethread_domain::id::Seq;
use rethread_domain::message::{Message, Role};
use rethread_domain::{quote, summary, terms};

/// How many of the latest errors are kept.
const MOST: usize = 20;

/// An error where it was seen.
#[derive(Debug, Clone)]
struct Seen {
    seqs: Vec<Seq>,
    /// The position of the last entry that shows it.
    last: usize,
    kind: String,
    message: String,
    context: Option<String>,
}

/// The errors, oldest first, each once.
pub(super) fn find(messages: &[Message], origin: &Origin<'_>) -> Vec<ErrorRecord> {
    let mut seen: Vec<Seen> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let Some((kind, text)) = error_in(message) else { continue };
        let text = quote::cut_line(&text, CHARS);
        match seen.iter_mut().find(|known| known.kind == kind && known.message == text) {
            Some(known) => {
                known.seqs.push(message.seq);
                known.last = place;
            }
            None => seen.push(Seen {
                seqs: vec![message.seq],
                last: place,
                kind,
                message: text,
                context: title(message),
            }),
        }
    }
    let all: Vec<usize> = seen.iter().map(|error| error.last).collect();
    let records = seen.into_iter().map(|error| record(error, &all, messages, origin));
    let mut records: Vec<ErrorRecord> = records.collect();
    records.drain(..records.len().saturating_sub(MOST));
    records
}

fn record(error: Seen, all: &[usize], messages: &[Message], origin: &Origin<'_>) -> ErrorRecord {
    let (resolution, notes) = resolution(&error, all, messages);
    let first = error.seqs[0];
    ErrorRecord {
        id: origin.id(first, 'e', 1),
        at: origin.time(messages, Some(first)),
        task: origin.task.map(str::to_owned),
        kind: error.kind,
        message: error.message,
        context: error.context,
        resolution,
        notes: notes.map(|notes| quote::cut_line(&notes, CHARS)),
        source: origin.source(error.seqs),
    }
}

fn first_line(message: &Message) -> &str {
    message.body.head().lines().next().unwrap_or_default().trim()
}

/// The subject of a tool call.
fn title(message: &Message) -> Option<String> {
    if message.role != Role::Tool {
        return None;
    }
    let line = first_line(message);
    let title = line.strip_suffix("(failed)").unwrap_or(line).trim();
    (!title.is_empty()).then(|| quote::cut_line(title, 200))
}

/// Whether a tool call is reported as failed.
fn has_failed(message: &Message) -> bool {
    let calls = message.extras.tool_calls.as_ref().and_then(Value::as_array);
    let by_status = |calls: &Vec<Value>| calls.iter().any(|call| call["status"] == "failed");
    message.role == Role::Tool
        && (calls.is_some_and(by_status) || first_line(message).ends_with("(failed)"))
}

/// The error that an entry shows: its kind and its message.
fn error_in(message: &Message) -> Option<(String, String)> {
    if message.purged_at.is_some() || !matches!(message.role, Role::Tool | Role::Assistant) {
        return None;
    }
    if let Some(why) = message.extras.other.get("error").and_then(Value::as_str) {
        return Some(("agent".to_owned(), why.to_owned()));
    }
    let texts = ends(message);
    let lines = || texts.iter().flat_map(|text| text.lines());
    let skip = usize::from(message.role == Role::Tool);
    let told = lines().skip(skip).find_map(|line| Some((kind(line)?, line.trim().to_owned())));
    match told {
        Some(told) => Some(told),
        None if has_failed(message) => {
            let line = lines().skip(1).map(str::trim).find(|line| !line.is_empty());
            let text = line.map_or_else(|| title(message).unwrap_or_default(), str::to_owned);
            Some(("tool".to_owned(), text))
        }
        None => None,
    }
}

/// The kind of error that a line reports.
pub(super) fn kind(line: &str) -> Option<String> {
    let line = line.trim();
    if line.starts_with("error[")
        && let Some((code, _)) = line["error[".len()..].split_once(']')
    {
        return Some(quote::cut_line(code, 40));
    }
    if line.contains("panicked at ") {
        return Some("panic".to_owned());
    }
    for (lead, kind) in [
        ("error: ", "error"),
        ("Error: ", "error"),
        ("ERROR: ", "error"),
        ("ERROR ", "error"),
        ("fatal: ", "fatal"),
        ("FATAL: ", "fatal"),
        ("test result: FAILED", "test"),
        ("FAILED ", "test"),
        ("--- FAIL: ", "test"),
        ("npm ERR! ", "npm"),
        ("bash: ", "shell"),
        ("sh: ", "shell"),
    ] {
        if line.starts_with(lead) {
            return Some(kind.to_owned());
        }
    }
    // `TypeError: x is not a function`
    let (name, rest) = line.split_once(": ")?;
    let is_name =
        name.len() <= 60 && name.chars().all(|c| c.is_alphanumeric() || "._:".contains(c));
    let is_error = name.ends_with("Error") || name.ends_with("Exception");
    (is_name && is_error && !rest.is_empty()).then(|| name.to_owned())
}

const FIXED: &[&str] = &[
    "fixed",
    "resolved",
    "passes now",
    "pass now",
    "now pass",
    "works now",
    "now work",
    "solved",
    "no longer fails",
    "compiles now",
    "now compiles",
    "tests pass",
];
const AROUND: &[&str] = &["workaround", "worked around", "work around", "working around"];
const DEFERRED: &[&str] = &[
    "deferred",
    "deferring",
    "defer ",
    "out of scope",
    "leave it for",
    "leave that for",
    "later task",
    "skip it for now",
    "ignore it for now",
    "ignoring it for now",
];
const NOT: &[&str] = &[
    "not fixed",
    "n't fixed",
    "still fail",
    "not resolved",
    "unresolved",
    "cannot fix",
    "can't fix",
    "could not fix",
    "couldn't fix",
    "to be fixed",
    "needs to be",
    "must be fixed",
    "should be fixed",
    "once it is fixed",
    "if it",
    "not work",
    "n't work",
    "does not pass",
    "doesn't pass",
    "do not pass",
    "don't pass",
    "not pass",
    "?",
];

/// How an error was resolved, judged by what followed.
fn resolution(error: &Seen, all: &[usize], messages: &[Message]) -> (Resolution, Option<String>) {
    let after = messages.iter().enumerate().skip(error.last);
    let next = all.iter().copied().filter(|place| *place > error.last).min();
    let about = words(&format!("{} {}", error.message, error.context.as_deref().unwrap_or("")));
    let mut found = (Resolution::Unresolved, None);
    for (place, message) in after {
        if place > error.last && is_repeat_that_worked(error, message) {
            let notes = found.1.take().filter(|_| found.0 == Resolution::Fixed);
            return (
                Resolution::Fixed,
                notes.or_else(|| Some("the same call succeeded later".to_owned())),
            );
        }
        if message.role != Role::Assistant {
            continue;
        }
        let is_near = next.is_none_or(|next| place < next);
        for sentence in ends(message).into_iter().flat_map(summary::sentences_of) {
            let Some(said) = said(sentence) else { continue };
            if is_near || words(sentence).intersection(&about).next().is_some() {
                found = (said, Some(sentence.to_owned()));
            }
        }
    }
    found
}

fn is_repeat_that_worked(error: &Seen, message: &Message) -> bool {
    message.role == Role::Tool
        && error.context.is_some()
        && title(message) == error.context
        && !has_failed(message)
        && error_in(message).is_none()
}

/// What a sentence says about an error.
fn said(sentence: &str) -> Option<Resolution> {
    let lower = sentence.to_ascii_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    if has(NOT) {
        None
    } else if has(AROUND) {
        Some(Resolution::Workaround)
    } else if has(DEFERRED) {
        Some(Resolution::Deferred)
    } else {
        has(FIXED).then_some(Resolution::Fixed)
    }
}

/// The significant words of a text.
fn words(text: &str) -> HashSet<String> {
    let common = ["error", "fail", "failed", "test", "cargo", "fix", "fixed"];
    let is_telling =
        |term: &String| term.len() > 3 && !terms::is_stop(term) && !common.contains(&term.as_str());
    terms::all(text).into_iter().filter(is_telling).collect()
}
