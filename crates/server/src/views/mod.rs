//! Views that only this server has; the others are in `engine::views`. Everything in them is masked.

mod event;
mod turn;

pub(crate) use event::EventView;
pub(crate) use turn::{QuestionView, TurnView};

use rethread_engine::views::{ConversationView, OpeningView, SessionView};
use serde::Serialize;
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// Give it as `cursor` to get the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A session with its conversations and their openings.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionDetailView {
    #[serde(flatten)]
    pub(crate) session: SessionView,
    pub(crate) conversations: Vec<ConversationView>,
    /// The sessions that its agents started
    pub(crate) child_session_ids: Vec<String>,
    pub(crate) openings: Vec<OpeningView>,
    /// The turns that this server is running in it
    pub(crate) running_turns: Vec<String>,
}

/// The outcome for one appended message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Appended {
    pub(crate) seq: u32,
    /// False if a message with its id existed already
    pub(crate) is_new: bool,
}
