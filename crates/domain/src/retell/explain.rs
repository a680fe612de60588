//! Why each piece of a context is there, what it costs, and what nearly was.
//!
//! Made from the page that was filled, not by a second computation: what is explained is what was chosen.

use serde::Serialize;

use super::lines;
use super::page::Page;
use super::related::Choice;
use crate::id::Seq;
use crate::message::{Message, Role};
use crate::quote::cut_line;
use crate::rank::{Excerpt, Kind, State, Wanted, part_of};

/// How much of a piece is shown to know it by.
const BEGINNING: usize = 80;
/// The most pieces that nearly were.
pub(super) const MOST_NEARLY: usize = 10;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// In the order of reading. Their tokens add up to those of the text.
    pub pieces: Vec<Piece>,
    /// The best ones first.
    pub nearly: Vec<Piece>,
}

/// A piece of a context, or one that could have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Piece {
    pub part: Part,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub tokens: u32,
    pub why: Vec<Reason>,
    /// How it begins.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Lines of ours: opening, headings, dates, marks, what is left out, closing.
    Frame,
    /// What the session is.
    Header,
    Summary,
    Conversation,
    Repository,
    /// A passage of an older message.
    Earlier,
    Recent,
}

crate::named!(Part {
    Frame = "frame",
    Header = "header",
    Summary = "summary",
    Conversation = "conversation",
    Repository = "repository",
    Earlier = "earlier",
    Recent = "recent",
});

/// Why a piece is there, or is not.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// Every context has it.
    Always,
    /// It sums up what does not fit.
    SumsUp,
    /// It is among the last messages, which have a share of the budget of their own.
    Newest,
    /// It was the newest that still fitted when everything else had its room.
    RoomLeft,
    /// It has these words of the prompt.
    Words {
        words: Vec<String>,
    },
    /// They were said around it.
    Nearby {
        words: Vec<String>,
    },
    /// It has words that often come together with these in the session.
    Together {
        words: Vec<String>,
    },
    /// It is about the same as the prompt: so many standard deviations closer than most passages.
    Meaning {
        deviations: f32,
    },
    /// The prompt names its day.
    Day,
    /// The prompt names who said it.
    Speaker,
    /// The prompt names nothing, and this is what such a prompt asks for.
    OpenError,
    Unfinished,
    Plan,
    LastRequest,
    OpenQuestion,
    /// It is the latest of several statements about the same thing.
    Now,
    /// A later one is shown as well.
    Earlier,
    /// It did not fit into what was left.
    NoRoom,
    /// Its message had its share of the room already.
    MessageShare,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Words { words } => return write!(out, "has {}", words.join(", ")),
            Self::Nearby { words } => return write!(out, "near {}", words.join(", ")),
            Self::Together { words } => {
                return write!(out, "often said together with {}", words.join(", "));
            }
            Self::Meaning { deviations } => {
                return write!(out, "similar meaning ({deviations:.1} deviations above the mean)");
            }
            Self::Always => "always there",
            Self::SumsUp => "sums up what does not fit",
            Self::Newest => "newest",
            Self::RoomLeft => "there was room left",
            Self::Day => "on the day named",
            Self::Speaker => "said by the person named",
            Self::OpenError => "open error",
            Self::Unfinished => "unfinished",
            Self::Plan => "current plan",
            Self::LastRequest => "last request",
            Self::OpenQuestion => "open question",
            Self::Now => "latest statement about this",
            Self::Earlier => "superseded by a later statement",
            Self::NoRoom => "did not fit",
            Self::MessageShare => "its message had its share already",
        };
        out.write_str(text)
    }
}

/// The reasons that ranking noted for a passage.
pub(super) fn reasons(excerpt: &Excerpt, wanted: Option<&Wanted>) -> Vec<Reason> {
    let why = excerpt.why;
    let words = |bits: u32| -> Vec<String> {
        let terms = wanted.map_or(&[][..], |wanted| &wanted.terms);
        let is_set =
            |bit: &usize| bits.checked_shr(u32::try_from(*bit).unwrap_or(32)).unwrap_or(0) & 1 == 1;
        (0..terms.len()).filter(is_set).map(|bit| terms[bit].clone()).collect()
    };
    let kind = why.kind.map(|kind| match kind {
        Kind::OpenError => Reason::OpenError,
        Kind::Unfinished => Reason::Unfinished,
        Kind::Plan => Reason::Plan,
        Kind::Request => Reason::LastRequest,
        Kind::Question => Reason::OpenQuestion,
    });
    let [has, near, together] = [why.words, why.around, why.together].map(words);
    [
        kind,
        (!has.is_empty()).then_some(Reason::Words { words: has }),
        (!near.is_empty()).then_some(Reason::Nearby { words: near }),
        (!together.is_empty()).then_some(Reason::Together { words: together }),
        (why.closeness > 0.0).then_some(Reason::Meaning { deviations: why.closeness }),
        why.day.then_some(Reason::Day),
        why.speaker.then_some(Reason::Speaker),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn piece(part: Part, tokens: u32, why: Vec<Reason>, text: &str) -> Piece {
    Piece { part, seq: None, role: None, tokens, why, text: cut_line(text, BEGINNING) }
}

fn of_message(part: Part, message: &Message, tokens: u32, why: Vec<Reason>, text: &str) -> Piece {
    let (seq, role) = (Some(message.seq), Some(message.role));
    Piece { seq, role, ..piece(part, tokens, why, text) }
}

pub(super) fn of_passage(message: &Message, excerpt: &Excerpt, why: Vec<Reason>) -> Piece {
    let text = part_of(&message.body, excerpt.from, excerpt.to).unwrap_or_default();
    of_message(Part::Earlier, message, excerpt.price, why, text)
}

impl Page<'_> {
    /// Explains what is on the page, which has so many tokens when it is finished.
    pub(super) fn explain(&self, tokens: u32) -> Explanation {
        let wanted = self.story.wanted;
        let mut pieces = Vec::new();
        if let Some(price) = self.header_price() {
            let title = self.story.session.title.as_deref().unwrap_or("");
            pieces.push(piece(Part::Header, price, vec![Reason::Always], title));
        }
        for (part, price, text) in self.summed_up() {
            pieces.push(piece(part, price, vec![Reason::SumsUp], text));
        }
        for (message, excerpt, price, state) in self.related.iter().flat_map(Choice::passages) {
            let mut why = reasons(excerpt, wanted);
            why.extend(state.map(|state| match state {
                State::Now => Reason::Now,
                State::Earlier => Reason::Earlier,
            }));
            pieces.push(Piece { tokens: price, ..of_passage(message, excerpt, why) });
        }
        for (message, price, is_share) in self.recent_prices() {
            let why = if is_share { Reason::Newest } else { Reason::RoomLeft };
            let text =
                if message.purged_at.is_some() { lines::PURGED.text } else { message.body.head() };
            pieces.push(of_message(Part::Recent, message, price, vec![why], text));
        }
        let told: u32 = pieces.iter().map(|piece| piece.tokens).sum();
        let opening = self.frame().0.text;
        let frame = piece(Part::Frame, tokens.saturating_sub(told), vec![Reason::Always], opening);
        pieces.insert(0, frame);
        let mut nearly: Vec<Piece> = self.nearly.clone().unwrap_or_default();
        if let Some(next) = self.next_recent_message().filter(|one| one.purged_at.is_none()) {
            let price = next.price.quoted.unwrap_or(0);
            nearly.push(of_message(
                Part::Recent,
                next,
                price,
                vec![Reason::NoRoom],
                next.body.head(),
            ));
        }
        Explanation { pieces, nearly }
    }
}
