//! What an agent does with tools, as a person sees it: what was really done, how it went, and the head of what came out.

use std::collections::VecDeque;

use anstyle::{AnsiColor, Style};
use rethread_domain::consent::{self, Intent, Request};
use rethread_domain::turn::Tool;
use serde_json::Value;

use crate::terminal::markdown::{Piece, changed_line};
use crate::terminal::styled::{BOLD, DIM, Line, colour};

/// So many lines of output are shown; of a change to a file, so many.
const HEAD: usize = 5;
const CHANGE: usize = 60;
/// So many lines of a command.
const COMMAND: usize = 12;
/// So much is shown when it is opened.
const OPENED: usize = 5_000;
/// So many folded outputs can be opened.
const KEPT: usize = 50;

/// The calls of a conversation.
#[derive(Debug, Default)]
pub(super) struct Tools {
    project: String,
    /// Those that run, and those of this turn that have ended.
    calls: Vec<Call>,
    /// What was folded, the newest last.
    folded: VecDeque<(String, Vec<Piece>)>,
}

#[derive(Debug)]
struct Call {
    tool: Tool,
    is_shown: bool,
    shown_output: bool,
}

/// What is to be shown of an update.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// It runs.
    Running(Line),
    /// It has ended.
    Ended(Vec<Piece>),
    Nothing,
}

impl Tools {
    pub(super) fn of(project: &str) -> Self {
        Self { project: project.to_owned(), ..Self::default() }
    }

    pub(super) fn take(&mut self, update: &Tool) -> Shown {
        let place = self.calls.iter().position(|call| call.tool.id == update.id);
        let place = place.unwrap_or_else(|| {
            let tool = Tool { id: update.id.clone(), ..Tool::default() };
            self.calls.push(Call { tool, is_shown: false, shown_output: false });
            self.calls.len() - 1
        });
        let call = &mut self.calls[place];
        call.tool.take(update.clone());
        let is_over = matches!(call.tool.status.as_deref(), Some("completed" | "failed"));
        if !is_over && !call.is_shown {
            return Shown::Running(headline(&call.tool, &self.project, State::Running));
        }
        self.shown(place)
    }

    /// The turn is over: what has not ended is shown as it is.
    pub(super) fn end(&mut self) -> Vec<(String, Vec<Piece>)> {
        let mut left = Vec::new();
        for place in 0..self.calls.len() {
            if !self.calls[place].is_shown
                && let Shown::Ended(pieces) = self.shown(place)
            {
                left.push((self.calls[place].tool.id.clone(), pieces));
            }
        }
        self.calls.clear();
        left
    }

    fn shown(&mut self, place: usize) -> Shown {
        let call = &mut self.calls[place];
        let output = call.tool.output.as_deref().map(str::trim_end).filter(|text| !text.is_empty());
        let is_news = output.is_some() && !call.shown_output;
        if call.is_shown && !is_news {
            return Shown::Nothing;
        }
        let state = match call.tool.status.as_deref() {
            Some("completed") => State::Done,
            Some("failed") => State::Failed,
            _ => State::Open,
        };
        let intent = intent(&call.tool, &self.project);
        let head = headline(&call.tool, &self.project, state);
        let mut pieces = vec![Piece::Line(head.clone(), 4)];
        let command = intent.headline();
        let more: Vec<Piece> = command.lines().skip(1).map(|line| inside(line, DIM)).collect();
        let mut whole = more.clone();
        let mut is_folded = more.len() > COMMAND;
        pieces.extend(folded(more, COMMAND));
        if let Some(output) = output {
            let is_change = is_change(&intent, output);
            let line = |line: &str| {
                let style = if is_change { None } else { Some(DIM) };
                style.map_or_else(|| changed(line), |style| inside(line, style))
            };
            let most = if is_change { CHANGE } else { HEAD };
            let count = output.lines().count();
            is_folded |= count > most;
            whole.extend(output.lines().take(OPENED).map(line));
            if count > OPENED {
                whole.push(inside(&format!("… and {} lines more", count - OPENED), DIM));
            }
            let shown: Vec<Piece> = output.lines().take(most).map(line).collect();
            pieces.extend(shown);
            if count > most {
                pieces.push(fold(count - most));
            }
            call.shown_output = true;
        }
        call.is_shown = true;
        if is_folded {
            self.folded.push_back((head.bare(), whole));
            while self.folded.len() > KEPT {
                self.folded.pop_front();
            }
        }
        Shown::Ended(pieces)
    }

