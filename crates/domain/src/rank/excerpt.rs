//! What a context shows of an older message, and why.

use super::Kind;
use crate::message::{Body, Message};
use crate::passage::{self, Lead, Passage};
use crate::{quote, tokens};

/// An older message with the passages of it that are worth something for the next prompt.
#[derive(Debug, Clone)]
pub struct Related {
    pub message: Message,
    /// In the order of the text.
    pub passages: Vec<Excerpt>,
}

/// A passage of a message, and what it is worth for the next prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt {
    /// Which of the message's passages it is.
    pub index: usize,
    pub from: usize,
    pub to: usize,
    /// What it costs as a quotation.
    pub price: u32,
    /// The line above it that says what it belongs to.
    pub lead: Option<Lead>,
    pub worth: f64,
    pub why: Why,
    pub state: Option<State>,
}

impl Excerpt {
    /// A passage of which it is not known yet what it is worth.
    pub fn of(index: usize, passage: &Passage) -> Self {
        Self {
            index,
            from: passage.from as usize,
            to: passage.to as usize,
            price: passage.price,
            lead: passage.lead,
            worth: 0.0,
            why: Why::default(),
            state: None,
        }
    }
}

/// Why a passage is worth something, noted while it is weighed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Why {
    /// The words of the prompt that it has: one bit for each of [`Wanted::terms`](super::Wanted::terms).
    pub words: u32,
    /// Those that were said around it.
    pub around: u32,
    /// Those that it has a word for which often comes together with them in this session.
    pub together: u32,
    /// How much closer its meaning is to the prompt than that of most passages, in standard deviations.
    pub closeness: f32,
    /// It was said on a day that the prompt names, or near it.
    pub day: bool,
    /// Somebody whom the prompt names said it.
    pub speaker: bool,
    /// What it is to a prompt that names nothing.
    pub kind: Option<Kind>,
}

impl Why {
    /// Notes how a passage has a word of the prompt: by itself, or else around it and by words that come together with it.
    pub(super) fn note(&mut self, bit: usize, is_held: bool, is_around: bool, is_beside: bool) {
        self.words |= u32::from(is_held) << bit;
        self.around |= u32::from(!is_held && is_around) << bit;
        self.together |= u32::from(!is_held && is_beside) << bit;
    }
}

/// Which of several statements about the same thing this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The latest.
    Now,
    /// A later one is among those chosen.
    Earlier,
}

impl Related {
    /// Puts the passages where they are in another text of the same message, in which secrets are masked.
    pub fn move_to(&mut self, text: &str) {
        let ranges = passage::cut(text);
        let role = self.message.role;
        self.passages.retain_mut(|excerpt| match ranges.get(excerpt.index) {
            Some(range) => {
                (excerpt.from, excerpt.to) = (range.start, range.end);
                excerpt.price = tokens::count(&quote::quoted(&text[range.clone()]));
                excerpt.lead = Lead::of(role, text, range);
                true
            }
            None => false,
        });
    }
}

/// The part of a text, where it was read.
pub fn part_of(body: &Body, from: usize, to: usize) -> Option<&str> {
    match body {
        Body::Whole(text) => text.get(from..to),
        Body::Ends { head, tail, bytes } => head.get(from..to).or_else(|| {
            let skipped = usize::try_from(*bytes).ok()?.checked_sub(tail.len())?;
            tail.get(from.checked_sub(skipped)?..to.checked_sub(skipped)?)
        }),
    }
}
