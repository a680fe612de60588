//! The retelling: the story so far, within a token budget, for whoever takes it up.
//!
//! Pure. Every piece has a price before it is chosen, so the budget covers all that is rendered. Filled in the
//! order of use: header, where it stopped, the last messages, older ones that matter to the next prompt, then
//! summaries; shown in the order of reading.

mod lines;
mod page;
mod prices;
mod related;
mod shorten;
#[cfg(test)]
mod tests;

use crate::context::{Included, Limits, Omitted};
use crate::conversation::Conversation;
use crate::message::Message;
use crate::rank::Related;
use crate::session::Session;

/// What stands before a recent message costs this much by itself.
pub const CHEAPEST_MESSAGE: u32 = lines::RECENT_ROLE;

use page::Page;
pub use page::{whole_frame, whole_price};
pub use prices::{
    head_price, heading_price, name_price, own_summary_prices, price_conversation, price_session,
    summary_prices, title_price,
};

/// What there is to tell.
#[derive(Debug, Clone, Copy)]
pub struct Story<'a> {
    pub session: &'a Session,
    /// The most recent ones, newest first.
    pub conversations: &'a [Conversation],
    /// Others that messages here belong to.
    pub others: &'a [Conversation],
    /// The last messages of the recent conversations, newest first.
    pub recent: &'a [Message],
    /// Older messages with their worth for the next prompt.
    pub related: &'a [Related],
    /// What changed in the project's repository.
    pub repository: Option<&'a str>,
    pub frame: Frame,
    /// How many messages there are to tell.
    pub messages: u32,
}

/// What the story is told for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A session, for whoever takes it up.
    Session,
    /// One conversation, for an agent that knows nothing of it. Given whole, or in part.
    Conversation { is_whole: bool },
    /// What an agent missed of a conversation that it knows.
    Missed { is_whole: bool },
}

impl Frame {
    /// Told in part, no message is longer than this.
    const MOST_CHARS: usize = 2_000;
    /// Told in part, there are no more messages than this.
    const MOST_MESSAGES: usize = 50;

    const fn is_part(self) -> bool {
        matches!(self, Self::Conversation { is_whole: false } | Self::Missed { is_whole: false })
    }
}

/// The story as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    pub text: String,
    /// Never more than the limit. What the text really has where `exact`, at least that otherwise.
    pub tokens: u32,
    /// False where a text had to be priced without having been counted.
    pub exact: bool,
    pub included: Included,
    pub omitted: Omitted,
}

/// With fewer tokens than this there is room for a piece of the last message and nothing else.
const SMALLEST_FRAME: u32 = 120;

/// With fewer than this not even what is left out is counted.
const SMALLEST_COUNT: u32 = 80;

/// Tells the story within the limits.
pub fn tell(story: &Story<'_>, limits: &Limits) -> Telling {
    if limits.tokens >= SMALLEST_FRAME {
        let page = framed(story, limits.tokens);
        // Where long names leave no room inside it, a piece of the last message says more.
        if page.has_recent() || story.recent.is_empty() {
            return page.finish();
        }
    }
    let mut page = Page::new(story, limits.tokens);
    if limits.tokens >= SMALLEST_COUNT {
        page.take_count();
    }
    page.take_recent(page.left());
    page.finish()
}

fn framed<'a>(story: &'a Story<'a>, tokens: u32) -> Page<'a> {
    let mut page = Page::new(story, tokens);
    page.take_frame();
    match story.frame {
        Frame::Missed { is_whole } => {
            if !is_whole {
                page.take_own_summary(page.left() * 15 / 100);
            }
            page.take_recent(page.left());
            page.take_related();
            return page;
        }
        // What fits whole comes before anything about it.
        Frame::Conversation { is_whole: true } => page.take_recent(page.left()),
        Frame::Session | Frame::Conversation { is_whole: false } => (),
    }
    page.take_header();
    let for_summaries = page.left() * 15 / 100;
    page.take_summaries(for_summaries);
    page.take_repository(page.left() / 5);
    let for_recent = if story.related.is_empty() { page.left() } else { page.left() / 2 };
    page.take_recent(for_recent);
    if !page.has_recent() {
        // Where it stopped comes before what matters from earlier on.
        page.take_recent(page.left());
    }
    page.take_related();
    page.take_recent(page.left());
    page.take_summaries(page.left());
    page
}
