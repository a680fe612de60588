//! Messages: list, append, purge; import and export of whole sessions.

use std::io::{BufReader, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_domain::wording::counted;
use rethread_engine::exchange::{Format, Secrets};
use rethread_engine::views::{MessageView, SessionView};
use rethread_engine::{Order, Recorder, Span, entry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::UtoipaMethodRouterExt as _;
use utoipa_axum::routes;

use super::{json, ok, tagged};
use crate::access::{ADMIN, Caller, READ, Routes, WRITE};
use crate::cursor;
use crate::extract::{IdempotencyKey, Json, PathParams, QueryParams, body};
use crate::live::too_many;
use crate::problem::Problem;
use crate::rate_limit::ConcurrencyPermit;
use crate::state::App;
use crate::views::{Appended, Page};

const TAG: &str = "messages";
/// How many messages one request may append.
const MOST: usize = 1_000;
/// The longest import, in bytes.
const LONGEST_IMPORT: usize = 64 << 20;
/// How often the credential is checked while an export is sent.
const LOOKED_AT: Duration = Duration::from_millis(500);
/// How many bytes of an export may wait to be sent.
const CHUNK: usize = 64 << 10;

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(READ, routes!(list))
        .api(WRITE, routes!(append))
        .api(WRITE, routes!(purge))
        // An import names its users itself, so it needs the role admin.
        .api(ADMIN, routes!(import).layer(DefaultBodyLimit::max(LONGEST_IMPORT)))
}

/// Which messages to list
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only messages after this number
    after: Option<u32>,
    /// Only messages before this number; with it, or without `after`, the newest come first
    before: Option<u32>,
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// Messages of a session in pages: `after` continues from the oldest, `before` backwards from the newest
#[utoipa::path(get, path = "/sessions/{id}/messages", tag = TAG, params(("id" = String, Path), ListParams),
    responses((status = 200, body = Page<MessageView>), (status = 304)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<ListParams>,
) -> Result<Response, Problem> {
    let limit = cursor::limit(asked.limit)?;
    let session = app.session(&caller, &id).await?;
    let (from, to) = (
        asked.after.unwrap_or(0).saturating_add(1),
        asked
            .before
            .map_or(session.last_seq, |before| before.saturating_sub(1))
            .min(session.last_seq),
    );
    let order = match asked.after {
        Some(_) if asked.before.is_none() => Order::OldestFirst,
        _ => Order::NewestFirst,
    };
    let found = app.engine.messages(session.id, Span { from, to, order, limit }).await?;
    let next = found.last().map(|last| last.seq).filter(|last| match order {
        Order::OldestFirst => *last < to,
        Order::NewestFirst => *last > from,
    });
    let tag = format!("{}.{}.{from}.{to}.{limit}", session.facts, session.last_seq);
    tagged(&headers, &tag, || {
        let items: Vec<_> = found.iter().map(|one| MessageView::of(session.id, one)).collect();
        ok(&Page { items: app.engine.masked(&items)?, next: next.map(|seq| seq.to_string()) })
    })
}

/// Messages to append. A message has a `role` (user, assistant, system or tool) and a `content`; it may have an `id`, a
/// `timestamp`, a `conversation`, an `agent`, a `model`, `tool_calls` and a `usage`. Other fields are kept as they are.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendMessages {
    #[schema(value_type = Vec<NewMessage>, min_items = 1, max_items = 1000)]
    messages: Vec<Map<String, Value>>,
}

/// A message to append
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it describes the form; the engine reads it")]
pub(crate) struct NewMessage {
    role: super::search::MessageRole,
    content: String,
    /// The sender's own id: a message with the same id is only recorded once
    id: Option<String>,
    #[schema(format = DateTime)]
    timestamp: Option<String>,
    conversation: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    /// Tool calls, in the agent's own form
    tool_calls: Option<Value>,
    usage: Option<NewUsage>,
}

