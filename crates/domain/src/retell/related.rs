//! Choosing older passages that matter to the next prompt, as many as the budget allows.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;

use super::Frame;
use super::explain::{self, Reason};
use super::lines::{self, Line};
use super::page::Page;
use super::{shorten, states};
use crate::id::Seq;
use crate::message::{Message, Role};
use crate::outcome::{self, Outcome};
use crate::passage::Lead;
use crate::rank::{Excerpt, State, part_of};
use crate::{number, quote};

/// An older message of which something is shown.
#[derive(Debug, Clone)]
pub(super) struct Choice<'a> {
    pub(super) message: &'a Message,
    /// In the order of the text.
    excerpts: Vec<&'a Excerpt>,
    /// The passages that are marked, by where they begin.
    marked: Vec<usize>,
    /// The price of the name of its conversation.
    label: u32,
    outcome: Option<Outcome>,
}

/// Passages of one message take no more than this part of the room, unless it is only one.
const LARGEST_SHARE: u32 = 3;
/// No more passages than this are compared for being states of the same thing.
const MOST_STATED: usize = 24;

impl<'a> Page<'a> {
    /// Takes passages by their worth, each with what has to stand around it.
    pub(super) fn take_related(&mut self) {
        let room = self.left();
        let mut chosen: BTreeMap<Seq, Choice<'a>> = BTreeMap::new();
        let mut total = lines::RELATED.price;
        let is_session = self.story.frame.is_session();
        let most = if is_session {
            usize::MAX
        } else {
            Frame::MOST_MESSAGES.saturating_sub(self.story.recent.len())
        };
        for (message, excerpt) in self.candidates() {
            let known = chosen.get(&message.seq);
            // What it costs at the least, before the whole is counted anew.
            if total + excerpt.price > room || known.is_none() && chosen.len() >= most {
                self.note_nearly(message, excerpt, Reason::NoRoom);
                continue;
            }
            if let Some(known) = known {
                let told: usize = known.excerpts.iter().map(|one| most_bytes(one)).sum();
                let is_too_long = told + most_bytes(excerpt) > Frame::MOST_CHARS;
                if known.price() + excerpt.price > room / LARGEST_SHARE
                    || !is_session && is_too_long
                {
                    self.note_nearly(message, excerpt, Reason::MessageShare);
                    continue;
                }
            }
            let others = total - price_at(&chosen, message.seq);
            let label = self.label_price(&message.conversation);
            let none = || Choice {
                message,
                excerpts: Vec::new(),
                marked: Vec::new(),
                label,
                outcome: outcome::of(message),
            };
            let choice = chosen.entry(message.seq).or_insert_with(none);
            let at = choice.excerpts.partition_point(|one| one.from < excerpt.from);
            choice.excerpts.insert(at, excerpt);
            let is_first = choice.excerpts.len() == 1;
            let with = others + price_at(&chosen, message.seq);
            if with <= room {
                total = with;
                continue;
            }
            if is_first {
                chosen.remove(&message.seq);
            } else if let Some(choice) = chosen.get_mut(&message.seq) {
                choice.excerpts.remove(at);
            }
            self.note_nearly(message, excerpt, Reason::NoRoom);
        }
        total += mark_states(&mut chosen, room.saturating_sub(total));
        if !chosen.is_empty() && self.take(total) {
            self.related = chosen.into_values().collect();
            self.of_messages += self.related.iter().map(Choice::price).sum::<u32>();
        }
    }

    fn note_nearly(&mut self, message: &Message, excerpt: &Excerpt, missed: Reason) {
        let wanted = self.story.wanted;
        if let Some(nearly) =
            self.nearly.as_mut().filter(|nearly| nearly.len() < explain::MOST_NEARLY)
        {
            let mut why = explain::reasons(excerpt, wanted);
            why.push(missed);
            nearly.push(explain::of_passage(message, excerpt, why));
        }
    }

