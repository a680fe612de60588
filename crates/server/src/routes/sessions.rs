//! Sessions: list, find, begin, read, change, fork, export, delete.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::{Beginning, Move};
use rethread_domain::{Session, SessionId, Status};
use rethread_engine::exchange::{Format, Secrets};
use rethread_engine::views::{ConversationView, SessionView, openings};
use rethread_engine::{Context, ContextOptions, ListFilter};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::{json, ok, tagged};
use crate::access::{Caller, READ, Routes, WRITE};
use crate::cursor;
use crate::extract::{At, Json, Key, Params};
use crate::problem::Problem;
use crate::state::App;
use crate::views::{Page, Whole};

const TAG: &str = "sessions";

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(READ, routes!(list))
        .api(WRITE, routes!(create))
        .api(READ, routes!(read))
        .api(WRITE, routes!(rename, delete))
        .api(READ, routes!(context))
        .api(WRITE, routes!(pause))
        .api(WRITE, routes!(complete))
        .api(WRITE, routes!(activate))
        .api(WRITE, routes!(archive))
        .api(WRITE, routes!(unarchive))
        .api(WRITE, routes!(undelete))
        .api(WRITE, routes!(fork))
        .api(READ, routes!(export))
}

/// Which sessions
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only those of this user; others need the role admin
    user: Option<String>,
    /// Only those about this folder
    project: Option<String>,
    kind: Option<String>,
    agent: Option<String>,
    /// `active`, `paused`, `completed` or `archived`; without it, all that can be resumed
    #[param(inline)]
    status: Option<Status_>,
    /// Archived ones too
    archived: Option<bool>,
    /// Only deleted ones
    deleted: Option<bool>,
    /// Where to go on: `next` of the answer before
    cursor: Option<String>,
    /// 1 to 200
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status_ {
    Active,
    Paused,
    Completed,
    Archived,
}

impl From<Status_> for Status {
    fn from(status: Status_) -> Self {
        match status {
            Status_::Active => Self::Active,
            Status_::Paused => Self::Paused,
            Status_::Completed => Self::Completed,
            Status_::Archived => Self::Archived,
        }
    }
}

/// A user that is asked for, if the caller may see theirs; otherwise the caller's own scope.
pub(crate) fn scope(caller: &Caller, user: Option<String>) -> Option<String> {
    match user {
        Some(user) if caller.may_see(&user) => Some(user),
        // Nobody's: nothing is found, as if they had none.
        Some(_) => Some(String::new()),
        None => caller.scope(),
    }
}

/// Sessions, the most recent first
#[utoipa::path(get, path = "/sessions", tag = TAG, params(Listed), responses((status = 200, body = Page<SessionView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<Listed>,
) -> Result<Response, Problem> {
    app.keep_up().await;
    let limit = cursor::limit(asked.limit)?;
    let before = asked.cursor.as_deref().map(cursor::decode::<SessionId>).transpose()?;
    let filter = ListFilter {
        user: scope(&caller, asked.user),
        project: asked.project,
        kind: asked.kind,
        agent: asked.agent,
        status: asked.status.map(Status::from),
        archived: asked.archived.unwrap_or(false),
        deleted: asked.deleted.unwrap_or(false),
        before,
        limit: limit + 1,
        ..ListFilter::default()
    };
    let mut found = app.engine.list(&filter).await?;
    let is_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| is_more);
    let next = last.map(cursor::after);
    let items = found.iter().map(|session| app.session_view(session)).collect::<Result<_, _>>()?;
    ok(&Page { items, next })
}

/// What a session is begun with
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Begun {
    /// The folder that it is about; by default that of the server
    project: Option<String>,
    /// Such as `chat`, `debug` or `plan`
    kind: Option<String>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<String>,
}

/// Begins a session
///
/// With an `Idempotency-Key` a repeated request gives the session that the first one began.
#[utoipa::path(post, path = "/sessions", tag = TAG, params(("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = Begun, responses((status = 201, body = SessionView)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Key(key): Key,
    Json(begun): Json<Begun>,
) -> Result<Response, Problem> {
    let folder = app.folder(begun.project.as_deref())?;
    let beginning = Beginning {
        user: caller.user().to_owned(),
        project: folder.to_string_lossy().into_owned(),
        kind: begun.kind.unwrap_or_else(|| "chat".to_owned()),
        title: begun.title,
        agent: begun.agent,
        model: begun.model,
        command: None,
        prompt_hash: None,
        tools: Vec::new(),
        forked_from: None,
        parent: None,
    };
    let id = match key {
        Some(key) => {
            let request = serde_json::to_vec(&beginning).unwrap_or_default();
            reserved(&app, &caller, "session", &key, &request).await?
        }
        None => SessionId::generate(),
    };
    let title = beginning.title.clone();
    let session = app.engine.start_as(id, beginning).await?;
    let session = app.engine.keep_title(session, title.as_deref()).await?;
    json(StatusCode::CREATED, &app.session_view(&session)?)
}

/// The id that stands for a key: the same request with the same key gets the same one.
pub(super) async fn reserved(
    app: &App,
    caller: &Caller,
    what: &str,
    key: &str,
    request: &[u8],
) -> Result<SessionId, Problem> {
    let scoped = format!("{what} {} {key}", caller.user());
    let reserved = app.engine.reserve(&scoped, request).await?;
    Ok(reserved.id.to_string().parse()?)
}

