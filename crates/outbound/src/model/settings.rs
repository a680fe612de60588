//! Which model, where, and how patiently.

use std::time::Duration;

use reqwest::Url;

use crate::http::{Backoff, Key};

use crate::model::{Dialect, Error};

#[derive(Debug, Clone)]
pub struct Settings {
    pub dialect: Dialect,
    /// Such as `http://127.0.0.1:1234/v1` (`OpenAI`) or `https://api.anthropic.com`.
    pub base_url: String,
    pub model: String,
    pub key: Option<Key>,
    /// For one attempt, from the first byte sent to the last one received.
    pub timeout: Duration,
    /// How often a request is sent at most, the first time included.
    pub attempts: u32,
    pub backoff: Backoff,
    pub max_output_tokens: u32,
}

impl Settings {
    /// The usual patience, and no key.
    pub fn new(dialect: Dialect, base_url: &str, model: &str) -> Self {
        Self {
            dialect,
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            key: None,
            timeout: Duration::from_mins(1),
            attempts: 3,
            backoff: Backoff::default(),
            max_output_tokens: 2_000,
        }
    }

    /// Returns where requests go, if all settings make sense.
    pub(crate) fn checked_url(&self) -> Result<Url, Error> {
        let bad = |why: &str| Err(Error::BadSettings(why.to_owned()));
        if self.model.trim().is_empty() {
            return bad("the model has no name");
        }
        if self.timeout.is_zero() {
            return bad("the time-out is zero");
        }
        if self.attempts == 0 {
            return bad("the number of attempts is zero");
        }
        if self.max_output_tokens == 0 {
            return bad("the number of output tokens is zero");
        }
        let printable = |key: &Key| {
            !key.reveal().is_empty() && key.reveal().bytes().all(|b| b.is_ascii_graphic())
        };
        if !self.key.as_ref().is_none_or(printable) {
            return bad("the key is empty, or has spaces or characters that no key has");
        }
        self.url()
    }

    /// Returns the base URL with the path of the dialect. Errors do not repeat the URL: it may hold a password.
    fn url(&self) -> Result<Url, Error> {
        let bad = |why: &str| Error::BadSettings(format!("the base URL {why}"));
        let base = self.base_url.trim();
        let url = Url::parse(base).map_err(|error| bad(&format!("is none: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("does not begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("has a name or password in it; the key has its own setting"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("has a part after ? or #"));
        }
        let whole = format!("{}{}", base.trim_end_matches('/'), self.dialect.path());
        Url::parse(&whole).map_err(|error| bad(&format!("is none: {error}")))
    }
}
