//! The page of one workflow: its status, what it waits for, its tasks and runs, and its log.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_engine::codes::CODES;
use rethread_engine::views::{QuestionView, WorkflowView};
use rethread_workflow::{Status, Workflow};
use serde::Deserialize;

use super::describe::{self, TaskRow, plain};
use super::list::titled;
use super::log::Log;
use super::runs::Runs;
use super::streaming::Streaming;
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::humanize::Moment;
use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageParams {
    notice: Option<String>,
    /// The code of the problem that kept the last form from being carried out.
    failed: Option<String>,
    /// Shows the log before this event.
    before: Option<u32>,
    /// Shows the runs before this one.
    runs_before: Option<u32>,
}

/// The part of the page that changes with the workflow.
#[derive(Template)]
#[template(path = "workflows/board.html")]
#[expect(clippy::struct_excessive_bools, reason = "each shows or hides a part of the page")]
struct Board {
    id: String,
    short: String,
    title: String,
    /// The class of the badge: the status, or `pausing`.
    state: String,
    words: String,
    view: WorkflowView,
    is_admin: bool,
    created: Moment,
    changed: Moment,
    resumes: Option<Moment>,
    questions: Vec<QuestionView>,
    tasks: Vec<TaskRow>,
    runs: Runs,
    usage: Vec<(&'static str, String)>,
    agents: Vec<String>,
    may_write: bool,
    may_pause: bool,
    may_resume: bool,
    may_cancel: bool,
    /// Whether it is in progress although no process runs it.
    is_abandoned: bool,
    /// Whether the notice above it is out of date: the script removes it then.
    is_notice_outdated: bool,
}

/// Whether it can be resumed: it is paused, or its process has died.
pub(super) fn may_resume(workflow: &Workflow, is_running: bool) -> bool {
    match workflow.status() {
        Status::Paused => true,
        Status::InProgress => !is_running,
        _ => false,
    }
}

impl Board {
    async fn of(
        app: &App,
        caller: &Caller,
        workflow: &Workflow,
        params: &PageParams,
    ) -> Result<Self, Problem> {
        let now = app.engine.clock().now();
        let view = app.engine.masked_workflow_view(workflow).await?;
        let is_in_progress = workflow.status() == Status::InProgress;
        let may_write = caller.may_write();
        let may_answer = may_write && !workflow.status().is_final();
        let state = if view.is_pausing { "pausing" } else { workflow.status().as_str() };
        Ok(Self {
            id: view.id.clone(),
            short: describe::short(&view.id),
            title: titled(view.title.clone()),
            state: state.to_owned(),
            words: plain(state),
            is_admin: caller.is_admin(),
            created: Moment::of(view.created_at, now),
            changed: Moment::of(view.updated_at, now),
            resumes: view.resumes_at.map(Moment::minute),
            questions: view.questions.clone(),
            tasks: view.tasks.iter().map(|task| TaskRow::of(task, may_answer)).collect(),
            runs: Runs::of(app, workflow, params.runs_before)?,
            usage: describe::usage(&view.usage),
            agents: describe::agents(app)?,
            may_write,
            may_pause: may_write && is_in_progress,
            may_resume: may_write && may_resume(workflow, view.is_running),
            may_cancel: may_answer,
            is_abandoned: is_in_progress && !view.is_running,
            is_notice_outdated: params
                .notice
                .as_deref()
                .is_some_and(|notice| notice_if_current(notice, workflow).is_none()),
            view,
        })
    }
}

/// The notice, if it still describes the state of the workflow and is one of ours.
fn notice_if_current(notice: &str, workflow: &Workflow) -> Option<&'static str> {
    let is_pausing = workflow.pausing().is_some();
    let (code, is_true) = match (notice, workflow.status()) {
        ("started", status) => ("started", !status.is_final() && status != Status::Paused),
        ("pausing", status) => ("pausing", status == Status::InProgress && is_pausing),
        ("paused", status) => ("paused", status == Status::Paused),
        ("resumed", status) => ("resumed", status == Status::InProgress && !is_pausing),
        ("approved", status) => ("approved", status == Status::InProgress && !is_pausing),
        ("retried", status) => ("retried", status == Status::InProgress && !is_pausing),
        ("skipped", status) => ("skipped", !status.is_final()),
        ("rejected", status) => ("rejected", status != Status::Paused),
        ("cancelled", status) => ("cancelled", status == Status::Cancelled),
        _ => return None,
    };
    is_true.then_some(code)
}

#[derive(Template)]
#[template(path = "workflows/show.html")]
struct Show {
    frame: Frame,
    id: String,
    failed: Option<&'static str>,
    /// The address at which the script reloads the board.
    board_fragment: String,
    board: Board,
    now: Streaming,
    log: Log,
}

/// The address at which the board is reloaded: for the same runs, with the notice to check.
fn fragment(workflow: &Workflow, notice: Option<&str>, runs: Option<u32>) -> String {
    let mut path = format!("/workflows/{}/board", workflow.id);
    let notice = notice.map(|notice| format!("notice={notice}"));
    let runs = runs.map(|runs| format!("runs_before={runs}"));
    let params: Vec<String> = notice.into_iter().chain(runs).collect();
    if !params.is_empty() {
        path = format!("{path}?{}", params.join("&"));
    }
    path
}

/// The title of a known problem code. Only these are shown, so that a foreign link cannot put words on our pages.
fn failure(code: &str) -> Option<&'static str> {
    CODES.iter().find(|known| known.name == code).map(|known| known.title)
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let workflow = app.workflow(&caller, &id).await?;
    let board = Board::of(&app, &caller, &workflow, &params).await?;
    let frame = Frame::new(board.title.clone(), Nav::Workflows, &caller);
    let id = workflow.id;
    let notice = params.notice.as_deref().and_then(|notice| notice_if_current(notice, &workflow));
    frame::page(&Show {
        frame: frame.notice(notice).live(after),
        id: id.to_string(),
        failed: params.failed.as_deref().and_then(failure),
        board_fragment: fragment(&workflow, notice, params.runs_before),
        now: Streaming::of(&app, &workflow).await?,
        log: Log::of(&app, &caller, &workflow, params.before).await?,
        board,
    })
}

/// The board alone, for the script.
pub(super) async fn board(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Board::of(&app, &caller, &workflow, &params).await?)
}

/// The log alone, for the script.
pub(super) async fn log(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Log::of(&app, &caller, &workflow, params.before).await?)
}
