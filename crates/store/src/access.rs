//! What a server asks of a store beside sessions: tokens, keys, and what was used.

use async_trait::async_trait;
use jiff::civil::Date;
use serde::Serialize;
use uuid::Uuid;

use crate::error::Result;

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedId {
    /// Of what is made under the key.
    pub id: Uuid,
    /// Whether nobody had used the key before.
    pub is_new: bool,
}

/// Which days, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFilter {
    pub user: Option<String>,
    pub project: Option<String>,
    pub agent: Option<String>,
    /// The first day, in UTC,
    pub from: Date,
    /// and the last one.
    pub to: Date,
}

/// What was used on one day, in one project, with one agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsageDay {
    pub day: Date,
    pub project: String,
    /// Empty where none was named.
    pub agent: String,
    pub messages: u64,
    /// What was said, by our own count.
    pub tokens: u64,
    /// What models reported.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: f64,
    /// How full a context was at most, from 0 to 1, where an agent told.
    pub context_use: Option<f64>,
    pub sessions: u64,
}

/// Keys under which something is asked for, so that asking again makes nothing twice.
#[async_trait]
pub trait IdempotencyKeys: Send + Sync + 'static {
    /// What a key stands for: `id`, unless it was used in the last seven days. Durable when it returns.
    ///
    /// Fails with [`crate::Error::KeyReused`] where it was used for another request.
    async fn reserve(
        &self,
        key: &str,
        request: &[u8],
        id: Uuid,
        at: jiff::Timestamp,
    ) -> Result<ReservedId>;
}

/// What was used, over time.
#[async_trait]
pub trait Accounts: Send + Sync + 'static {
    /// The oldest day first; deleted sessions are not counted.
    async fn usage_by_day(&self, filter: &UsageFilter) -> Result<Vec<UsageDay>>;
}
