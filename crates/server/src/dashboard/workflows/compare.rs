//! Compares two snapshots of a workflow side by side.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_engine::views::{ErrorView, FeedbackView, SnapshotView};

use super::describe::{self, plain};
use super::list::titled;
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::humanize;
use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::routes::snapshots::{CompareParams, found, view};
use crate::state::App;

/// A row with one value for each snapshot.
#[derive(Debug, PartialEq, Eq)]
struct ValueRow {
    name: String,
    before: String,
    after: String,
    is_changed: bool,
}

impl ValueRow {
    fn new(name: impl Into<String>, before: String, after: String) -> Self {
        Self { name: name.into(), is_changed: before != after, before, after }
    }
}

/// A row with a list for each snapshot: the items that only one of them has, and how many they share.
#[derive(Debug, PartialEq, Eq)]
struct ListRow {
    name: &'static str,
    before: Vec<String>,
    after: Vec<String>,
    both: usize,
}

impl ListRow {
    fn new(name: &'static str, before: Vec<String>, after: Vec<String>) -> Self {
        let only = |these: &[String], others: &[String]| -> Vec<String> {
            these.iter().filter(|one| !others.contains(one)).cloned().collect()
        };
        let (left, right) = (only(&before, &after), only(&after, &before));
        Self { name, both: after.len() - right.len(), before: left, after: right }
    }
}

/// The column head of a snapshot.
struct Column {
    id: String,
    number: u32,
    taken: String,
    trigger: String,
}

impl Column {
    fn of(snapshot: &SnapshotView) -> Self {
        Self {
            id: snapshot.id.clone(),
            number: snapshot.session_number,
            taken: humanize::minute(snapshot.created_at),
            trigger: plain(&snapshot.trigger),
        }
    }
}

#[derive(Template)]
#[template(path = "workflows/compare.html")]
struct Page {
    frame: Frame,
    id: String,
    title: String,
    from: Column,
    to: Column,
    tasks: Vec<ValueRow>,
    facts: Vec<ValueRow>,
    lists: Vec<ListRow>,
}

fn tasks(from: &SnapshotView, to: &SnapshotView) -> Vec<ValueRow> {
    let state = |of: &SnapshotView, id: &str| {
        let task = of.tasks.iter().find(|task| task.id == id);
        task.map_or_else(|| "–".to_owned(), |task| plain(&task.state))
    };
    let gone = from.tasks.iter().filter(|task| to.tasks.iter().all(|other| other.id != task.id));
    let all = to.tasks.iter().chain(gone);
    let named = all.map(|task| {
        let name = format!("{} {}", task.id, task.title);
        ValueRow::new(name, state(from, &task.id), state(to, &task.id))
    });
    named.collect()
}

fn facts(from: &SnapshotView, to: &SnapshotView) -> Vec<ValueRow> {
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
    let commit = |text: &Option<String>| some(text).chars().take(12).collect::<String>();
    let tests =
        |of: &SnapshotView| of.tests.as_ref().map_or_else(|| "–".to_owned(), describe::checked);
    let cost =
        |of: &SnapshotView| of.total.cost_usd.map_or_else(|| "–".to_owned(), humanize::dollars);
    let pair = |name: &str, value: &dyn Fn(&SnapshotView) -> String| {
        ValueRow::new(name, value(from), value(to))
    };
    vec![
        pair("Why it paused", &|of| of.reason.clone()),
        pair("Tasks done", &|of| of.tasks_completed.to_string()),
        pair("Tasks left", &|of| of.tasks_remaining.to_string()),
        pair("Next task", &|of| some(&of.next_task)),
        pair("Branch", &|of| some(&of.git.branch)),
        pair("Commit", &|of| commit(&of.git.commit)),
        pair("Tests", &tests),
        pair("Tokens in all", &|of| humanize::grouped(of.total.tokens)),
        pair("Cost in all", &cost),
        pair("Time in all", &|of| describe::length(of.total.seconds)),
    ]
}

fn lists(from: &SnapshotView, to: &SnapshotView) -> Vec<ListRow> {
    let many =
        |name, texts: fn(&SnapshotView) -> Vec<String>| ListRow::new(name, texts(from), texts(to));
    vec![
        many("Decisions", |of| {
            of.decisions.iter().map(|one| format!("{}: {}", one.kind, one.what)).collect()
        }),
        many("Errors", |of| {
            let told =
                |one: &ErrorView| format!("{}: {} ({})", one.kind, one.message, one.resolution);
            of.errors.iter().map(told).collect()
        }),
        many("Reviewer feedback", |of| {
            let told = |one: &FeedbackView| {
                let verdict = if one.approved { "approved" } else { "not approved" };
                format!("{} by {}: {verdict}. {}", one.task, one.reviewer, one.comments.join("; "))
            };
            of.feedback.iter().map(told).collect()
        }),
        many("Files changed", |of| of.git.files_modified.clone()),
        many("Files not committed", |of| of.git.files_uncommitted.clone()),
        many("Failing tests", |of| {
            of.tests.as_ref().map(|tests| tests.failing.clone()).unwrap_or_default()
        }),
    ]
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(both): QueryParams<CompareParams>,
) -> Result<Response, Problem> {
    let from = view(&app, &found(&app, &caller, &id, &both.from).await?)?;
    let to = view(&app, &found(&app, &caller, &id, &both.to).await?)?;
    frame::page(&Page {
        frame: Frame::new("Two snapshots compared", Nav::Workflows, &caller),
        id: to.workflow_id.clone(),
        title: titled(to.title.clone()),
        from: Column::of(&from),
        to: Column::of(&to),
        tasks: tasks(&from, &to),
        facts: facts(&from, &to),
        lists: lists(&from, &to),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_have_is_only_counted() {
        let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|&one| one.into()).collect() };
        let many = ListRow::new("Files", texts(&["a", "b"]), texts(&["b", "c", "d"]));
        let expected =
            ListRow { name: "Files", before: texts(&["a"]), after: texts(&["c", "d"]), both: 1 };
        assert_eq!(many, expected);
    }
}
