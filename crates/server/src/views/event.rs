//! An event as clients see it.

use jiff::Timestamp;
use rethread_domain::feed::FeedEvent;
use serde::Serialize;
use utoipa::ToSchema;

/// A change. Numbers increase in the order of commits; an event is never sent twice.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventView {
    pub(crate) no: u64,
    /// Such as `MESSAGES_APPENDED`, `SESSION_PAUSED`, `WORKFLOW_PAUSED` or `CAPACITY_WARNING`. Later versions may add more.
    #[serde(rename = "type")]
    kind: String,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    /// The first and the last message, fact or workflow event that it is about.
    first: u32,
    last: u32,
}

impl EventView {
    pub(crate) fn of(event: &FeedEvent) -> Self {
        Self {
            no: event.no,
            kind: event.kind.as_str().to_owned(),
            at: event.at,
            session_id: event.session.map(|id| id.to_string()),
            workflow_id: event.workflow.map(|id| id.to_string()),
            first: event.first,
            last: event.last,
        }
    }
}
