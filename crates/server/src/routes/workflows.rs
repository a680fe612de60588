//! Workflows: start, list, read, pause, resume, and the answers of people.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use rethread_domain::quote::one_line;
use rethread_engine::program::Fault;
use rethread_engine::views::{MoveView, WorkflowEventView, WorkflowRowView, WorkflowView};
use rethread_engine::workflows::WorkflowFilter;
use rethread_engine::workflows::{ResumeOptions, WorkflowOrder, budgets};
use rethread_engine::{Order as Direction, Span};
use rethread_workflow::{Status, Workflow, WorkflowId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::answers::{Answer, answer};
use super::{json, ok, sessions, tagged};
use crate::access::{Caller, READ, Routes, WRITE};
use crate::cursor;
use crate::extract::{IdempotencyKey, Json, PathParams, QueryParams};
use crate::live::stopping;
use crate::problem::Problem;
use crate::state::App;
use crate::views::Page;

const TAG: &str = "workflows";
/// How long to wait for the task boundary before answering that the pause is pending.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most tasks in parallel.
const MOST_JOBS: u32 = 64;
/// The longest reason that is kept, in characters.
const LONGEST_REASON: usize = 1_000;

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(READ, routes!(list))
        .api(WRITE, routes!(start))
        .api(READ, routes!(read))
        .api(READ, routes!(log))
        .api(WRITE, routes!(pause))
        .api(WRITE, routes!(resume))
        .api(WRITE, routes!(cancel))
        .api(WRITE, routes!(approve))
        .api(WRITE, routes!(reject))
        .api(WRITE, routes!(retry))
        .api(WRITE, routes!(skip))
}

/// Which workflows to list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only workflows of this user; those of others need the role admin
    pub(crate) user: Option<String>,
    /// Separated by commas: `pending`, `in_progress`, `blocked`, `paused`, `completed`, `failed`, `cancelled`
    pub(crate) status: Option<String>,
    /// Only workflows that work in this folder
    pub(crate) worktree: Option<String>,
    /// Where to continue: `next` of the previous answer
    pub(crate) cursor: Option<String>,
    /// 1 to 200
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
}

/// Workflows, newest first
#[utoipa::path(get, path = "/workflows", tag = TAG, params(ListParams), responses((status = 200, body = Page<WorkflowRowView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(asked): QueryParams<ListParams>,
) -> Result<Response, Problem> {
    ok(&listed(&app, &caller, asked).await?)
}

/// A page of the list.
pub(crate) async fn listed(
    app: &App,
    caller: &Caller,
    asked: ListParams,
) -> Result<Page<WorkflowRowView>, Problem> {
    let limit = cursor::limit(asked.limit)?;
    let filter = WorkflowFilter {
        user: sessions::scope(caller, asked.user),
        worktree: asked.worktree,
        statuses: asked.status.as_deref().map(statuses).transpose()?.unwrap_or_default(),
        before: asked.cursor.as_deref().map(cursor::decode::<WorkflowId>).transpose()?,
        limit: limit + 1,
    };
    let mut found = app.engine.workflows(&filter).await?;
    let is_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|row| cursor::encode(row.created_at, row.id));
    let items: Vec<_> = found.iter().map(WorkflowRowView::from).collect();
    Ok(Page { items: app.engine.masked(&items)?, next })
}

fn statuses(given: &str) -> Result<Vec<Status>, Problem> {
    let known = |word: &str| {
        let found = Status::ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| {
            let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
            Problem::new("bad_input", "status: there is no such status of workflows")
                .hint(format!("some of {}, with commas between them", all.join(", ")))
        })
    };
    given.split(',').map(|word| known(word.trim())).collect()
}

/// What to work on, and within which limits
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartWorkflow {
    /// The folder to work in; by default the server's
    pub(crate) worktree: Option<String>,
    /// The path of a plan, a Markdown file with tasks; relative to the worktree
    pub(crate) plan: Option<String>,
    /// What the work is about; without a plan the agent writes one first, which a person has to approve
    pub(crate) issue: Option<String>,
    /// The agent that works; by default the one in the settings
    pub(crate) agent: Option<String>,
    /// How many tasks may run in parallel
    #[schema(minimum = 1, maximum = 64)]
    pub(crate) jobs: Option<u32>,
    /// Pause after this many tasks
    #[schema(minimum = 1)]
    pub(crate) pause_after: Option<u32>,
    /// Pause when it has run for this many minutes in total
    #[schema(minimum = 1)]
    pub(crate) max_minutes: Option<u32>,
    /// Pause before a task that would exceed this many tokens in total
    #[schema(minimum = 1)]
    pub(crate) max_tokens: Option<u64>,
    /// Pause before a task that would exceed this cost in total
    #[schema(exclusive_minimum = 0)]
    pub(crate) max_cost_usd: Option<f64>,
}

