//! A context being filled: what was chosen so far, and what is left of the budget.

use super::lines::{self, Line};
use super::prices::{head_price, name_price, title_price};
use super::related::Choice;
use super::shorten::{self, Form, Offer};
use super::summed::{Listed, push_lines};
use super::{Frame, Piece, Story, Telling};
use crate::context::{Included, Omitted};
use crate::conversation::{self, Conversation};
use crate::id::Seq;
use crate::message::{Message, Role};
use crate::outcome;
use crate::{terms, tokens};

/// With less than this left, no further message is tried.
const LEAST_MESSAGE: u32 = 40;

/// With fewer tokens than this, two lines say what the session is.
const SMALL: u32 = 1_500;
/// With fewer than this, they say only what it takes to go on with it.
const MEDIUM: u32 = 4_000;

/// How much is told of the session itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Short,
    Middle,
    Full,
}

/// Whether somebody who goes on has to know a message: not where it is a command of the agent's own, or a word or two.
fn says_something(message: &Message) -> bool {
    let text = message.body.head().trim_start();
    !text.starts_with('/') && text.split_whitespace().nth(2).is_some()
        || text.chars().filter(|char| terms::is_cjk(*char)).nth(3).is_some()
}

/// What stands around the messages of a conversation that is told whole costs no more than this.
pub fn whole_frame(conversation: &Conversation) -> u32 {
    lines::MISSED.price
        + lines::NEXT.price
        + lines::RECENT.price
        + name_price(conversation)
        + lines::left_out_price(u32::MAX, u32::MAX)
        + LEAST_MESSAGE
}

/// What a message costs that is told whole, with what stands around it; `None` where only its ends were read.
pub fn whole_price(message: &Message) -> Option<u32> {
    let price = shorten::whole(message, u32::MAX)?.price;
    let role = lines::recent_role_price(outcome::of(message));
    Some(price.saturating_add(role + shorten::mark_price(message)))
}

pub(super) struct Page<'a> {
    pub(super) story: &'a Story<'a>,
    limit: u32,
    left: u32,
    pub(super) exact: bool,
    framed: bool,
    /// Set aside for the line that counts what was left out.
    reserve: u32,
    /// With its price.
    header: Option<(Header, u32)>,
    /// The chosen lines of the session's summary.
    pub(super) summary: Vec<usize>,
    pub(super) summary_price: u32,
    /// The listed conversations, each with the chosen lines of its summary.
    pub(super) listed: Vec<Listed<'a>>,
    /// The chosen lines about the repository.
    pub(super) repository: Vec<usize>,
    pub(super) repository_price: u32,
    recent: Vec<Shown<'a>>,
    /// Everything had its share: what follows takes what is left.
    is_rest: bool,
    next_recent: usize,
    pub(super) related: Vec<Choice<'a>>,
    /// Tokens of the messages shown.
    pub(super) of_messages: u32,
    /// What was not chosen, best first; only where that is explained.
    pub(super) nearly: Option<Vec<Piece>>,
}

/// One of the last messages, how it is shown, and what that costs.
struct Shown<'a> {
    message: &'a Message,
    form: Form,
    price: u32,
    is_rest: bool,
}

