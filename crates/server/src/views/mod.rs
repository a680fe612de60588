//! What programs see: the forms of the API. Everything in them has been masked.

mod event;
mod session;
pub(crate) mod snapshot;
mod turn;
pub(crate) mod workflow;

pub(crate) use event::EventView;
pub(crate) use session::{
    Appended, ContextView, ConversationView, FoundView, HitView, MessageView, OpenedView,
    SessionView, Whole, dollars,
};
pub(crate) use turn::{QuestionView, TurnView};

use rethread_redact::Redactor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::problem::Problem;

/// A part of a list, and where it goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// Give it as `cursor` for the next part; not there at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// The same without what looks like a secret, wherever in it that stands.
pub(crate) fn masked<T: Serialize + DeserializeOwned>(
    redactor: &Redactor,
    view: &T,
) -> Result<T, Problem> {
    let unreadable = |_| Problem::new("internal", "the answer cannot be written");
    let mut value = serde_json::to_value(view).map_err(unreadable)?;
    redactor.redact_json(&mut value);
    serde_json::from_value(value).map_err(unreadable)
}
