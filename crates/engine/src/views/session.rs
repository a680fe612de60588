//! Views of sessions, conversations, messages, and search results.

use jiff::Timestamp;
use rethread_domain::opening::Opening;
use rethread_domain::search::{Found, Hit, Place};
use rethread_domain::session::{Fact, FactRecord};
use rethread_domain::turn::Permission;
use rethread_domain::{Conversation, Message, Session, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::agents::Answer;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SessionView {
    pub session_id: String,
    pub user_id: String,
    pub project_id: String,
    pub kind: String,
    pub title: Option<String>,
    /// The agent that answered last, or that it was started with
    pub agent: Option<String>,
    pub model: Option<String>,
    /// `active`, `paused`, `completed` or `archived`
    pub status: String,
    pub created_at: Timestamp,
    pub last_active_at: Timestamp,
    pub session_summary: Option<String>,
    pub conversation_count: u32,
    pub message_count: u32,
    pub total_tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    pub forked_from: Option<OriginView>,
    /// The session whose agent started it
    pub parent_session_id: Option<String>,
    /// The agent whose own files it was imported from
    pub imported_from: Option<String>,
    pub deleted_at: Option<Timestamp>,
    /// The command that resumes it in a terminal
    pub resume_command: String,
}

/// The origin of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OriginView {
    pub session_id: String,
    /// The last shared message
    pub seq: u32,
}

impl From<&Session> for SessionView {
    fn from(session: &Session) -> Self {
        let counters = &session.counters;
        let origin = |session: SessionId, seq| OriginView { session_id: session.to_string(), seq };
        Self {
            session_id: session.id.to_string(),
            user_id: session.user.clone(),
            project_id: session.project.clone(),
            kind: session.kind.clone(),
            title: session.title.clone(),
            agent: session.speaker().map(str::to_owned),
            model: session.model.clone(),
            status: session.status().to_string(),
            created_at: session.started_at,
            last_active_at: session.last_active_at,
            session_summary: session.summary.clone(),
            conversation_count: counters.conversations,
            message_count: session.last_seq,
            total_tokens: counters.tokens,
            input_tokens: counters.input_tokens,
            output_tokens: counters.output_tokens,
            cost_usd: counters.cost_usd(),
            forked_from: session.forked_from.map(|from| origin(from.session, from.seq)),
            parent_session_id: session.parent.map(|id| id.to_string()),
            imported_from: session.imported_from.clone(),
            deleted_at: session.deleted_at,
            resume_command: format!("rethread resume {}", session.id.short()),
        }
    }
}

/// A conversation of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ConversationView {
    pub name: String,
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub last_active_at: Timestamp,
    pub message_count: u32,
    pub total_tokens: u64,
    /// The agent that answered last
    pub agent: Option<String>,
    pub summary: Option<String>,
    /// The last message that the summary covers; 0 if there is none
    pub summarised_upto: u32,
}

impl From<&Conversation> for ConversationView {
    fn from(conversation: &Conversation) -> Self {
        Self {
            name: conversation.name.clone(),
            title: conversation.title.clone(),
            created_at: conversation.created_at,
            last_active_at: conversation.last_at,
            message_count: conversation.messages,
            total_tokens: conversation.tokens,
            agent: conversation.running.clone(),
            summary: conversation.summary.as_ref().map(|summary| summary.text.clone()),
            summarised_upto: conversation.summarised_upto(),
        }
    }
}

/// How a conversation was opened in an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OpeningView {
    /// The message before it; absent for the opening of a turn
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub agent: String,
    pub conversation: String,
    /// `resumed`, `loaded`, `retold`, `fresh`, `untold` or `failed`
    pub how: String,
    /// Why no better way was possible
    pub why: Option<String>,
    pub ms: u64,
    /// The same in words
    pub text: String,
}

impl From<&Opening> for OpeningView {
    fn from(opening: &Opening) -> Self {
        Self {
            after: None,
            at: None,
            agent: opening.agent.clone(),
            conversation: opening.conversation.clone(),
            how: opening.how.to_string(),
            why: opening.why.clone(),
            ms: opening.ms,
            text: opening.describe(),
        }
    }
}

