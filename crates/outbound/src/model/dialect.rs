//! The two ways in which servers speak: paths, headers and bodies. No I/O.

mod anthropic;
mod openai;

use std::str::FromStr;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::model::{Answer, Error, Key, Request, Settings};

/// What the schema and the tool of a structured answer are called.
const NAME: &str = "answer";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Chat completions; also what most local servers speak.
    OpenAi,
    /// Messages.
    Anthropic,
}

impl FromStr for Dialect {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "openai" => Ok(Self::OpenAi),
            "anthropic" => Ok(Self::Anthropic),
            _ => Err(Error::BadSettings("the dialect is neither openai nor anthropic".to_owned())),
        }
    }
}

impl Dialect {
    /// Returns what comes after the base URL.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::Anthropic => "/v1/messages",
        }
    }

    pub(crate) fn headers(self, key: Option<&Key>) -> Result<HeaderMap, InvalidHeaderValue> {
        match self {
            Self::OpenAi => openai::headers(key),
            Self::Anthropic => anthropic::headers(key),
        }
    }

    pub(crate) fn body(self, url: &Url, settings: &Settings, request: &Request) -> Value {
        match self {
            Self::OpenAi => openai::body(url, settings, request),
            Self::Anthropic => anthropic::body(settings, request),
        }
    }

    /// Reads an answer, or says why it cannot be one.
    pub(crate) fn answer(self, body: &[u8], request: &Request) -> Result<Answer, String> {
        let structured = request.schema.is_some();
        let answer = match self {
            Self::OpenAi => openai::answer(body)?,
            Self::Anthropic => anthropic::answer(body, structured)?,
        };
        if answer.text.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        if structured {
            serde_json::from_str::<IgnoredAny>(&answer.text)
                .map_err(|error| format!("JSON was asked for: {error}"))?;
        }
        Ok(answer)
    }
}

/// Returns a header that no `Debug` shows.
fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
