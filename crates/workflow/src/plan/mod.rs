//! The plan: a Markdown file that people write, with tasks as sections or as a checklist.
//!
//! ````markdown
//! # Title
//! ## Task parser: Read the new format
//! - depends on: tests
//! - verify: `cargo test -q`
//!
//! What is to be done.
//! ````
//! or `- [ ] parser: Read the new format (depends on: tests)`. Fields in a list below the title hold for all tasks that say nothing
//! else. [`with_states`] writes states back and touches nothing
//! else of the file.

mod agent;
mod blocks;
mod check;
mod field;
mod html;
mod line;
mod scan;
mod write;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::fmt;

use super::failure::{OnFailure, Policy};
use super::task::{Expect, TaskSpec, TaskState, Verify};
use field::Key;
use scan::{Found, Place};

pub use agent::from_agent;
pub use write::{with_states, written};

/// The longest file that is read.
pub const LONGEST: usize = 4 * 1024 * 1024;
/// The most tasks a plan may have.
pub const MOST_TASKS: usize = 10_000;
/// The most retries of a task.
pub const MOST_RETRIES: u32 = 100;
/// The longest id of a task.
pub const LONGEST_ID: usize = 64;

/// A plan as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub title: String,
    /// What precedes the first task, without the title.
    pub intro: String,
    pub tasks: Vec<TaskSpec>,
}

/// A problem of a plan, with its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// The line of the file, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Parses a plan; if it is invalid, all problems are reported.
pub fn parse(text: &str) -> Result<Plan, Vec<Problem>> {
    read(text).map(|(plan, _)| plan)
}

/// Every field that a task of a plan may have, one line each: what to write, and what it means.
pub fn fields() -> String {
    field::taught()
}

/// Whether this can be the id of a task.
pub fn is_id(id: &str) -> bool {
    let is_usable = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.chars().all(is_usable) && id.chars().count() <= LONGEST_ID
}

/// The plan, and the positions of its tasks.
fn read(text: &str) -> Result<(Plan, Vec<Found>), Vec<Problem>> {
    let problem = |line, what| Problem { line, what };
    if text.len() > LONGEST {
        let what = format!("the file has {} bytes, at most {LONGEST} are read", text.len());
        return Err(vec![problem(1, what)]);
    }
    let scanned = scan::scan(text);
    if scanned.tasks.is_empty() {
        let what =
            "no tasks: expected sections `## Task ID: Title` or a checklist `- [ ] ID: Title`";
        return Err(vec![problem(1, what.to_owned())]);
    }
    if scanned.tasks.len() > MOST_TASKS {
        let what = format!("{} tasks, at most {MOST_TASKS} are allowed", scanned.tasks.len());
        return Err(vec![problem(1, what)]);
    }
    let lines = line::Lines::of(text);
    let mut problems = Vec::new();
    let mut tasks = Vec::new();
    let mut all = TaskSpec::default();
    for field in &scanned.fields {
        let value = text.get(field.value.clone()).unwrap_or_default();
        if let Err(what) = take(&mut all, &mut None, field.key, value) {
            problems.push(Problem { line: lines.number(field.value.start), what });
        }
    }
    for (at, found) in scanned.tasks.iter().enumerate() {
        let mut wrong = |offset, what| problems.push(Problem { line: lines.number(offset), what });
        let mut spec = spec(text, found, at + 1, &mut wrong);
        spec.policy = spec.policy.or(all.policy);
        spec.model = spec.model.or_else(|| all.model.clone());
        spec.effort = spec.effort.or_else(|| all.effort.clone());
        tasks.push(spec);
    }
    let places: Vec<usize> = scanned.tasks.iter().map(|found| lines.number(found.at)).collect();
    check::check(&tasks, &places, &mut problems);
    problems.sort_by_key(|problem| problem.line);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok((Plan { title: scanned.title, intro: scanned.intro, tasks }, scanned.tasks))
}

