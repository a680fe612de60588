//! Workflows in words.

use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_domain::quote::{cut_line, one_line, safe};
use rethread_domain::wording::counted;
use rethread_engine::views::{Comparison, Pair, TaskChange};
use rethread_workflow::{
    Event, Measure, Question, Resolution, Snapshot, SnapshotSum, State, Status, Task, Used,
    Workflow,
};

use crate::cli::App;
use crate::output::{self, table, time};

/// One event in a line; `None` for what is of no interest by itself.
pub(super) fn event(event: &Event) -> Option<String> {
    match event {
        // Where the user is.
        Event::Parked { until } => Some(format!("the limit is lifted at {}", time::minute(*until))),
        event => event.describe(),
    }
}

/// How a workflow rests, and what can be done then.
pub(super) fn rests(workflow: &Workflow) -> String {
    let short = workflow.id.short();
    let done = workflow.completed();
    let total = workflow.tasks.len();
    let mut text = match workflow.status() {
        Status::InProgress if workflow.pausing().is_some() => {
            format!("Workflow {short} pauses when its running task is done.\n")
        }
        status => format!(
            "Workflow {short} is {}: {done} of {} done.\n",
            status.word(),
            counted(total, "task")
        ),
    };
    match &workflow.state {
        State::Paused(pause) => {
            let reason = one_line(&pause.reason, 300);
            text.push_str(&format!("  Why: {reason}\n"));
            if let Some(mark) = &workflow.mark {
                text.push_str(&format!("  Snapshot: {}\n", mark.id));
            }
            if let Some(until) = pause.until {
                text.push_str(&format!("  The limit is lifted at {}.\n", time::minute(until)));
            }
            text.push_str(&format!("  Resume with: rethread workflow resume {short}\n"));
        }
        State::Blocked { .. } | State::InProgress { .. } => {
            for question in &workflow.questions {
                text.push_str(&format!("  {}\n", asked(question, &short, workflow)));
            }
        }
        State::Completed => {
            let left = workflow.tasks.iter().filter(|task| workflow.is_left_out(task));
            let left: Vec<&str> = left.map(|task| task.spec.id.as_str()).collect();
            if !left.is_empty() {
                let left = one_line(&left.join(", "), 300);
                text.push_str(&format!("  Failed, and left out: {left}\n"));
            }
        }
        _ => (),
    }
    text
}

/// A status in words for people.
pub(super) fn words(status: Status) -> String {
    status.as_str().replace('_', " ")
}

/// A question, and how it is answered.
fn asked(question: &Question, short: &str, workflow: &Workflow) -> String {
    let told = cut_line(&question.describe(), 400);
    match question {
        Question::TaskFailed { task, .. } => format!(
            "{told}\n  `rethread workflow retry {task} {short}` tries it again, `… skip {task} {short}` leaves it out, `… reject {short}` gives up"
        ),
        Question::TaskRefused { task, .. } => format!(
            "{told}\n  `rethread workflow retry {task} {short} --permissions allow` lets it do this (in a terminal, without --permissions, you are asked), `… approve {short}` counts it as done, `… skip {task} {short}` leaves it out, `… reject {short}` gives up"
        ),
        Question::Plan => {
            let path = workflow.charter.plan.as_ref().map(|path| path.display().to_string());
            let path = path.unwrap_or_default();
            format!(
                "The plan is in {path}: read it, change it, then\n  `rethread workflow approve {short}`, or `… reject {short} --reason R` has it written again"
            )
        }
        // Whole: what is approved has to be seen.
        Question::Command { command } => format!(
            "Allow this command of the plan to run?\n    {}\n  `rethread workflow approve {short}` or `rethread workflow reject {short}`",
            safe(command)
        ),
        Question::Gate { task, .. } => format!(
            "{told}\n  `rethread workflow approve {short} --task {task}`, `… skip {task} {short}` leaves it out, `… reject {short} --task {task}` gives up"
        ),
        Question::TaskRemoved { .. } => {
            format!(
                "{told}\n  `rethread workflow approve {short}` or `rethread workflow reject {short}`"
            )
        }
    }
}