/// Starts a workflow, which runs in the background
///
/// Commands in its plan wait until a person approves them. With an `Idempotency-Key` it is started once.
#[utoipa::path(post, path = "/workflows", tag = TAG, params(("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = StartWorkflow, responses((status = 201, body = WorkflowView)))]
async fn start(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    Json(started): Json<StartWorkflow>,
) -> Result<Response, Problem> {
    let (workflow, warning) = begin(&app, &caller, key, started).await?;
    let view = app.engine.masked_workflow_view(&workflow).await?;
    json(StatusCode::CREATED, &WorkflowView { warning, ..view })
}

/// Starts a workflow, unless a request with the same idempotency key has done so.
pub(crate) async fn begin(
    app: &App,
    caller: &Caller,
    key: Option<String>,
    started: StartWorkflow,
) -> Result<(Workflow, Option<String>), Problem> {
    if app.stop.is_cancelled() {
        return Err(stopping());
    }
    let mut order = ordered(app, caller, &started)?;
    if let Some(key) = key {
        let request = serde_json::to_vec(&started).unwrap_or_default();
        let reserved = app.engine.reserve("workflow", caller.user(), &key, &request).await?;
        let id = WorkflowId::from_uuid(reserved.id);
        order.id = Some(id);
        // One that is still pending may have been left by a server that crashed: it is started.
        match app.engine.workflow(id).await {
            Ok(there) if there.status() != Status::Pending => return Ok((there, None)),
            Ok(_) => (),
            Err(error) if error.code() == "workflow_not_found" => (),
            Err(error) => return Err(error.into()),
        }
    }
    match app.engine.start_workflow(app.program.as_ref(), order).await {
        Err(Fault::Engine(error)) if let Some(by) = error.worktree_taken_by() => {
            Err(taken(app, caller, by).await)
        }
        started => Ok(started?),
    }
}

/// Another workflow works in the folder. It is only named to callers who may see it.
async fn taken(app: &App, caller: &Caller, by: WorkflowId) -> Problem {
    let problem = Problem::worktree_taken();
    if app.workflow(caller, &by.to_string()).await.is_err() {
        return problem.hint("give another folder, or wait until it is over");
    }
    problem.hint(format!("resume or cancel workflow {by}, or give another folder"))
}

fn ordered(app: &App, caller: &Caller, started: &StartWorkflow) -> Result<WorkflowOrder, Problem> {
    let (plan, issue) = (filled(started.plan.as_deref()), filled(started.issue.as_deref()));
    if plan.is_none() && issue.is_none() {
        return Err(Problem::new("bad_input", "nothing to work on is given")
            .hint("give plan, the path of a markdown file with tasks, or issue, a text"));
    }
    if started.jobs.is_some_and(|jobs| jobs > MOST_JOBS) {
        return Err(Problem::new("bad_input", format!("jobs: at most {MOST_JOBS} side by side")));
    }
    let counts = [started.jobs, started.pause_after, started.max_minutes];
    let is_zero = counts.contains(&Some(0)) || started.max_tokens == Some(0);
    if is_zero || started.max_cost_usd.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
        return Err(Problem::new("limit_not_positive", "a limit must be above 0"));
    }
    let worktree = app.folder(filled(started.worktree.as_deref()))?;
    Ok(WorkflowOrder {
        id: None,
        user: Some(caller.user().to_owned()),
        plan: plan.map(|path| within(&worktree, path)).transpose()?,
        worktree,
        issue: issue.map(str::to_owned),
        agent: filled(started.agent.as_deref()).map(str::to_owned),
        jobs: started.jobs,
        pause_after: started.pause_after,
        max_minutes: started.max_minutes.map(f64::from),
        max_tokens: started.max_tokens,
        max_cost: started.max_cost_usd,
        permissions: None,
    })
}

