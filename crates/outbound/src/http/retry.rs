//! Sending again after a transient error.

use std::time::Duration;

use reqwest::Response;

use super::{Backoff, retry_after};

/// Why one attempt failed, and how long the other side asks to wait.
pub(crate) struct Failure<E> {
    pub(crate) error: E,
    pub(crate) retry_after: Option<Duration>,
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self { error, retry_after: None }
    }
}

/// Counts the attempts at one request.
pub(crate) struct Retries {
    attempts: u32,
    backoff: Backoff,
    failed: u32,
}

impl Retries {
    /// At most so many attempts, the first one included.
    pub(crate) fn new(attempts: u32, backoff: Backoff) -> Self {
        Self { attempts, backoff, failed: 0 }
    }

    /// Waits before the next attempt; returns the error if it is not transient, or no attempt is left.
    pub(crate) async fn wait<E>(
        &mut self,
        failure: Failure<E>,
        is_for_now: fn(&E) -> bool,
    ) -> Result<(), E> {
        self.failed += 1;
        if self.failed >= self.attempts || !is_for_now(&failure.error) {
            return Err(failure.error);
        }
        tokio::time::sleep(self.backoff.wait(self.failed, failure.retry_after)).await;
        Ok(())
    }
}

/// What a refusal says: its status counts even if the rest of the body does not arrive.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// The beginning of the body; cut between words, as the last one may be half of a secret.
    body: Vec<u8>,
    reason: &'static str,
}

impl Refusal {
    /// Reads at most `largest` bytes of the body.
    pub(crate) async fn read(mut response: Response, largest: usize) -> Self {
        let status = response.status();
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = largest - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == largest {
                let end = body.iter().rposition(u8::is_ascii_whitespace);
                body.truncate(end.unwrap_or(body.len()));
                break;
            }
        }
        Self {
            status: status.as_u16(),
            retry_after: retry_after(response.headers()),
            body,
            reason: status.canonical_reason().unwrap_or("no reason given"),
        }
    }

    /// Its message, as `presentable` makes it out of the body; the name of the status if there is none.
    pub(crate) fn message(&self, presentable: impl FnOnce(&[u8]) -> String) -> String {
        let message = presentable(&self.body);
        if message.is_empty() { self.reason.to_owned() } else { message }
    }
}
