//! What a person sees of a turn: in the window of a conversation, or else the answer on standard output as it comes and all else
//! on standard error.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::Style;
use rethread_domain::opening::Opening;
use rethread_domain::quote::{cut_line, safe};
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::Progress;
use serde_json::Value;

use super::ask;
use super::tools::{Shown, Tools};
use crate::output;
use crate::terminal::markdown::Piece;
use crate::terminal::styled::{DIM, Line};
use crate::terminal::window::{Kind, Status, Window};

/// The longest line about a tool.
const TOOL_CHARS: usize = 100;
/// Of an answer, so much is kept to be copied: no terminal takes more.
const MOST_COPIED: usize = 1 << 20;
/// So many entries of a plan are shown.
const PLAN: usize = 40;

#[derive(Default)]
pub(crate) struct View {
    /// Programs get the whole answer at the end instead.
    pub(crate) is_quiet: bool,
    /// Whether another process sends, which tells nothing before the end.
    is_elsewhere: bool,
    /// Whether the answer is in the middle of a line.
    is_open: bool,
    /// The tool calls that were told of, with their titles.
    told: BTreeMap<String, String>,
    failed: BTreeSet<String>,
    tools: Tools,
    window: Option<Window>,
    /// What came while a question stands on the terminal.
    waiting: Vec<Update>,
    /// The last answer, and the one that comes.
    answer: String,
    /// The mode that the agent changed to by itself.
    mode: Option<String>,
}

impl View {
    pub(crate) fn new(is_quiet: bool, window: Option<&Window>, project: &str) -> Self {
        let tools = Tools::of(project);
        Self { is_quiet, window: window.cloned(), tools, ..Self::default() }
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
        if self.is_quiet {
            return;
        }
        if let Some(window) = &self.window {
            let line = Line::new(&format!("[{text}]"), DIM);
            window.show(Kind::Note, vec![Piece::Line(line, 1)]);
            return;
        }
        self.end_line();
        ask::end_line();
        output::note(format_args!("{}", output::dim(&format!("[{}]", safe(text)))));
    }

    /// A line that was typed, and is taken up now.
    pub(crate) fn typed(&mut self, line: &str) {
        if let Some(window) = self.window.as_ref().filter(|_| !line.trim().is_empty()) {
            window.typed(line);
        }
    }

    pub(crate) fn set_status(&self, change: impl FnOnce(&mut Status)) {
        if let Some(window) = &self.window {
            window.set_status(change);
        }
    }

    /// What goes on; nothing when it is over.
    pub(crate) fn set_busy(&self, doing: Option<&str>) {
        if let Some(window) = &self.window {
            window.set_busy(doing);
        }
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self, agent: &str) {
        self.answer.clear();
        self.set_busy(Some(&format!("{agent} was asked")));
    }

    /// The last answer.
    pub(crate) fn answer(&self) -> &str {
        &self.answer
    }

    /// Shows all of what was folded last.
    pub(crate) fn open(&mut self) {
        let Some(window) = &self.window else { return };
        match self.tools.open() {
            Some(pieces) => window.show(Kind::Tool, pieces),
            None => self.note("nothing is folded"),
        }
    }

