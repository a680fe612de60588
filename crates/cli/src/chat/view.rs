//! What a person sees of a turn: the answer on standard output as it comes, all else on standard error.

use std::collections::{BTreeMap, BTreeSet};

use rethread_domain::opening::Opening;
use rethread_domain::quote::{cut_line, safe};
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::Progress;

use crate::output;

/// The longest line about a tool.
const TOOL_CHARS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct View {
    /// Programs get the whole answer at the end instead.
    pub(crate) is_quiet: bool,
    /// Whether the answer is in the middle of a line.
    is_open: bool,
    /// The tool calls that were shown, with their titles.
    shown: BTreeMap<String, String>,
    failed: BTreeSet<String>,
}

impl View {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, ..Self::default() }
    }

    pub(crate) fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Opened(opening) => self.opened(opening),
            Progress::Elsewhere => self.note("another process has it open and sends it"),
            Progress::Update(update) => self.update(update),
        }
    }

    pub(crate) fn opened(&mut self, opening: &Opening) {
        self.note(&opening.told());
    }

    /// A line of ours, dim on a terminal.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.is_quiet {
            self.end_line();
            output::note(format_args!("{}", output::dim(&format!("[{}]", safe(text)))));
        }
    }

    pub(crate) fn update(&mut self, update: &Update) {
        if self.is_quiet {
            return;
        }
        match update {
            Update::Text { text } if !text.is_empty() => {
                let text = safe(text);
                output::data(&text);
                self.is_open = !text.ends_with('\n');
            }
            Update::Tool(tool) => self.tool(tool),
            Update::Permission(asked) if asked.by != "user" => {
                let title = cut_line(&asked.title, 60);
                self.note(&format!("{title}: {} ({})", asked.answer, asked.by));
            }
            _ => (),
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

    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.is_open) {
            output::data("\n");
        }
    }
}
