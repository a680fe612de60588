//! What programs see: the forms of the API. Everything in them has been masked.

mod event;
mod session;

pub(crate) use event::EventView;
pub(crate) use session::{
    Appended, ContextView, ConversationView, HitView, MessageView, OpenedView, SessionView,
    TurnView, Whole, dollars,
};

use serde::Serialize;
use utoipa::ToSchema;

/// A part of a list, and where it goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// Give it as `cursor` for the next part; not there at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}