    /// The newest of what was folded, which has not been opened.
    pub(super) fn open(&mut self) -> Option<Vec<Piece>> {
        let (head, mut whole) = self.folded.pop_back()?;
        whole.insert(0, Piece::Line(Line::new(&format!("{head}, all of it:"), BOLD), 4));
        Some(whole)
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    Running,
    Done,
    Failed,
    /// The turn ended before it did.
    Open,
}

/// What the call will do, by its arguments.
fn intent(tool: &Tool, project: &str) -> Intent {
    let text = |value: &Value| value["path"].as_str().map(str::to_owned);
    let places = tool.raw.get("locations").and_then(Value::as_array);
    let places: Vec<String> = places.into_iter().flatten().filter_map(text).collect();
    consent::read(&Request {
        kind: tool.kind.as_deref().unwrap_or_default(),
        title: tool.title.as_deref().unwrap_or_default(),
        input: tool.raw.get("rawInput").unwrap_or(&Value::Null),
        places: &places,
        changes: &[],
        roots: &[project],
    })
}

/// One line: what is done, and how that is going.
fn headline(tool: &Tool, project: &str, state: State) -> Line {
    let intent = intent(tool, project);
    let (mark, style) = match state {
        State::Running => ("○", colour(AnsiColor::Cyan)),
        State::Done => ("●", colour(AnsiColor::Green)),
        State::Failed => ("●", colour(AnsiColor::Red)),
        State::Open => ("○", colour(AnsiColor::Yellow)),
    };
    let (what, title) = (intent.headline(), tool.title.as_deref().unwrap_or_default());
    let what = what.lines().next().unwrap_or_default();
    let mut line = Line::new(mark, style).and(&format!(" {}", verb(&intent.kind)), Style::new());
    let what = if what.trim().is_empty() { tool.id.as_str() } else { what };
    line = line.and(&format!(" {what}"), BOLD);
    let says_more = intent.own_words().is_some() && !title.contains(what) && intent.is_pinned();
    if says_more {
        line = line.and(&format!("  {title}"), DIM);
    }
    match state {
        State::Failed => line.and("  failed", colour(AnsiColor::Red)),
        State::Open => line.and("  did not end", DIM),
        State::Running | State::Done => line,
    }
}

fn verb(kind: &str) -> &str {
    match kind {
        "execute" => "run",
        "other" | "" => "tool",
        kind => kind,
    }
}

/// Whether an output tells of a change to a file.
fn is_change(intent: &Intent, output: &str) -> bool {
    let begins = output.starts_with("edited ") || output.starts_with("wrote ");
    begins && intent.command.is_none()
}

fn inside(line: &str, style: Style) -> Piece {
    Piece::Line(Line::plain("    ").and(line, style), 4)
}

/// A line of a change to a file.
pub(super) fn changed(line: &str) -> Piece {
    let shown = changed_line(line);
    Piece::Line(Line([Line::plain("    ").0, shown.0].concat()), 4)
}

fn folded(mut lines: Vec<Piece>, most: usize) -> Vec<Piece> {
    let more = lines.len().saturating_sub(most);
    if more > 0 {
        lines.truncate(most);
        lines.push(fold(more));
    }
    lines
}

fn fold(more: usize) -> Piece {
    let lines = rethread_domain::wording::counted(more, "more line");
    inside(&format!("… {lines} (Ctrl-O opens)"), DIM)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(fields: Value) -> Tool {
        serde_json::from_value(fields).unwrap()
    }

    fn bare(pieces: &[Piece]) -> Vec<String> {
        let lines = pieces.iter().flat_map(|piece| piece.lines(78, true));
        lines.map(|line| line.bare()).collect()
    }

    fn ended(tools: &mut Tools, fields: Value) -> Vec<String> {
        match tools.take(&tool(fields)) {
            Shown::Ended(pieces) => bare(&pieces),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_is_shown_as_what_it_does_when_it_has_ended() {
        let mut tools = Tools::of("/shop");
        let begun = json!({ "id": "1", "title": "Terminal", "kind": "execute" });
        assert!(
            matches!(tools.take(&tool(begun)), Shown::Running(line) if line.bare() == "○ run Terminal")
        );
        // What it really is comes later.
        let later = json!({ "id": "1", "title": "Look around", "raw": { "rawInput": { "command": "ls -la" } } });
        assert!(
            matches!(tools.take(&tool(later)), Shown::Running(line) if line.bare() == "○ run ls -la  Look around")
        );
        let output = (1..=9).map(|n| format!("file {n}\u{1b}[2J")).collect::<Vec<_>>().join("\n");
        let shown =
            ended(&mut tools, json!({ "id": "1", "status": "completed", "output": output }));
        assert_eq!(shown[0], "● run ls -la  Look around");
        assert_eq!(shown[1], "    file 1␛1b;[2J");
        assert_eq!(shown[5..], ["    file 5␛1b;[2J", "    … 4 more lines (Ctrl-O opens)"]);
        let opened = bare(&tools.open().unwrap());
        assert_eq!((opened.len(), opened[9].as_str()), (10, "    file 9␛1b;[2J"));
        assert_eq!(tools.open(), None);
    }

    #[test]
    fn nothing_is_invisible() {
        let mut tools = Tools::of("/shop");
        // Without a title, without a kind, without an end.
        let untitled = json!({ "id": "call-7", "raw": { "rawInput": { "command": "rm -rf x" } } });
        assert!(
            matches!(tools.take(&tool(untitled)), Shown::Running(line) if line.bare() == "○ run rm -rf x")
        );
        assert!(
            matches!(tools.take(&tool(json!({ "id": "x9" }))), Shown::Running(line) if line.bare() == "○ tool x9")
        );
        let left: Vec<_> = tools.end().iter().flat_map(|(_, pieces)| bare(pieces)).collect();
        assert_eq!(left, ["○ run rm -rf x  did not end", "○ tool x9  did not end"]);
        assert_eq!(tools.end(), []);
        // Output that comes after the end.
        assert_eq!(
            ended(
                &mut tools,
                json!({ "id": "2", "kind": "fetch", "title": "t", "status": "failed" })
            ),
            ["● fetch t  failed"]
        );
        assert_eq!(
            ended(&mut tools, json!({ "id": "2", "output": "late" })),
            ["● fetch t  failed", "    late"]
        );
        assert_eq!(tools.take(&tool(json!({ "id": "2", "status": "failed" }))), Shown::Nothing);
    }

    #[test]
    fn a_long_command_is_shown_with_what_follows_its_first_line() {
        let mut tools = Tools::of("/shop");
        let command = (1..=20).map(|n| format!("step {n}")).collect::<Vec<_>>().join("\n");
        let call = json!({ "id": "1", "kind": "execute", "status": "completed", "raw": { "rawInput": { "command": command } } });
        let shown = ended(&mut tools, call);
        assert_eq!(shown.len(), 14);
        assert_eq!((shown[0].as_str(), shown[12].as_str()), ("● run step 1", "    step 13"));
        assert_eq!(bare(&tools.open().unwrap()).last().unwrap(), "    step 20");
    }

    #[test]
    fn a_change_has_colours() {
        let mut tools = Tools::of("/shop");
        let call = json!({ "id": "1", "kind": "edit", "title": "Edit a.rs", "status": "completed",
            "output": "edited /shop/a.rs\n-old\n+new", "raw": { "locations": [{ "path": "/shop/a.rs" }] } });
        let Shown::Ended(pieces) = tools.take(&tool(call)) else { panic!() };
        assert_eq!(bare(&pieces), ["● edit a.rs", "    edited /shop/a.rs", "    -old", "    +new"]);
        let coloured: Vec<String> = pieces
            .iter()
            .flat_map(|piece| piece.lines(78, true))
            .map(|line| line.rendered(true))
            .collect();
        assert!(coloured[2].contains("\u{1b}[31m-old") && coloured[3].contains("\u{1b}[32m+new"));
    }
}
