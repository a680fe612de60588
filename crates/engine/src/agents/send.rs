//! The outcome of a request, and how it is passed between processes.

use jiff::Timestamp;
use rethread_domain::opening::Opening;
use rethread_domain::turn::{End, Permission, Turn, Update};
use rethread_domain::{Seq, SessionId};
use serde::{Deserialize, Serialize};

use super::open::OpenOptions;
use super::outcome::{ANSWERED, Outcome};
use super::port::AgentError;
use crate::{Engine, Error, Result};

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub session_id: SessionId,
    pub conversation: String,
    pub agent: String,
    /// What was said, without thoughts and tool calls.
    pub answer: String,
    /// The stop reason: `end_turn`, `cancelled`, …
    pub stop: String,
    /// The outcome: `answered`, `no_answer`, `model_error`, `usage_limit`, or the stop reason.
    #[serde(default = "answered")]
    pub outcome: String,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When a usage limit ends, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    pub opened: Opening,
    /// The newest message of the conversation now.
    pub upto: Seq,
    /// Tokens in the agent's context and its size, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<(u64, u64)>,
    /// What the agent asked to do in this turn and was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Permission>,
}

fn answered() -> String {
    ANSWERED.to_owned()
}

impl Answer {
    pub(super) fn new(
        options: &OpenOptions,
        opened: Opening,
        turn: &Turn,
        (end, trouble): (&End, Option<&AgentError>),
        now: Timestamp,
    ) -> Self {
        let stop = match end {
            End::Stopped(reason) => reason.clone(),
            End::Failed(_) => "failed".to_owned(),
            End::Interrupted => "interrupted".to_owned(),
        };
        let outcome = Outcome::of(turn, &stop, trouble, now);
        Self {
            session_id: options.session,
            conversation: options.conversation.clone(),
            agent: options.agent.clone(),
            // A failure is reported without it, as it may be large.
            answer: if matches!(end, End::Stopped(_)) { turn.text() } else { String::new() },
            stop,
            outcome: outcome.name,
            error: outcome.error,
            resets_at: outcome.resets_at,
            opened,
            upto: 0,
            context: turn.context(),
            refused: turn.refused(),
        }
    }
}

/// The reply to another process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Answer(Box<Answer>),
    Failed(String),
}

/// Progress of a request, for display.
pub enum Progress<'a> {
    Opened(&'a Opening),
    /// Another process has the conversation open, and sends it.
    Elsewhere,
    /// Another process has the conversation open, and this one waits until it leaves.
    Waiting,
    Update(&'a Update),
    /// So many of the updates that the agent's connection has handed over are durable.
    Recorded(u64),
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Opened(_) => "Opened",
            Self::Elsewhere => "Elsewhere",
            Self::Waiting => "Waiting",
            Self::Update(_) => "Update",
            Self::Recorded(_) => "Recorded",
        })
    }
}

impl Engine {
    /// Replies to a prompt of another process.
    pub async fn reply(&self, asked: u64, outcome: &Result<Answer>) -> Result<()> {
        let reply = match outcome {
            Ok(answer) => Reply::Answer(Box::new(answer.clone())),
            Err(error) => Reply::Failed(error.to_string()),
        };
        let text = serde_json::to_string(&reply).unwrap_or_default();
        Ok(self.store.answer(asked, &text, self.clock.now()).await?)
    }
}

pub(super) fn replied(reply: &str) -> Result<Answer> {
    match serde_json::from_str(reply) {
        Ok(Reply::Answer(answer)) => Ok(*answer),
        Ok(Reply::Failed(why)) => Err(Error::Elsewhere(why)),
        Err(error) => Err(Error::Elsewhere(error.to_string())),
    }
}
