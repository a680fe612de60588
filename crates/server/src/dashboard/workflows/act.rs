//! What can be done with a workflow by a form: it works without the script, comes back to the page, and tells there
//! what came of it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rethread_workflow::Status;
use serde::Deserialize;

use super::list;
use super::start::{Fields, Start, is_told_beside};
use crate::access::Caller;
use crate::dashboard::frame::back;
use crate::dashboard::posted::Posted;
use crate::dashboard::words::{self, some};
use crate::extract::At;
use crate::problem::{Problem, ProblemCode};
use crate::routes::answers::{self, Said};
use crate::routes::workflows::{self, Paused, Resume};
use crate::state::App;

/// Back to the workflow's page. What does not fit its state is said there, where its state is seen.
fn ended(id: &str, done: Result<&str, Problem>) -> Result<Response, Problem> {
    let place = format!("/workflows/{}", words::encoded(id));
    match done {
        Ok(code) => back(&format!("{place}?told={code}")),
        Err(problem) if is_told_there(&problem) => {
            back(&format!("{place}?failed={}", problem.code))
        }
        Err(problem) => Err(problem),
    }
}

fn is_told_there(problem: &Problem) -> bool {
    matches!(problem.status(), StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY)
        && problem.code != "ambiguous_id"
}

pub(super) async fn start(
    State(app): State<App>,
    caller: Caller,
    Posted(fields): Posted<Fields>,
) -> Result<Response, Problem> {
    let begun = match fields.read() {
        Ok(started) => workflows::begin(&app, &caller, None, started).await,
        Err(problem) => Err(problem),
    };
    match begun {
        Ok((workflow, _)) => ended(&workflow.id.to_string(), Ok("started")),
        Err(problem) if is_told_beside(&problem) => {
            let form = Start::again(&app, fields, &problem)?;
            let mut page = list::with(&app, &caller, list::Asked::default(), form).await?;
            *page.status_mut() = problem.status();
            page.extensions_mut().insert(ProblemCode(problem.code));
            Ok(page)
        }
        Err(problem) => Err(problem),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Wish {
    #[serde(default)]
    reason: String,
    now: Option<String>,
}

pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(wish): Posted<Wish>,
) -> Result<Response, Problem> {
    let paused = Paused { reason: some(&wish.reason), now: Some(wish.now.is_some()) };
    let done = workflows::ask_pause(&app, &caller, &id, paused).await;
    let code = |status| if status == Status::InProgress { "pausing" } else { "paused" };
    ended(&id, done.map(|workflow| code(workflow.status())))
}

#[derive(Debug, Deserialize)]
pub(super) struct Going {
    #[serde(default)]
    from: String,
    #[serde(default)]
    with: String,
    /// Tasks may be done again.
    rewind: Option<String>,
}

pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(going): Posted<Going>,
) -> Result<Response, Problem> {
    let (from, with) = (some(&going.from), some(&going.with));
    let resume = Resume { from, with, rewind: Some(going.rewind.is_some()), ..Resume::default() };
    let done = workflows::go_on(&app, &caller, &id, resume).await;
    ended(&id, done.map(|_| "resumed"))
}

#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    task: String,
    question: Option<String>,
}

/// Cancels, approves, rejects, retries or skips.
pub(super) async fn say(
    State(app): State<App>,
    caller: Caller,
    At((id, what)): At<(String, String)>,
    Posted(answer): Posted<Answer>,
) -> Result<Response, Problem> {
    let (said, code) = match what.as_str() {
        "cancel" => (Said::Cancel(some(&answer.reason)), "cancelled"),
        "approve" => (Said::Approve(answer.question), "approved"),
        "reject" => (Said::Reject(some(&answer.reason)), "rejected"),
        "retry" => (Said::Retry(answer.task), "retried"),
        "skip" => (Said::Skip(answer.task), "skipped"),
        _ => return Err(Problem::new("not_found", "there is no such action for a workflow")),
    };
    let done = answers::say(&app, &caller, &id, said).await;
    ended(&id, done.map(|_| code))
}
