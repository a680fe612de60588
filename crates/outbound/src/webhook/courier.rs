//! Brings notices to their receivers.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};

use crate::http::{Failure, Refusal, Retries};
use crate::webhook::signature::signature;
use crate::webhook::text::cut;
use crate::webhook::{Backoff, Error, Format, Hook, Notice, discord, slack};

/// Longer texts are cut: a notice is no archive.
const LONGEST: usize = 4000;

/// How much of a refusal is read: enough for any message.
const LARGEST_REFUSAL: usize = 4 * 1024;

const SIGNATURE: HeaderName = HeaderName::from_static("x-rethread-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-rethread-timestamp");
const DELIVERY: HeaderName = HeaderName::from_static("x-rethread-delivery");
const EVENT: HeaderName = HeaderName::from_static("x-rethread-event");

/// How long, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one try, from the first byte sent to the last one received.
    pub timeout: Duration,
    /// How often a notice is sent at most, the first time included.
    pub attempts: u32,
    pub backoff: Backoff,
}

impl Default for Patience {
    fn default() -> Self {
        let backoff = Backoff { base: Duration::from_secs(1), longest: Duration::from_mins(1) };
        Self { timeout: Duration::from_secs(10), attempts: 5, backoff }
    }
}

/// Brings notices to their receivers. Cheap to clone.
#[derive(Clone)]
pub struct Courier {
    client: Client,
    patience: Patience,
    clock: fn() -> Timestamp,
}

impl fmt::Debug for Courier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Courier").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Courier {
    /// `clock` tells the time that is signed.
    pub fn new(patience: Patience, clock: fn() -> Timestamp) -> Result<Self, Error> {
        if patience.attempts == 0 || patience.timeout.is_zero() {
            return Err(Error::BadHook("it is given no time, or no try".to_owned()));
        }
        let client = client(patience.timeout).map_err(|error| Error::BadHook(reason(&error)))?;
        Ok(Self { client, patience, clock })
    }

    /// Sends, and waits until it was taken. A transient error is retried, as often as there is
    /// patience; the last error is returned. What the receiver did not ask for is not sent.
    pub async fn deliver(&self, hook: &Hook, notice: &Notice) -> Result<(), Error> {
        if !hook.wants(notice.event) {
            return Ok(());
        }
        let body = body(hook.format, notice);
        let mut retries = Retries::new(self.patience.attempts, self.patience.backoff);
        loop {
            match self.attempt(hook, notice, &body).await {
                Ok(()) => return Ok(()),
                Err(failure) => retries.wait(failure, Error::is_for_now).await?,
            }
        }
    }

    async fn attempt(
        &self,
        hook: &Hook,
        notice: &Notice,
        body: &str,
    ) -> Result<(), Failure<Error>> {
        let headers = self.headers(hook, notice, body)?;
        let sent = self.client.post(hook.url()).headers(headers).body(body.to_owned()).send();
        let response = sent.await.map_err(|error| self.broken(hook, &error))?;
        if response.status().is_success() {
            // What it has to say about it does not matter, and may be endless.
            return Ok(());
        }
        Err(refusal(hook, response).await)
    }

    fn headers(&self, hook: &Hook, notice: &Notice, body: &str) -> Result<HeaderMap, Error> {
        let bad = |why: &str| Error::BadHook(why.to_owned());
        let value = |text: &str| HeaderValue::from_str(text);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(EVENT, HeaderValue::from_static(notice.event.name()));
        let id =
            value(&notice.id).map_err(|_| bad("the delivery id does not fit into a header"))?;
        headers.insert(DELIVERY, id);
        let now = (self.clock)().as_second();
        headers.insert(TIMESTAMP, HeaderValue::from(now));
        if let Some(secret) = &hook.secret {
            let told = signature(secret, now, body.as_bytes());
            let told = told.ok_or_else(|| bad("its secret is empty"))?;
            headers.insert(SIGNATURE, value(&told).map_err(|_| bad("its secret is none"))?);
        }
        Ok(headers)
    }

    /// Names what broke between us and the receiver.
    fn broken(&self, hook: &Hook, error: &reqwest::Error) -> Error {
        let at = hook.shown();
        if error.is_timeout() && !error.is_connect() {
            return Error::TimedOut { at, after: self.patience.timeout };
        }
        Error::Unreachable { at, reason: hook.presentable(&reason(error)) }
    }
}

/// The same, with no text that is too long.
fn bounded(notice: &Notice) -> Notice {
    let short = |text: &String| cut(text, LONGEST);
    Notice {
        id: short(&notice.id),
        workflow_id: short(&notice.workflow_id),
        title: short(&notice.title),
        status: short(&notice.status),
        reason: notice.reason.as_ref().map(short),
        snapshot_id: notice.snapshot_id.as_ref().map(short),
        worktree: notice.worktree.as_ref().map(short),
        resume: notice.resume.as_ref().map(short),
        ..*notice
    }
}

fn body(format: Format, notice: &Notice) -> String {
    let notice = bounded(notice);
    match format {
        Format::Json => serde_json::to_string(&notice).unwrap_or_default(),
        Format::Slack => slack::body(&notice).to_string(),
        Format::Discord => discord::body(&notice).to_string(),
    }
}

fn client(timeout: Duration) -> reqwest::Result<Client> {
    // Notices are far between: a connection that was kept would be dead.
    let builder = || crate::http::client(timeout).pool_max_idle_per_host(0);
    // A machine without root certificates, as many containers are: a receiver on it needs none.
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

async fn refusal(hook: &Hook, response: Response) -> Failure<Error> {
    let refusal = Refusal::read(response, LARGEST_REFUSAL).await;
    let message = refusal.message(|body| hook.presentable(&String::from_utf8_lossy(body)));
    let error = Error::Refused { at: hook.shown(), status: refusal.status, message };
    Failure { error, retry_after: refusal.retry_after }
}

fn reason(error: &reqwest::Error) -> String {
    crate::http::reason(error).unwrap_or_else(|| "the notice could not be sent".to_owned())
}
