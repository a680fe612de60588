//! The runs of a workflow, each from a start or resume to a pause or the end.

use jiff::Timestamp;
use rethread_workflow::{SnapshotSum, Status, Workflow};

use super::describe::{self, plain};
use crate::dashboard::humanize::{self, Moment};
use crate::problem::Problem;
use crate::routes::snapshots::row;
use crate::state::App;

/// How many runs are shown at once.
const MOST: usize = 24;

/// One run.
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) at: Moment,
    pub(super) trigger: String,
    pub(super) reason: String,
    pub(super) done: u32,
    pub(super) total: u32,
    pub(super) used: String,
    /// The snapshot at the end of the run (id, full and short).
    pub(super) snapshot: Option<(String, String)>,
}

impl Run {
    fn of(app: &App, snapshot: &SnapshotSum, now: Timestamp) -> Result<Self, Problem> {
        let row = row(app, snapshot)?;
        Ok(Self {
            number: row.session_number,
            at: Moment::of(row.created_at, now),
            trigger: plain(&row.trigger),
            reason: row.reason,
            done: row.tasks_completed,
            total: snapshot.tasks,
            used: format!("{} tokens", humanize::short(snapshot.tokens)),
            snapshot: Some((row.id.clone(), describe::short(&row.id))),
        })
    }

    /// The run without a snapshot: it is under way, or the workflow ended in it.
    fn last(workflow: &Workflow, now: Timestamp) -> Self {
        let total = u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX);
        Self {
            number: workflow.sessions,
            at: Moment::of(workflow.run.began, now),
            trigger: plain(workflow.status().as_str()),
            reason: String::new(),
            done: workflow.completed(),
            total,
            used: format!("{} tokens", humanize::short(workflow.run.used.tokens)),
            snapshot: None,
        }
    }
}

/// A page of runs, latest first.
pub(super) struct Runs {
    pub(super) some: Vec<Run>,
    /// Whether there are newer runs.
    pub(super) is_older: bool,
    /// The run before which the next page begins.
    pub(super) older: Option<u32>,
}

impl Runs {
    /// The latest runs, or those before a run.
    pub(super) fn of(app: &App, workflow: &Workflow, before: Option<u32>) -> Result<Self, Problem> {
        let now = app.engine.clock().now();
        let upto = before.unwrap_or(u32::MAX);
        let ended = workflow.snapshots.last().map_or(0, |snapshot| snapshot.session_number);
        let has_more = workflow.sessions > ended && workflow.status() != Status::Pending;
        let last = (has_more && workflow.sessions < upto).then(|| Run::last(workflow, now));
        let mut some: Vec<Run> = last.into_iter().collect();
        let mut fitting =
            workflow.snapshots.iter().rev().filter(|one| one.session_number < upto).peekable();
        while some.len() < MOST
            && let Some(snapshot) = fitting.next()
        {
            some.push(Run::of(app, snapshot, now)?);
        }
        let older = fitting.peek().and_then(|_| some.last()).map(|last| last.number);
        Ok(Self { some, is_older: before.is_some(), older })
    }
}
