//! The retelling: the story so far, within a token budget, for whoever takes it up.
//!
//! Pure. Every piece has a price before it is chosen, so the budget covers all that is rendered. Filled in the
//! order of use: header, where it stopped, older passages that matter to the next prompt, more of the last messages, then
//! summaries; shown in the order of reading.

mod earlier;
mod explain;
mod lines;
mod page;
mod prices;
mod related;
mod shorten;
mod states;
mod summed;
#[cfg(test)]
mod tests;

use crate::context::{Included, Limits, Omitted};
use crate::conversation::Conversation;
use crate::message::Message;
use crate::rank::{Related, Wanted};
use crate::session::Session;

/// What stands before a recent message costs this much by itself.
pub const CHEAPEST_MESSAGE: u32 = lines::RECENT_ROLE;

pub use earlier::{without_earlier, without_story};
pub use explain::{Explanation, Part, Piece, Reason};
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
    /// Older messages with passages that are worth something for the next prompt.
    pub related: &'a [Related],
    /// What the next prompt asks for.
    pub wanted: Option<&'a Wanted>,
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
    /// The last session, for an agent that begins another one in the same folder.
    Earlier,
    /// One conversation, for an agent that knows nothing of it. Given whole, or in part.
    Conversation { is_whole: bool },
    /// What an agent missed of a conversation that it knows.
    Missed { is_whole: bool },
    /// What another session of the same work said, inside of a prompt.
    Background { is_whole: bool },
}

impl Frame {
    /// Told in part, no message is longer than this.
    const MOST_CHARS: usize = 2_000;
    /// Told in part, there are no more messages than this.
    const MOST_MESSAGES: usize = 50;

    /// Whether a whole session is told, not one of its conversations.
    const fn is_session(self) -> bool {
        matches!(self, Self::Session | Self::Earlier)
    }

    const fn is_part(self) -> bool {
        matches!(
            self,
            Self::Conversation { is_whole: false }
                | Self::Missed { is_whole: false }
                | Self::Background { is_whole: false }
        )
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

/// Where it stopped is told with at least so much room, as far as there is any.
const LEAST_RECENT: u32 = 120;

/// With less room than this, a prompt leaves none to summaries.
const ROOM_FOR_SUMMARIES: u32 = 3_500;

/// With fewer than this not even what is left out is counted.
const SMALLEST_COUNT: u32 = 80;

/// Tells the story within the limits.
pub fn tell(story: &Story<'_>, limits: &Limits) -> Telling {
    fill(story, limits.tokens, false).finish()
}

/// The same, with why each piece is there and what nearly was.
pub fn tell_explained(story: &Story<'_>, limits: &Limits) -> (Telling, Explanation) {
    let page = fill(story, limits.tokens, true);
    let explanation = page.explain(page.tokens());
    (page.finish(), explanation)
}

/// Chooses what is told. `explains`: with what nearly was.
fn fill<'a>(story: &'a Story<'a>, tokens: u32, explains: bool) -> Page<'a> {
    if tokens >= SMALLEST_FRAME {
        let page = framed(story, tokens, explains);
        // Where long names leave no room inside it, a piece of the last message says more.
        if page.has_recent() || story.recent.is_empty() {
            return page;
        }
    }
    let mut page = Page::new(story, tokens, explains);
    if tokens >= SMALLEST_COUNT {
        page.take_count();
    }
    page.take_recent(page.left());
    page
}

fn framed<'a>(story: &'a Story<'a>, tokens: u32, explains: bool) -> Page<'a> {
    let mut page = Page::new(story, tokens, explains);
    page.take_frame();
    match story.frame {
        Frame::Missed { is_whole } | Frame::Background { is_whole } => {
            if !is_whole {
                page.take_own_summary(page.left() * 15 / 100);
            }
            page.take_recent(page.left());
            page.take_related();
            return page;
        }
        // What fits whole comes before anything about it.
        Frame::Conversation { is_whole: true } => page.take_recent(page.left()),
        Frame::Session | Frame::Earlier | Frame::Conversation { is_whole: false } => (),
    }
    page.take_header();
    share(&mut page, story);
    page
}

/// Shares what is left: where it stopped comes first, then what matters from earlier on, then summaries. Without a prompt
/// nothing is known to matter, and the last messages have the most of it.
fn share<'a>(page: &mut Page<'a>, story: &'a Story<'a>) {
    let has_prompt = !story.related.is_empty();
    let names_nothing = story.wanted.is_some_and(|wanted| wanted.sought.is_all);
    // Summaries say little about one thing: for a prompt they come after the passages that have its words.
    let (summaries, repository, recent) = match (has_prompt, page.left()) {
        (false, left) => (left * 15 / 100, left / 5, left),
        // Where it stopped is most of what such a prompt asks for.
        (true, left) if names_nothing => (left / 20, left / 10, left * 2 / 5),
        (true, left @ ..ROOM_FOR_SUMMARIES) => (0, left / 10, (left * 3 / 20).max(LEAST_RECENT)),
        (true, left) => (left / 20, left / 10, left / 8),
    };
    page.take_summaries(summaries);
    page.take_repository(repository);
    let room = page.left();
    if has_prompt {
        page.take_last_said(recent);
    }
    // Where there is little room, what tools printed last says less than what matters from earlier on.
    if !has_prompt || room >= ROOM_FOR_SUMMARIES {
        page.take_recent(recent.saturating_sub(room - page.left()));
    }
    if !page.has_recent() {
        page.take_recent(page.left());
    }
    page.take_related();
    page.begin_rest();
    page.take_recent(page.left());
    page.take_summaries(page.left());
}
