//! What a resume is asked for, and what it gives beside the text.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::session::{Counters, Session};

/// Bounds of a context. The message and conversation limits bound the recent part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub tokens: u32,
    pub messages: u32,
    pub conversations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tokens: 10_000, messages: 20, conversations: 3 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit of {what} must be at least 1")]
pub struct NotPositive {
    pub what: &'static str,
}

impl Limits {
    pub fn check(&self) -> Result<(), NotPositive> {
        for (what, limit) in [
            ("tokens", self.tokens),
            ("messages", self.messages),
            ("conversations", self.conversations),
        ] {
            if limit == 0 {
                return Err(NotPositive { what });
            }
        }
        Ok(())
    }

    /// The same with a part of the tokens kept back, for models that count otherwise than we do.
    #[must_use]
    pub fn with_margin(self, margin: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the limit"
        )]
        let tokens = (f64::from(self.tokens) * (1.0 - margin.clamp(0.0, 0.9))).floor() as u32;
        Self { tokens: tokens.max(1), ..self }
    }
}

/// How often an agent was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentUse {
    pub name: String,
    pub usage_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    pub total_cost_usd: f64,
    pub total_input_tokens: u64,
    pub total_output_tokens: u64,
}

impl From<Counters> for Costs {
    fn from(counters: Counters) -> Self {
        Self {
            total_cost_usd: counters.cost_usd(),
            total_input_tokens: counters.input_tokens,
            total_output_tokens: counters.output_tokens,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Included {
    pub conversations: u32,
    pub messages: u32,
    pub tokens: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Omitted {
    pub messages: u32,
}

/// What a preview tells of a session, from its counters alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metadata {
    pub conversation_count: u32,
    pub message_count: u32,
    pub total_tokens: u64,
    pub agent_interaction_count: u32,
    /// The five most used.
    pub recent_agents: Vec<AgentUse>,
    pub costs: Costs,
    /// When the context was made; nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub included: Option<Included>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

impl Metadata {
    pub fn of(session: &Session, recent_agents: Vec<AgentUse>) -> Self {
        Self {
            conversation_count: session.counters.conversations,
            message_count: session.last_seq,
            total_tokens: session.counters.tokens,
            agent_interaction_count: session.counters.runs,
            recent_agents,
            costs: session.counters.into(),
            resumed_at: None,
            included: None,
            omitted: None,
        }
    }
}
