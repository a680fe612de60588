//! Who is to be told, of what, and in which form.

use std::fmt;

use reqwest::Url;
use serde::Deserialize;

use crate::webhook::text::line;
use crate::webhook::{Error, Event, Key};

/// How much of a path or a question is looked for in messages: what is shorter is no secret.
const SHORTEST_SECRET: usize = 6;
const LONGEST_MESSAGE: usize = 300;

/// The form of a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The notice itself.
    #[default]
    Json,
    Slack,
    Discord,
}

/// A receiver. `Debug` shows its host only.
#[derive(Clone, PartialEq, Eq)]
pub struct Hook {
    url: Url,
    pub format: Format,
    /// Notices are signed with it.
    pub secret: Option<Key>,
    /// What it is told of; everything, if nothing is named.
    pub on: Vec<Event>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hook")
            .field("url", &self.shown())
            .field("format", &self.format)
            .field("secret", &self.secret)
            .field("on", &self.on)
            .finish()
    }
}

impl Hook {
    /// Errors do not repeat the URL: it is a secret.
    pub fn new(url: &str, format: Format) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadHook(format!("its URL {why}"));
        let url = Url::parse(url.trim()).map_err(|error| bad(&format!("is none: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("does not begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("has a name or password in it"));
        }
        if url.fragment().is_some() {
            return Err(bad("has a part after #"));
        }
        Ok(Self { url, format, secret: None, on: Vec::new() })
    }

    /// Whether this receiver is to be told of such an event.
    pub fn wants(&self, event: Event) -> bool {
        self.on.is_empty() || self.on.contains(&event)
    }

    /// The URL as it may be shown.
    pub fn shown(&self) -> String {
        format!("{}/…", self.url.origin().ascii_serialization())
    }

    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    /// Text from outside as one bounded, printable line without our secrets.
    pub(crate) fn presentable(&self, text: &str) -> String {
        let mut text = line(text, usize::MAX);
        // Before it is cut, so that no half of one stays; the longest first, as it may hold others.
        let whole = [self.url.as_str(), self.url.path(), self.url.query().unwrap_or_default()];
        let parts = self.url.path_segments().into_iter().flatten();
        let answers = self.url.query().unwrap_or_default().split(['&', '=']);
        let key = self.secret.as_ref().map(Key::reveal);
        let mut secrets: Vec<&str> = whole.into_iter().chain(parts).chain(answers).collect();
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        secrets.extend(key.filter(|key| !key.is_empty()));
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            text = text.replace(secret, "…");
        }
        line(&text, LONGEST_MESSAGE)
    }
}
