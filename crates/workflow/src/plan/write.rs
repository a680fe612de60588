//! Writes plans: updates only the states of an existing one, or writes a new one.

use std::collections::HashMap;
use std::ops::Range;

use super::super::task::{Expect, TaskSpec, TaskState, Verify};
use super::field::{self, Key};
use super::scan::{Found, Place};
use super::{Plan, line, read, scan};

/// The text with these states and no other change. A text that is not a plan stays unchanged, as does one whose meaning would change
/// otherwise; so do tasks that are not named.
pub fn with_states(text: &str, states: &[(String, TaskState)]) -> String {
    let Ok((plan, places)) = read(text) else { return text.to_owned() };
    let wanted: HashMap<&str, TaskState> =
        states.iter().map(|(id, state)| (id.as_str(), *state)).collect();
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (task, found) in plan.tasks.iter().zip(&places) {
        if let Some(state) = wanted.get(task.id.as_str()).filter(|state| **state != task.state) {
            edit(text, found, *state, &mut edits);
        }
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len() + edits.len() * 16);
    let mut from = 0;
    for (range, new) in edits {
        out.push_str(text.get(from..range.start).unwrap_or_default());
        out.push_str(&new);
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    // Somebody wrote this file: rather an outdated state than another meaning.
    if is_same(&plan, &wanted, &out) { out } else { text.to_owned() }
}

/// Whether the new text is the plan with these states and no other difference.
fn is_same(plan: &Plan, wanted: &HashMap<&str, TaskState>, new: &str) -> bool {
    let mut plan = plan.clone();
    for task in &mut plan.tasks {
        task.state = wanted.get(task.id.as_str()).copied().unwrap_or(task.state);
    }
    read(new).is_ok_and(|(read, _)| read == plan)
}

/// The edits that give a task this state.
fn edit(text: &str, found: &Found, state: TaskState, edits: &mut Vec<(Range<usize>, String)>) {
    let mut is_told = false;
    if let Place::Item { mark, is_checked } = &found.place {
        is_told = matches!(state, TaskState::Pending | TaskState::Completed);
        if *is_checked != (state == TaskState::Completed) {
            let new = if *is_checked { " " } else { "x" };
            edits.push((mark.clone(), new.to_owned()));
        }
    }
    let known = found.fields.iter().find(|field| field.key == Key::State);
    match known {
        Some(known) => match &known.item {
            Some(item) if is_told && !known.is_stuck => {
                edits.push((without_line(text, item.start), String::new()));
            }
            _ => edits.push((known.value.clone(), field::shown(state).to_owned())),
        },
        None if is_told => (),
        None => edits.push((found.insert.at..found.insert.at, new_line(text, found, state))),
    }
}

/// The line of this byte; the last one goes with the end of the line before it.
fn without_line(text: &str, at: usize) -> Range<usize> {
    let (start, end) = (line::start(text, at), line::end(text, at));
    if line::words_end(text, at) < text.len() {
        return start..end;
    }
    let before = text.get(..start).unwrap_or_default();
    let kept = before.strip_suffix("\r\n").or_else(|| before.strip_suffix(['\n', '\r']));
    kept.map_or(start, str::len)..end
}

fn new_line(text: &str, found: &Found, state: TaskState) -> String {
    let insert = &found.insert;
    let ending = line::ending(text, found.at);
    let mut new = format!("{}{}: {}", insert.prefix, Key::State.as_str(), field::shown(state));
    let indent = insert.prefix.len().saturating_sub("- ".len());
    let is_after_end = insert.at > 0 && insert.at == text.len() && !text.ends_with(['\n', '\r']);
    if is_after_end {
        return format!("{ending}{new}");
    }
    new.push_str(ending);
    for after in insert.after {
        let indent = if after.is_empty() { 0 } else { indent };
        new.push_str(&format!("{}{after}{ending}", " ".repeat(indent)));
    }
    new
}

/// A new plan file with these tasks as sections. It reads back as the same tasks if their texts can stand in a plan; headings in a
/// task's text are made small enough to stay in it.
pub fn written(title: &str, tasks: &[TaskSpec]) -> String {
    let mut out = format!("# {}\n", one_line(title));
    for task in tasks {
        out.push_str(&format!("\n## Task {}: {}\n\n", task.id, one_line(&task.title)));
        // A lone CR is a line's end to some and nothing to others.
        let has_lone = task.body.replace("\r\n", "").contains('\r');
        let body = task.body.replace("\r\n", if has_lone { "\n" } else { "\r\n" });
        let body = if has_lone { body.replace('\r', "\n") } else { body };
        let body = scan::tamed(&body);
        // The lists of the text are others than the list of fields.
        let has = |bullet: &char| body.lines().any(|line| line.trim_start().starts_with(*bullet));
        let bullet = ['-', '*'].into_iter().find(|bullet| !has(bullet)).unwrap_or('+');
        let mut fields: Vec<(Key, String)> = Vec::new();
        if !task.depends_on.is_empty() {
            fields.push((Key::DependsOn, task.depends_on.join(", ")));
        }
        fields.extend(task.agent.iter().map(|agent| (Key::Agent, agent.clone())));
        fields.extend(task.model.iter().map(|model| (Key::Model, model.clone())));
        fields.extend(task.effort.iter().map(|effort| (Key::Effort, effort.clone())));
        fields.extend(task.verify.iter().map(|verify| match verify {
            Verify::Named(name) => (Key::Verify, name.clone()),
            Verify::Text(command) => (Key::Verify, field::as_code(command)),
        }));
        if task.expect == Expect::Red {
            fields.push((Key::Expect, "red".to_owned()));
        }
        fields.extend(task.review.iter().map(|review| (Key::Review, review.clone())));
        let policy = &task.policy;
        fields.extend(policy.retries.map(|count| (Key::Retries, count.to_string())));
        fields.extend(policy.seconds.map(|most| (Key::TimeLimit, field::in_units(most))));
        fields.extend(policy.on_failure.map(|then| (Key::OnFailure, then.as_str().to_owned())));
        fields.extend(task.approve.iter().map(|what| (Key::Approve, what.clone())));
        fields.push((Key::State, field::shown(task.state).to_owned()));
        for (key, value) in fields {
            out.push_str(&format!("{bullet} {}: {}\n", key.as_str(), one_line(&value)));
        }
        if body.starts_with([' ', '\t']) {
            out.push_str(&format!("{}\n", scan::APART));
        }
        if !body.is_empty() {
            out.push_str(&format!("\n{body}\n"));
        }
    }
    out
}

fn one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<&str>>().join(" ")
}
