//! Times in words.

use jiff::{Timestamp, tz::TimeZone};
use rethread_domain::wording::{self, counted};

/// `just now`, `5 minutes ago`; a date if it is long ago or in the future.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    wording::ago(at, now, TimeZone::system())
}

/// A length of time: `5 minutes`, `90 seconds`.
pub(crate) fn length(length: jiff::SignedDuration) -> String {
    let seconds = length.as_secs();
    let (count, unit) =
        if seconds % 60 == 0 { (seconds / 60, "minute") } else { (seconds, "second") };
    counted(count, unit)
}

/// The minute, where the user is.
pub(crate) fn minute(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_words() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (at, expected) in [
            ("2026-11-15T11:59:30Z", "just now"),
            ("2026-11-15T11:58:59Z", "1 minute ago"),
            ("2026-11-15T09:00:00Z", "3 hours ago"),
            ("2026-11-13T09:00:00Z", "2 days ago"),
            ("2023-01-23T12:00:00Z", "2023-01-23"),
            ("2027-01-23T12:00:00Z", "2027-01-23"),
        ] {
            assert_eq!(ago(at.parse().unwrap(), now), expected);
        }
    }
}
