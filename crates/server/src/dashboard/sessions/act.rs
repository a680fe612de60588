//! What can be done with a session by a form: it works without the script, and comes back to the page.

use axum::extract::State;
use axum::response::Response;
use rethread_domain::SessionId;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::Move;
use serde::Deserialize;

use super::send::Draft;
use super::show::{self, Asked};
use crate::access::Caller;
use crate::dashboard::frame::back;
use crate::dashboard::posted::Posted;
use crate::extract::At;
use crate::problem::{Problem, ProblemCode};
use crate::routes::prompts::{self, Prompt};
use crate::state::App;

fn to(id: SessionId, told: &str) -> Result<Response, Problem> {
    back(&format!("/sessions/{id}?told={told}"))
}

/// Moves it from one status to another, deletes it, or brings it back.
pub(super) async fn act(
    State(app): State<App>,
    caller: Caller,
    At((id, what)): At<(String, String)>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?.id;
    let (asked, told) = match what.as_str() {
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
    to(session, told)
}

#[derive(Debug, Deserialize)]
pub(super) struct Renamed {
    title: String,
}

pub(super) async fn rename(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(renamed): Posted<Renamed>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    app.engine.retitle(session.id, renamed.title.trim(), TitleFrom::Person).await?;
    to(session.id, "renamed")
}

#[derive(Debug, Deserialize)]
pub(super) struct Forked {
    /// The last message that both have; empty for the newest.
    #[serde(default)]
    at: String,
}

pub(super) async fn fork(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(forked): Posted<Forked>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let at = Some(forked.at.trim()).filter(|at| !at.is_empty()).map(str::parse::<u32>).transpose();
    let at = at.map_err(|_| Problem::new("bad_input", "this is not the number of a message"))?;
    let new = app.engine.fork_as(SessionId::generate(), session.id, at).await?;
    to(new.id, "forked")
}

#[derive(Debug, Deserialize)]
pub(super) struct Sent {
    prompt: String,
    #[serde(default)]
    agent: String,
}

pub(super) async fn send(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(sent): Posted<Sent>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let agent = Some(sent.agent).filter(|agent| !agent.is_empty());
    let prompt = Prompt::new(sent.prompt.clone(), agent.clone());
    match prompts::begin(&app, &caller, &id, None, prompt).await {
        Ok(turn) => back(&format!("/sessions/{}?told=sent#end", turn.session)),
        // Whatever it was: what was written is not lost.
        Err(problem) => {
            let draft = Draft::refused(sent.prompt, agent, &problem);
            let mut page = show::with(&app, &caller, &session, &Asked::default(), draft).await?;
            *page.status_mut() = problem.status();
            page.extensions_mut().insert(ProblemCode(problem.code));
            Ok(page)
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Cancelled {
    turn: String,
}

pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(cancelled): Posted<Cancelled>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    // One that is over meanwhile needs no cancelling.
    for turn in app.turns.running_in(session.id) {
        if turn.id.to_string() == cancelled.turn {
            turn.cancel();
        }
    }
    back(&format!("/sessions/{}?told=cancelled#end", session.id))
}

#[derive(Debug, Deserialize)]
pub(super) struct Answered {
    turn: String,
    question: u32,
    option: u32,
}

pub(super) async fn answer(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Posted(answered): Posted<Answered>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let running = app.turns.running_in(session.id);
    let turn = running.iter().find(|turn| turn.id.to_string() == answered.turn);
    let told = match turn.map(|turn| turn.questions.answer(answered.question, answered.option)) {
        Some(Ok(())) => "answered",
        Some(Err(problem)) if problem.code == "unknown_option" => return Err(problem),
        // The page was older than what it shows.
        Some(Err(_)) | None => "too-late",
    };
    back(&format!("/sessions/{}?told={told}#questions", session.id))
}
