//! One workflow: how it stands, what it waits for, its tasks and runs, and what happened.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use rethread_domain::workflow::{Snapshot, Status, Workflow};
use serde::Deserialize;

use super::list::titled;
use super::told::{self, Moment, TaskRow, plain};
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::words;
use crate::extract::{At, Params};
use crate::problem::{CODES, Problem};
use crate::routes::workflows::view;
use crate::state::App;
use crate::views::masked;
use crate::views::snapshot::SnapshotRowView;
use crate::views::workflow::{LogLine, QuestionView, WorkflowView};

/// How many lines of the log are shown.
const LINES: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    told: Option<String>,
    /// The code of a problem: why what was asked for was not done.
    failed: Option<String>,
}

/// One run of the workflow, from its beginning or a resume up to a pause or its end.
struct Run {
    number: u32,
    at: Moment,
    trigger: String,
    reason: String,
    done: u32,
    total: usize,
    used: String,
    /// The snapshot that it ended with, whole and short.
    snapshot: Option<(String, String)>,
}

impl Run {
    fn of(app: &App, snapshot: &Snapshot, now: Timestamp) -> Result<Self, Problem> {
        let row = masked(app.engine.redactor(), &SnapshotRowView::from(snapshot))?;
        Ok(Self {
            number: row.session_number,
            at: Moment::of(row.created_at, now),
            trigger: plain(&row.trigger),
            reason: row.reason,
            done: row.tasks_completed,
            total: snapshot.tasks.len(),
            used: format!("{} tokens", words::short(snapshot.usage.tokens)),
            snapshot: Some((row.id.clone(), told::short(&row.id))),
        })
    }

    /// The one that has no snapshot: it goes on, or the workflow ended in it.
    fn last(workflow: &Workflow, view: &WorkflowView, now: Timestamp) -> Self {
        Self {
            number: workflow.sessions,
            at: Moment::of(workflow.run_began, now),
            trigger: plain(&view.status),
            reason: String::new(),
            done: view.tasks_completed,
            total: workflow.tasks.len(),
            used: format!("{} tokens", words::short(workflow.run_used.tokens)),
            snapshot: None,
        }
    }
}

