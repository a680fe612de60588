//! What a person sees while a workflow runs: lines, and on a terminal a bar below them.

use std::io::{IsTerminal, Write};

use rethread_domain::quote::one_line;
use rethread_domain::turn::Update;
use rethread_engine::workflows::Report;
use rethread_workflow::{Event, Outcome, Workflow};

use super::render;
use crate::output;

const BAR: usize = 20;
const LINE: usize = 140;

#[derive(Debug, Default)]
pub(crate) struct View {
    is_quiet: bool,
    is_terminal: bool,
    is_drawn: bool,
    done: u32,
    total: u32,
    context: Option<(u64, u64)>,
    cost: f64,
}

impl View {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_terminal = !is_quiet && std::io::stderr().is_terminal();
        Self { is_quiet, is_terminal, ..Self::default() }
    }

    pub(crate) fn report(&mut self, report: &Report) {
        match report {
            Report::Event(record) => {
                self.count(&record.event);
                if let Some(line) = render::event(&record.event) {
                    self.line(&line);
                }
            }
            Report::Note(note) => self.line(&format!("note: {}", one_line(note, 400))),
            Report::Update { task, update } => self.update(task, update),
            Report::Became(_) => (),
        }
        self.draw();
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Planned { tasks } => {
                self.total = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
            }
            Event::TaskEnded(ended) => {
                self.done += u32::from(ended.outcome == Outcome::Completed);
                self.cost += ended.used.cost_usd.unwrap_or(0.0);
                self.context = None;
            }
            _ => (),
        }
    }

    /// What is known before the first report.
    pub(crate) fn begin(&mut self, workflow: &Workflow) {
        self.done = workflow.completed();
        self.total = u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX);
        self.cost = workflow.total.cost_usd.unwrap_or(0.0);
    }

    fn update(&mut self, task: &str, update: &Update) {
        match update {
            Update::Context { used, size, .. } => self.context = Some((*used, *size)),
            Update::Tool(tool) => {
                if let (Some(title), true) = (&tool.title, self.is_terminal) {
                    self.line(&output::dim(&format!("{task}: {}", one_line(title, 100))));
                }
            }
            _ => (),
        }
    }

    fn line(&mut self, text: &str) {
        if self.is_quiet {
            return;
        }
        self.clear();
        output::note(format_args!("{text}"));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            // Nobody may be there to see it.
            drop(write!(std::io::stderr(), "\r\u{1b}[2K"));
        }
    }

    /// The bar: tasks, the context of the running one, cost.
    fn draw(&mut self) {
        if !self.is_terminal || self.total == 0 {
            return;
        }
        self.clear();
        let filled = BAR * usize::try_from(self.done).unwrap_or(0)
            / usize::try_from(self.total).unwrap_or(1).max(1);
        let filled = filled.min(BAR);
        let mut text = format!(
            "{}{} {}/{} tasks",
            "█".repeat(filled),
            "░".repeat(BAR - filled),
            self.done,
            self.total
        );
        if let Some((used, size)) = self.context.filter(|(_, size)| *size > 0) {
            text.push_str(&format!(" · context {} %", used.saturating_mul(100) / size));
        }
        if self.cost > 0.0 {
            text.push_str(&format!(" · USD {:.2}", self.cost));
        }
        let text: String = text.chars().take(LINE).collect();
        // Nobody may be there to see it.
        drop(write!(std::io::stderr(), "{text}"));
        drop(std::io::stderr().flush());
        self.is_drawn = true;
    }

    pub(crate) fn end(&mut self) {
        self.clear();
    }
}
