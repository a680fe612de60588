//! Sessions: list, create, read, change, fork, export, delete.

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
use crate::extract::{IdempotencyKey, Json, PathParams, QueryParams};
use crate::problem::Problem;
use crate::state::App;
use crate::views::{Page, SessionDetailView};

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

/// Which sessions to list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only sessions of this user; those of others need the role admin
    user: Option<String>,
    /// Only sessions about this folder
    project: Option<String>,
    kind: Option<String>,
    agent: Option<String>,
    /// `active`, `paused`, `completed` or `archived`; by default all that can be resumed
    #[param(inline)]
    status: Option<StatusParam>,
    /// Include archived sessions
    archived: Option<bool>,
    /// Only deleted sessions
    deleted: Option<bool>,
    /// Where to continue: `next` of the previous answer
    cursor: Option<String>,
    /// 1 to 200
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StatusParam {
    Active,
    Paused,
    Completed,
    Archived,
}

impl From<StatusParam> for Status {
    fn from(status: StatusParam) -> Self {
        match status {
            StatusParam::Active => Self::Active,
            StatusParam::Paused => Self::Paused,
            StatusParam::Completed => Self::Completed,
            StatusParam::Archived => Self::Archived,
        }
    }
}

/// The requested user, if the caller may see their sessions; by default the caller's own scope.
pub(crate) fn scope(caller: &Caller, user: Option<String>) -> Option<String> {
    match user {
        Some(user) if caller.may_see(&user) => Some(user),
        // A user whom the caller may not see looks like one without sessions.
        Some(_) => Some(String::new()),
        None => caller.scope(),
    }
}

/// Sessions, most recent first
#[utoipa::path(get, path = "/sessions", tag = TAG, params(ListParams), responses((status = 200, body = Page<SessionView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(asked): QueryParams<ListParams>,
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
    let next = last.map(cursor::of_session);
    let items = found.iter().map(|session| app.session_view(session)).collect::<Result<_, _>>()?;
    ok(&Page { items, next })
}

/// A session to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSession {
    /// The folder that it is about; by default the server's
    project: Option<String>,
    /// Such as `chat`, `debug` or `plan`
    kind: Option<String>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<String>,
}

/// Creates a session
///
/// With an `Idempotency-Key` a repeated request returns the session that the first one created.
#[utoipa::path(post, path = "/sessions", tag = TAG, params(("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = CreateSession, responses((status = 201, body = SessionView)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    Json(begun): Json<CreateSession>,
) -> Result<Response, Problem> {
    let folder = app.folder(begun.project.as_deref())?;
    let beginning = Beginning {
        kind: begun.kind.unwrap_or_else(|| "chat".to_owned()),
        title: begun.title,
        agent: begun.agent,
        model: begun.model,
        ..Beginning::new(caller.user(), folder.to_string_lossy().into_owned())
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

/// The id that is reserved for an idempotency key: the same request with the same key gets the same id.
pub(super) async fn reserved(
    app: &App,
    caller: &Caller,
    what: &str,
    key: &str,
    request: &[u8],
) -> Result<SessionId, Problem> {
    let reserved = app.engine.reserve(what, caller.user(), key, request).await?;
    Ok(reserved.id.to_string().parse()?)
}

/// A session with its conversations, and how each was opened
#[utoipa::path(get, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = SessionDetailView), (status = 304)))]
async fn read(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let running = app.turns.running_in(session.id);
    let children = app.engine.children(session.id).await?;
    let children = children.iter().filter(|child| caller.may_see(&child.user));
    let child_session_ids: Vec<String> = children.map(|child| child.id.to_string()).collect();
    let (facts, children) = (session.facts, child_session_ids.len());
    let tag = format!("{facts}.{}.{}.{children}", session.last_seq, running.len());
    let conversations = app.engine.conversations(session.id).await?;
    let conversations: Vec<_> = conversations.iter().map(ConversationView::from).collect();
    let openings = openings(&app.engine.facts(session.id).await?);
    tagged(&headers, &tag, || {
        ok(&SessionDetailView {
            session: app.session_view(&session)?,
            conversations: app.engine.masked(&conversations)?,
            child_session_ids,
            openings: app.engine.masked(&openings)?,
            running_turns: running.iter().map(|turn| turn.id.to_string()).collect(),
        })
    })
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameSession {
    title: String,
}

/// Renames a session
#[utoipa::path(patch, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)), request_body = RenameSession,
    responses((status = 200, body = SessionView)))]
async fn rename(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Json(renamed): Json<RenameSession>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let session = app.engine.retitle(session.id, &renamed.title, TitleFrom::Person).await?;
    ok(&app.session_view(&session)?)
}

/// Deletes a session; it can be restored for 30 days
#[utoipa::path(delete, path = "/sessions/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = SessionView)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let session = app.engine.delete(session.id).await?;
    ok(&app.session_view(&session)?)
}

