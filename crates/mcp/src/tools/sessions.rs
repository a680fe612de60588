//! Finding and reading sessions.

use jiff::Timestamp;
use rethread_domain::search::Filter;
use rethread_domain::{Message, Role, SessionId, Status};
use rethread_engine::views::{ConversationView, FoundView, SessionView};
use rethread_engine::{Context, ContextOptions, Engine, ListFilter, Order, Search, Span, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::within;
use crate::bounded::LONGEST;
use crate::error::Failure;
use crate::server::ServerState;
use crate::views::Excerpt;

/// The longest list.
const MOST: u32 = 200;
/// How much of a long message is shown unless it is requested in full.
const SHOWN_BYTES: usize = 4_000;
/// The limit of all messages of a result, as JSON; the rest is for the session itself.
const MESSAGES_BYTES: usize = LONGEST * 3 / 4;
/// A message of which less than this would be shown is left for the next call.
const LEAST_BYTES: usize = 1_000;

/// Which sessions to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArgs {
    /// Those of every project, not only this one
    all_projects: Option<bool>,
    /// Only those held with this agent
    agent: Option<String>,
    /// Only those of this kind: chat, debug, plan, …
    kind: Option<String>,
    /// Only those with this status: active, paused, completed or archived
    status: Option<String>,
    /// At most this many; by default 20
    limit: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SessionList {
    /// The most recent first
    sessions: Vec<SessionView>,
}

/// What to search for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArgs {
    /// Words, of which the last may be a beginning; "in quotation marks" as they stand; migrat* by their beginning
    query: String,
    /// Only in this session
    session_id: Option<String>,
    /// In those of every project, not only this one
    all_projects: Option<bool>,
    /// Only in those held with this agent
    agent: Option<String>,
    /// Only what this role said: user, assistant, system or tool
    role: Option<String>,
    /// Only since then, such as 2026-11-15T21:38:00Z
    since: Option<String>,
    /// Only until then
    until: Option<String>,
    /// At most this many; by default 20
    limit: Option<u32>,
    /// `next` of the answer before, to go on from there
    cursor: Option<String>,
}

/// Which session, and how much of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetArgs {
    session_id: String,
    /// How many messages; by default the last 20
    messages: Option<u32>,
    /// Only messages before this number, to read further back
    before: Option<u32>,
    /// Long messages whole, as far as they fit
    full: Option<bool>,
    /// Only the message with this number, as much of it as fits
    seq: Option<u32>,
    /// With seq: skip this many bytes at its beginning, to read on in a long message
    #[schemars(range(min = 0))]
    offset: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SessionDetail {
    session: SessionView,
    conversations: Vec<ConversationView>,
    /// Sessions that its agent started
    child_session_ids: Vec<String>,
    /// Oldest first
    messages: Vec<Excerpt>,
    /// How many messages come before these
    omitted_messages: u32,
}

/// Which session to continue here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeArgs {
    session_id: String,
    /// What will be asked next: older messages that matter to it are brought in
    prompt: Option<String>,
    /// The most tokens of the context; by default 10000, and never more than fit into one answer
    max_tokens: Option<u32>,
    /// The most recent messages; by default 20
    max_messages: Option<u32>,
    /// Also say why each piece is there, what it costs, and what almost made it in
    explain: Option<bool>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ResumeContext {
    /// The story so far: read it, then go on
    #[serde(flatten)]
    context: Context,
    title: Option<String>,
    status: String,
}

impl ServerState {
    fn scope(&self, is_everywhere: Option<bool>) -> Option<String> {
        let project = self.caller.project.to_string_lossy().into_owned();
        Some(project).filter(|_| is_everywhere != Some(true))
    }
}

pub(super) async fn list(
    state: &ServerState,
    args: Result<ListArgs, Failure>,
) -> Result<SessionList, Failure> {
    let args = args?;
    let status = args.status.as_deref().map(parse::<Status>).transpose()?;
    let filter = ListFilter {
        user: Some(state.caller.user.clone()),
        project: state.scope(args.all_projects),
        kind: args.kind,
        agent: args.agent,
        status,
        limit: within("limit", args.limit, 20, MOST)?,
        ..ListFilter::default()
    };
    let sessions = state.engine.list(&filter).await?;
    let views = sessions.iter().map(|session| state.session_view(session));
    Ok(SessionList { sessions: views.collect::<Result<_, _>>()? })
}

fn parse<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|why: String| Failure::new(why, "give one of these"))
}

