//! Watches a turn: writes its log, and ends it if it breaks a limit.

use std::collections::{BTreeMap, BTreeSet};

use rethread_domain::opening::Opening;
use rethread_domain::quote::cut_line;
use rethread_domain::turn::{Permission, Tool, Update};
use rethread_engine::Clock;
use rethread_redact::Redactor;
use tokio_util::sync::CancellationToken;

use crate::restrict::Restriction;
use crate::streams::Log;

/// How much of a tool's output is logged.
const OUTPUT_BYTES: usize = 2_000;
/// The longest progress text.
const SHOWN: usize = 120;

/// Why a turn was ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A forbidden tool was used.
    Forbidden(String),
    /// The agent needed more turns than allowed.
    TooManyTurns(u32),
}

/// A tool call, as far as it is known.
#[derive(Debug, Default)]
struct Call {
    title: String,
    kind: String,
    output: String,
    is_over: bool,
}

pub(crate) struct Watch {
    pub(crate) restriction: Restriction,
    pub(crate) max_turns: Option<u32>,
    clock: Clock,
    redactor: Redactor,
    log: Option<Log>,
    /// Cancels the turn.
    cancel: CancellationToken,
    calls: BTreeMap<String, Call>,
    /// Calls that were refused permission: they are expected to fail.
    refused: BTreeSet<String>,
    /// What was said since the last line of the log.
    text: String,
    /// How often the agent has continued with the results of tools.
    turns: u32,
    has_results: bool,
    stop: Option<Stop>,
    /// The current activity, in a few words.
    pub(crate) now: String,
}

