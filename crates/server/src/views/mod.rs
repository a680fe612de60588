//! What only this server's clients see; the rest is in `engine::views`. Everything in them has been masked.

mod event;
mod turn;

pub(crate) use event::EventView;
pub(crate) use turn::{QuestionView, TurnView};

use rethread_engine::views::{ConversationView, OpeningView, SessionView};
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

/// A session with its conversations, and how they were opened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Whole {
    #[serde(flatten)]
    pub(crate) session: SessionView,
    pub(crate) conversations: Vec<ConversationView>,
    pub(crate) openings: Vec<OpeningView>,
    /// Turns that this server carries out in it now
    pub(crate) running_turns: Vec<String>,
}

/// A message that was taken, under its number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Appended {
    pub(crate) seq: u32,
    /// False where a message with its id was there already
    pub(crate) is_new: bool,
}
