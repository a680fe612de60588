//! Requests over HTTP, tried again where that may help.

use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url};
use serde_json::Value;

use crate::http::{Failure, Refusal, Retries};
use crate::model::presentable::presentable;
use crate::model::{Answer, Error, Request, Settings};

const LARGEST_ANSWER: usize = 1024 * 1024;
/// How much of a refusal is read: enough for any message.
const LARGEST_REFUSAL: usize = 64 * 1024;

/// A model that can be asked. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Endpoint {
    settings: Settings,
    url: Url,
    headers: HeaderMap,
    client: Client,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let url = settings.checked_url()?;
        let headers = settings
            .dialect
            .headers(settings.key.as_ref())
            .map_err(|_| Error::BadSettings("the key does not fit into a header".to_owned()))?;
        let client = client(&url, settings.timeout).map_err(|error| {
            Error::BadSettings(presentable(&reason(&error), settings.key.as_ref()))
        })?;
        Ok(Self { settings, url, headers, client })
    }

    /// Asks, and waits for the answer. A transient error is retried, as often as the settings allow;
    /// the last error is returned.
    pub async fn complete(&self, request: &Request) -> Result<Answer, Error> {
        let body = self.settings.dialect.body(&self.url, &self.settings, request);
        let mut retries = Retries::new(self.settings.attempts, self.settings.backoff);
        loop {
            match self.attempt(&body, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => retries.wait(failure, Error::is_for_now).await?,
            }
        }
    }

    async fn attempt(&self, body: &Value, request: &Request) -> Result<Answer, Failure<Error>> {
        let sent =
            self.client.post(self.url.clone()).headers(self.headers.clone()).json(body).send();
        let mut response = sent.await.map_err(|error| self.broken(&error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let body = self.whole_body(&mut response).await?;
        let answer = self.settings.dialect.answer(&body, request);
        Ok(answer.map_err(|why| Error::Unintelligible(self.presentable(&why)))?)
    }

    /// Reads a body that must not be too large.
    async fn whole_body(&self, response: &mut Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(Error::TooLarge { limit: LARGEST_ANSWER });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    async fn refusal(&self, response: Response) -> Failure<Error> {
        let refusal = Refusal::read(response, LARGEST_REFUSAL).await;
        let message = refusal.message(|body| self.presentable(&message(body)));
        let error = Error::Refused { status: refusal.status, message };
        Failure { error, retry_after: refusal.retry_after }
    }

    /// Names what broke between us and the server.
    fn broken(&self, error: &reqwest::Error) -> Error {
        if error.is_timeout() && !error.is_connect() {
            return Error::TimedOut { after: self.settings.timeout };
        }
        let at = self.presentable(&self.url.origin().ascii_serialization());
        Error::Unreachable { at, reason: self.presentable(&reason(error)) }
    }

    fn presentable(&self, text: &str) -> String {
        presentable(text, self.settings.key.as_ref())
    }
}

fn client(url: &Url, timeout: Duration) -> reqwest::Result<Client> {
    let built = crate::http::client(timeout).build();
    if built.is_err() && url.scheme() == "http" {
        // A machine without root certificates, as many containers are: a local model needs none.
        return crate::http::client(timeout).tls_certs_only([]).build();
    }
    built
}

fn reason(error: &reqwest::Error) -> String {
    crate::http::reason(error).unwrap_or_else(|| "the request could not be sent".to_owned())
}

/// Returns the message in a refusal, wherever servers put it, or else the whole text.
fn message(body: &[u8]) -> String {
    let found = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        let places = ["/error/message", "/error", "/message"];
        places.iter().find_map(|place| Some(value.pointer(place)?.as_str()?.to_owned()))
    });
    found.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}