impl Watch {
    pub(crate) fn new(
        restriction: Restriction,
        max_turns: Option<u32>,
        (clock, redactor): (Clock, Redactor),
        log: Option<Log>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            restriction,
            max_turns,
            clock,
            redactor,
            log,
            cancel,
            calls: BTreeMap::new(),
            refused: BTreeSet::new(),
            text: String::new(),
            turns: 1,
            has_results: false,
            stop: None,
            now: String::new(),
        }
    }

    pub(crate) fn note(&mut self, what: &str, text: &str) {
        let at = self.clock.now();
        if let Some(log) = &mut self.log {
            log.line(at, what, &self.redactor.redact(text).text);
        }
    }

    pub(crate) fn opened(&mut self, opening: &Opening) {
        let told = opening.describe();
        self.note("OPENED", &told);
        self.now = told;
    }

    pub(crate) fn take(&mut self, update: &Update) {
        match update {
            Update::Text { text } => {
                self.goes_on();
                self.text.push_str(text);
                // Only the length: half of a secret would not be recognised.
                self.now = format!("answering, {} bytes so far", self.text.len());
            }
            Update::Thought { .. } => {
                self.goes_on();
                "thinking".clone_into(&mut self.now);
            }
            Update::Tool(tool) => self.called(tool),
            Update::Permission(asked) => self.asked(asked),
            _ => (),
        }
    }

    /// The agent speaks or acts: after results of tools, that counts as a further turn.
    fn goes_on(&mut self) {
        if !std::mem::take(&mut self.has_results) {
            return;
        }
        self.turns += 1;
        if let Some(most) = self.max_turns.filter(|most| self.turns > *most) {
            self.end(Stop::TooManyTurns(most));
        }
    }

    fn called(&mut self, tool: &Tool) {
        self.said();
        if !self.calls.contains_key(&tool.id) {
            self.goes_on();
        }
        let call = self.calls.entry(tool.id.clone()).or_default();
        call.title = tool.title.clone().unwrap_or_else(|| std::mem::take(&mut call.title));
        call.kind = tool.kind.clone().unwrap_or_else(|| std::mem::take(&mut call.kind));
        call.output = tool.output.clone().unwrap_or_else(|| std::mem::take(&mut call.output));
        let status = tool.status.as_deref().unwrap_or_default();
        let is_over = matches!(status, "completed" | "failed");
        let ends_now = is_over && !call.is_over;
        call.is_over |= is_over;
        let kind = if call.kind.is_empty() { "other" } else { call.kind.as_str() };
        let about = format!("{kind}: {}", self.redactor.redact(&call.title).text);
        let is_done = matches!(status, "completed" | "in_progress");
        let is_forbidden = self.restriction.forbids(kind, &call.title);
        let output = if ends_now { self.redactor.redact(&call.output).text } else { "".into() };
        let output = output[..output.floor_char_boundary(OUTPUT_BYTES)].to_owned();
        self.now = cut_line(&about, SHOWN);
        if ends_now {
            self.has_results = true;
            self.note("TOOL", &format!("{about} ({status})\n{output}"));
        }
        if is_done && is_forbidden && !self.refused.contains(&tool.id) {
            self.end(Stop::Forbidden(about));
        }
    }

    fn asked(&mut self, asked: &Permission) {
        self.said();
        let Permission { kind, title, answer, by, .. } = asked;
        self.note("PERMISSION", &format!("{kind}: {title}: {answer} (by {by})"));
        if !answer.starts_with("allow") {
            self.refused.insert(asked.tool.clone());
        }
    }

    /// Logs what was said since the last line.
    fn said(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.note("MESSAGE", &text);
        }
    }

    fn end(&mut self, why: Stop) {
        if self.stop.is_some() {
            return;
        }
        let text = match &why {
            Stop::Forbidden(tool) => {
                format!("{tool} is forbidden, but was seen: the turn is cancelled")
            }
            Stop::TooManyTurns(most) => format!("more than {most} turns: the turn is cancelled"),
        };
        self.note("CANCELLED", &text);
        self.cancel.cancel();
        self.stop = Some(why);
    }

    /// Logs the remaining text; returns why the turn was ended, if it was.
    pub(crate) fn finish(&mut self) -> Option<Stop> {
        self.said();
        self.stop.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str, status: &str) -> Update {
        Update::Tool(Tool {
            id: id.into(),
            title: Some("cargo test".into()),
            kind: Some("execute".into()),
            status: Some(status.into()),
            ..Tool::default()
        })
    }

    fn text() -> Update {
        Update::Text { text: "x".into() }
    }

    fn check(max_turns: Option<u32>, updates: &[Update], expected: Option<Stop>) {
        let forbidden = if max_turns.is_none() { vec!["execute".to_owned()] } else { Vec::new() };
        let restriction = Restriction::parse(&[], &forbidden).unwrap();
        let (means, cancel) = ((Clock::Wall, Redactor::new([])), CancellationToken::new());
        let mut watch = Watch::new(restriction, max_turns, means, None, cancel.clone());
        for update in updates {
            watch.take(update);
        }
        assert_eq!(cancel.is_cancelled(), expected.is_some());
        assert_eq!(watch.finish(), expected);
    }

    #[test]
    fn a_forbidden_call_ends_the_turn_unless_it_was_refused() {
        let seen = Stop::Forbidden("execute: cargo test".into());
        check(None, &[text(), tool("1", "pending")], None);
        check(None, &[tool("1", "pending"), tool("1", "completed")], Some(seen.clone()));
        check(None, &[tool("1", "in_progress"), tool("1", "completed")], Some(seen));
        let refused = Update::Permission(Permission {
            tool: "1".into(),
            title: "cargo test".into(),
            kind: "execute".into(),
            answer: "reject_once".into(),
            by: "policy".into(),
        });
        check(None, &[tool("1", "pending"), refused, tool("1", "failed"), text()], None);
    }

    #[test]
    fn nobody_who_watches_sees_secrets() {
        let token = concat!("ghp_16C7e42F292c6912", "E7710c838347Ae178B4a");
        let means = (Clock::Wall, Redactor::new([]));
        let cancel = CancellationToken::new();
        let mut watch = Watch::new(Restriction::default(), None, means, None, cancel);
        let mut see = |update: &Update| {
            watch.take(update);
            assert!(!watch.now.is_empty() && !watch.now.contains("ghp_16C7"), "{}", watch.now);
        };
        for piece in [&token[..20], &token[20..], "\nand then"] {
            see(&Update::Text { text: piece.into() });
        }
        for title in [token.to_owned(), format!("{}{token}", "a ".repeat(45))] {
            see(&Update::Tool(Tool { id: "1".into(), title: Some(title), ..Tool::default() }));
        }
    }

    #[test]
    fn a_turn_more_begins_with_what_comes_after_results() {
        let round = |id| [tool(id, "pending"), tool(id, "completed")];
        check(Some(1), &[text(), text()], None);
        check(Some(1), &round("1"), None);
        let two = [round("1").to_vec(), vec![text()]].concat();
        check(Some(1), &two, Some(Stop::TooManyTurns(1)));
        check(Some(2), &two, None);
        let three = [two, round("2").to_vec(), round("3").to_vec()].concat();
        check(Some(2), &three, Some(Stop::TooManyTurns(2)));
        check(Some(3), &three, None);
    }
}