/// Restores a deleted session
#[utoipa::path(post, path = "/sessions/{id}/undelete", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = SessionView)))]
async fn undelete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
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
                PathParams(id): PathParams<String>,
            ) -> Result<Response, Problem> {
                shifted(&app, &caller, &id, $asked).await
            }
        )*
    };
}

moves! {
    /// Pauses a session; a process that has it open saves it first
    pause "/sessions/{id}/pause" Move::Pause;
    /// Completes a session
    complete "/sessions/{id}/complete" Move::Complete;
    /// Reopens a session, also a completed one
    activate "/sessions/{id}/activate" Move::Reopen;
    /// Archives a session: it cannot be resumed until it is unarchived
    archive "/sessions/{id}/archive" Move::Archive;
    /// Takes a session out of the archive
    unarchive "/sessions/{id}/unarchive" Move::Unarchive;
}

#[derive(Debug, Default, Deserialize, serde::Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkSession {
    /// The last shared message; by default the newest
    at: Option<u32>,
}

/// Creates a session that shares the messages of another one up to a given message
#[utoipa::path(post, path = "/sessions/{id}/fork", tag = TAG,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = ForkSession, responses((status = 201, body = SessionView)))]
async fn fork(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    IdempotencyKey(key): IdempotencyKey,
    Json(forked): Json<ForkSession>,
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

/// The size of a context
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContextParams {
    /// The limit that the text never exceeds
    #[param(minimum = 1, maximum = 1_000_000)]
    tokens: Option<u32>,
    /// How many recent messages are shown
    #[param(minimum = 1, maximum = 10_000)]
    messages: Option<u32>,
    /// How many recent conversations are listed
    #[param(minimum = 1, maximum = 1_000)]
    conversations: Option<u32>,
    /// The next prompt: messages from anywhere in the session that are relevant to it are included
    prompt: Option<String>,
    /// Whether to say why each piece is there, what it costs, and what almost made it in (`explanation`)
    explain: Option<bool>,
}

/// The context with which the session is resumed
#[utoipa::path(get, path = "/sessions/{id}/context", tag = TAG, params(("id" = String, Path), ContextParams),
    responses((status = 200, body = Context)))]
async fn context(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(told): QueryParams<ContextParams>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let mut limits = app.settings.context;
    limits.tokens = told.tokens.unwrap_or(limits.tokens);
    limits.messages = told.messages.unwrap_or(limits.messages);
    limits.conversations = told.conversations.unwrap_or(limits.conversations);
    if limits.tokens > 1_000_000 || limits.messages > 10_000 || limits.conversations > 1_000 {
        return Err(Problem::new("bad_input", "a limit is larger than any context"));
    }
    let options = ContextOptions {
        limits,
        prompt: told.prompt,
        margin: 0.0,
        explain: told.explain.unwrap_or(false),
    };
    ok(&app.engine.context(session.id, &options).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// `jsonl`, `json`, or `markdown` for people
    #[param(inline)]
    format: Option<FormatParam>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatParam {
    Jsonl,
    Json,
    Markdown,
}

/// Exports the whole log of a session, with secrets masked; `POST /import` imports it, unless it is markdown
#[utoipa::path(get, path = "/sessions/{id}/export", tag = TAG, params(("id" = String, Path), ExportParams),
    responses((status = 200, content((String = "application/x-ndjson"), (Object = "application/json"), (String = "text/markdown")))))]
async fn export(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(exported): QueryParams<ExportParams>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let (format, kind, suffix) = match exported.format {
        Some(FormatParam::Json) => (Format::Json, "application/json", "json"),
        Some(FormatParam::Markdown) => (Format::Markdown, "text/markdown; charset=utf-8", "md"),
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