/// Everything about a workflow that changes with it.
#[derive(Template)]
#[template(path = "flows/board.html")]
#[expect(clippy::struct_excessive_bools, reason = "each shows or hides a part of the page")]
struct Board {
    id: String,
    short: String,
    title: String,
    /// Its status, or `pausing`: the class of the badge.
    state: String,
    words: String,
    view: WorkflowView,
    is_admin: bool,
    worktree_name: String,
    created: Moment,
    changed: Moment,
    resumes: Option<Moment>,
    questions: Vec<QuestionView>,
    tasks: Vec<TaskRow>,
    runs: Vec<Run>,
    usage: Vec<(&'static str, String)>,
    agents: Vec<String>,
    may_write: bool,
    may_pause: bool,
    may_resume: bool,
    may_cancel: bool,
    /// In progress, though nobody runs it.
    is_abandoned: bool,
}

/// Whether it can go on: paused, or left by whoever ran it.
pub(super) fn may_resume(workflow: &Workflow, is_running: bool) -> bool {
    match workflow.status {
        Status::Paused => true,
        Status::InProgress => !is_running,
        _ => false,
    }
}

impl Board {
    async fn of(app: &App, caller: &Caller, workflow: &Workflow) -> Result<Self, Problem> {
        let now = app.engine.clock().now();
        let view = view(app, workflow).await?;
        let is_in_progress = workflow.status == Status::InProgress;
        let may_write = caller.may_write();
        let may_answer = may_write && !workflow.status.is_final();
        let state = if view.is_pausing { "pausing" } else { workflow.status.as_str() };
        Ok(Self {
            id: view.id.clone(),
            short: told::short(&view.id),
            title: titled(view.title.clone()),
            state: state.to_owned(),
            words: plain(state),
            is_admin: caller.is_admin(),
            worktree_name: words::last_part(&view.worktree).to_owned(),
            created: Moment::of(view.created_at, now),
            changed: Moment::of(view.updated_at, now),
            resumes: view.resumes_at.map(Moment::minute),
            questions: view.questions.clone(),
            tasks: view.tasks.iter().map(|task| TaskRow::of(task, may_answer)).collect(),
            runs: runs(app, workflow, &view, now).await?,
            usage: told::usage(&view.usage),
            agents: told::agents(app)?,
            may_write,
            may_pause: may_write && is_in_progress,
            may_resume: may_write && may_resume(workflow, view.is_running),
            may_cancel: may_answer,
            is_abandoned: is_in_progress && !view.is_running,
            view,
        })
    }
}

/// The latest first.
async fn runs(
    app: &App,
    workflow: &Workflow,
    view: &WorkflowView,
    now: Timestamp,
) -> Result<Vec<Run>, Problem> {
    let snapshots = app.engine.snapshots(workflow.id).await?;
    let ended = snapshots.last().map_or(0, |snapshot| snapshot.session_number);
    let runs = snapshots.iter().rev().map(|snapshot| Run::of(app, snapshot, now));
    let has_more = workflow.sessions > ended && workflow.status != Status::Pending;
    let last = has_more.then(|| Ok(Run::last(workflow, view, now)));
    last.into_iter().chain(runs).collect()
}

/// A line of the log.
struct Line {
    no: u32,
    iso: String,
    time: String,
    text: String,
    tone: &'static str,
    session: Option<(String, String)>,
}

impl Line {
    fn of(line: LogLine) -> Option<Self> {
        let tone = match line.kind.as_str() {
            "TASK_FAILED" | "WORKFLOW_FAILED" => "bad",
            "CAPACITY_WARNING" | "WORKFLOW_BLOCKED" => "warn",
            "TASK_COMPLETED" | "WORKFLOW_COMPLETED" => "good",
            _ => "",
        };
        Some(Self {
            no: line.no,
            iso: line.at.to_string(),
            time: line.at.strftime("%m-%d %H:%M:%S").to_string(),
            text: line.text?,
            tone,
            session: line.session_id.map(|id| (id.clone(), told::short(&id))),
        })
    }
}

#[derive(Template)]
#[template(path = "flows/log.html")]
struct Log {
    lines: Vec<Line>,
    /// Lines that are older than those.
    more: usize,
    id: String,
}

impl Log {
    async fn of(app: &App, workflow: &Workflow) -> Result<Self, Problem> {
        let records = app.engine.workflow_events(workflow.id, 0).await?;
        let more = records.len().saturating_sub(LINES);
        let redactor = app.engine.redactor();
        let latest = records.iter().skip(more).rev();
        let lines = latest.map(|record| masked(redactor, &LogLine::from(record)).map(Line::of));
        let lines = lines.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Self { lines, more, id: workflow.id.to_string() })
    }
}

#[derive(Template)]
#[template(path = "flows/show.html")]
struct Show {
    frame: Frame,
    id: String,
    failed: Option<&'static str>,
    board: Board,
    log: Log,
}

/// Only what is in the table is told: nobody else's link puts words on our pages.
fn failure(code: &str) -> Option<&'static str> {
    CODES.iter().find(|(known, ..)| *known == code).map(|(_, _, title)| *title)
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let workflow = app.workflow(&caller, &id).await?;
    let board = Board::of(&app, &caller, &workflow).await?;
    let frame = Frame::new(board.title.clone(), Nav::Workflows, &caller);
    frame::page(&Show {
        frame: frame.told(asked.told.as_deref()).live(after),
        id: workflow.id.to_string(),
        failed: asked.failed.as_deref().and_then(failure),
        log: Log::of(&app, &workflow).await?,
        board,
    })
}

/// How it stands alone, for the script.
pub(super) async fn board(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Board::of(&app, &caller, &workflow).await?)
}

/// What happened alone, for the script.
pub(super) async fn log(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Log::of(&app, &workflow).await?)
}
