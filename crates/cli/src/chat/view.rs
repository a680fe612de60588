//! What a person sees of a turn: the answer on standard output as it comes, all else on standard error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use rethread_domain::opening::Opening;
use rethread_domain::quote::{cut_line, safe};
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::Progress;

use super::ask;
use crate::output;
use crate::terminal::editor::Handle;

/// The longest line about a tool.
const TOOL_CHARS: usize = 100;

#[derive(Default)]
pub(crate) struct View {
    /// Programs get the whole answer at the end instead.
    pub(crate) is_quiet: bool,
    /// Whether another process sends, which tells nothing before the end.
    is_elsewhere: bool,
    /// Whether the answer is in the middle of a line.
    is_open: bool,
    /// The tool calls that were shown, with their titles.
    shown: BTreeMap<String, String>,
    failed: BTreeSet<String>,
    /// Where a line is being typed: all goes above it, in whole lines.
    above: Option<Handle>,
    /// What is no whole line yet.
    line: String,
    /// What came while a question stands on the terminal.
    waiting: Vec<Update>,
}

impl View {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, ..Self::default() }
    }

    /// From here on, somebody types a line, or nobody does.
    pub(crate) fn set_above(&mut self, typing: Option<Handle>) {
        self.end_line();
        self.above = typing.filter(Handle::is_drawn);
    }

    pub(crate) fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Opened(opening) => {
                self.is_elsewhere = false;
                self.opened(opening);
            }
            Progress::Elsewhere => {
                self.is_elsewhere = true;
                self.note("another process has it open and sends it");
            }
            Progress::Waiting | Progress::Recorded(_) => (),
            Progress::Update(update) => self.update(update),
        }
    }

    pub(crate) fn opened(&mut self, opening: &Opening) {
        self.note(&opening.describe());
    }

    /// A line of ours, dim on a terminal.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.is_quiet {
            self.end_line();
            ask::end_line();
            let text = output::dim(&format!("[{}]", safe(text)));
            match &self.above {
                Some(above) if std::io::stderr().is_terminal() => above.print_above(text + "\n"),
                _ => output::note(format_args!("{text}")),
            }
        }
    }

    pub(crate) fn update(&mut self, update: &Update) {
        if self.is_quiet {
            return;
        }
        if ask::is_asking() {
            // It would stand where the answer is typed.
            self.waiting.push(update.clone());
            return;
        }
        self.show_waiting();
        self.show(update);
    }

    fn show_waiting(&mut self) {
        for update in std::mem::take(&mut self.waiting) {
            self.show(&update);
        }
    }

    fn show(&mut self, update: &Update) {
        match update {
            Update::Text { text } if !text.is_empty() => self.text(&safe(text)),
            Update::Tool(tool) => self.tool(tool),
            Update::Permission(asked) if asked.by != "user" => {
                let title = cut_line(&asked.title, 60);
                self.note(&format!("{title}: {}", answered(&asked.answer, &asked.by)));
            }
            _ => (),
        }
    }

    fn text(&mut self, text: &str) {
        let Some(above) = &self.above else {
            output::data(text);
            self.is_open = !text.ends_with('\n');
            return;
        };
        self.line.push_str(text);
        if let Some(end) = self.line.rfind('\n') {
            let rest = self.line.split_off(end + 1);
            above.print_above(std::mem::replace(&mut self.line, rest));
        }
    }

    /// One line for each call, when it begins; another only where it failed.
    fn tool(&mut self, tool: &Tool) {
        if let Some(title) = tool.title.as_deref().filter(|_| !self.shown.contains_key(&tool.id)) {
            let title = cut_line(title, TOOL_CHARS);
            let kind = tool.kind.as_deref().filter(|kind| *kind != "other").unwrap_or("tool");
            self.note(&format!("{}: {title}", cut_line(kind, 20)));
            self.shown.insert(tool.id.clone(), title);
        }
        if tool.status.as_deref() == Some("failed") && self.failed.insert(tool.id.clone()) {
            let title = self.shown.get(&tool.id).unwrap_or(&tool.id);
            let title = cut_line(title, TOOL_CHARS);
            self.note(&format!("failed: {title}"));
        }
    }

    /// Shows the whole of an answer of which nothing was shown yet.
    pub(crate) fn answered(&mut self, answer: &str) {
        if self.is_elsewhere {
            self.update(&Update::Text { text: answer.to_owned() });
        }
    }

    pub(crate) fn end_line(&mut self) {
        if !ask::is_asking() {
            self.show_waiting();
        }
        if let Some(above) = self.above.as_ref().filter(|_| !self.line.is_empty()) {
            above.print_above(std::mem::take(&mut self.line) + "\n");
        }
        if std::mem::take(&mut self.is_open) {
            output::data("\n");
        }
    }
}

/// How a question was answered without the person, and why so.
fn answered(answer: &str, by: &str) -> String {
    let what = match answer {
        "allow_once" | "allow_always" => "allowed",
        "reject_once" | "reject_always" => "refused",
        other => other,
    };
    match by {
        "nobody" => format!("{what}: nobody could be asked; `--permissions allow` allows it"),
        "guarded" => {
            format!("{what}: this file needs an answer of its own, and nobody could be asked")
        }
        "grant" => format!("{what}, as you answered before"),
        "policy" => format!("{what} by the permission rules"),
        by => format!("{what} ({by})"),
    }
}