/// Says how a workflow stands now.
pub(super) async fn whole(app: &App, workflow: &Workflow) -> anyhow::Result<()> {
    if app.json {
        output::json(&app.engine.workflow_view(workflow).await?);
    } else {
        output::data(&rests(workflow));
    }
    Ok(())
}

pub(super) fn waiting(app: &App, workflow: &Workflow, until: Timestamp) {
    if !app.json {
        output::data(&rests(workflow));
        output::note(format_args!("Waiting until {} …", time::minute(until)));
    }
}

pub(super) fn status(workflow: &Workflow, is_driven: bool, app: &App) -> String {
    let mut text = format!("{}  {}\n", workflow.id.short(), one_line(&workflow.charter.title, 100));
    let mut state = words(workflow.status());
    if workflow.status() == Status::InProgress && !is_driven {
        state.push_str(", but nobody runs it: `rethread workflow recover`");
    } else if workflow.pausing().is_some() {
        state.push_str(", pausing");
    }
    text.push_str(&format!("  status: {state}\n  run: {}\n", workflow.sessions));
    text.push_str(&format!("  worktree: {}\n", one_line(&workflow.charter.worktree, 200)));
    text.push_str(&format!(
        "  agent: {}\n  usage: {}\n",
        one_line(&workflow.charter.agent, 40),
        used(&workflow.total)
    ));
    text.push('\n');
    text.push_str(&tasks(&workflow.tasks));
    if !workflow.snapshots.is_empty() {
        text.push_str("\nSnapshots\n");
        text.push_str(&snapshots(&workflow.snapshots, app));
    }
    if matches!(workflow.status(), Status::Paused | Status::Blocked)
        || !workflow.questions.is_empty()
    {
        text.push('\n');
        text.push_str(&rests(workflow));
    }
    text
}

fn tasks(tasks: &[Task]) -> String {
    let rows = tasks.iter().map(|task| {
        let note = task.note.as_deref().map(|note| one_line(note, 60)).unwrap_or_default();
        let note = match task.not_before {
            Some(at) => format!("goes on at {}: {note}", time::minute(at)),
            None => note,
        };
        let session = task.sessions.last().map_or("-".to_owned(), SessionId::short);
        vec![
            one_line(&task.spec.id, 20),
            one_line(&task.spec.title, 50),
            task.state().as_str().replace('_', " "),
            session,
            if task.used.tokens > 0 { task.used.tokens.to_string() } else { "-".to_owned() },
            note,
        ]
    });
    table::render(&["TASK", "TITLE", "STATE", "SESSION", "TOKENS", ""], rows.collect())
}

pub(super) fn used(used: &Used) -> String {
    let how = match used.measure {
        Measure::Exact => "",
        Measure::Counted => ", counted",
        Measure::Estimated => ", estimated",
    };
    let mut text = format!(
        "{}{how}, {}, {}",
        counted(used.tokens, "token"),
        counted(used.turns, "turn"),
        counted(used.tool_calls, "tool call")
    );
    if let Some(share) = used.context_use() {
        text.push_str(&format!(", context up to {:.0} %", share * 100.0));
    }
    if let Some(cost) = used.cost_usd {
        text.push_str(&format!(", USD {cost:.2}"));
    }
    text
}

pub(super) fn snapshots(all: &[SnapshotSum], app: &App) -> String {
    let now = app.engine.clock().now();
    let rows = all.iter().map(|snapshot| {
        vec![
            snapshot.id.short(),
            snapshot.session_number.to_string(),
            snapshot.trigger.as_str().to_owned(),
            time::ago(snapshot.created_at, now),
            format!("{} done, {} left", snapshot.tasks_completed, snapshot.tasks_remaining),
            one_line(&snapshot.reason, 60),
        ]
    });
    table::render(&["SNAPSHOT", "RUN", "TRIGGER", "TAKEN", "TASKS", "WHY"], rows.collect())
}

