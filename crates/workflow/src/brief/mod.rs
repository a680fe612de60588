//! The prompts of a workflow: the first prompt of a task, the state of a resumed workflow, the results of checks and reviews.
//!
//! The plan's own words are what the user wants and are used as they are. Everything else (issue, history, errors, reviews, output of
//! tools) is quoted, so that it can neither close its quotation nor pass for a line of ours.

mod learnt;
mod page;
mod resume;
mod rounds;
mod task;
#[cfg(test)]
mod tests;

pub use learnt::learnt;
use page::{Page, Piece};
pub use resume::resume_context;
pub use rounds::{address_brief, fix_brief, plan_brief, review_brief};
pub use task::{Background, Origin, task_brief};

use super::event::Issue;
use super::record::Decision;
use super::task::{Expect, Task, TaskSpec, Verify};
use rethread_domain::price;
use rethread_domain::quote::{cut_line, one_line, quoted};

/// Token limits of a brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BriefLimits {
    pub tokens: u32,
}

impl Default for BriefLimits {
    fn default() -> Self {
        Self { tokens: 8_000 }
    }
}

const ID_CHARS: usize = 80;
const TITLE_CHARS: usize = 200;
/// How many of the latest decisions are included.
const DECISIONS: usize = 5;

/// `T1: The title`
fn name(spec: &TaskSpec) -> String {
    let id = one_line(&spec.id, ID_CHARS);
    match one_line(&spec.title, TITLE_CHARS) {
        title if title.is_empty() => id,
        title => format!("{id}: {title}"),
    }
}

/// The first characters of a text, with a mark if there are more.
fn first(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// An issue: its id, its title and so many characters of its text.
fn issue(issue: &Issue, chars: usize) -> String {
    let title = cut_line(&issue.title, TITLE_CHARS);
    let mut text = match &issue.id {
        Some(id) => format!("{}: {title}", cut_line(id, ID_CHARS)),
        None => title,
    };
    let body = first(issue.text.trim(), chars);
    if chars > 0 && !body.is_empty() {
        text.push('\n');
        text.push_str(&body);
    }
    format!("### Issue\n\n{}", quoted(&text))
}

/// The issue in ever shorter forms.
fn issue_piece(of: &Issue, lengths: &[usize]) -> Option<Piece> {
    let is_empty = of.title.trim().is_empty() && of.text.trim().is_empty() && of.id.is_none();
    if is_empty {
        return None;
    }
    let forms = lengths.iter().map(|chars| issue(of, *chars)).collect();
    Some(Piece::new(page::ISSUE, forms))
}

/// The latest decisions, so many characters each, and how many more there are.
fn decisions(all: &[Decision], most: usize, chars: usize, more: &str) -> String {
    let mut out = "### Decisions\n\n".to_owned();
    if all.is_empty() {
        out.push_str("(no significant decisions recorded)\n\n");
        return out;
    }
    let shown = &all[all.len().saturating_sub(most)..];
    for decision in shown {
        let what = cut_line(&decision.what, chars);
        let mut text = format!("[{}] {what}", decision.kind.as_str());
        if !decision.why.trim().is_empty() {
            text.push_str(&format!("\nWhy: {}", cut_line(&decision.why, chars)));
        }
        if !decision.alternatives.is_empty() {
            let others = cut_line(&decision.alternatives.join("; "), chars);
            text.push_str(&format!("\nInstead of: {others}"));
        }
        out.push_str(&quoted(&text));
    }
    let left = all.len() - shown.len();
    if left > 0 {
        out.push_str(&format!("... and {left} more{more}\n\n"));
    }
    out
}

fn decisions_piece(all: &[Decision], more: &str) -> Piece {
    let forms = [(DECISIONS, 400), (DECISIONS, 160), (3, 120), (1, 80)];
    let forms = forms.iter().map(|(most, chars)| decisions(all, *most, *chars, more)).collect();
    Piece::new(page::DECISIONS, forms).droppable()
}

/// A list of tasks: all of them, or those nearest to the current work, or only their number.
fn list_piece(rank: u8, heading: &str, lines: &[String], none: &str, is_latest: bool) -> Piece {
    let form = |most: usize| {
        let mut out = format!("{heading}\n\n");
        if lines.is_empty() {
            return format!("{out}{none}\n\n");
        }
        let left = lines.len().saturating_sub(most);
        let shown = if is_latest { &lines[left..] } else { &lines[..lines.len() - left] };
        if is_latest && left > 0 {
            out.push_str(&format!("... {left} before these\n"));
        }
        for line in shown {
            out.push_str(line);
        }
        if !is_latest && left > 0 {
            out.push_str(&format!("... and {left} more\n"));
        }
        out.push('\n');
        out
    };
    let forms = [lines.len(), 20, 5, 1].into_iter().map(form).collect();
    Piece::new(rank, forms).droppable()
}

/// A task to work on, and how it is checked. The plan's words, as they are.
fn wanted(task: &Task) -> String {
    let mut out = format!("## Task {}\n\n", name(&task.spec));
    let body = rethread_domain::quote::safe(task.spec.body.trim());
    if !body.is_empty() {
        out.push_str(&body);
        out.push_str("\n\n");
    }
    out
}

/// The same with at most so many bytes of its text.
fn wanted_cut(task: &Task, bytes: usize) -> String {
    let body = task.spec.body.trim();
    if body.len() <= bytes {
        return wanted(task);
    }
    let head = rethread_domain::quote::safe(price::head(body, bytes).trim_end());
    let heading = name(&task.spec);
    format!("## Task {heading}\n\n{head}\n[Shortened: the plan has the whole text.]\n\n")
}

fn check(spec: &TaskSpec) -> String {
    let how = match &spec.verify {
        None => return String::new(),
        Some(Verify::Named(name)) => format!("the user's check {:?}", cut_line(name, 120)),
        Some(Verify::Text(command)) => format!("this command: {}", one_line(command, 400)),
    };
    let then = match spec.expect {
        Expect::Green => "It has to pass.",
        Expect::Red => {
            "The tests that you write here have to fail: what makes them pass is a later task. Do not make them pass."
        }
    };
    format!("When you are done it is checked with {how}\n{then}\n\n")
}

/// Joined in reading order, within the budget.
fn render(pieces: Vec<Piece>, limits: BriefLimits) -> String {
    Page::new(pieces).fit(limits.tokens)
}
