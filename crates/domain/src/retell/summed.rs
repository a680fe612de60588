//! The part of a context that sums up: lines of summaries, and what changed in the repository.

use super::Part;
use super::lines;
use super::page::Page;
use super::prices::{heading_price, own_summary_prices, summary_prices};
use crate::conversation::Conversation;
use crate::{quote, tokens};

/// A conversation that is listed, the chosen lines of its summary, and what it costs.
pub(super) struct Listed<'a> {
    pub(super) conversation: &'a Conversation,
    pub(super) lines: Vec<usize>,
    pub(super) price: u32,
}

impl Page<'_> {
    /// Lists the recent conversations and sums up what came before, with at most `allowed` tokens.
    pub(super) fn take_summaries(&mut self, allowed: u32) {
        let mut room = allowed.min(self.left());
        for conversation in self.story.conversations.iter().skip(self.listed.len()) {
            let title = if self.listed.is_empty() { lines::CONVERSATIONS.price } else { 0 };
            let price = title + heading_price(conversation) + lines::statistics(conversation).1;
            if !self.take_within(price, &mut room) {
                break;
            }
            self.listed.push(Listed { conversation, lines: Vec::new(), price: price - title });
        }
        if let Some(text) =
            self.story.session.summary.as_deref().filter(|_| self.summary.is_empty())
        {
            let prices = summary_prices(self.story.session);
            let lines = choose_lines(text, &prices, room.saturating_sub(lines::SUMMARY.price));
            let price = lines::SUMMARY.price + lines.iter().map(|at| prices[*at]).sum::<u32>();
            if !lines.is_empty() && self.take_within(price, &mut room) {
                self.summary = lines;
                self.summary_price = price - lines::SUMMARY.price;
            }
        }
        for index in 0..self.listed.len() {
            let Listed { conversation, lines, .. } = &self.listed[index];
            let Some(summary) = conversation.summary.as_ref().filter(|_| lines.is_empty()) else {
                continue;
            };
            let prices = own_summary_prices(conversation);
            let lines = choose_lines(&summary.text, &prices, room);
            let price = lines.iter().map(|at| prices[*at]).sum();
            if self.take_within(price, &mut room) {
                self.listed[index].lines = lines;
                self.listed[index].price += price;
            }
        }
    }

    /// Sums up what came before in the conversation itself, with at most `allowed` tokens.
    pub(super) fn take_own_summary(&mut self, allowed: u32) {
        let Some(own) = self.story.conversations.first() else { return };
        let Some(summary) = &own.summary else { return };
        let frame = lines::CONVERSATIONS.price + heading_price(own) + lines::statistics(own).1;
        let room = allowed.min(self.left()).saturating_sub(frame);
        let prices = own_summary_prices(own);
        let chosen = choose_lines(&summary.text, &prices, room);
        let price = chosen.iter().map(|at| prices[*at]).sum::<u32>();
        if !chosen.is_empty() && self.take(frame + price) {
            let price = frame - lines::CONVERSATIONS.price + price;
            self.listed.push(Listed { conversation: own, lines: chosen, price });
        }
    }

    pub(super) fn take_repository(&mut self, allowed: u32) {
        let Some(text) = self.story.repository else { return };
        let prices: Vec<u32> =
            text.lines().map(|line| tokens::at_most(&quote::quoted(line))).collect();
        let room = allowed.saturating_sub(lines::REPOSITORY.price);
        let lines = choose_lines(text, &prices, room);
        let price = lines::REPOSITORY.price + lines.iter().map(|at| prices[*at]).sum::<u32>();
        if !lines.is_empty() && self.take(price) {
            self.repository = lines;
            self.repository_price = price - lines::REPOSITORY.price;
            self.exact = false;
        }
    }

    /// What sums up what came before: which part it is, its price, how it begins.
    pub(super) fn summed_up(&self) -> impl Iterator<Item = (Part, u32, &str)> {
        let session = (!self.summary.is_empty()).then(|| {
            let text = self.story.session.summary.as_deref().unwrap_or_default();
            (Part::Summary, self.summary_price, text)
        });
        let listed = self
            .listed
            .iter()
            .map(|listed| (Part::Conversation, listed.price, listed.conversation.name.as_str()));
        let repository = self.story.repository.filter(|_| !self.repository.is_empty());
        let repository = repository.map(|text| (Part::Repository, self.repository_price, text));
        session.into_iter().chain(listed).chain(repository)
    }
}

/// The lines of a summary that fit: the first, which says what it is about, then the latest.
fn choose_lines(text: &str, prices: &[u32], room: u32) -> Vec<usize> {
    let count = text.lines().count();
    if prices.len() != count {
        return Vec::new();
    }
    let mut left = room;
    let mut chosen = Vec::new();
    for at in (0..count.min(1)).chain((1..count).rev()) {
        match left.checked_sub(prices[at]) {
            Some(rest) => left = rest,
            None => break,
        }
        chosen.push(at);
    }
    chosen.sort_unstable();
    chosen
}

pub(super) fn push_lines(out: &mut String, text: &str, chosen: &[usize]) {
    for (at, line) in text.lines().enumerate() {
        if chosen.contains(&at) {
            quote::push_quoted(out, line);
        }
    }
}
