//! Choosing older messages that matter to the next prompt, as many as the budget allows.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Frame;
use super::lines;
use super::page::Page;
use super::shorten::{self, Form, Offer};
use crate::id::Seq;
use crate::message::Message;
use crate::number;

/// An older message that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) message: &'a Message,
    form: Form,
    price: u32,
    exact: bool,
    /// The price of the name of its conversation.
    label: u32,
}

/// No single message takes more than this part of the room.
const LARGEST_SHARE: u32 = 4;

impl<'a> Page<'a> {
    /// Takes messages by their worth, each with what has to stand around it.
    pub(super) fn take_related(&mut self) {
        let room = self.left();
        let fresh = self.story.related.iter().filter(|one| !self.is_recent(one.message.seq));
        let mut candidates: Vec<_> = fresh.collect();
        candidates
            .sort_by(|a, b| b.worth.total_cmp(&a.worth).then(b.message.seq.cmp(&a.message.seq)));
        let mut chosen: BTreeMap<Seq, Choice<'a>> = BTreeMap::new();
        let mut total = 0;
        let most = match self.story.frame {
            Frame::Session => usize::MAX,
            _ => Frame::MOST_MESSAGES.saturating_sub(self.story.recent.len()),
        };
        for candidate in candidates {
            if chosen.len() >= most {
                break;
            }
            let message = &candidate.message;
            let cap = (room / LARGEST_SHARE).max(lines::role(message.role).price);
            let offer = self.offer(message, cap, |cap| cap);
            let Some(Offer { form, price, exact }) = offer else { continue };
            // What it costs at the least, before the whole is counted anew.
            if total + price > room {
                continue;
            }
            let label = self.label_price(&message.conversation);
            chosen.insert(message.seq, Choice { message, form, price, exact, label });
            let with = price_of(&chosen);
            if with <= room {
                total = with;
            } else {
                chosen.remove(&message.seq);
            }
        }
        if !chosen.is_empty() && self.take(total) {
            self.related = chosen.into_values().collect();
            self.exact &= self.related.iter().all(|choice| choice.exact);
            self.of_messages += self.related.iter().map(|choice| choice.price).sum::<u32>();
        }
    }

    pub(super) fn push_related(&self, text: &mut String) {
        if self.related.is_empty() {
            return;
        }
        text.push_str(lines::RELATED.text);
        let mut before: Option<&Message> = None;
        for choice in &self.related {
            let message = choice.message;
            let joint = Joint::between(before, message);
            if joint.new_conversation && self.is_labelled() {
                text.push_str(&lines::name(&message.conversation));
            }
            if joint.new_day {
                text.push_str(&lines::day(message.at).0);
            }
            if joint.gap {
                text.push_str(lines::GAP.text);
            }
            text.push_str(lines::role(message.role).text);
            shorten::push(text, message, choice.form);
            before = Some(message);
        }
    }
}

/// What has to stand between two messages.
struct Joint {
    new_conversation: bool,
    new_day: bool,
    gap: bool,
}

impl Joint {
    fn between(before: Option<&Message>, message: &Message) -> Self {
        let Some(before) = before else {
            return Self { new_conversation: true, new_day: true, gap: false };
        };
        let new_conversation = before.conversation != message.conversation;
        let new_day = new_conversation || !same_day(before.at, message.at);
        Self { new_conversation, new_day, gap: !new_day && before.seq + 1 < message.seq }
    }

    fn price(&self, label: u32) -> u32 {
        let label = if self.new_conversation { label } else { 0 };
        let day = if self.new_day { lines::DAY } else { 0 };
        let gap = if self.gap { lines::GAP.price } else { 0 };
        label + day + gap
    }
}

fn same_day(a: Timestamp, b: Timestamp) -> bool {
    a == b || number::days(a) == number::days(b)
}

fn price_of(chosen: &BTreeMap<Seq, Choice<'_>>) -> u32 {
    let mut total = lines::RELATED.price;
    let mut before = None;
    for choice in chosen.values() {
        let message = choice.message;
        let joint = Joint::between(before, message);
        total += joint.price(choice.label) + lines::role(message.role).price + choice.price;
        before = Some(message);
    }
    total
}
