//! How a question of an agent looks: what comes with it, and then the question itself, so that what will be done stands next to
//! the answers. Nothing in it can play tricks on the terminal.

use anstyle::Style;
use rethread_domain::quote::{one_line, visible};
use rethread_engine::agents::Question;

use crate::terminal::markdown::changed_line;
use crate::terminal::styled::{BOLD, DIM, Line};

pub(super) fn shown(question: &Question) -> Vec<Line> {
    let (verb, headline) = (verb(&question.intent.kind), visible(&question.intent.headline()));
    let wish = format!("Allow {} to {verb}", one_line(&question.agent, 40));
    let mut lines = Vec::new();
    for detail in question.intent.details() {
        let label = format!("  {}:", detail.label);
        match visible(&detail.text).trim_end() {
            line if !line.contains('\n') => {
                lines.push(Line::safe(&format!("{label} {line}"), Style::new()));
            }
            text => {
                lines.push(Line::plain(&label));
                let is_change = detail.label == "change";
                lines.extend(text.lines().map(|line| indented(line, is_change)));
            }
        }
    }
    if let Some(why) = question.unlasting {
        lines.push(Line::new(&format!("  No lasting answer is possible: {why}."), DIM));
    }
    match headline.trim() {
        "" => lines.push(Line::safe(&format!("{wish}: something that it does not name?"), BOLD)),
        line if !line.contains('\n') => lines.push(Line::safe(&format!("{wish}: {line}?"), BOLD)),
        text => {
            lines.push(Line::safe(&format!("{wish}:"), BOLD));
            lines.extend(text.lines().map(|line| indented(line, false)));
            let first = one_line(text.lines().next().unwrap_or_default(), 60);
            let count = text.lines().count();
            let asked = format!("That is {count} lines, from `{first}` on?");
            lines.push(Line::safe(&asked, BOLD));
        }
    }
    lines
}

/// The answers, by their numbers.
pub(super) fn options(question: &Question) -> Vec<String> {
    let options = (1..).zip(&question.options);
    options.map(|(number, option)| format!("  {number}. {}", one_line(&option.name, 80))).collect()
}

/// The id of the answer that a number means.
pub(super) fn chosen(question: &Question, typed: &str) -> Option<String> {
    let number: usize = typed.trim().parse().ok()?;
    Some(question.options.get(number.checked_sub(1)?)?.id.clone())
}

fn join(first: &Line, second: Line) -> Line {
    Line([first.0.clone(), second.0].concat())
}

fn indented(line: &str, is_change: bool) -> Line {
    let shown = Line::safe(line, Style::new());
    let style = changed_line(line).0.first().filter(|_| is_change).map(|span| span.style);
    let shown = style.map_or(shown, |style| Line::safe(line, style));
    join(&Line::plain("    "), shown)
}

/// What a tool of this kind does.
fn verb(kind: &str) -> String {
    match kind {
        "execute" => "run".to_owned(),
        "read" | "edit" | "delete" | "move" | "search" | "fetch" => kind.to_owned(),
        "" | "other" => "use a tool".to_owned(),
        kind => format!("use a tool ({})", one_line(kind, 20)),
    }
}
