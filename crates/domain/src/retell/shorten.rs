//! Showing a text that is too long by its beginning and its end.

use super::lines;
use crate::message::Message;
use crate::{price, quote, tokens, turn};

/// How a message is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Purged,
    /// So many bytes of its beginning and of its end.
    Ends {
        head: usize,
        tail: usize,
    },
}

/// A form with its price, and whether that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) form: Form,
    pub(super) price: u32,
    pub(super) exact: bool,
}

/// Less than this of a text says nothing.
const LEAST: u32 = 24;
/// A token of most texts has about so many bytes.
const BYTES_OF_A_TOKEN: usize = 4;
/// So often less is tried: at the end a byte for twenty tokens, since characters that are spelled out take several each.
const ATTEMPTS: u32 = 17;

/// The whole message, if its price is within `room`.
pub(super) fn whole(message: &Message, room: u32) -> Option<Offer> {
    if message.purged_at.is_some() {
        let price = lines::PURGED.price;
        return (price <= room).then_some(Offer { form: Form::Purged, price, exact: true });
    }
    let text = message.body.whole()?;
    let (price, exact) = match message.price.quoted {
        Some(price) => (price, true),
        None => (tokens::at_most(&quote::quoted(text)), false),
    };
    (price <= room).then_some(Offer { form: Form::Whole, price, exact })
}

/// Whether a message has more characters than that.
pub(super) fn is_longer(message: &Message, chars: usize) -> bool {
    message.purged_at.is_none()
        && message.body.bytes() > chars as u64
        && message.body.head().chars().count() > chars
}

fn is_interrupted(message: &Message) -> bool {
    message.extras.other.get(turn::INTERRUPTED).is_some_and(|mark| mark == true)
}

/// The price of what stands after a message that was interrupted.
pub(super) fn mark_price(message: &Message) -> u32 {
    if is_interrupted(message) { lines::INTERRUPTED.price } else { 0 }
}

/// As much of a message as `room` allows, and no more than `most` characters.
pub(super) fn ends(message: &Message, room: u32, most: usize) -> Option<Offer> {
    if message.purged_at.is_some() {
        return None;
    }
    counted_ends(message, room, most).or_else(|| estimated_ends(message, room, most))
}

fn counted_ends(message: &Message, room: u32, most: usize) -> Option<Offer> {
    let cuts = &message.price.cuts;
    let bytes = message.body.bytes();
    let left_out = |head: u32, tail: u32| bytes.checked_sub(u64::from(head) + u64::from(tail));
    let mut best: Option<(u32, Offer)> = None;
    for head in &cuts.heads {
        for tail in &cuts.tails {
            let Some(gap) = left_out(head.bytes, tail.bytes).filter(|gap| *gap > 0) else {
                continue;
            };
            let price = head.tokens + tail.tokens + lines::shortened(gap).1;
            let shown = head.bytes + tail.bytes;
            // The end of a message says more about where it stopped than its middle; the beginning, what it is.
            let better = best.as_ref().is_none_or(|(before, _)| shown > *before);
            if price <= room && better && fits(message, head.bytes, tail.bytes, most) {
                let form = Form::Ends { head: head.bytes as usize, tail: tail.bytes as usize };
                best = Some((shown, Offer { form, price, exact: true }));
            }
        }
    }
    best.map(|(_, offer)| offer)
}

/// Whether the cuts are within what was read, on whole characters: they come from the disk. And whether they have
/// no more than `most` of them.
fn fits(message: &Message, head: u32, tail: u32, most: usize) -> bool {
    let end = message.body.tail();
    let head = message.body.head().get(..head as usize);
    let tail = end.len().checked_sub(tail as usize).and_then(|at| end.get(at..));
    head.zip(tail).is_some_and(|(head, tail)| have_at_most(head, tail, most))
}

/// Whether both together have no more characters than that.
fn have_at_most(head: &str, tail: &str, chars: usize) -> bool {
    let bytes = head.len() + tail.len();
    // A character has one to four bytes: mostly there is nothing to count.
    bytes <= chars || bytes / 4 <= chars && head.chars().count() + tail.chars().count() <= chars
}

/// For texts without known cuts: counted here, beginning with as many bytes as that many tokens mostly have.
fn estimated_ends(message: &Message, room: u32, most: usize) -> Option<Offer> {
    let marker = lines::shortened(message.body.bytes()).1;
    let room_inside = room.checked_sub(marker).filter(|left| *left >= LEAST)? as usize;
    let all = usize::try_from(message.body.bytes()).unwrap_or(usize::MAX);
    let most_bytes = all.saturating_sub(1).min(2 * price::LONGEST_CUT).min(most.saturating_mul(4));
    let mut bytes = room_inside.saturating_mul(BYTES_OF_A_TOKEN).min(most_bytes);
    for _ in 0..ATTEMPTS {
        let tail_bytes = bytes * 2 / 5;
        let head = price::head(message.body.head(), bytes - tail_bytes);
        let tail = price::tail(message.body.tail(), tail_bytes);
        if have_at_most(head, tail, most) {
            let form = Form::Ends { head: head.len(), tail: tail.len() };
            let gap = message.body.bytes() - (head.len() + tail.len()) as u64;
            let told = [head, tail].map(|part| tokens::count(&quote::quoted(part)));
            let price = lines::shortened(gap).1 + told[0] + told[1];
            if price <= room {
                return Some(Offer { form, price, exact: true });
            }
        }
        bytes = bytes * 3 / 4;
    }
    None
}

/// Appends the message's text in the form that was chosen, and its mark.
pub(super) fn push(out: &mut String, message: &Message, form: Form) {
    match form {
        Form::Purged => out.push_str(lines::PURGED.text),
        Form::Whole => quote::push_quoted(out, message.body.head()),
        Form::Ends { head, tail } => {
            let end = message.body.tail();
            quote::push_quoted(out, &message.body.head()[..head]);
            let gap = message.body.bytes() - (head + tail) as u64;
            out.push_str(&lines::shortened(gap).0);
            quote::push_quoted(out, &end[end.len() - tail..]);
        }
    }
    push_mark(out, message);
}

/// Appends the mark of a message that was interrupted.
pub(super) fn push_mark(out: &mut String, message: &Message) {
    if is_interrupted(message) {
        out.push_str(lines::INTERRUPTED.text);
    }
}
