//! What the lines about a session and its conversations cost. They are counted when the session is stored and kept with
//! it, so that a resume need not count; what has changed since is counted here.

use std::borrow::Cow;

use super::lines;
use crate::conversation::Conversation;
use crate::quote::quoted;
use crate::session::Session;
use crate::tokens;

pub fn head_price(session: &Session) -> u32 {
    session.prices.head.unwrap_or_else(|| tokens::count(&lines::head(session)))
}

pub fn title_price(session: &Session) -> u32 {
    let count = || session.title.as_deref().map_or(0, |title| tokens::count(&lines::title(title)));
    session.prices.title.unwrap_or_else(count)
}

/// One price for each line of the session's summary.
pub fn summary_prices(session: &Session) -> Cow<'_, [u32]> {
    kept_or_counted(session.prices.summary.as_deref(), session.summary.as_deref())
}

pub fn name_price(conversation: &Conversation) -> u32 {
    let count = || tokens::count(&lines::name(&conversation.name));
    conversation.prices.name.unwrap_or_else(count)
}

pub fn heading_price(conversation: &Conversation) -> u32 {
    let count = || tokens::count(&lines::heading(conversation));
    conversation.prices.heading.unwrap_or_else(count)
}

/// One price for each line of the conversation's summary.
pub fn own_summary_prices(conversation: &Conversation) -> Cow<'_, [u32]> {
    let summary = conversation.summary.as_ref().map(|summary| summary.text.as_str());
    kept_or_counted(conversation.prices.summary.as_deref(), summary)
}

/// Each line of a summary is a quotation of its own, so any of them can be omitted.
fn kept_or_counted<'a>(kept: Option<&'a [u32]>, summary: Option<&str>) -> Cow<'a, [u32]> {
    let count = |text: &str| text.lines().map(|line| tokens::count(&quoted(line))).collect();
    kept.map_or_else(|| Cow::Owned(summary.map(count).unwrap_or_default()), Cow::Borrowed)
}

/// Counts what has changed.
pub fn price_session(session: &mut Session) {
    session.prices.head = Some(head_price(session));
    session.prices.title = Some(title_price(session));
    session.prices.summary = Some(summary_prices(session).into_owned());
}

/// Counts what has changed.
pub fn price_conversation(conversation: &mut Conversation) {
    conversation.prices.name = Some(name_price(conversation));
    conversation.prices.heading = Some(heading_price(conversation));
    conversation.prices.summary = Some(own_summary_prices(conversation).into_owned());
}