/// A session with its conversations, and how each run was opened
#[utoipa::path(get, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = Whole), (status = 304)))]
async fn read(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let running = app.turns.running_in(session.id);
    let tag = format!("{}.{}.{}", session.facts, session.last_seq, running.len());
    let conversations = app.engine.conversations(session.id).await?;
    let conversations: Vec<_> = conversations.iter().map(ConversationView::from).collect();
    let openings = openings(&app.engine.facts(session.id).await?);
    tagged(&headers, &tag, || {
        ok(&Whole {
            session: app.session_view(&session)?,
            conversations: app.engine.masked(&conversations)?,
            openings,
            running_turns: running.iter().map(|turn| turn.id.to_string()).collect(),
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renamed {
    title: String,
}

/// Gives a session another title
#[utoipa::path(patch, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)), request_body = Renamed,
    responses((status = 200, body = SessionView)))]
async fn rename(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Json(renamed): Json<Renamed>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let session = app.engine.retitle(session.id, &renamed.title, TitleFrom::Person).await?;
    ok(&app.session_view(&session)?)
}

/// Deletes a session; it can be brought back for 30 days
#[utoipa::path(delete, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = SessionView)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let session = app.engine.delete(session.id).await?;
    ok(&app.session_view(&session)?)
}

/// Brings a deleted session back
#[utoipa::path(post, path = "/sessions/{id}/undelete", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = SessionView)))]
async fn undelete(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let session = app.engine.undelete(session.id).await?;
    ok(&app.session_view(&session)?)
}

async fn shifted(app: &App, caller: &Caller, id: &str, asked: Move) -> Result<Response, Problem> {
    let session = app.session(caller, id).await?;
    let session: Session = app.engine.shift(session.id, asked).await?;
    ok(&app.session_view(&session)?)
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident $path:literal $asked:expr;)*) => {
        $(
            $(#[$doc])*
            #[utoipa::path(post, path = $path, tag = TAG, params(("id" = String, Path)),
                responses((status = 200, body = SessionView)))]
            async fn $name(
                State(app): State<App>,
                caller: Caller,
                At(id): At<String>,
            ) -> Result<Response, Problem> {
                shifted(&app, &caller, &id, $asked).await
            }
        )*
    };
}

moves! {
    /// Pauses a session; whoever drives it saves it first
    pause "/sessions/{id}/pause" Move::Pause;
    /// Completes a session
    complete "/sessions/{id}/complete" Move::Complete;
    /// Takes a session up again, a completed one too
    activate "/sessions/{id}/activate" Move::Reopen;
    /// Archives a session: it cannot be resumed until it is unarchived
    archive "/sessions/{id}/archive" Move::Archive;
    /// Brings an archived session back
    unarchive "/sessions/{id}/unarchive" Move::Unarchive;
}

#[derive(Debug, Default, Deserialize, serde::Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forked {
    /// The last message that both have; by default the newest
    at: Option<u32>,
}

/// Begins a session that shares the messages of another up to one of them
#[utoipa::path(post, path = "/sessions/{id}/fork", tag = TAG,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = Forked, responses((status = 201, body = SessionView)))]
async fn fork(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Key(key): Key,
    Json(forked): Json<Forked>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let new = match key {
        Some(key) => {
            let request = format!("{} {:?}", session.id, forked.at);
            reserved(&app, &caller, "fork", &key, request.as_bytes()).await?
        }
        None => SessionId::generate(),
    };
    let session = app.engine.fork_as(new, session.id, forked.at).await?;
    json(StatusCode::CREATED, &app.session_view(&session)?)
}

/// How much of a session
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContextParams {
    /// The finished text never has more
    #[param(minimum = 1, maximum = 1_000_000)]
    tokens: Option<u32>,
    /// The last ones that are shown
    #[param(minimum = 1, maximum = 10_000)]
    messages: Option<u32>,
    /// The last ones that are listed
    #[param(minimum = 1, maximum = 1_000)]
    conversations: Option<u32>,
    /// The next prompt: what matters to it is brought in from anywhere in the session
    prompt: Option<String>,
}

/// The context that goes back in
#[utoipa::path(get, path = "/sessions/{id}/context", tag = TAG, params(("id" = String, Path), ContextParams),
    responses((status = 200, body = Context)))]
async fn context(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(told): Params<ContextParams>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let mut limits = app.settings.context;
    limits.tokens = told.tokens.unwrap_or(limits.tokens);
    limits.messages = told.messages.unwrap_or(limits.messages);
    limits.conversations = told.conversations.unwrap_or(limits.conversations);
    if limits.tokens > 1_000_000 || limits.messages > 10_000 || limits.conversations > 1_000 {
        return Err(Problem::new("bad_input", "a limit is larger than any context"));
    }
    let options = ContextOptions { limits, prompt: told.prompt, margin: 0.0 };
    ok(&app.engine.context(session.id, &options).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Exported {
    /// `jsonl` or `json`
    #[param(inline)]
    format: Option<Format_>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format_ {
    Jsonl,
    Json,
}

/// The whole log of a session, with secrets masked; `POST /import` takes it in again
#[utoipa::path(get, path = "/sessions/{id}/export", tag = TAG, params(("id" = String, Path), Exported),
    responses((status = 200, content((String = "application/x-ndjson"), (Object = "application/json")))))]
async fn export(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(exported): Params<Exported>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let (format, kind, suffix) = match exported.format {
        Some(Format_::Json) => (Format::Json, "application/json", "json"),
        _ => (Format::Jsonl, "application/x-ndjson", "jsonl"),
    };
    super::messages::written(&app, &caller, session.id, format, Secrets::Masked).await.map(|body| {
        let name = format!("attachment; filename=\"{}.{suffix}\"", session.id.short());
        let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
        if let Ok(value) = HeaderValue::from_str(&name) {
            response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
        }
        response
    })
}
