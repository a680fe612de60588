//! Sessions and messages to write, with everything that a test does not care about filled in.

use jiff::{SignedDuration, Timestamp};
use rethread_domain::Role;
use rethread_domain::conversation;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::price::Price;
use rethread_domain::session::Beginning;

/// So many minutes after nine o'clock on 2026-11-15.
pub fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_794_733_200).unwrap() + SignedDuration::from_mins(minute)
}

/// A session of Anna's in `/shop`.
pub fn beginning() -> Beginning {
    Beginning::new("anna", "/shop")
}

pub fn user(text: &str) -> NewMessage {
    message(Role::User, text)
}

pub fn assistant(text: &str) -> NewMessage {
    message(Role::Assistant, text)
}

pub fn tool(text: &str) -> NewMessage {
    message(Role::Tool, text)
}

/// A message at nine o'clock in the conversation of those that name none.
pub fn message(role: Role, text: &str) -> NewMessage {
    NewMessage {
        id: None,
        role,
        content: text.to_owned(),
        at: at(0),
        conversation: conversation::DEFAULT.to_owned(),
        extras: Extras::default(),
        price: Price::of(text),
    }
}
