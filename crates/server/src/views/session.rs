//! Sessions, messages and finds, as programs see them.

use jiff::Timestamp;
use rethread_domain::message::Body;
use rethread_domain::opening::Opening;
use rethread_domain::search::{Hit, Place};
use rethread_domain::{Conversation, Message, Session, SessionId};
use rethread_engine::Context;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::state::App;

/// A session, as a list shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    pub(crate) session_id: String,
    user_id: String,
    project_id: String,
    kind: String,
    title: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    /// `active`, `paused`, `completed` or `archived`
    status: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    last_active_at: Timestamp,
    session_summary: Option<String>,
    conversation_count: u32,
    message_count: u32,
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
    forked_from: Option<String>,
    parent_session_id: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    deleted_at: Option<Timestamp>,
    /// The command that takes it up again in a terminal
    resume_command: String,
}

#[expect(clippy::cast_precision_loss, reason = "dollars are shown, not summed, as a float")]
pub(crate) fn dollars(nano: i64) -> f64 {
    nano as f64 / 1e9
}

impl SessionView {
    pub(crate) fn of(app: &App, session: &Session) -> Self {
        Self {
            session_id: session.id.to_string(),
            user_id: session.user.clone(),
            project_id: session.project.clone(),
            kind: session.kind.clone(),
            title: app.clean_some(session.title.as_deref()),
            agent: session.agent.clone(),
            model: session.model.clone(),
            status: session.status().as_str().to_owned(),
            created_at: session.started_at,
            last_active_at: session.last_active_at,
            session_summary: app.clean_some(session.summary.as_deref()),
            conversation_count: session.counters.conversations,
            message_count: session.last_seq,
            total_tokens: session.counters.tokens,
            input_tokens: session.counters.input_tokens,
            output_tokens: session.counters.output_tokens,
            cost_usd: dollars(session.counters.cost_nano),
            forked_from: session.forked_from.map(|origin| origin.session.to_string()),
            parent_session_id: session.parent.map(|id| id.to_string()),
            deleted_at: session.deleted_at,
            resume_command: format!("rethread resume {}", session.id.short()),
        }
    }
}

/// A session with its conversations, and how they were opened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Whole {
    #[serde(flatten)]
    pub(crate) session: SessionView,
    pub(crate) conversations: Vec<ConversationView>,
    pub(crate) openings: Vec<OpenedView>,
    /// Turns that this server carries out in it now
    pub(crate) running_turns: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationView {
    name: String,
    title: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    last_at: Timestamp,
    message_count: u32,
    total_tokens: u64,
    /// The agent that spoke last
    agent: Option<String>,
    summary: Option<String>,
}

impl ConversationView {
    pub(crate) fn of(app: &App, one: &Conversation) -> Self {
        Self {
            name: one.name.clone(),
            title: app.clean_some(one.title.as_deref()),
            created_at: one.created_at,
            last_at: one.last_at,
            message_count: one.messages,
            total_tokens: one.tokens,
            agent: one.running.clone(),
            summary: app.clean_some(one.summary.as_ref().map(|summary| summary.text.as_str())),
        }
    }
}

/// How a conversation was opened in an agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct OpenedView {
    /// The message that it came after
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) at: Option<Timestamp>,
    pub(crate) agent: String,
    pub(crate) conversation: String,
    /// `resumed`, `loaded`, `retold`, `fresh`, `untold` or `failed`
    pub(crate) how: String,
    /// Why not in a better way
    pub(crate) why: Option<String>,
    pub(crate) ms: u64,
}

impl OpenedView {
    pub(crate) fn of(opening: &Opening) -> Self {
        Self {
            after: None,
            at: None,
            agent: opening.agent.clone(),
            conversation: opening.conversation.clone(),
            how: opening.how.as_str().to_owned(),
            why: opening.why.clone(),
            ms: opening.ms,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageView {
    pub(crate) seq: u32,
    id: String,
    /// `user`, `assistant`, `system` or `tool`
    role: String,
    pub(crate) content: String,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    conversation: String,
    tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    /// Fields that we do not know, as they came
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    purged_at: Option<Timestamp>,
}

impl MessageView {
    pub(crate) fn of(app: &App, session: SessionId, message: &Message) -> Self {
        let masked = |mut value: Value| {
            app.engine.redactor().redact_json(&mut value);
            value
        };
        let text = match &message.body {
            Body::Whole(text) => text,
            Body::Ends { head, .. } => head,
        };
        let extras = &message.extras;
        Self {
            seq: message.seq,
            id: message.given_id.clone().unwrap_or_else(|| session.message(message.seq)),
            role: message.role.as_str().to_owned(),
            content: app.clean(text),
            timestamp: message.at,
            conversation: message.conversation.clone(),
            tokens: message.price.tokens,
            agent: extras.agent.clone(),
            model: extras.model.clone(),
            tool_calls: extras.tool_calls.clone().map(masked),
            usage: extras.usage.as_ref().and_then(|usage| serde_json::to_value(usage).ok()),
            extra: (!extras.other.is_empty()).then(|| masked(Value::Object(extras.other.clone()))),
            purged_at: message.purged_at,
        }
    }
}

/// A message that was taken, under its number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Appended {
    pub(crate) seq: u32,
    /// False where a message with its id was there already
    pub(crate) is_new: bool,
}

/// The story of a session, within the limits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextView {
    success: bool,
    session_id: String,
    /// Markdown
    context: String,
    token_count: u32,
    #[schema(value_type = Object)]
    metadata: Value,
}

impl From<Context> for ContextView {
    fn from(context: Context) -> Self {
        Self {
            success: context.success,
            session_id: context.session_id.to_string(),
            context: context.context,
            token_count: context.token_count,
            metadata: serde_json::to_value(&context.metadata).unwrap_or_default(),
        }
    }
}

/// What a search gave.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundView {
    /// The best first
    pub(crate) items: Vec<HitView>,
    /// Give it as `cursor` for the next part; not there at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// The search was cut short because it took too much work: there may be more than is given here.
    pub(crate) partial: bool,
}

/// Something that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HitView {
    pub(crate) session_id: String,
    pub(crate) title: Option<String>,
    /// `message`, `title` or `summary`
    pub(crate) kind: String,
    /// What was found stands between `**`
    pub(crate) excerpt: String,
    score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) timestamp: Option<Timestamp>,
}

impl HitView {
    pub(crate) fn of(app: &App, hit: &Hit) -> Self {
        let (kind, seq, role, timestamp) = match &hit.place {
            Place::Message { seq, role, at } => {
                ("message", Some(*seq), Some(role.as_str().to_owned()), Some(*at))
            }
            Place::Title => ("title", None, None, None),
            Place::Summary => ("summary", None, None, None),
        };
        Self {
            session_id: hit.session.to_string(),
            title: app.clean_some(hit.title.as_deref()),
            kind: kind.to_owned(),
            excerpt: hit.excerpt.clone(),
            score: hit.score,
            seq,
            role,
            timestamp,
        }
    }
}
