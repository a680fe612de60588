//! Recording messages, and saving, completing and forking sessions.

use rethread_domain::Session;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::NewMessage;
use rethread_domain::quote::{one_line, safe};
use rethread_domain::session::{Move, Refusal};
use rethread_domain::wording::counted;
use rethread_engine::program::may_record;
use rethread_engine::views::SessionView;
use rethread_engine::{Error, Logged as _, Recorder, Span, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::prompts::RESUME;
use crate::server::{LEFT, ServerState};
use crate::streams::BEHIND;

/// The most messages in one call.
const MOST: usize = 1_000;

/// What was said, and where it belongs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordArgs {
    /// Go on with this session; without it a new one is started
    session_id: Option<String>,
    /// Oldest first
    messages: Vec<MessageArgs>,
    /// A title for the session
    title: Option<String>,
    /// What a new session is: chat, debug, plan, …
    kind: Option<String>,
    /// The agent of a new session
    agent: Option<String>,
}

/// A message.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct MessageArgs {
    /// user, assistant, system or tool
    role: String,
    content: String,
    /// When it was said, as RFC 3339; by default now
    timestamp: Option<String>,
    /// The conversation of the session; a new name opens a new one
    conversation: Option<String>,
    /// The same id twice is one message
    id: Option<String>,
    /// Other fields are kept as they come
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Recorded {
    session_id: String,
    /// The numbers of the messages
    seqs: Vec<u32>,
    message_count: u32,
}

/// Which session to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveArgs {
    session_id: String,
    /// A title for it
    title: Option<String>,
}

/// Which session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionArgs {
    session_id: String,
}

/// Which session to fork.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkArgs {
    session_id: String,
    /// The last message to share; by default the last one
    at: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Saved {
    session: SessionView,
    /// What to tell the user
    text: String,
}

pub(super) async fn record(
    state: &ServerState,
    args: Result<RecordArgs, Failure>,
) -> Result<Recorded, Failure> {
    let args = args?;
    let messages = messages(state, &args.messages)?;
    let is_new = args.session_id.is_none();
    let session = open(state, &args).await?;
    let recorded = write(state, &session, messages).await;
    if recorded.is_err() && is_new {
        // Nothing was recorded, so the new session is removed.
        state.engine.erase_if_empty(session.id).await.or_log(LEFT);
    }
    let seqs = recorded?;
    if let Some(title) = args.title.as_ref().filter(|_| !is_new) {
        state.engine.retitle(session.id, title, TitleFrom::Agent).await?;
    }
    if state.streams.has(session.id) {
        // A file that lags behind is updated by the next invocation.
        state.streams.sync(&state.engine, session.id).await.or_log(BEHIND);
    }
    let message_count = state.engine.session(session.id).await?.last_seq;
    Ok(Recorded { session_id: session.id.to_string(), seqs, message_count })
}

fn messages(state: &ServerState, given: &[MessageArgs]) -> Result<Vec<NewMessage>, Failure> {
    if given.is_empty() || given.len() > MOST {
        let what = format!("{} given", counted(given.len(), "message"));
        return Err(Failure::new(what, format!("give 1 to {MOST}")));
    }
    let now = state.engine.clock().now();
    (1..)
        .zip(given)
        .map(|(number, message)| {
            let MessageArgs { role, content, timestamp, conversation, id, other } = message;
            let mut line = other.clone();
            let named = [("timestamp", timestamp), ("conversation", conversation), ("id", id)];
            let present =
                named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let all = [("role", role), ("content", content)].into_iter().chain(present);
            line.extend(all.map(|(name, value)| (name.to_owned(), Value::from(value.as_str()))));
            let line = Value::Object(line).to_string();
            entry::parse(line.as_bytes(), now, state.limits.message_bytes).map_err(|why| {
                let what = format!("Message {number}: {}", safe(&why.to_string()));
                Failure::new(what, format!("{}. Nothing was recorded", crate::error::MESSAGE))
            })
        })
        .collect()
}

async fn open(state: &ServerState, args: &RecordArgs) -> Result<Session, Failure> {
    if let Some(given) = &args.session_id {
        let session = state.session(given).await?;
        session.accepts_messages()?;
        return Ok(session);
    }
    may_record(state.program.as_ref(), &state.caller.project)?;
    let mut beginning = state.beginning(state.caller.project.to_string_lossy().into_owned());
    beginning.title.clone_from(&args.title);
    beginning.agent.clone_from(&args.agent);
    if let Some(kind) = &args.kind {
        beginning.kind.clone_from(kind);
    }
    Ok(state.engine.start(beginning).await?)
}

async fn write(
    state: &ServerState,
    session: &Session,
    messages: Vec<NewMessage>,
) -> Result<Vec<u32>, Failure> {
    let mut recorder = Recorder::open(&state.engine, session.id, state.limits.pruning).await?;
    let written = recorder.record(messages).await;
    // The messages are durable; summaries and the index may follow later.
    recorder.finish().await.or_log("summaries and index of a session are behind");
    Ok(written?.iter().map(|one| one.seq).collect())
}

pub(super) async fn save(
    state: &ServerState,
    args: Result<SaveArgs, Failure>,
) -> Result<Saved, Failure> {
    let args = args?;
    let session = state.session(&args.session_id).await?;
    if let Some(title) = &args.title {
        state.engine.retitle(session.id, title, TitleFrom::Agent).await?;
    }
    shifted(state, &session, Move::Pause).await
}

pub(super) async fn complete(
    state: &ServerState,
    args: Result<SessionArgs, Failure>,
) -> Result<Saved, Failure> {
    let session = state.session(&args?.session_id).await?;
    shifted(state, &session, Move::Complete).await
}

/// A session that has the status already is not an error.
async fn shifted(state: &ServerState, session: &Session, asked: Move) -> Result<Saved, Failure> {
    let session = match state.engine.shift(session.id, asked).await {
        Err(Error::Refused(Refusal::Already(id, _))) => state.engine.session(id).await?,
        outcome => outcome?,
    };
    let title = session
        .title
        .as_deref()
        .map_or_else(String::new, |title| format!(" ({})", one_line(&state.clean(title), 60)));
    let mut text = format!("Session {}{title} is {}.", session.id, session.status());
    if asked == Move::Pause {
        let short = session.id.short();
        text.push_str(&format!(
            " To go on: `rethread resume {short}`, or the prompt `{RESUME}` with the session {short}."
        ));
    }
    let last = state.engine.messages(session.id, Span::newest(1)).await?;
    if let Some(message) = last.first() {
        let last = one_line(&state.clean(message.body.head()), 120);
        text.push_str(&format!(" It stopped at message {}, {}: {last}", message.seq, message.role));
    }
    Ok(Saved { session: state.session_view(&session)?, text })
}

pub(super) async fn fork(
    state: &ServerState,
    args: Result<ForkArgs, Failure>,
) -> Result<Saved, Failure> {
    let args = args?;
    let source = state.session(&args.session_id).await?;
    let fork = state.engine.fork(source.id, args.at).await?;
    let text = format!(
        "Session {} goes on from message {} of {}: continueSessionId takes it.",
        fork.id, fork.last_seq, source.id
    );
    Ok(Saved { session: state.session_view(&fork)?, text })
}