pub(super) async fn search(
    state: &ServerState,
    args: Result<SearchArgs, Failure>,
) -> Result<FoundView, Failure> {
    let args = args?;
    let session = match &args.session_id {
        Some(given) => Some(state.session(given).await?.id),
        None => None,
    };
    let moment = |text: &Option<String>| -> Result<Option<Timestamp>, Failure> {
        let parsed = text.as_deref().map(entry::time).transpose();
        parsed.map_err(|why| Failure::new(why.to_string(), "give a time with its zone"))
    };
    let filter = Filter {
        session,
        user: Some(state.caller.user.clone()),
        project: state.scope(args.all_projects).filter(|_| session.is_none()),
        agent: args.agent,
        role: args.role.as_deref().map(parse::<Role>).transpose()?,
        since: moment(&args.since)?,
        until: moment(&args.until)?,
        ..Filter::default()
    };
    let limit = within("limit", args.limit, 20, MOST)?;
    let after = args.cursor.as_deref().map(str::parse).transpose().map_err(|_| {
        Failure::new("Not a valid cursor", "give `next` of the previous answer, unchanged")
    })?;
    let search = Search { after, ..Engine::sought(&args.query, filter, limit)? };
    let found = state.engine.search(search).await?;
    Ok(FoundView::from(&found))
}

pub(super) async fn get(
    state: &ServerState,
    args: Result<GetArgs, Failure>,
) -> Result<SessionDetail, Failure> {
    let args = args?;
    let session = state.session(&args.session_id).await?;
    let limit = within("messages", args.messages, 20, MOST)?;
    if args.offset.is_some() && args.seq.is_none() {
        return Err(Failure::new("offset is given without seq", "give the number of the message"));
    }
    let (from, to) = match args.seq {
        Some(seq) if seq == 0 || seq > session.last_seq => {
            return Err(rethread_engine::Error::NoMessage(session.id, seq).into());
        }
        Some(seq) => (seq, seq),
        None => (1, args.before.map_or(session.last_seq, |before| before.saturating_sub(1))),
    };
    let is_full = args.full == Some(true) || args.seq.is_some();
    let messages = recent(state, session.id, (from, to), limit, |message, room| {
        let most = if is_full { room } else { room.min(SHOWN_BYTES) };
        let offset = args.offset.map_or(0, |offset| usize::try_from(offset).unwrap_or(usize::MAX));
        Excerpt::of((session.id, message), offset, most, state)
    })
    .await?;
    let conversations = state.engine.conversations(session.id).await?;
    let children = state.engine.children(session.id).await?;
    Ok(SessionDetail {
        session: state.session_view(&session)?,
        conversations: conversations
            .iter()
            .map(|one| state.conversation_view(one))
            .collect::<Result<_, _>>()?,
        child_session_ids: children.iter().map(|child| child.id.to_string()).collect(),
        omitted_messages: messages.first().map_or(to, |first| first.message.seq - 1),
        messages,
    })
}

/// The last messages of a range, oldest first, as many as fit into one result.
async fn recent(
    state: &ServerState,
    session: SessionId,
    (from, to): (u32, u32),
    limit: u32,
    view: impl Fn(&Message, usize) -> Excerpt,
) -> Result<Vec<Excerpt>, Failure> {
    let mut room = MESSAGES_BYTES;
    let mut views = Vec::new();
    let mut next = to;
    // Read one at a time: a few long ones may fill the result.
    while next >= from && next > 0 && views.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
        let span = Span { from: next, to: next, order: Order::NewestFirst, limit: 1 };
        let page = state.engine.messages(session, span).await?;
        let Some(message) = page.first() else { break };
        if !views.is_empty() && room < LEAST_BYTES {
            break;
        }
        let mut one = view(message, room);
        let mut size = as_json(&one);
        if size > room {
            // Escaped characters take more space in JSON than in the text.
            one = view(message, one.message.content.len().saturating_mul(room) / size.max(1));
            size = as_json(&one);
        }
        room = room.saturating_sub(size);
        views.push(one);
        next -= 1;
    }
    views.reverse();
    Ok(views)
}

fn as_json(message: &Excerpt) -> usize {
    serde_json::to_string(message).map_or(0, |text| text.len())
}

pub(super) async fn resume(
    state: &ServerState,
    args: Result<ResumeArgs, Failure>,
) -> Result<ResumeContext, Failure> {
    let args = args?;
    let session = state.session(&args.session_id).await?;
    session.can_resume()?;
    let mut limits = state.limits.context;
    limits.tokens = within("max_tokens", args.max_tokens, limits.tokens, 1_000_000)?;
    limits.messages = within("max_messages", args.max_messages, limits.messages, 10_000)?;
    let prompt = args.prompt.filter(|prompt| !prompt.trim().is_empty());
    let explain = args.explain.unwrap_or(false);
    let mut options = ContextOptions { limits, prompt, margin: 0.0, explain };
    let mut context = state.engine.context(session.id, &options).await?;
    // A context is never cut: a smaller one is made.
    while context.context.len() > LONGEST / 2 && options.limits.tokens > 1 {
        options.limits.tokens = context.token_count.min(options.limits.tokens) / 2;
        context = state.engine.context(session.id, &options).await?;
    }
    Ok(ResumeContext {
        context,
        title: session.title.as_deref().map(|title| state.clean(title)),
        status: session.status().to_string(),
    })
}