    /// The passages that are there to be shown and are not among the last messages, best first.
    fn candidates(&self) -> Vec<(&'a Message, &'a Excerpt)> {
        let fresh = self.story.related.iter().filter(|one| !self.is_recent(one.message.seq));
        let mut candidates: Vec<_> = fresh
            .filter(|one| one.message.purged_at.is_none())
            .flat_map(|one| one.passages.iter().map(move |excerpt| (&one.message, excerpt)))
            .filter(|(message, one)| part_of(&message.body, one.from, one.to).is_some())
            .collect();
        candidates.sort_by(|(a, one), (b, other)| {
            let later = (b.seq, other.from).cmp(&(a.seq, one.from));
            other.worth.total_cmp(&one.worth).then(later)
        });
        candidates
    }

    pub(super) fn push_related(&self, text: &mut String) {
        if self.related.is_empty() {
            return;
        }
        text.push_str(lines::RELATED.text);
        let mut before: Option<&Choice<'_>> = None;
        for choice in &self.related {
            let message = choice.message;
            let joint = Joint::between(before, choice);
            if joint.new_conversation && self.is_labelled() {
                text.push_str(&lines::name(&message.conversation));
            }
            if joint.new_day {
                text.push_str(&lines::day(message.at).0);
            }
            if joint.gap {
                text.push_str(lines::GAP.text);
            }
            text.push_str(lines::role(message.role, choice.outcome).text);
            choice.push(text);
            before = Some(choice);
        }
    }
}

impl Choice<'_> {
    /// The passages with what each costs, and as which of several states it is marked.
    pub(super) fn passages(
        &self,
    ) -> impl Iterator<Item = (&Message, &Excerpt, u32, Option<State>)> {
        self.excerpts.iter().enumerate().map(|(at, excerpt)| {
            let lead = self.lead(at).map_or(0, |lead| lead.price);
            let mark = self.mark(excerpt).map_or(0, |mark| mark.price);
            let state = excerpt.state.filter(|_| self.marked.contains(&excerpt.from));
            (self.message, *excerpt, excerpt.price + lead + mark, state)
        })
    }

    /// What its passages cost, with the marks of what is left out.
    fn price(&self) -> u32 {
        let told: u32 = self.passages().map(|(_, _, price, _)| price).sum();
        told + self.gaps() * lines::GAP.price + shorten::mark_price(self.message)
    }

    /// The line that tells which of several states of a thing a passage is.
    fn mark(&self, excerpt: &Excerpt) -> Option<Line> {
        let state = excerpt.state.filter(|_| self.marked.contains(&excerpt.from));
        state.map(mark)
    }

    fn gaps(&self) -> u32 {
        let before = |at: usize| {
            let excerpt = self.excerpts[at];
            let end = self.end_before(at);
            match self.lead(at) {
                Some(lead) => {
                    let (from, to) = (lead.from as usize, lead.to as usize);
                    u32::from(self.has_gap(end, from)) + u32::from(self.has_gap(to, excerpt.from))
                }
                None => u32::from(self.has_gap(end, excerpt.from)),
            }
        };
        let count = self.excerpts.len();
        (0..count).map(before).sum::<u32>() + u32::from(self.ends_with_gap())
    }

    /// The line that has to stand above a passage: not where it or what follows on it is shown already.
    fn lead(&self, at: usize) -> Option<Lead> {
        let lead = self.excerpts[at].lead?;
        let (from, to) = (lead.from as usize, lead.to as usize);
        let is_new = from >= self.end_before(at) && to <= self.excerpts[at].from;
        (is_new && part_of(&self.message.body, from, to).is_some()).then_some(lead)
    }

    /// Where the passage before one ends.
    fn end_before(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.excerpts[before].to)
    }

    /// Whether something is left out between two places of the text.
    fn has_gap(&self, from: usize, to: usize) -> bool {
        from < to
            && part_of(&self.message.body, from, to).is_none_or(|part| !part.trim().is_empty())
    }

    fn ends_with_gap(&self) -> bool {
        let all = usize::try_from(self.message.body.bytes()).unwrap_or(usize::MAX);
        self.has_gap(self.end_before(self.excerpts.len()), all)
    }

    fn push(&self, text: &mut String) {
        let body = &self.message.body;
        let mut end = 0;
        let mut show = |text: &mut String, mark: &str, from: usize, to: usize| {
            if self.has_gap(end, from) {
                text.push_str(lines::GAP.text);
            }
            text.push_str(mark);
            quote::push_quoted(text, part_of(body, from, to).unwrap_or_default());
            end = to;
        };
        for (at, excerpt) in self.excerpts.iter().enumerate() {
            if let Some(lead) = self.lead(at) {
                show(text, "", lead.from as usize, lead.to as usize);
            }
            let mark = self.mark(excerpt).map_or("", |mark| mark.text);
            show(text, mark, excerpt.from, excerpt.to);
        }
        if self.ends_with_gap() {
            text.push_str(lines::GAP.text);
        }
        shorten::push_mark(text, self.message);
    }
}

