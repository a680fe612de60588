//! How often somebody may ask: a bucket for each token and each address, which fills again by the second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rethread_domain::access::TokenId;

use crate::problem::Problem;
use crate::settings::Bounds;

/// How many buckets are remembered before full ones are forgotten.
const REMEMBERED: usize = 4_096;
/// How many seconds' worth may be asked at once.
const BURST: f64 = 2.0;
/// How often may be asked at once, however slow the rate.
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

    /// Takes one; otherwise gives in how many seconds there is one.
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

/// Who has asked how often.
#[derive(Debug)]
pub(crate) struct Limiter {
    callers: Buckets,
    strangers: Buckets,
    logins: Buckets,
    /// Streams that are open.
    pub(crate) streams: Arc<Seats>,
    /// Sessions that are written out.
    pub(crate) exports: Arc<Seats>,
}

/// So many at once, and so many for one user.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    each: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    user: String,
}

impl Seats {
    pub(crate) fn new(most: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { most, each, taken: Mutex::default() })
    }

    /// A seat for this user, if there is one.
    pub(crate) fn take(self: &Arc<Self>, user: &str) -> Option<Seat> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(user).copied().unwrap_or(0);
        if all >= self.most || own >= self.each {
            return None;
        }
        taken.insert(user.to_owned(), own + 1);
        Some(Seat { seats: Arc::clone(self), user: user.to_owned() })
    }

    pub(crate) fn each(&self) -> usize {
        self.each
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

/// Attempts to log in, a second, from one address.
const LOGINS: f64 = 0.5;
/// Sessions that are written out at once, each by a thread; of one user.
const EXPORTS: usize = 16;
const EXPORTS_EACH: usize = 4;

impl Limiter {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            callers: Buckets::new(f64::from(bounds.requests)),
            strangers: Buckets::new(f64::from(bounds.strangers)),
            logins: Buckets::new(LOGINS),
            streams: Seats::new(bounds.streams, bounds.streams_each),
            exports: Seats::new(EXPORTS, EXPORTS_EACH),
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
        let seats = Seats::new(3, 2);
        let own = [seats.take("anna"), seats.take("anna")];
        assert!(own.iter().all(Option::is_some));
        assert!(seats.take("anna").is_none());
        let other = seats.take("bert");
        assert!(other.is_some() && seats.take("bert").is_none(), "there are three");
        drop(own);
        assert!(seats.take("anna").is_some());
        drop(other);
        assert!(seats.taken.lock().unwrap().is_empty());
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
