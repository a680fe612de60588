//! Finding sessions and reading them.

use jiff::Timestamp;
use rethread_domain::search::Filter;
use rethread_domain::{Role, Status};
use rethread_engine::{ContextOptions, ListFilter, Order, Search, Span, entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::within;
use crate::error::Failure;
use crate::server::Office;
use crate::views::{ConversationView, HitView, MessageView, SessionView};

/// The most that one answer lists.
const MOST: u32 = 200;

/// Which sessions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListArgs {
    /// Those of every project, not only this one
    all_projects: Option<bool>,
    /// Only those held with this agent
    agent_name: Option<String>,
    /// Only those of this kind: chat, debug, plan, …
    kind: Option<String>,
    /// Only those with this status: active, paused, completed or archived
    status: Option<String>,
    /// At most so many; by default 20
    limit: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The most recent first
    sessions: Vec<SessionView>,
}

/// What to look for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SearchArgs {
    /// Words, of which the last may be a beginning; "in quotation marks" as they stand; migrat* by their beginning
    query: String,
    /// Only in this session
    session_id: Option<String>,
    /// In those of every project, not only this one
    all_projects: Option<bool>,
    /// Only in those held with this agent
    agent_name: Option<String>,
    /// Only what this role said: user, assistant, system or tool
    role: Option<String>,
    /// Only since then, such as 2026-11-15T21:38:00Z
    since: Option<String>,
    /// Only until then
    until: Option<String>,
    /// At most so many; by default 20
    limit: Option<u32>,
    /// `next` of the answer before, to go on from there
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// The best first
    hits: Vec<HitView>,
    /// Give it as cursor for the next hits; not there at the end
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// The search was cut short because it took too much work: there may be more
    partial: bool,
}

/// Which session, and how much of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetArgs {
    session_id: String,
    /// How many messages; by default the last 20
    messages: Option<u32>,
    /// Only messages before this number, to read further back
    before: Option<u32>,
    /// Long messages whole
    full: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Got {
    session: SessionView,
    conversations: Vec<ConversationView>,
    /// Sessions that its agent started
    children: Vec<String>,
    /// Oldest first
    messages: Vec<MessageView>,
    /// How many messages come before these
    omitted_messages: u32,
}

/// Which session is to be gone on with here.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResumeArgs {
    session_id: String,
    /// What will be asked next: older messages that matter to it are brought in
    prompt: Option<String>,
    /// The most tokens of the context; by default 10000
    max_tokens: Option<u32>,
    /// The most recent messages; by default 20
    max_messages: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resumed {
    session_id: String,
    /// The story so far: read it, then go on
    context: String,
    token_count: u32,
    /// How many messages there are, and how many of them the context shows
    message_count: u32,
    included_messages: u32,
    title: Option<String>,
    status: String,
}

impl Office {
    fn scope(&self, is_everywhere: Option<bool>) -> Option<String> {
        let project = self.place.project.to_string_lossy().into_owned();
        Some(project).filter(|_| is_everywhere != Some(true))
    }
}

pub(super) async fn list(
    office: &Office,
    args: Result<ListArgs, Failure>,
) -> Result<Listed, Failure> {
    let args = args?;
    let status = args.status.as_deref().map(parse::<Status>).transpose()?;
    let filter = ListFilter {
        user: Some(office.place.user.clone()),
        project: office.scope(args.all_projects),
        kind: args.kind,
        agent: args.agent_name,
        status,
        limit: within("limit", args.limit, 20, MOST)?,
        ..ListFilter::default()
    };
    let sessions = office.engine.list(&filter).await?;
    let views = sessions.iter().map(|session| SessionView::of(session, office));
    Ok(Listed { sessions: views.collect() })
}

fn parse<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|why: String| Failure::new(why, "give one of these"))
}

pub(super) async fn search(
    office: &Office,
    args: Result<SearchArgs, Failure>,
) -> Result<Found, Failure> {
    let args = args?;
    if args.query.trim().is_empty() {
        return Err(Failure::new("The query is empty", "give words that were said"));
    }
    let session = match &args.session_id {
        Some(given) => Some(office.session(given).await?.id),
        None => None,
    };
    let moment = |text: &Option<String>| -> Result<Option<Timestamp>, Failure> {
        let parsed = text.as_deref().map(entry::time).transpose();
        parsed.map_err(|why| Failure::new(why.to_string(), "give a time with its zone"))
    };
    let filter = Filter {
        session,
        user: Some(office.place.user.clone()),
        project: office.scope(args.all_projects).filter(|_| session.is_none()),
        agent: args.agent_name,
        role: args.role.as_deref().map(parse::<Role>).transpose()?,
        since: moment(&args.since)?,
        until: moment(&args.until)?,
        ..Filter::default()
    };
    let limit = within("limit", args.limit, 20, MOST)?;
    let after = args.cursor.as_deref().map(str::parse).transpose().map_err(|_| {
        Failure::new("The cursor is not one", "give `next` of the answer before, as it is")
    })?;
    let search = Search { after, ..Search::new(&args.query, filter, limit) };
    let found = office.engine.search(search).await?;
    Ok(Found {
        hits: found.hits.iter().map(|hit| HitView::of(hit, office)).collect(),
        next: found.next.map(|next| next.to_string()),
        partial: found.is_partial,
    })
}

pub(super) async fn get(office: &Office, args: Result<GetArgs, Failure>) -> Result<Got, Failure> {
    let args = args?;
    let session = office.session(&args.session_id).await?;
    let limit = within("messages", args.messages, 20, MOST)?;
    let to = args.before.map_or(session.last_seq, |before| before.saturating_sub(1));
    let span = Span { from: 1, to, order: Order::NewestFirst, limit };
    let mut messages = office.engine.messages(session.id, span).await?;
    messages.reverse();
    let is_full = args.full == Some(true);
    let conversations = office.engine.conversations(session.id).await?;
    let children = office.engine.children(session.id).await?;
    Ok(Got {
        session: SessionView::of(&session, office),
        conversations: conversations.iter().map(|one| ConversationView::of(one, office)).collect(),
        children: children.iter().map(|child| child.id.to_string()).collect(),
        omitted_messages: messages.first().map_or(to, |first| first.seq - 1),
        messages: messages.iter().map(|one| MessageView::of(one, is_full, office)).collect(),
    })
}

pub(super) async fn resume(
    office: &Office,
    args: Result<ResumeArgs, Failure>,
) -> Result<Resumed, Failure> {
    let args = args?;
    let session = office.session(&args.session_id).await?;
    session.can_resume()?;
    let mut limits = office.limits.context;
    limits.tokens = within("maxTokens", args.max_tokens, limits.tokens, 1_000_000)?;
    limits.messages = within("maxMessages", args.max_messages, limits.messages, 10_000)?;
    let prompt = args.prompt.filter(|prompt| !prompt.trim().is_empty());
    let options = ContextOptions { limits, prompt, margin: 0.0 };
    let context = office.engine.context(session.id, &options).await?;
    Ok(Resumed {
        session_id: session.id.to_string(),
        token_count: context.token_count,
        message_count: context.metadata.message_count,
        included_messages: context.metadata.included.map_or(0, |included| included.messages),
        context: context.context,
        title: session.title.as_deref().map(|title| office.clean(title)),
        status: session.status.to_string(),
    })
}
