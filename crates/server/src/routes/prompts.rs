//! Turns with agents: send a prompt, follow the turn, answer the agent's questions, cancel it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rethread_engine::agents::{RequestId, TurnRequest, WhenBusy, check_prompt};
use rethread_engine::program::{Choice, check_installed};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{json, ok};
use crate::access::{Caller, READ, Routes, STREAM, WRITE};
use crate::extract::{IdempotencyKey, Json, PathParams};
use crate::live::{self, stopping};
use crate::problem::Problem;
use crate::state::App;
use crate::turns::{Questions, Request, Turn};
use crate::views::TurnView;

const TAG: &str = "turns";
/// The longest prompt, in bytes.
const LONGEST: usize = 1 << 20;

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(WRITE, routes!(send))
        .api(READ, routes!(read))
        .api(STREAM, routes!(follow))
        .api(WRITE, routes!(answer))
        .api(WRITE, routes!(cancel))
}

/// A prompt, and the agent it is for
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendPrompt {
    #[schema(min_length = 1)]
    prompt: String,
    /// The agent; by default the one that answered last
    agent: Option<String>,
    /// The conversation of the session, or `new`; by default the most recent one
    conversation: Option<String>,
    model: Option<String>,
}

/// Sends a prompt to an agent, which first gets everything it has missed
///
/// Answers at once; the turn continues whether or not anybody follows it. With an `Idempotency-Key` it is sent once. An agent that is not
/// installed is refused at once (`not_installed`), and the key can be used again.
#[utoipa::path(post, path = "/sessions/{id}/prompts", tag = TAG,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = SendPrompt, responses((status = 202, body = TurnView)))]
async fn send(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    IdempotencyKey(key): IdempotencyKey,
    Json(prompt): Json<SendPrompt>,
) -> Result<Response, Problem> {
    let turn = begin(&app, &caller, &id, key, prompt).await?;
    json(StatusCode::ACCEPTED, &TurnView::of(&app, &turn))
}

impl SendPrompt {
    pub(crate) fn new(prompt: String, agent: Option<String>) -> Self {
        Self { prompt, agent, conversation: None, model: None }
    }
}

/// Starts a turn.
pub(crate) async fn begin(
    app: &App,
    caller: &Caller,
    id: &str,
    key: Option<String>,
    prompt: SendPrompt,
) -> Result<Arc<Turn>, Problem> {
    if app.stop.is_cancelled() {
        return Err(stopping());
    }
    check_prompt(&prompt.prompt)?;
    if prompt.prompt.len() > LONGEST {
        let what =
            format!("the prompt has {} bytes; at most {LONGEST} are allowed", prompt.prompt.len());
        return Err(Problem::new("bad_input", what));
    }
    let session = app.session(caller, id).await?;
    session.accepts_messages()?;
    let request = serde_json::to_vec(&(session.id, &prompt)).unwrap_or_default();
    let choice = Choice {
        agent: prompt.agent,
        conversation: prompt.conversation,
        model: prompt.model,
        ..Choice::default()
    };
    // Checked before the idempotency key is used up.
    let questions = Questions::new(app.engine.clone());
    let (program, asker) = (app.program.as_ref(), Arc::<Questions>::clone(&questions));
    let (mut options, _) = app.engine.open_options(program, &session, &choice, asker).await?;
    check_installed(app.program.as_ref(), &options.agent)?;
    let turn = match key {
        Some(key) => app.engine.reserve("prompt", caller.user(), &key, &request).await?.id,
        None => Uuid::now_v7(),
    };
    let known_as = RequestId::new(turn);
    if app.turns.find(turn).is_none()
        && app.engine.message_by_id(session.id, &known_as.to_string()).await?.is_some()
    {
        return Err(Problem::new("key_reused", "this was sent before the server was restarted")
            .hint("the session has what was sent, and what came of it"));
    }
    options.request_id = Some(known_as);
    app.turns.begin(Request {
        id: turn,
        engine: app.engine.clone(),
        turn: TurnRequest { options, prompt: prompt.prompt, when_busy: WhenBusy::Delegate },
        questions,
        user: session.user,
        metrics: app.metrics.turns(),
    })
}

fn find(app: &App, caller: &Caller, given: &str) -> Result<Arc<Turn>, Problem> {
    let id = given
        .parse::<Uuid>()
        .map_err(|_| Problem::new("bad_id", "this is not the id of a turn"))?;
    let found = app.turns.find(id).filter(|turn| caller.may_see(&turn.user));
    found.ok_or_else(|| {
        Problem::new("turn_not_found", "there is no such turn")
            .hint("turns that ended long ago are only in their session")
    })
}

/// The state of a turn
#[utoipa::path(get, path = "/turns/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = TurnView)))]
async fn read(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    ok(&TurnView::of(&app, &*find(&app, &caller, &id)?))
}

/// The answer to a question of a turn
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerQuestion {
    #[schema(minimum = 1)]
    question_id: u32,
    #[schema(minimum = 1)]
    option_id: u32,
}

/// Answers a question that the agent asks in a turn
///
/// Once: a second answer is refused. A lasting answer (`allow_always`, `reject_always`) is remembered for the agent, the
/// project and exactly this command, these files or this change.
#[utoipa::path(post, path = "/turns/{id}/answers", tag = TAG, params(("id" = String, Path)),
    request_body = AnswerQuestion, responses((status = 200, body = TurnView)))]
async fn answer(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Json(chosen): Json<AnswerQuestion>,
) -> Result<Response, Problem> {
    let turn = find(&app, &caller, &id)?;
    turn.questions.answer(chosen.question_id, chosen.option_id)?;
    ok(&TurnView::of(&app, &turn))
}

/// Cancels a turn; what was said until then is kept
#[utoipa::path(post, path = "/turns/{id}/cancel", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = TurnView)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let turn = find(&app, &caller, &id)?;
    turn.cancel();
    ok(&TurnView::of(&app, &turn))
}

/// Follows a turn: server-sent events with what the agent says, does and asks, from the beginning until the turn is over
#[utoipa::path(get, path = "/turns/{id}/events", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
async fn follow(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let turn = find(&app, &caller, &id)?;
    live::turn(&app, &caller, turn)
}