/// A task of the file.
fn spec(
    text: &str,
    found: &Found,
    position: usize,
    wrong: &mut impl FnMut(usize, String),
) -> TaskSpec {
    let id = found.id.clone().unwrap_or_else(|| position.to_string());
    if !is_id(&id) {
        let what = format!(
            "the id {id:?} cannot be used: expected at most {LONGEST_ID} letters, digits, `-`, `_` or `.`"
        );
        wrong(found.at, what);
    }
    if found.title.is_empty() {
        wrong(found.at, format!("task {id} has no title: expected `ID: Title`"));
    }
    let mut spec = TaskSpec {
        id,
        title: found.title.clone(),
        body: found.body.clone(),
        ..TaskSpec::default()
    };
    for slip in &found.misspelt {
        let (name, meant) = (&slip.name, slip.meant.as_str());
        let what = format!("task {}: there is no field {name:?}: did you mean `{meant}`?", spec.id);
        wrong(slip.at, what);
    }
    let mut state = None;
    let mut seen: Vec<Key> = Vec::new();
    for field in &found.fields {
        let (key, at) = (field.key, field.value.start);
        if seen.contains(&key) {
            wrong(at, format!("task {} says `{}` twice", spec.id, key.as_str()));
            continue;
        }
        seen.push(key);
        let value = text.get(field.value.clone()).unwrap_or_default();
        if let Err(what) = take(&mut spec, &mut state, key, value) {
            wrong(at, format!("task {}: {what}", spec.id));
        }
    }
    spec.state = match &found.place {
        Place::Section => state.unwrap_or_default(),
        Place::Item { is_checked, .. } => {
            let boxed = if *is_checked { TaskState::Completed } else { TaskState::Pending };
            let says = state.unwrap_or(boxed);
            if (says == TaskState::Completed) != *is_checked {
                let shown = if *is_checked { "checked" } else { "not checked" };
                let (id, says) = (&spec.id, field::shown(says));
                wrong(found.at, format!("task {id} is {shown}, but its state is {says}"));
            }
            says
        }
    };
    spec
}

/// Takes in one field.
fn take(
    spec: &mut TaskSpec,
    state: &mut Option<TaskState>,
    key: Key,
    value: &str,
) -> Result<(), String> {
    if value.is_empty() && key != Key::DependsOn {
        return Err(format!("`{}` says nothing", key.as_str()));
    }
    match key {
        Key::DependsOn => spec.depends_on = field::ids(value),
        Key::Agent => spec.agent = Some(value.to_owned()),
        Key::Model => spec.model = Some(value.to_owned()),
        Key::Effort => spec.effort = Some(value.to_owned()),
        Key::Review => spec.review = Some(value.to_owned()),
        Key::Approve => spec.approve = Some(value.to_owned()),
        Key::Verify => spec.verify = Some(verify(value)?),
        Key::Retries | Key::TimeLimit | Key::OnFailure => {
            take_policy(&mut spec.policy, key, value)?;
        }
        Key::State => {
            let expected = "pending, in progress, blocked, completed, failed or skipped";
            let read = field::state(value);
            *state = Some(read.ok_or_else(|| format!("state {value:?}, expected {expected}"))?);
        }
        Key::Expect => {
            spec.expect = match value.to_ascii_lowercase().as_str() {
                "red" => Expect::Red,
                "green" => Expect::Green,
                _ => return Err(format!("expect {value:?}, expected red or green")),
            }
        }
    }
    Ok(())
}

/// Takes in a field that says what follows when a task fails.
fn take_policy(policy: &mut Policy, key: Key, value: &str) -> Result<(), String> {
    match key {
        Key::Retries => {
            let count = value.parse().ok().filter(|count| *count <= MOST_RETRIES);
            let expected = format!("retries {value:?}, expected a number up to {MOST_RETRIES}");
            policy.retries = Some(count.ok_or(expected)?);
        }
        Key::TimeLimit => {
            let expected = format!("time limit {value:?}, expected a time such as 45m or 1h 30m");
            policy.seconds = Some(field::seconds(value).ok_or(expected)?);
        }
        Key::OnFailure => {
            let read =
                OnFailure::ALL.into_iter().find(|one| value.eq_ignore_ascii_case(one.as_str()));
            let expected = format!("on failure {value:?}, expected stop, ask or continue");
            policy.on_failure = Some(read.ok_or(expected)?);
        }
        _ => (),
    }
    Ok(())
}

fn verify(value: &str) -> Result<Verify, String> {
    if let Some(command) = field::code(value) {
        return Ok(Verify::Text(command.to_owned()));
    }
    if value.contains(|c: char| c.is_whitespace() || c == '`') {
        let what = "expected the name of a command of your settings, or a command in backticks";
        return Err(format!("verify {value:?}, {what}"));
    }
    Ok(Verify::Named(value.to_owned()))
}
