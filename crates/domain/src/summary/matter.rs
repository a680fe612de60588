//! What a sentence is to somebody who goes on with the work: a decision, a wish of the user, a failure, a command, open work.
//!
//! A summary keeps some of each kind, so that much of one does not leave all of another out.

use super::{Point, is_decision};
use crate::message::{Message, Role};
use crate::outcome::{self, Outcome};

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
    let is_short = (4..LONGEST_COMMAND).contains(&command.len());
    is_short.then(|| format!("{PROMPT}{command}"))
}
