//! How long to wait before trying again.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The wait doubles each time; up to half of it is left to chance, so that many clients do not come back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt.
    pub base: Duration,
    /// No wait is longer, whatever the server asks for.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(500), longest: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// Returns the wait after that many failed attempts: what the server asked for, if it did.
    pub fn wait(self, failed: u32, asked: Option<Duration>) -> Duration {
        match asked {
            Some(asked) => asked.min(self.longest),
            None => self.between(failed, fastrand::f64()),
        }
    }

    /// Returns the wait for a `chance` from 0 to 1.
    fn between(self, failed: u32, chance: f64) -> Duration {
        let doublings = failed.saturating_sub(1);
        let whole = self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.longest);
        let half = whole / 2;
        half.saturating_add(half.mul_f64(chance)).min(whole)
    }
}

/// Returns how long the server asks to wait. A date is measured against the server's own clock.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = rfc2822::parse(asked).ok()?.timestamp();
    let now = rfc2822::parse(text(DATE)?).ok()?.timestamp();
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn asked(pairs: &[(HeaderName, &str)]) -> Option<Duration> {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        retry_after(&pairs.collect())
    }

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let backoff = Backoff { base: SECOND, longest: SECOND * 5 };
        let waits =
            |chance| [1, 2, 3, 4, 99].map(|failed| backoff.between(failed, chance).as_millis());
        assert_eq!(waits(1.0), [1000, 2000, 4000, 5000, 5000]);
        assert_eq!(waits(0.0), [500, 1000, 2000, 2500, 2500]);
    }

    #[test]
    fn no_number_is_too_big() {
        let backoff = Backoff { base: Duration::MAX, longest: Duration::MAX };
        assert!(backoff.between(u32::MAX, 1.0) >= backoff.between(0, 0.0));
    }

    #[test]
    fn what_the_server_asks_for_is_honoured_but_capped() {
        let backoff = Backoff { base: SECOND * 2, longest: SECOND * 5 };
        assert_eq!(backoff.wait(1, Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!(backoff.wait(1, Some(SECOND * 3)), SECOND * 3);
        assert_eq!(backoff.wait(1, Some(SECOND * 3600)), SECOND * 5);
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        assert_eq!(asked(&[(RETRY_AFTER, "7")]), Some(SECOND * 7));
        assert_eq!(asked(&[(RETRY_AFTER, "0.5")]), Some(SECOND / 2));
        let date = (DATE, "Wed, 21 Oct 2026 07:28:00 GMT");
        let later = (RETRY_AFTER, "Wed, 21 Oct 2026 07:28:09 GMT");
        let earlier = (RETRY_AFTER, "Wed, 21 Oct 2026 07:27:00 GMT");
        assert_eq!(asked(&[date.clone(), later.clone()]), Some(SECOND * 9));
        assert_eq!(asked(&[date, earlier]), Some(Duration::ZERO));
        assert_eq!(asked(&[later]), None);
    }

    #[test]
    fn nonsense_is_no_wish() {
        for value in ["", "-1", "NaN", "inf", "1e300", "soon"] {
            assert_eq!(asked(&[(RETRY_AFTER, value)]), None, "{value:?}");
        }
        assert_eq!(asked(&[]), None);
    }
}