/// The usage of a message
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "it describes the form; the engine reads it")]
pub(crate) struct NewUsage {
    #[schema(maximum = 1_125_899_906_842_624_i64)]
    input_tokens: Option<u64>,
    #[schema(maximum = 1_125_899_906_842_624_i64)]
    output_tokens: Option<u64>,
    #[schema(minimum = 0, maximum = 1_000_000)]
    cost_usd: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recorded {
    messages: Vec<Appended>,
}

/// Appends messages to a session, all or none
///
/// They are durable once it answers. With an `Idempotency-Key`, a repeated request adds nothing.
#[utoipa::path(post, path = "/sessions/{id}/messages", tag = TAG,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, max_length = 200)),
    request_body = AppendMessages, responses((status = 201, body = Recorded)))]
async fn append(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    IdempotencyKey(key): IdempotencyKey,
    Json(said): Json<AppendMessages>,
) -> Result<Response, Problem> {
    if said.messages.is_empty() || said.messages.len() > MOST {
        let given = counted(said.messages.len(), "message");
        let what = format!("{given} given; 1 to {MOST} can be sent at once");
        return Err(Problem::new("bad_input", what));
    }
    let session = app.session(&caller, &id).await?;
    let request = serde_json::to_vec(&(session.id, &said)).unwrap_or_default();
    let now = app.engine.clock().now();
    let mut messages = Vec::with_capacity(said.messages.len());
    for (index, mut fields) in said.messages.into_iter().enumerate() {
        if let Some(usage) = fields.get_mut("usage") {
            crate::extract::make_whole(usage);
        }
        let text = Value::Object(fields).to_string();
        let parsed = entry::parse(text.as_bytes(), now, app.settings.message_bytes);
        messages.push(parsed.map_err(|bad| {
            let bad = rethread_engine::Error::from(bad);
            Problem::from(bad).of(&format!("message {}", index + 1))
        })?);
    }
    if let Some(key) = &key {
        // A request that cannot be recorded does not use up its idempotency key.
        let reserved = super::sessions::reserved(&app, &caller, "messages", key, &request).await?;
        for (index, message) in messages.iter_mut().enumerate() {
            message.id.get_or_insert_with(|| format!("key:{reserved}:{index}"));
        }
    }
    let mut recorder = Recorder::open(&app.engine, session.id, app.settings.pruning).await?;
    let written = recorder.record(messages).await?;
    let messages =
        written.iter().map(|one| Appended { seq: one.seq, is_new: one.is_new }).collect();
    json(StatusCode::CREATED, &Recorded { messages })
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Purge {
    session_id: String,
    seq: u32,
    /// When it was purged before, if it was
    purged_before: Option<Timestamp>,
    /// False while another process reads an older state of the store: the text leaves the files when that has ended
    has_left_files: bool,
    /// Where the text still is because it is not ours to remove (git's history, the agents' own sessions, backups), and how to
    /// remove it there
    remarks: Vec<String>,
}

/// Erases the text of one message everywhere, for good
#[utoipa::path(post, path = "/sessions/{id}/messages/{seq}/purge", tag = TAG,
    params(("id" = String, Path), ("seq" = u32, Path)), responses((status = 200, body = Purge)))]
async fn purge(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, seq)): PathParams<(String, u32)>,
) -> Result<Response, Problem> {
    let session = app.session(&caller, &id).await?;
    let purge = app.engine.purge(session.id, seq).await?;
    let (has_left_files, remarks) = (purge.has_left_files, purge.remarks());
    let (session_id, purged_before) = (session.id.to_string(), purge.purged_before);
    ok(&Purge { session_id, seq, purged_before, has_left_files, remarks })
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Imported {
    sessions: Vec<SessionView>,
    /// Ids of sessions in the file that existed already: they are left unchanged
    already_there: Vec<String>,
}

/// Imports exported sessions, each whole or not at all; existing sessions are left unchanged
#[utoipa::path(post, path = "/import", tag = TAG, request_body(content = String, content_type = "application/x-ndjson"),
    responses((status = 201, body = Imported)))]