/// A file in the worktree, and nowhere else.
fn within(worktree: &Path, path: &str) -> Result<PathBuf, Problem> {
    let outside = || Problem::new("bad_input", "plan: there is no such file in the worktree");
    let whole = std::fs::canonicalize(worktree.join(path)).map_err(|_| outside())?;
    if whole.starts_with(worktree) { Ok(whole) } else { Err(outside()) }
}

pub(super) fn filled(given: Option<&str>) -> Option<&str> {
    given.map(str::trim).filter(|text| !text.is_empty())
}

/// A workflow with its tasks, and what it waits for
#[utoipa::path(get, path = "/workflows/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = WorkflowView), (status = 304)))]
async fn read(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    let view = app.engine.masked_workflow_view(&workflow).await?;
    let said: usize =
        view.tasks.iter().filter_map(|task| task.saying.as_ref()).map(String::len).sum();
    let tag = format!("{}.{}.{said}", workflow.events, u8::from(view.is_running));
    tagged(&headers, &tag, || ok(&view))
}

/// Which events of the log
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventLogParams {
    /// Only events after this number; by default 0, from the beginning
    after: Option<u32>,
    /// Only events before this number; with it, the newest come first
    before: Option<u32>,
    /// 1 to 200
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// The log of a workflow in pages: `after` continues from the oldest, `before` backwards from the newest
///
/// Give `next` as `before` if that was given, otherwise as `after`.
#[utoipa::path(get, path = "/workflows/{id}/events", tag = TAG, params(("id" = String, Path), EventLogParams),
    responses((status = 200, body = Page<WorkflowEventView>)))]
async fn log(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<EventLogParams>,
) -> Result<Response, Problem> {
    let limit = cursor::limit(asked.limit)?;
    let workflow = app.workflow(&caller, &id).await?;
    let from = asked.after.unwrap_or(0).saturating_add(1);
    let to = asked.before.map_or(workflow.events, |before| before.saturating_sub(1));
    let order =
        if asked.before.is_some() { Direction::NewestFirst } else { Direction::OldestFirst };
    let records = app.engine.workflow_log(workflow.id, Span { from, to, order, limit }).await?;
    let items: Vec<_> = records.iter().map(WorkflowEventView::from).collect();
    let items = app.engine.masked(&items)?;
    let next = records.last().map(|last| last.no).filter(|last| match order {
        Direction::OldestFirst => *last < to,
        Direction::NewestFirst => *last > from,
    });
    let next = next.map(|no| no.to_string());
    ok(&Page { items, next })
}

/// Why and how to pause
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseWorkflow {
    /// The reason; shown to whoever resumes it
    pub(crate) reason: Option<String>,
    /// Interrupt the running task instead of waiting for its end; the task is repeated on resume
    pub(crate) now: Option<bool>,
}

/// Pauses a workflow when its running task is done
#[utoipa::path(post, path = "/workflows/{id}/pause", tag = TAG, params(("id" = String, Path)), request_body = PauseWorkflow,
    responses((status = 200, description = "It is paused", body = MoveView),
        (status = 202, description = "It pauses at the boundary", body = MoveView)))]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Json(paused): Json<PauseWorkflow>,
) -> Result<Response, Problem> {
    let workflow = ask_pause(&app, &caller, &id, paused).await?;
    let is_waiting = workflow.status() == Status::InProgress;
    let status = if is_waiting { StatusCode::ACCEPTED } else { StatusCode::OK };
    json(status, &MoveView::of(&workflow))
}

/// Requests a pause, and waits briefly for the task boundary.
pub(crate) async fn ask_pause(
    app: &App,
    caller: &Caller,
    id: &str,
    paused: PauseWorkflow,
) -> Result<Workflow, Problem> {
    let workflow = app.workflow(caller, id).await?;
    let reason = reason(paused.reason).unwrap_or_else(|| "requested".to_owned());
    let now = paused.now == Some(true);
    Ok(app.engine.pause_workflow(&app.program, workflow.id, reason, now, PATIENCE).await?)
}

pub(super) fn reason(given: Option<String>) -> Option<String> {
    filled(given.as_deref()).map(|text| one_line(text, LONGEST_REASON))
}

/// From which snapshot and with which agent to resume
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeWorkflow {
    /// The id of a snapshot, or a prefix; by default the latest
    pub(crate) from: Option<String>,
    /// Another agent to continue with
    pub(crate) with: Option<String>,
    /// Whether tasks may be repeated that were not done at that snapshot; files and commits stay as they are
    pub(crate) rewind: Option<bool>,
    /// A new limit of tokens in total
    pub(crate) max_tokens: Option<u64>,
    /// A new limit of cost in total
    pub(crate) max_cost_usd: Option<f64>,
    /// A new limit of minutes in total
    #[schema(minimum = 1)]
    pub(crate) max_minutes: Option<u32>,
}

