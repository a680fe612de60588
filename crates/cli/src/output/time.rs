//! Times in words.

use jiff::{Timestamp, tz::TimeZone};

/// `just now`, `5 minutes ago`, `yesterday`-like distances; a date when it is long ago or to come.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - at.as_second();
    let some = |count: i64, unit: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural} ago")
    };
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => some(seconds / 60, "minute"),
        3_600..86_400 => some(seconds / 3_600, "hour"),
        86_400..2_592_000 => some(seconds / 86_400, "day"),
        _ => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// A length of time: `5 minutes`, `90 seconds`.
pub(crate) fn length(length: jiff::SignedDuration) -> String {
    let seconds = length.as_secs();
    let (count, unit) =
        if seconds % 60 == 0 { (seconds / 60, "minute") } else { (seconds, "second") };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
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