const fn mark(state: State) -> Line {
    match state {
        State::Now => lines::MARK_NOW,
        State::Earlier => lines::MARK_EARLIER,
    }
}

/// Marks the passages that are surely states of the same thing, within `room`; gives what the marks cost.
fn mark_states(chosen: &mut BTreeMap<Seq, Choice<'_>>, room: u32) -> u32 {
    let said = |choice: &Choice<'_>, excerpt: &Excerpt| {
        let text = part_of(&choice.message.body, excerpt.from, excerpt.to).unwrap_or_default();
        (choice.message.seq, excerpt.from, choice.message.role, text.to_owned(), excerpt.state)
    };
    let stated: Vec<_> = chosen
        .values()
        .flat_map(|choice| choice.excerpts.iter().map(move |excerpt| (choice, *excerpt)))
        .filter(|(_, excerpt)| excerpt.state.is_some())
        .map(|(choice, excerpt)| said(choice, excerpt))
        .take(MOST_STATED)
        .collect();
    let mut spent = 0;
    for (at, before) in stated.iter().enumerate() {
        if before.4 != Some(State::Earlier) {
            continue;
        }
        let is_later = |later: &&(Seq, usize, Role, String, Option<State>)| {
            later.0 > before.0
                && later.2 == before.2
                && states::differ_in_a_value(&before.3, &later.3)
        };
        let Some(later) = stated[at + 1..].iter().find(is_later) else { continue };
        for one in [before, later] {
            let Some(choice) = chosen.get_mut(&one.0) else { continue };
            let price = one.4.map_or(0, |state| mark(state).price);
            if !choice.marked.contains(&one.1) && spent + price <= room {
                choice.marked.push(one.1);
                spent += price;
            }
        }
    }
    spent
}

/// What is shown of a message for a passage of it, at most.
fn most_bytes(excerpt: &Excerpt) -> usize {
    let lead = excerpt.lead.map_or(0, |lead| lead.to.saturating_sub(lead.from) as usize);
    excerpt.to - excerpt.from + lead
}

/// What has to stand between two messages.
struct Joint {
    new_conversation: bool,
    new_day: bool,
    gap: bool,
}

impl Joint {
    fn between(before: Option<&Choice<'_>>, choice: &Choice<'_>) -> Self {
        let Some(before) = before else {
            return Self { new_conversation: true, new_day: true, gap: false };
        };
        let (earlier, message) = (before.message, choice.message);
        let new_conversation = earlier.conversation != message.conversation;
        let new_day = new_conversation || !same_day(earlier.at, message.at);
        let is_next = earlier.seq + 1 == message.seq;
        Self { new_conversation, new_day, gap: !new_day && !is_next && !before.ends_with_gap() }
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

/// The part of the price of all choices that depends on the one of a message: its own, and that of what has to stand before it
/// and before the next one.
fn price_at(chosen: &BTreeMap<Seq, Choice<'_>>, seq: Seq) -> u32 {
    let before = chosen.range(..seq).next_back().map(|(_, before)| before);
    let own = chosen.get(&seq);
    let next = chosen.range((Bound::Excluded(seq), Bound::Unbounded)).next().map(|(_, next)| next);
    let joint = |before, choice: &Choice<'_>| Joint::between(before, choice).price(choice.label);
    let role = |choice: &Choice<'_>| lines::role(choice.message.role, choice.outcome).price;
    let own_price = own.map_or(0, |own| joint(before, own) + role(own) + own.price());
    own_price + next.map_or(0, |next| joint(own.or(before), next))
}
