//! Text for parts of workflows that several pages share.

use rethread_engine::views::{TaskView, TestsView, UsageView};

use crate::dashboard::humanize;
use crate::problem::Problem;
use crate::state::App;

/// A status with spaces instead of underscores.
pub(super) fn plain(word: &str) -> String {
    word.replace('_', " ")
}

/// `45 s`, `12 min`, `3 h 5 min`.
pub(super) fn length(seconds: u64) -> String {
    match (seconds / 3_600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A task in the table.
pub(super) struct TaskRow {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) state: String,
    pub(super) words: String,
    pub(super) depends_on: String,
    /// The sessions' ids, full and short.
    pub(super) sessions: Vec<(String, String)>,
    pub(super) attempts: u32,
    pub(super) note: Option<String>,
    /// What its plan says of it, and who approved it, a line each.
    pub(super) facts: Vec<String>,
    pub(super) tests: Option<String>,
    pub(super) tokens: String,
    pub(super) was_interrupted: bool,
    pub(super) may_retry: bool,
    pub(super) may_skip: bool,
}

impl TaskRow {
    pub(super) fn of(task: &TaskView, may_answer: bool) -> Self {
        let tests = task.tests.as_ref().map(checked);
        let state = task.state.as_str();
        Self {
            id: task.id.clone(),
            title: task.title.clone(),
            body: task.body.clone(),
            words: plain(state),
            depends_on: task.depends_on.join(", "),
            sessions: task.session_ids.iter().map(|id| (id.clone(), short(id))).collect(),
            attempts: task.attempts,
            note: task.note.clone(),
            facts: facts(task),
            tests,
            tokens: humanize::short(task.usage.tokens),
            was_interrupted: task.was_interrupted,
            may_retry: may_answer && matches!(state, "failed" | "skipped" | "blocked"),
            may_skip: may_answer && matches!(state, "failed" | "pending" | "blocked"),
            state: task.state.clone(),
        }
    }
}

fn facts(task: &TaskView) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(at) = task.not_before {
        facts.push(format!("Goes on by itself at {}.", at.strftime("%Y-%m-%d %H:%M UTC")));
    }
    match (&task.approve, &task.approval) {
        (Some(_), Some(approval)) => {
            let by = approval.by.as_deref().unwrap_or("somebody");
            let why = approval.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            facts.push(format!("Approved by {by}{why}"));
        }
        (Some(what), None) => facts.push(format!("Waits for approval: {what}")),
        (None, _) => (),
    }
    let said = [
        ("Model", task.model.clone()),
        ("Effort", task.effort.clone()),
        ("Time limit", task.time_limit.map(length)),
        ("Retries", task.retries.map(|count| count.to_string())),
        ("If it fails", task.on_failure.clone()),
    ];
    let said = said.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    let said: Vec<String> = said.collect();
    facts.extend(Some(said.join(" · ")).filter(|said| !said.is_empty()));
    facts
}

/// The result of a check: `passed`, `failed, 2 failing`, `failed as planned, 2 failing`.
pub(super) fn checked(tests: &TestsView) -> String {
    let is_planned = !tests.expected.is_empty() && tests.expected.len() == tests.failing.len();
    let words = match tests.phase.as_str() {
        "green" | "refactor" => "passed",
        "red" if is_planned => "failed as planned",
        "red" => "failed",
        phase => phase,
    };
    match tests.failing.len() {
        0 => words.to_owned(),
        failing => format!("{words}, {failing} failing"),
    }
}

/// The short form of an id, from its random part.
pub(super) fn short(id: &str) -> String {
    id.get(24..32).unwrap_or(id).to_owned()
}

/// What was used, as names with values.
pub(super) fn usage(used: &UsageView) -> Vec<(&'static str, String)> {
    let how = match used.measure.as_str() {
        "exact" => String::new(),
        measure => format!(" ({measure})"),
    };
    let mut all = vec![("Tokens", format!("{}{how}", humanize::grouped(used.tokens)))];
    if let Some(share) = used.context_use {
        all.push(("Context use", format!("{:.0} %", share * 100.0)));
    }
    if let Some(left) = used.remaining {
        all.push(("Left of the context", format!("{} tokens", humanize::grouped(left))));
    }
    all.push(("Model calls", used.model_calls.to_string()));
    all.push(("Tool calls", used.tool_calls.to_string()));
    all.push(("Turns", used.turns.to_string()));
    all.push(("Cost", used.cost_usd.map_or_else(|| "–".to_owned(), humanize::dollars)));
    let time = match used.seconds {
        0 if used.turns > 0 => "under 1 s".to_owned(),
        seconds => length(seconds),
    };
    all.push(("Agent time", time));
    all
}

/// The agents that can continue a workflow.
pub(super) fn agents(app: &App) -> Result<Vec<String>, Problem> {
    let all = app.program.agents()?.into_iter().filter(|agent| agent.is_installed);
    Ok(all.map(|agent| agent.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_words() {
        for (seconds, told) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_600, "1 h"), (11_100, "3 h 5 min")]
        {
            assert_eq!(length(seconds), told);
        }
    }

    #[test]
    fn a_check_passed_or_failed() {
        let checked = |phase: &str, failing: &[&str], expected: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            super::checked(&TestsView {
                phase: phase.to_owned(),
                failing: owned(failing),
                expected: owned(expected),
                command: None,
                at: None,
                output: String::new(),
            })
        };
        assert_eq!(checked("green", &[], &[]), "passed");
        assert_eq!(checked("refactor", &[], &[]), "passed");
        assert_eq!(checked("red", &[], &[]), "failed");
        assert_eq!(checked("red", &["a", "b"], &["a"]), "failed, 2 failing");
        assert_eq!(checked("red", &["a"], &["a"]), "failed as planned, 1 failing");
        assert_eq!(checked("unknown", &[], &[]), "unknown");
    }

    #[test]
    fn an_id_is_shortened_to_its_random_part() {
        assert_eq!(short("0193a1b2-0000-7000-8000-abcdef012345"), "abcdef01");
        assert_eq!(short("x"), "x");
    }
}
