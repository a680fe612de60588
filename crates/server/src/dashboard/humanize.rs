//! Formats numbers, times and addresses for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_domain::wording;

/// `just now`, `5 minutes ago`; a date if it is long ago or in the future.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    wording::ago(at, now, TimeZone::UTC)
}

/// A point in time for people and for machines.
pub(crate) struct Moment {
    pub(crate) iso: String,
    pub(crate) words: String,
}

impl Moment {
    pub(crate) fn of(at: Timestamp, now: Timestamp) -> Self {
        Self { iso: at.to_string(), words: ago(at, now) }
    }

    /// A time that may be in the future, to the minute.
    pub(crate) fn minute(at: Timestamp) -> Self {
        Self { iso: at.to_string(), words: minute(at) }
    }
}

/// The time to the minute, in UTC: the server does not know its reader's time zone.
pub(crate) fn minute(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// `999`, `12.3k`, `4.5M`.
#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
pub(crate) fn short(count: u64) -> String {
    let scaled = |unit: f64, letter: &str| {
        let text = format!("{:.1}", count as f64 / unit);
        format!("{}{letter}", text.trim_end_matches(".0"))
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..999_950 => scaled(1e3, "k"),
        999_950..999_950_000 => scaled(1e6, "M"),
        _ => scaled(1e9, "G"),
    }
}

/// `1,234,567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An amount in dollars, with more digits if it is small.
pub(crate) fn dollars(amount: f64) -> String {
    if amount == 0.0 {
        "$0".to_owned()
    } else if amount.abs() < 0.000_1 {
        "<$0.0001".to_owned()
    } else if amount < 1.0 {
        let mut text = format!("${amount:.4}");
        // Keeps at least two decimals.
        while text.ends_with('0') && text.len() > "$0.00".len() {
            text.pop();
        }
        text
    } else {
        format!("${amount:.2}")
    }
}

/// The beginning of a text, at most `most` bytes, cut between characters.
pub(crate) fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The last component of a path.
pub(crate) fn last_part(path: &str) -> &str {
    let part = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
    part.filter(|part| !part.is_empty()).unwrap_or(path)
}

/// A path split where a line may break.
pub(crate) fn pieces(path: &str) -> impl Iterator<Item = &str> {
    path.split_inclusive(['/', '\\'])
}

/// The value of a form field; browsers submit empty fields too, which mean no value.
pub(crate) fn some(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A query string without empty values.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let given = given.map(|(name, value)| format!("{name}={}", encoded(value)));
    given.collect::<Vec<_>>().join("&")
}

/// Percent-encodes a text for a query string.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1k"), (12_345, "12.3k"), (4_500_000, "4.5M")];
        for (count, text) in cases {
            assert_eq!(short(count), text);
        }
        assert_eq!(short(999_949), "999.9k");
        assert_eq!(short(999_950), "1M");
        assert_eq!(short(u64::MAX), "18446744073.7G");
    }

    #[test]
    fn digits_stand_in_threes() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn small_amounts_have_more_digits() {
        let cases = [
            (0.0, "$0"),
            (0.000_001, "<$0.0001"),
            (0.012_34, "$0.0123"),
            (0.5, "$0.50"),
            (0.25, "$0.25"),
            (12.345, "$12.35"),
        ];
        for (amount, text) in cases {
            assert_eq!(dollars(amount), text);
        }
    }

    #[test]
    fn a_path_is_known_by_its_last_part() {
        for (path, part) in [("/a/b", "b"), ("/a/b/", "b"), ("/", "/"), ("", ""), ("C:\\x\\y", "y")]
        {
            assert_eq!(last_part(path), part);
        }
    }

    #[test]
    fn a_path_breaks_after_its_slashes() {
        for (path, expected) in [
            ("/a/b c/d", vec!["/", "a/", "b c/", "d"]),
            ("C:\\x", vec!["C:\\", "x"]),
            ("plan.md", vec!["plan.md"]),
        ] {
            assert_eq!(pieces(path).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_is_empty_is_no_part_of_a_query() {
        assert_eq!(query(&[("a", "1 &"), ("b", ""), ("c", "ü")]), "a=1%20%26&c=%C3%BC");
        assert_eq!((some(" x "), some("  ")), (Some("x".to_owned()), None));
    }

    #[test]
    fn nothing_breaks_out_of_an_address() {
        assert_eq!(encoded("a b&c=d#e\"<ü"), "a%20b%26c%3Dd%23e%22%3C%C3%BC");
    }
}