impl<'a> Page<'a> {
    pub(super) fn new(story: &'a Story<'a>, limit: u32, explains: bool) -> Self {
        Self {
            story,
            limit,
            left: limit,
            exact: true,
            framed: false,
            reserve: 0,
            header: None,
            summary: Vec::new(),
            summary_price: 0,
            listed: Vec::new(),
            repository: Vec::new(),
            repository_price: 0,
            recent: Vec::new(),
            is_rest: false,
            next_recent: 0,
            related: Vec::new(),
            of_messages: 0,
            nearly: explains.then(Vec::new),
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
    pub(super) fn frame(&self) -> (Line, Line) {
        match self.story.frame {
            Frame::Session => (lines::OPENING, lines::CLOSING),
            Frame::Earlier => (lines::EARLIER, lines::EARLIER_END),
            Frame::Conversation { .. } => (lines::OPENING, lines::NEXT),
            Frame::Missed { .. } => (lines::MISSED, lines::NEXT),
            Frame::Background { .. } => (lines::BACKGROUND, lines::NOTHING),
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
        let header = match self.limit {
            ..SMALL => Header::Short,
            SMALL..MEDIUM => Header::Middle,
            MEDIUM.. => Header::Full,
        };
        let session = self.story.session;
        let last_active = title_price(session) + lines::last_active(session).1;
        let price = match header {
            Header::Short => lines::SESSION.price + last_active,
            Header::Middle => tokens::count(&lines::short_head(session)) + last_active,
            Header::Full => {
                head_price(session)
                    + title_price(session)
                    + lines::status(session.status()).price
                    + lines::times(session).1
            }
        };
        // Where there is hardly any room, what was said comes before what the session is.
        let most = if header == Header::Short { self.left / 5 } else { self.left / 2 };
        if price <= most && self.take(price) {
            self.header = Some((header, price));
        }
    }

    pub(super) fn take_within(&mut self, price: u32, room: &mut u32) -> bool {
        let fits = price <= *room && self.take(price);
        if fits {
            *room -= price;
        }
        fits
    }

    /// Takes where it stopped: the last request and the last answer, and what was said in between and after them in a few
    /// words. What tools printed says less.
    pub(super) fn take_last_said(&mut self, allowed: u32) {
        let mut room = allowed.min(self.left);
        let is_said = |message: &&Message| matches!(message.role, Role::User | Role::Assistant);
        let mut lacking = vec![Role::User, Role::Assistant];
        for message in self.story.recent.iter().filter(is_said) {
            let Some(place) = lacking.iter().position(|role| *role == message.role) else {
                continue;
            };
            let frame = self.recent_frame(message);
            let share = if lacking.len() > 1 { 3 } else { 5 };
            let inner = room.saturating_sub(frame);
            let offer = self.offer(message, inner, |inner| inner * share / 5);
            let Some(offer) = offer else { break };
            if !self.take_within(frame + offer.price, &mut room) {
                break;
            }
            self.push_shown(message, offer);
            if says_something(message) {
                lacking.remove(place);
            }
        }
    }

    fn push_shown(&mut self, message: &'a Message, offer: Offer) {
        self.exact &= offer.exact;
        self.of_messages += offer.price;
        let at = self.recent.partition_point(|shown| shown.message.seq > message.seq);
        let shown = Shown { message, form: offer.form, price: offer.price, is_rest: self.is_rest };
        self.recent.insert(at, shown);
    }

    /// Takes the last messages, newest first. One that does not fit gets half of what is left.
    pub(super) fn take_recent(&mut self, allowed: u32) {
        let mut room = allowed.min(self.left);
        while let Some(message) = self.story.recent.get(self.next_recent) {
            if self.story.frame.is_part() && self.recent.len() >= Frame::MOST_MESSAGES {
                break;
            }
            if self.is_recent(message.seq)
                || self.related.iter().any(|choice| choice.message.seq == message.seq)
            {
                self.next_recent += 1;
                continue;
            }
            let frame = self.recent_frame(message);
            let inner = room.saturating_sub(frame);
            let is_last = self.next_recent + 1 == self.story.recent.len();
            let offer = self.offer(message, inner, |inner| {
                if is_last || inner < 2 * LEAST_MESSAGE { inner } else { inner / 2 }
            });
            let Some(offer) = offer else { break };
            if !self.take_within(frame + offer.price, &mut room) {
                break;
            }
            self.push_shown(message, offer);
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
        self.recent.iter().any(|shown| shown.message.seq == seq)
    }

    /// The price of what stands before a recent message.
    fn recent_frame(&mut self, message: &Message) -> u32 {
        let role = lines::recent_role_price(outcome::of(message));
        if !self.framed {
            return role;
        }
        let section = if self.recent.is_empty() { lines::RECENT.price } else { 0 };
        let is_new =
            !self.recent.iter().any(|one| one.message.conversation == message.conversation);
        let label = if is_new { self.label_price(&message.conversation) } else { 0 };
        section + label + role
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
            Some(conversation) => name_price(conversation),
            None => {
                self.exact = false;
                tokens::at_most(&lines::name(name))
            }
        }
    }

    /// How many messages are left out.
    fn omitted(&self) -> u32 {
        let shown = u32::try_from(self.recent.len() + self.related.len()).unwrap_or(u32::MAX);
        self.story.messages.saturating_sub(shown)
    }

    /// The tokens of the text, finished.
    pub(super) fn tokens(&self) -> u32 {
        let unused = match (self.reserve, self.omitted()) {
            (0, _) => 0,
            (reserve, 0) => reserve,
            (reserve, omitted) => reserve - lines::left_out_price(omitted, self.story.messages),
        };
        self.limit - self.left - unused
    }

    /// From here on, what is taken is what is left.
    pub(super) fn begin_rest(&mut self) {
        self.is_rest = true;
    }

    pub(super) fn header_price(&self) -> Option<u32> {
        self.header.map(|(_, price)| price)
    }

    /// The last messages that are shown, oldest first, what each costs, and whether that is of their own share.
    pub(super) fn recent_prices(&self) -> impl Iterator<Item = (&Message, u32, bool)> {
        self.recent.iter().rev().map(|shown| (shown.message, shown.price, !shown.is_rest))
    }

    pub(super) fn next_recent_message(&self) -> Option<&Message> {
        self.story.recent.get(self.next_recent)
    }

    pub(super) fn finish(self) -> Telling {
        let (omitted, tokens) = (self.omitted(), self.tokens());
        let shown = u32::try_from(self.recent.len() + self.related.len()).unwrap_or(u32::MAX);
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
        if omitted > 0 && self.reserve > 0 {
            let whole = if self.story.frame.is_session() { "session" } else { "conversation" };
            text.push_str(&lines::left_out(omitted, self.story.messages, whole).0);
        }
        if self.framed && self.story.frame == Frame::Earlier {
            text.push_str(&lines::earlier_end(&text[opening.text.len()..]));
        } else if self.framed {
            text.push_str(closing.text);
        }
        Telling {
            tokens,
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
            .map(|listed| listed.conversation.name.as_str())
            .chain(self.recent.iter().map(|shown| shown.message.conversation.as_str()))
            .chain(self.related.iter().map(|choice| choice.message.conversation.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }

    fn push_header(&self, text: &mut String) {
        let session = self.story.session;
        if let Some((header, _)) = self.header {
            match header {
                Header::Short => text.push_str(lines::SESSION.text),
                Header::Middle => text.push_str(&lines::short_head(session)),
                Header::Full => text.push_str(&lines::head(session)),
            }
            if let Some(title) = &session.title {
                text.push_str(&lines::title(title));
            }
            if header == Header::Full {
                text.push_str(lines::status(session.status()).text);
                text.push_str(&lines::times(session).0);
            } else {
                text.push_str(&lines::last_active(session).0);
            }
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
        for Listed { conversation, lines, .. } in &self.listed {
            text.push_str(&lines::heading(conversation));
            text.push_str(&lines::statistics(conversation).0);
            if let Some(summary) = &conversation.summary {
                push_lines(text, &summary.text, lines);
            }
        }
    }

    /// Oldest first, the messages of a conversation together, the one that was last spoken in at the end.
    fn push_recent(&self, text: &mut String) {
        if self.framed && !self.recent.is_empty() {
            text.push_str(lines::RECENT.text);
        }
        let mut names: Vec<&str> = Vec::new();
        for Shown { message, .. } in &self.recent {
            if !names.contains(&message.conversation.as_str()) {
                names.push(&message.conversation);
            }
        }
        for name in names.into_iter().rev() {
            if self.framed && self.is_labelled() {
                text.push_str(&lines::name(name));
            }
            let own = self.recent.iter().rev().filter(|one| one.message.conversation == name);
            for Shown { message, form, .. } in own {
                lines::push_recent_role(text, message.role, message.at, outcome::of(message));
                shorten::push(text, message, *form);
            }
        }
    }
}
