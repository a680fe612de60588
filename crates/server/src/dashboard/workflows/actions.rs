//! The forms that change a workflow. They work without JavaScript, and redirect back to the page with a notice of the
//! outcome.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rethread_workflow::Status;
use serde::Deserialize;

use super::list;
use super::start::{Fields, Start, is_shown_in_form};
use crate::access::Caller;
use crate::dashboard::form::Form;
use crate::dashboard::frame::back;
use crate::dashboard::humanize::{self, some};
use crate::extract::PathParams;
use crate::problem::{Problem, ProblemCode};
use crate::routes::answers::{self, Answer};
use crate::routes::workflows::{self, PauseWorkflow, ResumeWorkflow};
use crate::state::App;

/// Redirects to the workflow's page. What does not fit its state is reported there, where the state can be seen.
fn ended(id: &str, done: Result<&str, Problem>) -> Result<Response, Problem> {
    let place = format!("/workflows/{}", humanize::encoded(id));
    match done {
        Ok(code) => back(&format!("{place}?notice={code}")),
        Err(problem) if is_shown_there(&problem) => {
            back(&format!("{place}?failed={}", problem.code))
        }
        Err(problem) => Err(problem),
    }
}

fn is_shown_there(problem: &Problem) -> bool {
    matches!(problem.status(), StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY)
        && problem.code != "ambiguous_id"
}

pub(super) async fn start(
    State(app): State<App>,
    caller: Caller,
    Form(fields): Form<Fields>,
) -> Result<Response, Problem> {
    let begun = match fields.read() {
        Ok(started) => workflows::begin(&app, &caller, None, started).await,
        Err(problem) => Err(problem),
    };
    match begun {
        Ok((workflow, _)) => ended(&workflow.id.to_string(), Ok("started")),
        Err(problem) if is_shown_in_form(&problem) => {
            let form = Start::again(&app, fields, &problem)?;
            let mut page = list::with(&app, &caller, list::Filters::default(), form).await?;
            *page.status_mut() = problem.status();
            page.extensions_mut().insert(ProblemCode(problem.code));
            Ok(page)
        }
        Err(problem) => Err(problem),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct PauseForm {
    #[serde(default)]
    reason: String,
    now: Option<String>,
}

pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(wish): Form<PauseForm>,
) -> Result<Response, Problem> {
    let paused = PauseWorkflow { reason: some(&wish.reason), now: Some(wish.now.is_some()) };
    let done = workflows::ask_pause(&app, &caller, &id, paused).await;
    let code = |status| if status == Status::InProgress { "pausing" } else { "paused" };
    ended(&id, done.map(|workflow| code(workflow.status())))
}

#[derive(Debug, Deserialize)]
pub(super) struct ResumeForm {
    #[serde(default)]
    from: String,
    #[serde(default)]
    with: String,
    /// Whether tasks may be repeated.
    rewind: Option<String>,
}

pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(going): Form<ResumeForm>,
) -> Result<Response, Problem> {
    let (from, with) = (some(&going.from), some(&going.with));
    let resume = ResumeWorkflow {
        from,
        with,
        rewind: Some(going.rewind.is_some()),
        ..ResumeWorkflow::default()
    };
    let done = workflows::go_on(&app, &caller, &id, resume).await;
    ended(&id, done.map(|_| "resumed"))
}

#[derive(Debug, Deserialize)]
pub(super) struct AnswerForm {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    task: String,
    question: Option<String>,
}

/// Cancels a workflow, approves, rejects, retries or skips.
pub(super) async fn say(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, what)): PathParams<(String, String)>,
    Form(answer): Form<AnswerForm>,
) -> Result<Response, Problem> {
    let (said, code) = match what.as_str() {
        "cancel" => (Answer::Cancel(some(&answer.reason)), "cancelled"),
        "approve" => {
            let (read, task, why) = (answer.question, some(&answer.task), some(&answer.reason));
            (Answer::Approve { read, task, why }, "approved")
        }
        "reject" => {
            let (why, task) = (some(&answer.reason), some(&answer.task));
            (Answer::Reject { why, task }, "rejected")
        }
        "retry" => (Answer::Retry { task: answer.task, with: None }, "retried"),
        "skip" => (Answer::Skip(answer.task), "skipped"),
        _ => return Err(Problem::new("not_found", "there is no such action for a workflow")),
    };
    let done = answers::answer(&app, &caller, &id, said).await;
    ended(&id, done.map(|_| code))
}
