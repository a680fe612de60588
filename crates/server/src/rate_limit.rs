//! Rate limits: a token bucket for each credential and each address. And concurrency limits for each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rethread_domain::access::TokenId;

use crate::problem::Problem;
use crate::settings::Bounds;

/// How many buckets are kept before full ones are dropped.
const REMEMBERED: usize = 4_096;
/// How many seconds' worth of requests may come in one burst.
const BURST: f64 = 2.0;
/// The smallest burst, however low the rate.
const LEAST: f64 = 10.0;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

#[derive(Debug)]
struct Buckets {
    rate: f64,
    known: Mutex<HashMap<String, Bucket>>,
}

impl Buckets {
    fn new(rate: f64) -> Self {
        Self { rate, known: Mutex::default() }
    }

    /// Takes a token, or returns after how many seconds there will be one.
    fn take(&self, who: &str, now: Instant) -> Result<(), u64> {
        let most = (self.rate * BURST).max(LEAST);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED && !known.contains_key(who) {
            let rate = self.rate;
            known.retain(|_, bucket| {
                bucket.left + now.duration_since(bucket.at).as_secs_f64() * rate < most
            });
        }
        let bucket = known.entry(who.to_owned()).or_insert(Bucket { left: most, at: now });
        let waited = now.duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + waited * self.rate).min(most);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few seconds"
        )]
        Err((((1.0 - bucket.left) / self.rate).ceil() as u64).max(1))
    }
}

/// The rate limits and concurrency limits of the server.
#[derive(Debug)]
pub(crate) struct Limiter {
    callers: Buckets,
    strangers: Buckets,
    logins: Buckets,
    /// Open streams.
    pub(crate) streams: Arc<ConcurrencyLimit>,
    /// Running exports.
    pub(crate) exports: Arc<ConcurrencyLimit>,
}

/// A concurrency limit: in total, and for each user.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    most: usize,
    each: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// Counts against the limit until it is dropped.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    user: String,
}

impl ConcurrencyLimit {
    pub(crate) fn new(most: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { most, each, taken: Mutex::default() })
    }

    /// A permit for this user, if there is one left.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Option<ConcurrencyPermit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(user).copied().unwrap_or(0);
        if all >= self.most || own >= self.each {
            return None;
        }
        taken.insert(user.to_owned(), own + 1);
        Some(ConcurrencyPermit { limit: Arc::clone(self), user: user.to_owned() })
    }

    pub(crate) fn each(&self) -> usize {
        self.each
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

/// Login attempts per second from one address.
const LOGINS: f64 = 0.5;
/// Concurrent exports, each of which occupies a thread: in total, and for each user.
const EXPORTS: usize = 16;
const EXPORTS_EACH: usize = 4;

impl Limiter {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            callers: Buckets::new(f64::from(bounds.requests)),
            strangers: Buckets::new(f64::from(bounds.strangers)),
            logins: Buckets::new(LOGINS),
            streams: ConcurrencyLimit::new(bounds.streams, bounds.streams_each),
            exports: ConcurrencyLimit::new(EXPORTS, EXPORTS_EACH),
        }
    }

    pub(crate) fn caller(&self, token: &TokenId) -> Result<(), Problem> {
        or_too_many(self.callers.take(&token.to_string(), Instant::now()))
    }

    pub(crate) fn stranger(&self, address: &str) -> Result<(), Problem> {
        or_too_many(self.strangers.take(address, Instant::now()))
    }

    pub(crate) fn login(&self, address: &str) -> Result<(), Problem> {
        or_too_many(self.logins.take(address, Instant::now()))
    }
}

fn or_too_many(taken: Result<(), u64>) -> Result<(), Problem> {
    taken.map_err(|seconds| {
        Problem::new("too_many_requests", format!("ask again in {seconds} s")).after(seconds)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let buckets = Buckets::new(2.0);
        let now = Instant::now();
        for _ in 0..10 {
            assert_eq!(buckets.take("a", now), Ok(()));
        }
        assert_eq!(buckets.take("a", now), Err(1));
        assert_eq!(buckets.take("b", now), Ok(()), "others are not held up");
        assert_eq!(buckets.take("a", now + Duration::from_millis(500)), Ok(()));
        assert_eq!(buckets.take("a", now + Duration::from_millis(500)), Err(1));
    }

    #[test]
    fn nobody_has_all_seats() {
        let limit = ConcurrencyLimit::new(3, 2);
        let own = [limit.take("anna"), limit.take("anna")];
        assert!(own.iter().all(Option::is_some));
        assert!(limit.take("anna").is_none());
        let other = limit.take("bert");
        assert!(other.is_some() && limit.take("bert").is_none(), "there are three");
        drop(own);
        assert!(limit.take("anna").is_some());
        drop(other);
        assert!(limit.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let buckets = Buckets::new(100.0);
        let now = Instant::now();
        for n in 0..REMEMBERED {
            assert_eq!(buckets.take(&n.to_string(), now), Ok(()));
        }
        assert_eq!(buckets.take("one more", now + Duration::from_secs(1)), Ok(()));
        assert_eq!(buckets.known.lock().unwrap().len(), 1);
    }
}
