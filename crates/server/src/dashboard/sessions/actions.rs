//! The forms that change a session. They work without JavaScript and redirect back to the page.

use axum::extract::State;
use axum::response::Response;
use rethread_domain::SessionId;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::Move;
use serde::Deserialize;

use super::send::Draft;
use super::show::{self, PageParams};
use crate::access::Caller;
use crate::dashboard::form::Form;
use crate::dashboard::frame::back;
use crate::extract::PathParams;
use crate::problem::{Problem, ProblemCode};
use crate::routes::prompts::{self, SendPrompt};
use crate::state::App;

fn to(id: SessionId, notice: &str) -> Result<Response, Problem> {
    back(&format!("/sessions/{id}?notice={notice}"))
}

/// Changes the status of a session, deletes it, or restores it.
pub(super) async fn act(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, what)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?.id;
    let (asked, notice) = match what.as_str() {
        "pause" => (Move::Pause, "paused"),
        "complete" => (Move::Complete, "completed"),
        "activate" => (Move::Reopen, "activated"),
        "archive" => (Move::Archive, "archived"),
        "unarchive" => (Move::Unarchive, "unarchived"),
        "delete" => {
            app.engine.delete(session).await?;
            return to(session, "deleted");
        }
        "undelete" => {
            app.engine.undelete(session).await?;
            return to(session, "undeleted");
        }
        _ => return Err(Problem::new("not_found", "there is no such action for a session")),
    };
    app.engine.shift(session, asked).await?;
    to(session, notice)
}

#[derive(Debug, Deserialize)]
pub(super) struct RenameForm {
    title: String,
}

pub(super) async fn rename(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(renamed): Form<RenameForm>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    app.engine.retitle(session.id, renamed.title.trim(), TitleFrom::Person).await?;
    to(session.id, "renamed")
}

#[derive(Debug, Deserialize)]
pub(super) struct ForkForm {
    /// The last shared message; empty means the newest.
    #[serde(default)]
    at: String,
}

pub(super) async fn fork(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(forked): Form<ForkForm>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let at = Some(forked.at.trim()).filter(|at| !at.is_empty()).map(str::parse::<u32>).transpose();
    let at = at.map_err(|_| Problem::new("bad_input", "this is not the number of a message"))?;
    let new = app.engine.fork_as(SessionId::generate(), session.id, at).await?;
    to(new.id, "forked")
}

#[derive(Debug, Deserialize)]
pub(super) struct PromptForm {
    prompt: String,
    #[serde(default)]
    agent: String,
}

pub(super) async fn send(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(sent): Form<PromptForm>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let agent = Some(sent.agent).filter(|agent| !agent.is_empty());
    let prompt = SendPrompt::new(sent.prompt.clone(), agent.clone());
    match prompts::begin(&app, &caller, &id, None, prompt).await {
        Ok(turn) => back(&format!("/sessions/{}?notice=sent#end", turn.session)),
        // Whatever the reason, the text that the user wrote must not be lost.
        Err(problem) => {
            let draft = Draft::refused(sent.prompt, agent, &problem);
            let mut page =
                show::with(&app, &caller, &session, &PageParams::default(), draft).await?;
            *page.status_mut() = problem.status();
            page.extensions_mut().insert(ProblemCode(problem.code));
            Ok(page)
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CancelForm {
    turn: String,
}

pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(cancelled): Form<CancelForm>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    // A turn that has ended in the meantime needs no cancelling.
    for turn in app.turns.running_in(session.id) {
        if turn.id.to_string() == cancelled.turn {
            turn.cancel();
        }
    }
    back(&format!("/sessions/{}?notice=cancelled#end", session.id))
}

#[derive(Debug, Deserialize)]
pub(super) struct AnswerForm {
    turn: String,
    question: u32,
    option: u32,
}

pub(super) async fn answer(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Form(answered): Form<AnswerForm>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let running = app.turns.running_in(session.id);
    let turn = running.iter().find(|turn| turn.id.to_string() == answered.turn);
    let notice = match turn.map(|turn| turn.questions.answer(answered.question, answered.option)) {
        Some(Ok(())) => "answered",
        Some(Err(problem)) if problem.code == "unknown_option" => return Err(problem),
        // The page was out of date.
        Some(Err(_)) | None => "too-late",
    };
    back(&format!("/sessions/{}?notice={notice}#questions", session.id))
}
