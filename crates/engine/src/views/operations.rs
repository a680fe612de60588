//! Views of agents, tokens and the store itself.

use jiff::Timestamp;
use rethread_domain::access::Token;
use rethread_store::Record;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Checked;
use crate::program::AgentInfo;

/// A known agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentView {
    pub name: String,
    pub is_installed: bool,
    /// Whether tool restrictions can be enforced for it
    pub is_restrictable: bool,
    /// The command that installs it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
}

impl From<AgentInfo> for AgentView {
    fn from(agent: AgentInfo) -> Self {
        Self {
            name: agent.name,
            is_installed: agent.is_installed,
            is_restrictable: agent.unrestrictable.is_none(),
            install: agent.install,
        }
    }
}

/// A token.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TokenView {
    pub id: String,
    pub name: String,
    /// `read`, `write` or `admin`
    pub role: String,
    pub user: String,
    /// `token`, `browser` or `link`
    pub kind: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub used_at: Option<Timestamp>,
    /// Only in the answer that created it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name,
            role: token.role.as_str().to_owned(),
            user: token.user,
            kind: token.pass.as_str().to_owned(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            used_at: token.used_at,
            secret: None,
        }
    }
}

/// The state of the store
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoreView {
    pub schema: i64,
    pub sessions: u64,
    pub deleted_sessions: u64,
    pub messages: u64,
    pub file_bytes: u64,
    pub wal_bytes: u64,
    pub free_bytes: u64,
    pub blob_bytes: u64,
    /// Messages that the search index lacks; the next search adds them
    pub unindexed_messages: u64,
    /// Damage of the database file itself
    pub damage: Vec<String>,
    /// Rows that do not match their checksums
    pub records: Vec<RecordView>,
    /// What differs from the log and can be rebuilt
    pub drift: Vec<String>,
    /// Damage in a write-ahead log that a crash left
    pub damaged_logs: Vec<String>,
}

/// A damaged row of the store
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RecordView {
    /// Such as `message`, `fact` or `session`
    pub kind: String,
    /// The session or workflow that it belongs to, if known
    pub of: Option<String>,
    /// Its number there
    pub number: Option<u64>,
}

impl From<&Record> for RecordView {
    fn from(record: &Record) -> Self {
        let Record { kind, of, number } = record.clone();
        Self { kind, of, number }
    }
}

impl From<&Checked> for StoreView {
    fn from(Checked { health, usage, .. }: &Checked) -> Self {
        Self {
            schema: usage.schema,
            sessions: usage.sessions,
            deleted_sessions: usage.deleted_sessions,
            messages: usage.messages,
            file_bytes: usage.file_bytes,
            wal_bytes: usage.wal_bytes,
            free_bytes: usage.free_bytes,
            blob_bytes: usage.blob_bytes,
            unindexed_messages: health.unindexed,
            damage: health.damage.clone(),
            records: health.records.iter().map(RecordView::from).collect(),
            drift: health.drift.clone(),
            damaged_logs: health.damaged_logs.clone(),
        }
    }
}
