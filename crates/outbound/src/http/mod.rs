//! What all of our HTTP clients share: keys that are never shown, retries with backoff, and the causes of errors.

mod backoff;
mod key;
mod retry;

use std::iter;
use std::sync::Once;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

pub use backoff::{Backoff, retry_after};
pub use key::Key;
pub(crate) use retry::{Failure, Refusal, Retries};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that follows nobody elsewhere and repeats nothing by itself.
pub(crate) fn client(timeout: Duration) -> ClientBuilder {
    static CRYPTOGRAPHY: Once = Once::new();
    CRYPTOGRAPHY.call_once(|| {
        // Whoever was quicker has chosen the same: there is no other in the program.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
    Client::builder()
        .user_agent(concat!("rethread/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
}

/// What lies beneath an error of the client, which itself names the URL; `None` where there is nothing.
pub fn reason(error: &reqwest::Error) -> Option<String> {
    let first = std::error::Error::source(error);
    let causes: Vec<String> =
        iter::successors(first, |cause| cause.source()).map(ToString::to_string).collect();
    (!causes.is_empty()).then(|| causes.join(": "))
}