async fn import(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let bytes = body(request, &app, LONGEST_IMPORT).await?;
    let (engine, most) = (app.engine.clone(), app.settings.message_bytes);
    let handle = tokio::runtime::Handle::current();
    // Reading and pricing takes time in proportion to the file: it runs on a thread of its own.
    let taken = tokio::task::spawn_blocking(move || {
        let mut input = BufReader::new(&*bytes);
        handle.block_on(engine.import(&mut input, most))
    });
    let imported =
        taken.await.map_err(|_| Problem::new("internal", "the import was interrupted"))??;
    if let (true, Some((known, _))) = (imported.taken.is_empty(), imported.known.first()) {
        let id = known.id;
        return Err(Problem::new(
            "session_exists",
            format!("session {id} is already in the store"),
        ));
    }
    if imported.taken.is_empty() {
        return Err(Problem::new("bad_input", "there is nothing to import")
            .hint("send what GET /sessions/{id}/export gave"));
    }
    let sessions = imported.taken.iter().map(|session| app.session_view(session));
    let sessions = sessions.collect::<Result<_, _>>()?;
    let already_there = imported.known.iter().map(|(session, _)| session.id.to_string()).collect();
    json(StatusCode::CREATED, &Imported { sessions, already_there })
}

/// A writer that sends what is written to it, and blocks while the client does not read.
struct Pipe {
    chunk: Vec<u8>,
    to: tokio::sync::mpsc::Sender<Result<Bytes, rethread_engine::Error>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        let gone = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.to.blocking_send(Ok(chunk.into())).map_err(|_| gone())
    }
}

/// The client that an export is sent to.
struct Reader {
    app: App,
    caller: Caller,
    /// When the credential was last checked.
    looked: Instant,
    from: tokio::sync::mpsc::Receiver<Result<Bytes, rethread_engine::Error>>,
    _permit: ConcurrencyPermit,
}

impl Reader {
    /// The next part, as long as the credential is valid.
    async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        let chunk = self.from.recv().await?;
        if self.looked.elapsed() >= LOOKED_AT {
            if !self.caller.is_valid(&self.app).await {
                return Some(Err(std::io::Error::other("the credential is no longer valid")));
            }
            self.looked = Instant::now();
        }
        Some(chunk.map_err(|error| std::io::Error::other(error.to_string())))
    }
}

/// Exports a session while it is being sent.
pub(super) async fn written(
    app: &App,
    caller: &Caller,
    id: SessionId,
    format: Format,
    secrets: Secrets,
) -> Result<Body, Problem> {
    let limit = &app.limiter.exports;
    let permit = limit.take(caller.user()).ok_or_else(|| too_many("exports", limit.each()))?;
    let (to, mut from) = tokio::sync::mpsc::channel(4);
    let (engine, span) = (app.engine.clone(), tracing::Span::current());
    tokio::task::spawn_blocking(move || {
        let mut pipe = Pipe { chunk: Vec::new(), to: to.clone() };
        // On a thread of its own: tokio's threads must not block on a slow client.
        match futures::executor::block_on(engine.export(id, format, secrets, &mut pipe)) {
            // The last part is shorter; a client that has disconnected needs no end.
            Ok(_) => drop(pipe.flush()),
            Err(error) => {
                let told: &dyn std::error::Error = &error;
                span.in_scope(|| tracing::error!(error = told, "an export broke off"));
                // A client that has disconnected needs no end.
                drop(to.blocking_send(Err(error)));
            }
        }
    });
    // An error at the very beginning becomes a problem response.
    let first = match from.recv().await {
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(error.into()),
        None => return Err(Problem::new("internal", "the session cannot be written out")),
    };
    let reader = Reader {
        app: Arc::clone(app),
        caller: caller.clone(),
        looked: Instant::now(),
        from,
        _permit: permit,
    };
    let rest = futures::stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        let chunk = reader.next().await?;
        // Cuts the connection, so that the client does not take a part for the whole.
        let goes_on = chunk.is_ok().then_some(reader);
        Some((chunk, goes_on))
    });
    let whole = futures::StreamExt::chain(futures::stream::once(async { Ok(first) }), rest);
    Ok(Body::from_stream(whole))
}
