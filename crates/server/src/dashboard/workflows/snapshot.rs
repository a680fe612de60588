//! The page of one snapshot: everything that was known when the workflow paused.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_engine::views::SnapshotView;
use rethread_workflow::Workflow;

use super::describe::{self, TaskRow, plain};
use super::list::titled;
use super::show::may_resume;
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::humanize::Moment;
use crate::extract::PathParams;
use crate::problem::Problem;
use crate::routes::snapshots::{found, rows, view};
use crate::state::App;

/// Another snapshot to compare with.
pub(super) struct Other {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Template)]
#[template(path = "workflows/snapshot.html")]
struct Page {
    frame: Frame,
    short: String,
    title: String,
    trigger: String,
    taken: Moment,
    /// When the tests ran.
    checked: Option<Moment>,
    snapshot: SnapshotView,
    tasks: Vec<TaskRow>,
    usage: Vec<(&'static str, String)>,
    total: Vec<(&'static str, String)>,
    others: Vec<Other>,
    agents: Vec<String>,
    may_resume: bool,
}

/// All snapshots of a workflow except one, oldest first.
fn others(app: &App, workflow: &Workflow, id: &str) -> Result<Vec<Other>, Problem> {
    let all = rows(app, workflow)?.into_iter().filter(|row| row.id != id);
    let named = all.map(|row| {
        let (short, trigger) = (describe::short(&row.id), plain(&row.trigger));
        let name = format!(
            "Run {}, {trigger}, {} done ({short})",
            row.session_number, row.tasks_completed
        );
        Other { id: row.id, name }
    });
    Ok(named.collect())
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, given)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    let snapshot = view(&app, &found(&app, &caller, &id, &given).await?)?;
    let is_running = app.engine.is_workflow_driven(workflow.id).await?;
    let now = app.engine.clock().now();
    let name = format!("Snapshot of run {}", snapshot.session_number);
    frame::page(&Page {
        frame: Frame::new(name, Nav::Workflows, &caller),
        short: describe::short(&snapshot.id),
        title: titled(snapshot.title.clone()),
        trigger: plain(&snapshot.trigger),
        taken: Moment::of(snapshot.created_at, now),
        checked: snapshot.tests.as_ref().and_then(|tests| tests.at).map(|at| Moment::of(at, now)),
        tasks: snapshot.tasks.iter().map(|task| TaskRow::of(task, false)).collect(),
        usage: describe::usage(&snapshot.usage),
        total: describe::usage(&snapshot.total),
        others: others(&app, &workflow, &snapshot.id)?,
        agents: describe::agents(&app)?,
        may_resume: caller.may_write() && may_resume(&workflow, is_running),
        snapshot,
    })
}
