//! Prices of the numbers and dates in a context, known without a tokenizer.
//!
//! o200k cuts digits into groups of three from the left, each of them one token, whatever stands around.

use jiff::{Timestamp, tz::TimeZone};

/// Tokens of a number as written by `Display`.
pub fn price(number: u64) -> u32 {
    number.checked_ilog10().unwrap_or(0) / 3 + 1
}

/// The number of the day, in UTC.
pub fn days(at: Timestamp) -> i64 {
    at.as_second().div_euclid(86_400)
}

/// `2026-11-15`
pub fn day(at: Timestamp) -> String {
    let mut minute = minute(at);
    minute.truncate(10);
    minute
}

/// `2026-11-15 21:38`, in UTC
pub fn minute(at: Timestamp) -> String {
    let mut out = String::with_capacity(16);
    push_minute(&mut out, at);
    out
}

/// Appends `2026-11-15 21:38`. By hand, since a context has many of them.
pub fn push_minute(out: &mut String, at: Timestamp) {
    let time = TimeZone::UTC.to_datetime(at);
    let two = |out: &mut String, number: i8| {
        let number = number.unsigned_abs();
        out.push(char::from(b'0' + number / 10));
        out.push(char::from(b'0' + number % 10));
    };
    let year = time.year().unsigned_abs();
    two(out, i8::try_from(year / 100).unwrap_or(99));
    two(out, i8::try_from(year % 100).unwrap_or(99));
    for (mark, number) in
        [('-', time.month()), ('-', time.day()), (' ', time.hour()), (':', time.minute())]
    {
        out.push(mark);
        two(out, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;

    #[test]
    fn digits_cost_a_token_for_each_three() {
        for number in
            (0..1100).chain([9_999, 10_000, 999_999, 1_000_000, u64::from(u32::MAX), u64::MAX])
        {
            let line = format!("Messages: {number}\n");
            assert_eq!(
                tokens::count(&line),
                tokens::count("Messages: 7\n") - 1 + price(number),
                "{line}"
            );
        }
    }

    #[test]
    fn every_date_costs_the_same() {
        let mut at: Timestamp = "0001-01-01T00:00:00Z".parse().unwrap();
        let first = tokens::count(&format!("- Started: {} UTC\n", minute(at)));
        for _ in 0..1400 {
            at += jiff::SignedDuration::from_hours(61_000) + jiff::SignedDuration::from_mins(17);
            let line = format!("- Started: {} UTC\n", minute(at));
            assert_eq!(tokens::count(&line), first, "{line}");
            assert_eq!(
                minute(at),
                at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M").to_string()
            );
            assert_eq!(day(at), minute(at)[..10]);
        }
    }
}
