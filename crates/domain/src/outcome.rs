//! Whether what a tool did worked, as far as its record tells.

use crate::message::{Message, Role};

/// How a tool's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Worked,
    Failed,
}

/// How many bytes of the beginning and of the end of what a tool printed are looked at.
const HEAD: usize = 400;
const TAIL: usize = 300;

/// What a tool prints, or its agent notes, where it failed.
const FAILURES: &[&str] = &[
    "(failed)",
    "<tool_use_error>",
    "command failed",
    "command not found",
    "traceback (most recent call last)",
    "npm err!",
    "is not recognized as an internal or external command",
];

/// Beginnings of lines that tell of a failure.
const FAILED_LINES: &[&str] = &["error:", "error[", "fatal:", "fatal error", "panic:"];

/// What stands before an exit status.
const EXITS: &[&str] = &["exit code", "exit status", "exited with code", "exit_code", "exitcode"];

/// How a message's tool ended; `None` where nobody knows, or nothing was run.
pub fn of(message: &Message) -> Option<Outcome> {
    let is_tool = message.role == Role::Tool && message.purged_at.is_none();
    is_tool.then(|| of_text(message.body.head(), message.body.tail())).flatten()
}

/// How a tool ended of whose text this is the beginning and the end.
pub fn of_text(head: &str, tail: &str) -> Option<Outcome> {
    let head = &head[..head.floor_char_boundary(HEAD)];
    let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL))..];
    let text = [head, "\n", tail].concat().to_ascii_lowercase();
    let mut found = None;
    for line in text.lines().map(str::trim_start) {
        match exit_status(line) {
            Some(true) => found = Some(Outcome::Worked),
            Some(false) => return Some(Outcome::Failed),
            None => (),
        }
        let is_failure = FAILURES.iter().any(|sign| line.contains(sign))
            || FAILED_LINES.iter().any(|start| line.starts_with(start));
        if is_failure && found.is_none() {
            return Some(Outcome::Failed);
        }
    }
    found
}

/// Whether the exit status that a line tells of is 0.
fn exit_status(line: &str) -> Option<bool> {
    let after = EXITS.iter().find_map(|sign| line.split_once(sign))?.1;
    let number = after.trim_start_matches([':', '=', ' ', '"', '\'', '(']);
    let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (digits > 0).then(|| number[..digits].bytes().all(|digit| digit == b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_one(text: &str) -> Option<Outcome> {
        of_text(text, "")
    }

    #[test]
    fn an_exit_status_tells_how_it_ended() {
        for text in ["Exit code 1\nls: no such file", "Process exited with code 127", "exit_code=2"]
        {
            assert_eq!(of_one(text), Some(Outcome::Failed), "{text}");
        }
        for text in ["$ make\nexit status: 0", "{\"exit_code\": 0, \"output\": \"12 passed\"}"] {
            assert_eq!(of_one(text), Some(Outcome::Worked), "{text}");
        }
    }

    #[test]
    fn what_tools_print_when_they_fail_is_known() {
        for text in [
            "execute: make (failed)",
            "$ foo\n\nsh: foo: command not found",
            "Read x\n\n<tool_use_error>File does not exist.</tool_use_error>",
            "$ cargo check\n\nerror[E0308]: mismatched types",
            "$ git push\nfatal: not a git repository",
        ] {
            assert_eq!(of_one(text), Some(Outcome::Failed), "{text}");
        }
    }

    #[test]
    fn what_tells_nothing_is_not_guessed() {
        for text in [
            "$ ls\nsrc",
            "Read errors.md\nHow errors are handled: an error is shown.",
            "the exit code of the program is documented below",
            "",
        ] {
            assert_eq!(of_one(text), None, "{text}");
        }
    }
}
