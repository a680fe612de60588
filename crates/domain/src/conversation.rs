//! A conversation: one thread of messages inside a session.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::Seq;
use crate::message::{NewMessage, Role};
use crate::summary::{self, Summary};

/// The conversation of messages that name none.
pub const DEFAULT: &str = "main";

/// Who gave a title. A later one replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TitleFrom {
    Nobody,
    /// Cut from the first request.
    Request,
    Agent,
    Person,
}

impl TitleFrom {
    pub const ALL: [Self; 4] = [Self::Nobody, Self::Request, Self::Agent, Self::Person];
}

/// Prices of the lines by which a context speaks of a conversation: `None` for what has changed since `retell` counted
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelPrices {
    /// Its name as a heading over messages.
    pub name: Option<u32>,
    /// Name and title as a heading in the list of conversations.
    pub heading: Option<u32>,
    /// One for each line.
    pub summary: Option<Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its number in the session, from 1.
    pub n: u32,
    /// What it is known by: given by whoever records, unique in the session.
    pub name: String,
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub last_at: Timestamp,
    pub last_seq: Seq,
    pub messages: u32,
    pub tokens: u64,
    /// The turn of the session at which it last became the current one: the order of recency.
    pub turn: u32,
    /// The agent that has spoken since the last request.
    pub running: Option<String>,
    /// What its older messages were folded into.
    pub summary: Option<Summary>,
    pub prices: LabelPrices,
}

impl Conversation {
    pub fn open(n: u32, name: &str, at: Timestamp) -> Self {
        Self {
            n,
            name: name.to_owned(),
            title: None,
            created_at: at,
            last_at: at,
            last_seq: 0,
            messages: 0,
            tokens: 0,
            turn: 0,
            running: None,
            summary: None,
            prices: LabelPrices::default(),
        }
    }

    pub(crate) fn hear(&mut self, message: &NewMessage, seq: Seq, tokens: u64) {
        self.messages += 1;
        self.tokens += tokens;
        self.last_at = self.last_at.max(message.at);
        self.last_seq = seq;
        if self.title.is_none() && message.role == Role::User {
            self.title = summary::title(&message.masked());
            self.prices.heading = None;
        }
    }

    /// Its messages up to this one are told by its summary.
    pub fn summarised_upto(&self) -> Seq {
        self.summary.as_ref().map_or(0, |summary| summary.upto)
    }

    /// How many of its messages no summary tells.
    pub fn unfolded(&self) -> u32 {
        self.messages.saturating_sub(self.summary.as_ref().map_or(0, |summary| summary.folded))
    }

    pub fn summarise(&mut self, summary: &Summary) {
        self.prices.summary = None;
        self.summary = Some(summary.clone());
    }
}
