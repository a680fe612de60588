//! A context being filled: what was chosen so far, and what is left of the budget.

use super::lines::{self, Line};
use super::related::Choice;
use super::shorten::{self, Form, Offer};
use super::{Frame, Story, Telling};
use crate::context::{Included, Omitted};
use crate::conversation::{self, Conversation};
use crate::id::Seq;
use crate::message::Message;
use crate::quote;
use crate::tokens;

/// With less than this left, no further message is tried.
const LEAST_MESSAGE: u32 = 40;

/// What stands around the messages of a conversation that is told whole costs no more than this.
pub fn whole_frame(conversation: &Conversation) -> u32 {
    lines::MISSED.price
        + lines::NEXT.price
        + lines::RECENT.price
        + conversation.prices.name
        + lines::left_out_price(u32::MAX, u32::MAX)
        + LEAST_MESSAGE
}

/// What a message costs that is told whole, with what stands around it; `None` where only its ends were read.
pub fn whole_price(message: &Message) -> Option<u32> {
    let price = shorten::whole(message, u32::MAX)?.price;
    Some(price.saturating_add(lines::RECENT_ROLE + shorten::mark_price(message)))
}

pub(super) struct Page<'a> {
    pub(super) story: &'a Story<'a>,
    limit: u32,
    left: u32,
    pub(super) exact: bool,
    framed: bool,
    /// Set aside for the line that counts what was left out.
    reserve: u32,
    header: bool,
    /// The chosen lines of the session's summary.
    summary: Vec<usize>,
    /// The listed conversations, each with the chosen lines of its summary.
    listed: Vec<(&'a Conversation, Vec<usize>)>,
    /// The chosen lines about the repository.
    repository: Vec<usize>,
    recent: Vec<(&'a Message, Form)>,
    next_recent: usize,
    pub(super) related: Vec<Choice<'a>>,
    /// Tokens of the messages shown.
    pub(super) of_messages: u32,
}

impl<'a> Page<'a> {
    pub(super) fn new(story: &'a Story<'a>, limit: u32) -> Self {
        Self {
            story,
            limit,
            left: limit,
            exact: true,
            framed: false,
            reserve: 0,
            header: false,
            summary: Vec::new(),
            listed: Vec::new(),
            repository: Vec::new(),
            recent: Vec::new(),
            next_recent: 0,
            related: Vec::new(),
            of_messages: 0,
        }
    }

    pub(super) fn left(&self) -> u32 {
        self.left
    }

    pub(super) fn take(&mut self, price: u32) -> bool {
        match self.left.checked_sub(price) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    pub(super) fn take_frame(&mut self) {
        let (opening, closing) = self.frame();
        self.framed = self.take(opening.price + closing.price);
        self.take_count();
    }

    /// The first and the last line.
    fn frame(&self) -> (Line, Line) {
        match self.story.frame {
            Frame::Session => (lines::OPENING, lines::CLOSING),
            Frame::Conversation { .. } => (lines::OPENING, lines::NEXT),
            Frame::Missed { .. } => (lines::MISSED, lines::NEXT),
        }
    }

    /// Sets the price of the line aside that counts what is left out.
    pub(super) fn take_count(&mut self) {
        let all = self.story.messages;
        let price = lines::left_out_price(all, all);
        if self.take(price) {
            self.reserve = price;
        }
    }

    pub(super) fn take_header(&mut self) {
        let session = self.story.session;
        let price = session.prices.head
            + session.prices.title
            + lines::status(session.status()).price
            + lines::times(session).1;
        self.header = price <= self.left / 2 && self.take(price);
    }

    /// Lists the recent conversations and sums up what came before, with at most `allowed` tokens.
    pub(super) fn take_summaries(&mut self, allowed: u32) {
        let mut room = allowed.min(self.left);
        for conversation in self.story.conversations.iter().skip(self.listed.len()) {
            let title = if self.listed.is_empty() { lines::CONVERSATIONS.price } else { 0 };
            let price = title + conversation.prices.heading + lines::statistics(conversation).1;
            if !self.take_within(price, &mut room) {
                break;
            }
            self.listed.push((conversation, Vec::new()));
        }
        if let Some(text) =
            self.story.session.summary.as_deref().filter(|_| self.summary.is_empty())
        {
            let prices = &self.story.session.prices.summary;
            let lines = choose_lines(text, prices, room.saturating_sub(lines::SUMMARY.price));
            let price = lines::SUMMARY.price + lines.iter().map(|at| prices[*at]).sum::<u32>();
            if !lines.is_empty() && self.take_within(price, &mut room) {
                self.summary = lines;
            }
        }
        for index in 0..self.listed.len() {
            let (conversation, chosen) = &self.listed[index];
            let Some(summary) = conversation.summary.as_ref().filter(|_| chosen.is_empty()) else {
                continue;
            };
            let prices = &conversation.prices.summary;
            let lines = choose_lines(&summary.text, prices, room);
            let price = lines.iter().map(|at| prices[*at]).sum();
            if self.take_within(price, &mut room) {
                self.listed[index].1 = lines;
            }
        }
    }

    /// Sums up what came before in the conversation itself, with at most `allowed` tokens.
    pub(super) fn take_own_summary(&mut self, allowed: u32) {
        let Some(own) = self.story.conversations.first() else { return };
        let Some(summary) = &own.summary else { return };
        let frame = lines::CONVERSATIONS.price + own.prices.heading + lines::statistics(own).1;
        let room = allowed.min(self.left).saturating_sub(frame);
        let chosen = choose_lines(&summary.text, &own.prices.summary, room);
        let price = chosen.iter().map(|at| own.prices.summary[*at]).sum::<u32>();
        if !chosen.is_empty() && self.take(frame + price) {
            self.listed.push((own, chosen));
        }
    }

    fn take_within(&mut self, price: u32, room: &mut u32) -> bool {
        let fits = price <= *room && self.take(price);
        if fits {
            *room -= price;
        }
        fits
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
            self.exact = false;
        }
    }

    /// Takes the last messages, newest first. One that does not fit gets half of what is left.
    pub(super) fn take_recent(&mut self, allowed: u32) {
        let mut room = allowed.min(self.left);
        while let Some(message) = self.story.recent.get(self.next_recent) {
            if self.story.frame.is_part() && self.recent.len() >= Frame::MOST_MESSAGES {
                break;
            }
            if self.related.iter().any(|choice| choice.message.seq == message.seq) {
                self.next_recent += 1;
                continue;
            }
            let frame = self.recent_frame(message);
            let inner = room.saturating_sub(frame);
            let is_last = self.next_recent + 1 == self.story.recent.len();
            let offer = self.offer(message, inner, |inner| {
                if is_last || inner < 2 * LEAST_MESSAGE { inner } else { inner / 2 }
            });
            let Some(Offer { form, price, exact }) = offer else { break };
            if !self.take_within(frame + price, &mut room) {
                break;
            }
            self.exact &= exact;
            self.of_messages += price;
            self.recent.push((message, form));
            self.next_recent += 1;
            if room < LEAST_MESSAGE {
                break;
            }
        }
    }

    /// The whole message, or as much of it as its share allows; with its mark.
    pub(super) fn offer(
        &self,
        message: &Message,
        room: u32,
        share: impl FnOnce(u32) -> u32,
    ) -> Option<Offer> {
        let mark = shorten::mark_price(message);
        let room = room.checked_sub(mark)?;
        let is_part = self.story.frame.is_part();
        let offer = if is_part && shorten::is_longer(message, Frame::MOST_CHARS) {
            shorten::ends(message, share(room), Frame::MOST_CHARS)
        } else {
            shorten::whole(message, room)
                .or_else(|| shorten::ends(message, share(room), usize::MAX))
        };
        offer.map(|offer| Offer { price: offer.price + mark, ..offer })
    }

    pub(super) fn has_recent(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Whether a message is already shown among the last ones.
    pub(super) fn is_recent(&self, seq: Seq) -> bool {
        self.recent.iter().any(|(message, _)| message.seq == seq)
    }

    /// The price of what stands before a recent message.
    fn recent_frame(&mut self, message: &Message) -> u32 {
        if !self.framed {
            return lines::RECENT_ROLE;
        }
        let section = if self.recent.is_empty() { lines::RECENT.price } else { 0 };
        let is_new =
            !self.recent.iter().any(|(other, _)| other.conversation == message.conversation);
        let label = if is_new { self.label_price(&message.conversation) } else { 0 };
        section + label + lines::RECENT_ROLE
    }

    /// Whether messages need the name of their conversation above them.
    pub(super) fn is_labelled(&self) -> bool {
        let session = self.story.session;
        session.counters.conversations > 1
            || self.story.conversations.iter().any(|only| only.name != conversation::DEFAULT)
    }

    pub(super) fn label_price(&mut self, name: &str) -> u32 {
        if !self.is_labelled() {
            return 0;
        }
        let known = self.story.conversations.iter().chain(self.story.others);
        match known.into_iter().find(|conversation| conversation.name == name) {
            Some(conversation) => conversation.prices.name,
            None => {
                self.exact = false;
                tokens::at_most(&lines::name(name))
            }
        }
    }

    pub(super) fn finish(mut self) -> Telling {
        let shown = u32::try_from(self.recent.len() + self.related.len()).unwrap_or(u32::MAX);
        let omitted = self.story.messages.saturating_sub(shown);
        let mut text =
            String::with_capacity((self.limit - self.left).min(64 * 1024) as usize * 4 + 512);
        let (opening, closing) = self.frame();
        if self.framed {
            text.push_str(opening.text);
        }
        self.push_header(&mut text);
        self.push_conversations(&mut text);
        if let Some(changes) = self.story.repository.filter(|_| !self.repository.is_empty()) {
            text.push_str(lines::REPOSITORY.text);
            push_lines(&mut text, changes, &self.repository);
        }
        self.push_related(&mut text);
        self.push_recent(&mut text);
        self.left += self.reserve;
        if omitted > 0 && self.reserve > 0 {
            let whole = if self.story.frame == Frame::Session { "session" } else { "conversation" };
            let (line, price) = lines::left_out(omitted, self.story.messages, whole);
            text.push_str(&line);
            self.left -= price;
        }
        if self.framed {
            text.push_str(closing.text);
        }
        Telling {
            tokens: self.limit - self.left,
            exact: self.exact,
            included: Included {
                conversations: self.conversations_shown(),
                messages: shown,
                tokens: self.of_messages,
            },
            omitted: Omitted { messages: omitted },
            text,
        }
    }

    fn conversations_shown(&self) -> u32 {
        let mut names: Vec<&str> = self
            .listed
            .iter()
            .map(|(conversation, _)| conversation.name.as_str())
            .chain(self.recent.iter().map(|(message, _)| message.conversation.as_str()))
            .chain(self.related.iter().map(|choice| choice.message.conversation.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }

    fn push_header(&self, text: &mut String) {
        let session = self.story.session;
        if self.header {
            text.push_str(&lines::head(session));
            if let Some(title) = &session.title {
                text.push_str(&lines::title(title));
            }
            text.push_str(lines::status(session.status()).text);
            text.push_str(&lines::times(session).0);
        }
        if let Some(summary) = session.summary.as_deref().filter(|_| !self.summary.is_empty()) {
            text.push_str(lines::SUMMARY.text);
            push_lines(text, summary, &self.summary);
        }
    }

    fn push_conversations(&self, text: &mut String) {
        if !self.listed.is_empty() {
            text.push_str(lines::CONVERSATIONS.text);
        }
        for (conversation, chosen) in &self.listed {
            text.push_str(&lines::heading(conversation));
            text.push_str(&lines::statistics(conversation).0);
            if let Some(summary) = &conversation.summary {
                push_lines(text, &summary.text, chosen);
            }
        }
    }

    /// Oldest first, the messages of a conversation together, the one that was last spoken in at the end.
    fn push_recent(&self, text: &mut String) {
        if self.framed && !self.recent.is_empty() {
            text.push_str(lines::RECENT.text);
        }
        let mut names: Vec<&str> = Vec::new();
        for (message, _) in &self.recent {
            if !names.contains(&message.conversation.as_str()) {
                names.push(&message.conversation);
            }
        }
        for name in names.into_iter().rev() {
            if self.framed && self.is_labelled() {
                text.push_str(&lines::name(name));
            }
            let own = self.recent.iter().rev().filter(|(message, _)| message.conversation == name);
            for (message, form) in own {
                lines::push_recent_role(text, message.role, message.at);
                shorten::push(text, message, *form);
            }
        }
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

fn push_lines(out: &mut String, text: &str, chosen: &[usize]) {
    for (at, line) in text.lines().enumerate() {
        if chosen.contains(&at) {
            quote::push_quoted(out, line);
        }
    }
}
