//! What a sentence is to somebody who goes on with the work: a decision, a wish of the user, a failure, a command, open work.
//!
//! A summary keeps some of each kind, so that much of one does not leave all of another out.

use super::{Point, is_decision};
use crate::message::{Message, Role};
use crate::outcome::{self, Outcome};
use crate::passage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matter {
    Decision,
    /// What the user wants to be kept to.
    Constraint,
    /// What went wrong, why, and what put it right.
    Failure,
    /// What was run and did not fail.
    Command,
    Open,
    Other,
}

/// Of each kind, the points that are kept before all others compete.
pub(super) const KEPT: [(Matter, usize); 5] = [
    (Matter::Decision, 3),
    (Matter::Constraint, 2),
    (Matter::Open, 2),
    (Matter::Failure, 2),
    (Matter::Command, 2),
];

/// What stands before a command that was run.
pub(super) const PROMPT: &str = "$ ";
const LONGEST_COMMAND: usize = 200;

const CONSTRAINTS: &[&str] = &[
    "never ",
    "always ",
    "don't ",
    "do not ",
    "must ",
    "should not ",
    "shouldn't ",
    "prefer",
    "make sure",
    "only use",
    "i want ",
    "we want ",
    "please use",
    "нельзя",
    "всегда",
    "никогда",
    "не надо",
    "должн",
    "нужно чтобы",
    "mai ",
    "sempre ",
    "non devi",
    "preferisco",
    "voglio ",
    "nunca ",
    "siempre ",
    "immer ",
    "niemals ",
    "必须",
    "不要",
    "总是",
];
const OPEN: &[&str] = &[
    "todo",
    "to do:",
    "remaining",
    "remains",
    "next step",
    "still need",
    "left to do",
    "not yet",
    "pending",
    "follow-up",
    "осталось",
    "следующий шаг",
    "ещё не",
    "manca ",
    "prossimo passo",
    "da fare",
    "falta ",
    "zbývá",
    "待办",
    "下一步",
];
const FAILURES: &[&str] = &[
    "root cause",
    "was caused by",
    "the problem was",
    "the issue was",
    "the fix",
    "fixed by",
    "fixed the",
    "workaround",
    "failed because",
    "fails because",
    "причина",
    "исправ",
    "la causa",
    "risolto",
    "corregid",
    "原因",
];

fn has_one_of(text: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| text.contains(sign))
}

pub(super) fn of(point: &Point) -> Matter {
    let lower = point.text.to_lowercase();
    if point.role == Role::Tool {
        return if lower.starts_with(PROMPT) { Matter::Command } else { Matter::Other };
    }
    if is_decision(point) {
        Matter::Decision
    } else if lower.ends_with('?') {
        Matter::Other
    } else if point.role == Role::User && has_one_of(&lower, CONSTRAINTS) {
        Matter::Constraint
    } else if has_one_of(&lower, FAILURES) {
        Matter::Failure
    } else if has_one_of(&lower, OPEN) {
        Matter::Open
    } else {
        Matter::Other
    }
}

/// What each name, number, path or piece of code of a sentence adds, and how many of them do.
const SPECIFIC: f64 = 0.5;
const MOST_SPECIFIC: usize = 6;

/// How much a sentence tells that cannot be guessed: names, numbers, paths, versions, code.
pub(super) fn specifics(sentence: &str) -> f64 {
    let is_specific = |word: &&str| {
        let inner = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
        let mut before = ' ';
        let is_joined = inner.chars().any(|char| {
            let is_hump = before.is_lowercase() && char.is_uppercase();
            before = char;
            is_hump || char.is_ascii_digit() || matches!(char, '_' | '/' | '=' | '.')
        });
        is_joined || inner.starts_with('`')
    };
    let count = sentence.split_whitespace().filter(is_specific).take(MOST_SPECIFIC).count();
    #[expect(clippy::cast_precision_loss, reason = "a few words")]
    let count = count as f64;
    SPECIFIC * count
}

/// How much of a sentence's weight counts: little where an agent says what it is about to do, or where a log is pasted.
pub(super) fn telling(sentence: &str) -> f64 {
    if is_of_a_log(sentence) {
        0.2
    } else if passage::announces(sentence) {
        0.3
    } else {
        1.0
    }
}

/// A line with a time before it, a level of a log, a place in a program, or the number that a listing gave it.
fn is_of_a_log(sentence: &str) -> bool {
    let bytes = sentence.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let has_time = is_digit(0) && is_digit(1) && bytes.get(2) == Some(&b':') && is_digit(3);
    let numbered = sentence.trim_start_matches(|c: char| c.is_ascii_digit());
    let levels = [" DEBUG ", " INFO ", "INFO:", " WARN ", " TRACE "];
    has_time
        || numbered.len() < sentence.len() && numbered.starts_with('→')
        || sentence.starts_with("File \"")
        || sentence.starts_with("at ") && sentence.contains(':')
        || levels.iter().any(|level| sentence.contains(level))
}

/// Programs that only look, or prepare: nobody has to know later that they were run.
const LOOKING: &[&str] = &[
    "ls",
    "cat",
    "cd",
    "mkdir",
    "find",
    "grep",
    "rg",
    "echo",
    "pwd",
    "head",
    "tail",
    "wc",
    "which",
    "sed",
    "tree",
    "sleep",
    "git status",
    "git diff",
    "git log",
    "git rev-parse",
    "git add",
    "git show",
    "git branch",
];

/// The command that a tool ran, if it did not fail.
pub(super) fn command(message: &Message) -> Option<String> {
    if message.role != Role::Tool || outcome::of(message) == Some(Outcome::Failed) {
        return None;
    }
    let line = message.body.head().lines().next()?.trim();
    let command = match line.strip_prefix("Bash(") {
        Some(rest) => rest.trim_end_matches('…').strip_suffix(')').unwrap_or(rest),
        None => ["$ ", "execute: ", "Bash: "].iter().find_map(|start| line.strip_prefix(start))?,
    };
    let command = command.trim_matches(['`', ' ']);
    let is_it = |known: &&str| {
        command.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    if LOOKING.iter().any(is_it) {
        return None;
    }
    let is_short = (4..LONGEST_COMMAND).contains(&command.len());
    is_short.then(|| format!("{PROMPT}{command}"))
}