/// Resumes a paused workflow in the background
#[utoipa::path(post, path = "/workflows/{id}/resume", tag = TAG, params(("id" = String, Path)), request_body = ResumeWorkflow,
    responses((status = 200, body = MoveView)))]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Json(resume): Json<ResumeWorkflow>,
) -> Result<Response, Problem> {
    ok(&go_on(&app, &caller, &id, resume).await?)
}

/// Resumes a workflow.
pub(crate) async fn go_on(
    app: &App,
    caller: &Caller,
    id: &str,
    resume: ResumeWorkflow,
) -> Result<MoveView, Problem> {
    if app.stop.is_cancelled() {
        return Err(stopping());
    }
    let workflow = app.workflow(caller, id).await?;
    let from = filled(resume.from.as_deref()).filter(|from| *from != "latest");
    let minutes = resume.max_minutes.map(f64::from);
    let budgets = budgets(minutes, resume.max_tokens, resume.max_cost_usd)
        .map_err(|fault| Problem::new("limit_not_positive", fault.to_string()))?;
    let asked = ResumeOptions {
        from: from.map(str::to_owned),
        agent: filled(resume.with.as_deref()).map(str::to_owned),
        budgets,
        permissions: None,
        may_rewind: resume.rewind == Some(true),
    };
    let resumed = app.engine.resume_workflow(&app.program, workflow.id, &asked).await?;
    let moved = MoveView {
        status: "resumed".to_owned(),
        workflow_id: workflow.id.to_string(),
        snapshot_id: Some(resumed.snapshot.id.to_string()),
        diverged: resumed.diverged,
    };
    Ok(app.engine.masked(&moved)?)
}

/// An optional reason
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonBody {
    reason: Option<String>,
}

/// An approval
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproveWorkflow {
    /// The question as it was read: if another one is asked by now, nothing is approved
    question: Option<String>,
    /// The task that it is about, where several things are asked; a task with `approve` can be approved ahead of time
    task: Option<String>,
    /// Why; kept with the approval
    reason: Option<String>,
}

/// A rejection
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectWorkflow {
    reason: Option<String>,
    /// The task that it is about, where several things are asked
    task: Option<String>,
}

/// The task
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskBody {
    task: String,
}

/// The task, and who does it
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryTask {
    task: String,
    /// Another agent to continue with
    with: Option<String>,
}

macro_rules! sayings {
    ($($(#[$doc:meta])* $name:ident $path:literal $body:ty, $said:expr;)*) => {
        $(
            $(#[$doc])*
            #[utoipa::path(post, path = $path, tag = TAG, params(("id" = String, Path)), request_body = $body,
                responses((status = 200, body = WorkflowView)))]
            async fn $name(
                State(app): State<App>,
                caller: Caller,
                PathParams(id): PathParams<String>,
                Json(body): Json<$body>,
            ) -> Result<Response, Problem> {
                let said: fn($body) -> Answer = $said;
                let workflow = answer(&app, &caller, &id, said(body)).await?;
                ok(&app.engine.masked_workflow_view(&workflow).await?)
            }
        )*
    };
}

sayings! {
    /// Cancels a workflow for good; what was done stays
    cancel "/workflows/{id}/cancel" ReasonBody, |body| Answer::Cancel(body.reason);
    /// Approves what a workflow waits for: its plan, that a task begins, or a command, which may run from then on
    ///
    /// A command of which a part is masked cannot be approved here (`command_hidden`), only in a terminal, which shows all of it.
    approve "/workflows/{id}/approve" ApproveWorkflow, |body| Answer::Approve { read: body.question, task: body.task, why: body.reason };
    /// Rejects what a workflow waits for: a plan is written again, a failed task is given up
    reject "/workflows/{id}/reject" RejectWorkflow, |body| Answer::Reject { why: body.reason, task: body.task };
    /// Runs a failed or skipped task again
    retry "/workflows/{id}/retry" RetryTask, |body| Answer::Retry { task: body.task, with: body.with };
    /// Skips a task: those that depend on it may begin
    skip "/workflows/{id}/skip" TaskBody, |body| Answer::Skip(body.task);
}