pub(super) fn snapshot(snapshot: &Snapshot, row: &[SnapshotSum], app: &App) -> String {
    let mut text = snapshots(row, app);
    text.push_str(&format!("\n{}\n", tasks(&snapshot.tasks)));
    let git = &snapshot.git;
    let commit = |id: &Option<String>| {
        id.as_deref().map_or("-".to_owned(), |id| id.chars().take(12).collect())
    };
    text.push_str(&format!(
        "Git: branch {}, commit {} (began at {}), {} modified, {} staged, {} uncommitted\n",
        one_line(git.branch.as_deref().unwrap_or("-"), 80),
        commit(&git.commit),
        commit(&git.commit_at_start),
        counted(git.files_modified.len(), "file"),
        git.files_staged.len(),
        git.files_uncommitted.len()
    ));
    if let Some(tests) = &snapshot.tests {
        text.push_str(&format!("Tests: {}", tests.phase.as_str()));
        for (what, names) in [("failing", &tests.failing), ("expected", &tests.expected)] {
            if !names.is_empty() {
                text.push_str(&format!(", {what}: {}", one_line(&names.join(", "), 300)));
            }
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "Usage: {} (in total: {})\n",
        used(&snapshot.usage),
        used(&snapshot.total)
    ));
    text.push_str(&sections(snapshot));
    text
}

fn sections(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    if !snapshot.decisions.is_empty() {
        text.push_str("\nDecisions\n");
        for decision in &snapshot.decisions {
            let why = if decision.why.is_empty() {
                String::new()
            } else {
                format!(" — {}", one_line(&decision.why, 200))
            };
            text.push_str(&format!(
                "  [{}] {}{why} ({})\n",
                decision.kind.as_str(),
                one_line(&decision.what, 200),
                decision.source.by
            ));
        }
    }
    if !snapshot.errors.is_empty() {
        text.push_str("\nErrors\n");
        for error in &snapshot.errors {
            let mark = if error.resolution == Resolution::Unresolved { "!" } else { "-" };
            text.push_str(&format!(
                "  {mark} {}: {} [{}]\n",
                one_line(&error.kind, 60),
                one_line(&error.message, 200),
                error.resolution.as_str()
            ));
        }
    }
    if !snapshot.feedback.is_empty() {
        text.push_str("\nReviews\n");
        for feedback in &snapshot.feedback {
            let verdict = if feedback.approved {
                "approved"
            } else if feedback.addressed {
                "addressed"
            } else {
                "open"
            };
            text.push_str(&format!(
                "  {} by {}: {verdict}: {}\n",
                one_line(&feedback.task, 40),
                one_line(&feedback.reviewer, 40),
                one_line(&feedback.comments.join("; "), 200)
            ));
        }
    }
    text
}

pub(super) fn comparison(from: &Snapshot, to: &Snapshot, compared: &Comparison) -> String {
    let mut text = format!(
        "{} (run {}) → {} (run {})\n",
        from.id.short(),
        from.session_number,
        to.id.short(),
        to.session_number
    );
    let state = |state: &Option<String>| state.as_deref().unwrap_or("-").replace('_', " ");
    for TaskChange { id, before, after } in &compared.tasks {
        let (id, before, after) = (one_line(id, 60), state(before), state(after));
        text.push_str(&format!("  task {id}: {before} → {after}\n"));
    }
    for (what, lines) in [
        ("decided", &compared.decisions),
        ("error", &compared.errors),
        ("review", &compared.feedback),
        ("file", &compared.files),
    ] {
        for line in lines {
            text.push_str(&format!("  {what}: {}\n", one_line(line, 200)));
        }
    }
    let Pair { before, after } = &compared.commit;
    if before != after {
        let short = |id: &Option<String>| {
            id.as_deref().map_or("-".to_owned(), |id| id.chars().take(12).collect())
        };
        text.push_str(&format!("  commit: {} → {}\n", short(before), short(after)));
    }
    text.push_str(&format!("  tokens: {} → {}\n", compared.tokens.before, compared.tokens.after));
    text
}