/// The outcome of a request to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AnswerView {
    pub session_id: String,
    pub conversation: String,
    pub agent: String,
    /// What was said, without thoughts and tool calls
    pub answer: String,
    /// The stop reason, such as `end_turn` or `cancelled`
    pub stop_reason: String,
    /// The outcome: `answered`, `no_answer`, `model_error`, `usage_limit`, or the stop reason
    pub outcome: String,
    /// What went wrong
    pub error: Option<String>,
    /// When a usage limit ends, if the agent said so
    pub resets_at: Option<Timestamp>,
    pub opened: OpeningView,
    /// The newest message of the conversation afterwards
    pub upto: u32,
    /// Tokens in the agent's context and its size, if reported
    pub context: Option<(u64, u64)>,
    /// What the agent asked to do and was refused
    #[schema(value_type = Vec<Object>)]
    #[schemars(with = "Vec<Value>")]
    pub refused: Vec<Permission>,
}

impl From<&Answer> for AnswerView {
    fn from(answer: &Answer) -> Self {
        Self {
            session_id: answer.session_id.to_string(),
            conversation: answer.conversation.clone(),
            agent: answer.agent.clone(),
            answer: answer.answer.clone(),
            stop_reason: answer.stop.clone(),
            outcome: answer.outcome.clone(),
            error: answer.error.clone(),
            resets_at: answer.resets_at,
            opened: OpeningView::from(&answer.opened),
            upto: answer.upto,
            context: answer.context,
            refused: answer.refused.clone(),
        }
    }
}

/// The openings of a session's conversations.
pub fn openings(facts: &[FactRecord]) -> Vec<OpeningView> {
    let opened = facts.iter().filter_map(|record| match &record.fact {
        Fact::Attached(opening) => {
            let (after, at) = (Some(record.after), Some(record.at));
            Some(OpeningView { after, at, ..OpeningView::from(opening) })
        }
        _ => None,
    });
    opened.collect()
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct MessageView {
    /// Its number in the session, from 1
    pub seq: u32,
    pub id: String,
    /// `user`, `assistant`, `system` or `tool`
    pub role: String,
    pub content: String,
    pub timestamp: Timestamp,
    pub conversation: String,
    pub tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Unknown fields, as they were recorded
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
}

impl MessageView {
    pub fn of(session: SessionId, message: &Message) -> Self {
        let extras = &message.extras;
        Self {
            seq: message.seq,
            id: message.given_id.clone().unwrap_or_else(|| session.message(message.seq)),
            role: message.role.to_string(),
            content: message.body.head().to_owned(),
            timestamp: message.at,
            conversation: message.conversation.clone(),
            tokens: message.price.tokens,
            agent: extras.agent.clone(),
            model: extras.model.clone(),
            tool_calls: extras.tool_calls.clone(),
            usage: extras.usage.as_ref().and_then(|usage| serde_json::to_value(usage).ok()),
            extra: (!extras.other.is_empty()).then(|| Value::Object(extras.other.clone())),
            purged_at: message.purged_at,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct FoundView {
    /// Best matches first
    pub items: Vec<HitView>,
    /// Give it as `cursor` to get the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The search was cut short because it took too much work: there may be more matches.
    pub partial: bool,
    /// How many damaged messages were left out, in which there may be matches; absent if there are none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<u32>,
}

impl From<&Found> for FoundView {
    fn from(found: &Found) -> Self {
        Self {
            items: found.hits.iter().map(HitView::from).collect(),
            next: found.next.map(|next| next.to_string()),
            partial: found.is_partial,
            damaged: Some(found.damaged).filter(|damaged| *damaged > 0),
        }
    }
}

/// A match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct HitView {
    pub session_id: String,
    pub title: Option<String>,
    /// `message`, `title` or `summary`
    pub kind: String,
    /// An excerpt with matches between `**`
    pub excerpt: String,
    pub score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

impl From<&Hit> for HitView {
    fn from(hit: &Hit) -> Self {
        let (kind, seq, role, timestamp) = match &hit.place {
            Place::Message { seq, role, at } => {
                ("message", Some(*seq), Some(role.to_string()), Some(*at))
            }
            Place::Title => ("title", None, None, None),
            Place::Summary => ("summary", None, None, None),
        };
        Self {
            session_id: hit.session.to_string(),
            title: hit.title.clone(),
            kind: kind.to_owned(),
            excerpt: hit.excerpt.clone(),
            score: hit.score,
            seq,
            role,
            timestamp,
        }
    }
}
