//! What earlier workflows on the same project decided, what went wrong there and how it was fixed, and how long their tasks took.

use std::collections::HashSet;

use rethread_domain::tokens;
use rethread_domain::wording::counted;

use super::super::record::Resolution;
use super::super::state::Workflow;
use super::super::task::TaskState;
use super::task::{Background, Origin};
use super::{cut_line, one_line, quoted};

/// The longest line.
const CHARS: usize = 300;
/// The most lines of one workflow.
const LINES: usize = 12;
/// Shorter words tell nothing.
const SHORTEST_WORD: usize = 4;

/// One thing that was learnt, and how much it has to do with what is wanted.
#[derive(Debug)]
struct Lesson {
    workflow: usize,
    line: String,
    shared: usize,
}

/// What earlier workflows, the latest first, tell whoever is to do what is wanted: what has most words in common with it first, as
/// much as fits into so many tokens, with where it is from.
pub fn learnt(earlier: &[Workflow], wanted: &str, most: u32) -> Vec<Background> {
    let wanted = words(wanted);
    let mut lessons: Vec<Lesson> = Vec::new();
    for (workflow, of) in earlier.iter().enumerate() {
        let lines = lines(of).into_iter();
        lessons.extend(lines.map(|line| {
            let shared = words(&line).intersection(&wanted).count();
            Lesson { workflow, line, shared }
        }));
    }
    lessons.sort_by_key(|lesson| (std::cmp::Reverse(lesson.shared), lesson.workflow));
    let mut chosen: Vec<Vec<String>> = vec![Vec::new(); earlier.len()];
    let mut left = most;
    for lesson in lessons {
        let price = tokens::count(&lesson.line).saturating_add(3);
        let lines = &mut chosen[lesson.workflow];
        if price <= left && lines.len() < LINES {
            left -= price;
            lines.push(lesson.line);
        }
    }
    let told = earlier.iter().zip(chosen).filter(|(_, lines)| !lines.is_empty());
    told.map(|(of, mut lines)| {
        lines.extend(durations(of));
        let short = of.id.short();
        let title = one_line(&of.charter.title, 80);
        let from = format!(
            "workflow {short} ({title}), {}; `rethread workflow show {short}` has all of it",
            of.updated_at.strftime("%Y-%m-%d")
        );
        Background { from: Origin::Workflow(from), text: quoted(&lines.join("\n")) }
    })
    .collect()
}

/// The latest decisions, and the errors that were fixed or worked around, a line each.
fn lines(of: &Workflow) -> Vec<String> {
    let mut lines = Vec::new();
    for decision in of.decisions.iter().rev() {
        let why = match decision.why.trim() {
            "" => String::new(),
            why => format!(" Why: {}", cut_line(why, CHARS / 2)),
        };
        let kind = decision.kind.as_str();
        lines.push(format!("Decided ({kind}): {}.{why}", trimmed(&decision.what)));
    }
    for error in of.errors.iter().rev() {
        let notes = error.notes.as_deref().map(str::trim).filter(|notes| !notes.is_empty());
        let is_solved = matches!(error.resolution, Resolution::Fixed | Resolution::Workaround);
        if let (Some(notes), true) = (notes, is_solved) {
            let what = trimmed(&error.message);
            let how = error.resolution.as_str();
            lines.push(format!("Error, {how}: {what}. How: {}", cut_line(notes, CHARS / 2)));
        }
    }
    lines
}

fn trimmed(text: &str) -> String {
    cut_line(text.trim().trim_end_matches('.'), CHARS)
}

/// How long its tasks took.
fn durations(of: &Workflow) -> Option<String> {
    let done = of.tasks.iter().filter(|task| task.state() == TaskState::Completed);
    let seconds: Vec<u64> = done.map(|task| task.used.seconds).collect();
    let count = u64::try_from(seconds.len()).ok().filter(|count| *count > 0)?;
    let (sum, longest) = (seconds.iter().sum::<u64>(), seconds.iter().max()?);
    let minutes = |seconds: u64| counted(seconds.div_ceil(60), "minute");
    Some(format!(
        "Its {} took {} each, at most {}.",
        counted(count, "task"),
        minutes(sum / count),
        minutes(*longest)
    ))
}

fn words(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() >= SHORTEST_WORD);
    long.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{decision, error, workflow};
    use super::*;

    #[test]
    fn what_was_learnt_is_told_with_its_source_within_the_budget() {
        let mut first = workflow();
        first.decisions = (1..=40).map(decision).collect();
        first.decisions[3].what = "Keep the parser in a crate of its own".into();
        let mut solved = error(1, Resolution::Fixed);
        solved.notes = Some("pin the linker".into());
        first.errors = vec![solved, error(2, Resolution::Unresolved)];
        let wanted = "Write the parser";
        let told = learnt(std::slice::from_ref(&first), wanted, 1_000);
        let [only] = told.as_slice() else { panic!("{told:?}") };
        let text = &only.text;
        let parser = text.find("Keep the parser in a crate of its own. Why: reason 4");
        let other = text.find("Use library 40");
        assert!(parser < other && parser.is_some(), "what is about it comes first: {text}");
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('>')), "{text}");
        let Origin::Workflow(from) = &only.from else { panic!("{:?}", only.from) };
        let short = first.id.short();
        assert!(from.starts_with(&format!("workflow {short} (Sessions that last)")), "{from}");
        // As much as fits; the rest stays where it is.
        let tight = learnt(std::slice::from_ref(&first), wanted, 60);
        assert!(
            tight[0].text.contains("parser") && tokens::count(&tight[0].text) < 110,
            "{tight:?}"
        );
        assert!(learnt(&[first], wanted, 0).is_empty());
        assert!(learnt(&[], wanted, 1_000).is_empty());
    }

    #[test]
    fn an_error_is_told_with_how_it_was_fixed_and_an_open_one_is_not() {
        let mut first = workflow();
        first.decisions.clear();
        let mut solved = error(1, Resolution::Fixed);
        solved.notes = Some("pin the linker".into());
        first.errors = vec![solved, error(2, Resolution::Unresolved)];
        let told = learnt(&[first], "anything", 500);
        let text = &told[0].text;
        assert!(text.contains("Error, fixed: message 1. How: pin the linker"), "{text}");
        assert!(!text.contains("message 2") && text.contains("Its 1 task took "), "{text}");
    }
}
