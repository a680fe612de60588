//! One workflow: how it stands, what it waits for, its tasks and runs, and what happened.

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
use super::now::Now;
use super::runs::Runs;
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::words::Moment;
use crate::extract::{At, Params};
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    told: Option<String>,
    /// The code of a problem: why what was asked for was not done.
    failed: Option<String>,
    /// Only what happened before this event.
    before: Option<u32>,
    /// Only the runs before this one.
    runs_before: Option<u32>,
}

/// Everything about a workflow that changes with it.
#[derive(Template)]
#[template(path = "workflows/board.html")]
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
    /// In progress, though nobody runs it.
    is_abandoned: bool,
    /// What was told above it is not true any more: the script takes it away.
    is_told_over: bool,
}

/// Whether it can go on: paused, or left by whoever ran it.
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
        asked: &Asked,
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
            runs: Runs::of(app, workflow, asked.runs_before)?,
            usage: describe::usage(&view.usage),
            agents: describe::agents(app)?,
            may_write,
            may_pause: may_write && is_in_progress,
            may_resume: may_write && may_resume(workflow, view.is_running),
            may_cancel: may_answer,
            is_abandoned: is_in_progress && !view.is_running,
            is_told_over: asked
                .told
                .as_deref()
                .is_some_and(|told| still_true(told, workflow).is_none()),
            view,
        })
    }
}

/// Whether what was told after something was done is still how it stands: the code, if it is one of ours.
fn still_true(told: &str, workflow: &Workflow) -> Option<&'static str> {
    let is_pausing = workflow.pausing().is_some();
    let (code, is_true) = match (told, workflow.status()) {
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
    /// Where the script finds the board again.
    board_fragment: String,
    board: Board,
    now: Now,
    log: Log,
}

/// Where the board is found again: with the same runs, and whether what was told still holds.
fn fragment(workflow: &Workflow, told: Option<&str>, runs: Option<u32>) -> String {
    let mut path = format!("/workflows/{}/board", workflow.id);
    let told = told.map(|told| format!("told={told}"));
    let runs = runs.map(|runs| format!("runs_before={runs}"));
    let asked: Vec<String> = told.into_iter().chain(runs).collect();
    if !asked.is_empty() {
        path = format!("{path}?{}", asked.join("&"));
    }
    path
}

/// Only what is in the table is told: nobody else's link puts words on our pages.
fn failure(code: &str) -> Option<&'static str> {
    CODES.iter().find(|known| known.name == code).map(|known| known.title)
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let workflow = app.workflow(&caller, &id).await?;
    let board = Board::of(&app, &caller, &workflow, &asked).await?;
    let frame = Frame::new(board.title.clone(), Nav::Workflows, &caller);
    let id = workflow.id;
    let told = asked.told.as_deref().and_then(|told| still_true(told, &workflow));
    frame::page(&Show {
        frame: frame.notice(told).live(after),
        id: id.to_string(),
        failed: asked.failed.as_deref().and_then(failure),
        board_fragment: fragment(&workflow, told, asked.runs_before),
        now: Now::of(&app, &workflow).await?,
        log: Log::of(&app, &caller, &workflow, asked.before).await?,
        board,
    })
}

/// How it stands alone, for the script.
pub(super) async fn board(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Board::of(&app, &caller, &workflow, &asked).await?)
}

/// What happened alone, for the script.
pub(super) async fn log(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    frame::page(&Log::of(&app, &caller, &workflow, asked.before).await?)
}