    pub(crate) fn update(&mut self, update: &Update) {
        if self.is_quiet {
            return;
        }
        if self.window.is_none() && ask::is_asking() {
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
        if let Update::Text { text } = update
            && self.window.is_some()
            && self.answer.len() < MOST_COPIED
        {
            self.answer.push_str(text);
        }
        self.tell_status(update);
        match update {
            Update::Text { text } if !text.is_empty() => self.text(text),
            Update::Thought { .. } => self.set_busy(Some("thinking")),
            Update::Tool(tool) => self.tool(tool),
            Update::Plan { entries } => self.plan(entries),
            Update::Permission(asked) if asked.by != "user" => {
                let title = cut_line(&asked.title, 60);
                self.note(&format!("{title}: {}", answered(&asked.answer, &asked.by)));
            }
            _ => (),
        }
    }

    /// The mode that the agent changed to by itself, since it was set last.
    pub(crate) fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    pub(crate) fn forget_mode(&mut self) {
        self.mode = None;
    }

    fn tell_status(&mut self, update: &Update) {
        match update {
            Update::Context { used, size, spent_usd } => self.set_status(|status| {
                status.context = Some((*used, *size));
                status.cost_usd = spent_usd.or(status.cost_usd);
            }),
            Update::Usage { input_tokens, output_tokens } => {
                self.set_status(|status| status.tokens = Some((*input_tokens, *output_tokens)));
            }
            Update::Mode { mode } => {
                self.mode = Some(mode.clone());
                self.set_status(|status| status.mode = Some(mode.clone()));
            }
            _ => (),
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(window) = &self.window {
            window.set_busy(Some("answering"));
            window.text(text);
            return;
        }
        let text = safe(text);
        output::data(&text);
        self.is_open = !text.ends_with('\n');
    }

    /// In a window what runs is seen as long as it does, and what came out stays. On another terminal that is shown when it has
    /// ended; where nobody looks on, there is a line when it begins, and another only where it failed.
    fn tool(&mut self, tool: &Tool) {
        if self.window.is_none() && !output::is_error_terminal() {
            self.tell_tool(tool);
            return;
        }
        let shown = self.tools.take(tool);
        match shown {
            Shown::Running(line) => match &self.window {
                Some(window) => {
                    window.set_busy(Some("using a tool"));
                    window.run(&tool.id, Some(line));
                }
                None if self.told.contains_key(&tool.id) => (),
                None => {
                    self.told.insert(tool.id.clone(), String::new());
                    self.print(&[Piece::Line(line, 4)]);
                }
            },
            Shown::Ended(pieces) => self.ended(&tool.id, pieces),
            Shown::Nothing => (),
        }
    }

    fn ended(&mut self, id: &str, pieces: Vec<Piece>) {
        match &self.window {
            Some(window) => {
                window.run(id, None);
                window.show(Kind::Tool, pieces);
                window.set_busy(Some("thinking"));
            }
            None => self.print(&pieces),
        }
    }

    fn print(&mut self, pieces: &[Piece]) {
        self.end_line();
        ask::end_line();
        let columns = output::columns().unwrap_or(TOOL_CHARS).saturating_sub(1);
        let lines = pieces.iter().flat_map(|piece| piece.lines(columns, output::is_coloured()));
        output::note_lines(&lines.collect::<Vec<_>>());
    }

    fn tell_tool(&mut self, tool: &Tool) {
        let is_over = matches!(tool.status.as_deref(), Some("completed" | "failed"));
        let title = tool.title.as_deref().or(is_over.then_some(tool.id.as_str()));
        if let Some(title) = title.filter(|_| !self.told.contains_key(&tool.id)) {
            let title = cut_line(title, TOOL_CHARS);
            let kind = tool.kind.as_deref().filter(|kind| *kind != "other").unwrap_or("tool");
            self.note(&format!("{}: {title}", cut_line(kind, 20)));
            self.told.insert(tool.id.clone(), title);
        }
        if tool.status.as_deref() == Some("failed") && self.failed.insert(tool.id.clone()) {
            let title = self.told.get(&tool.id).unwrap_or(&tool.id);
            let title = cut_line(title, TOOL_CHARS);
            self.note(&format!("failed: {title}"));
        }
    }

    /// What the agent means to do.
    fn plan(&mut self, entries: &Value) {
        let Some(window) = &self.window else { return };
        let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = entries.iter().take(PLAN).map(|entry| {
            let (mark, style) = match entry["status"].as_str() {
                Some("completed") => ("☑", DIM),
                Some("in_progress") => ("▸", crate::terminal::styled::BOLD),
                _ => ("☐", Style::new()),
            };
            let text = entry["content"].as_str().unwrap_or_default();
            Piece::Line(Line::new(&format!("  {mark} {text}"), style), 4)
        });
        let heading = Piece::Line(Line::new("plan", DIM), 0);
        window.show(Kind::Plan, std::iter::once(heading).chain(lines).collect());
    }

    /// Shows the whole of an answer of which nothing was shown yet.
    pub(crate) fn answered(&mut self, answer: &str) {
        if self.is_elsewhere {
            self.update(&Update::Text { text: answer.to_owned() });
        }
    }

    /// The turn is over.
    pub(crate) fn end_turn(&mut self) {
        self.end_line();
        for (id, pieces) in self.tools.end() {
            self.ended(&id, pieces);
        }
        self.set_busy(None);
    }

    pub(crate) fn end_line(&mut self) {
        if let Some(window) = &self.window {
            window.end_text();
            return;
        }
        if !ask::is_asking() {
            self.show_waiting();
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
