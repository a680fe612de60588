//! Sessions and messages as clients see them. Kept apart from the domain's types, so that one can change without
//! breaking the other.

use rethread_domain::search::{Hit, Place};
use rethread_domain::{Conversation, Message, Session};
use serde::Serialize;

use crate::server::Office;

/// What is shown of a title or a summary.
const SUMMARY_BYTES: usize = 2_000;

/// The first bytes of a text; says where it was cut.
fn beginning(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}

/// A session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    /// The one id of the session
    pub(crate) session_id: String,
    pub(crate) title: Option<String>,
    /// active, paused, completed or archived
    pub(crate) status: String,
    pub(crate) kind: String,
    /// The agent that it was started with
    pub(crate) agent_name: Option<String>,
    pub(crate) project: String,
    pub(crate) summary: Option<String>,
    pub(crate) message_count: u32,
    pub(crate) total_tokens: u64,
    pub(crate) created_at: String,
    pub(crate) last_active_at: String,
    /// The session that it was forked from
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<String>,
    /// The session whose agent started it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_session_id: Option<String>,
}

impl SessionView {
    pub(crate) fn of(session: &Session, office: &Office) -> Self {
        let clean = |text: &String| beginning(&office.clean(text), SUMMARY_BYTES);
        Self {
            session_id: session.id.to_string(),
            title: session.title.as_ref().map(clean),
            status: session.status().to_string(),
            kind: session.kind.clone(),
            agent_name: session.agent.clone(),
            project: session.project.clone(),
            summary: session.summary.as_ref().map(clean),
            message_count: session.last_seq,
            total_tokens: session.counters.tokens,
            created_at: session.started_at.to_string(),
            last_active_at: session.last_active_at.to_string(),
            forked_from: session.forked_from.map(|origin| origin.session.to_string()),
            parent_session_id: session.parent.map(|parent| parent.to_string()),
        }
    }
}

/// A message.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageView {
    /// Its number in the session, from 1
    pub(crate) seq: u32,
    /// user, assistant, system or tool
    pub(crate) role: String,
    pub(crate) content: String,
    /// How many bytes were left out at the end of the content: `offset` reads on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted_bytes: Option<usize>,
    pub(crate) timestamp: String,
    pub(crate) conversation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_name: Option<String>,
    /// The message is not whole: its turn ended before the agent had finished
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) purged_at: Option<String>,
}

impl MessageView {
    /// A message with at most so many bytes of its text, from `offset` on.
    pub(crate) fn of(message: &Message, offset: usize, most: usize, office: &Office) -> Self {
        let whole = office.clean(message.body.head());
        let start = whole.floor_char_boundary(offset);
        let end = whole.floor_char_boundary(start.saturating_add(most));
        let omitted = whole.len() - end;
        Self {
            seq: message.seq,
            role: message.role.to_string(),
            content: whole[start..end].to_owned(),
            omitted_bytes: Some(omitted).filter(|omitted| *omitted > 0),
            timestamp: message.at.to_string(),
            conversation: message.conversation.clone(),
            agent_name: message.extras.agent.clone(),
            is_interrupted: message.is_cut_short(),
            purged_at: message.purged_at.map(|at| at.to_string()),
        }
    }
}

/// A conversation of a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationView {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) message_count: u32,
    pub(crate) last_active_at: String,
    pub(crate) summary: Option<String>,
}

impl ConversationView {
    pub(crate) fn of(conversation: &Conversation, office: &Office) -> Self {
        let clean = |text: &str| beginning(&office.clean(text), SUMMARY_BYTES);
        Self {
            name: conversation.name.clone(),
            title: conversation.title.as_ref().map(|title| clean(title)),
            message_count: conversation.messages,
            last_active_at: conversation.last_at.to_string(),
            summary: conversation.summary.as_ref().map(|summary| clean(&summary.text)),
        }
    }
}

/// A place where something was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HitView {
    pub(crate) session_id: String,
    pub(crate) title: Option<String>,
    /// message, title or summary
    pub(crate) place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    /// The text around it, what was found between **
    pub(crate) excerpt: String,
}

impl HitView {
    pub(crate) fn of(hit: &Hit, office: &Office) -> Self {
        let (place, message) = match &hit.place {
            Place::Message { seq, role, at } => ("message", Some((*seq, role, at))),
            Place::Title => ("title", None),
            Place::Summary => ("summary", None),
        };
        Self {
            session_id: hit.session.to_string(),
            title: hit.title.as_ref().map(|title| office.clean(title)),
            place: place.to_owned(),
            seq: message.map(|(seq, ..)| seq),
            role: message.map(|(_, role, _)| role.to_string()),
            timestamp: message.map(|(.., at)| at.to_string()),
            excerpt: hit.excerpt.clone(),
        }
    }
}

/// What came of an invocation.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invoked {
    /// completed, cancelled, failed, or running: then `wait_for_agent` with the handle gives the rest
    pub(crate) status: String,
    /// The id to go on with: `continueSessionId` takes it
    pub(crate) session_id: String,
    pub(crate) agent_name: String,
    /// What the agent answered
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// Why the agent stopped: `end_turn`, `max_turns`, cancelled, refusal, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<String>,
    /// What came of it: answered, `no_answer`, `model_error`, `usage_limit`, or the reason to stop
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
    /// What is wrong, where there is no answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// When a usage limit is lifted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resets_at: Option<String>,
    /// Whether an earlier session was gone on with
    pub(crate) is_session_continuation: bool,
    /// How the conversation was opened in the agent
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opened: Option<OpeningView>,
    /// For `wait_for_agent`, while it runs
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handle: Option<String>,
    /// What it does at the moment
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<String>,
    /// How many messages the session has now
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_count: Option<u32>,
    /// The folder with conversation.json, session.log and summary.json
    pub(crate) output_folder: String,
}

/// How a conversation was opened.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpeningView {
    /// fresh, resumed, loaded, retold or untold
    pub(crate) how: String,
    /// Why not in a better way
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The same in words
    pub(crate) told: String,
}
