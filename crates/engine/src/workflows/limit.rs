//! Usage limits of model providers (rate limits): recognised in an agent's text, with the time at which they end.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// Phrases that say that a limit is reached.
const SIGNS: [&str; 9] = [
    "usage limit",
    "rate limit",
    "rate_limit",
    "quota exceeded",
    "exceeded your current quota",
    "too many requests",
    "limit reached",
    "hit your limit",
    "resource_exhausted",
];
/// Phrases before the time at which it ends.
const LIFTED: [&str; 9] = [
    "resets at ",
    "reset at ",
    "resets in ",
    "reset in ",
    "resets ",
    "try again in ",
    "try again at ",
    "retry after ",
    "retry in ",
];
/// No limit lasts longer.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 8);

/// Whether a text says that a usage limit is reached and, if so, when it ends, as far as it says.
pub fn limit_in(text: &str, now: Timestamp) -> Option<Option<Timestamp>> {
    says_limit(text).then(|| lifted_in(text, now))
}

/// Whether a text says that a usage limit is reached.
pub fn says_limit(text: &str) -> bool {
    let text = beginning(text);
    SIGNS.iter().any(|sign| text.contains(sign))
}

fn beginning(text: &str) -> String {
    text.chars().take(4_000).collect::<String>().to_lowercase()
}

/// Whether a limit can end then: in the future, but not too far.
pub(crate) fn is_sensible(at: Timestamp, now: Timestamp) -> bool {
    at > now && at.duration_since(now) <= LONGEST
}

/// When the limit that a text mentions ends.
pub(crate) fn lifted_in(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = beginning(text);
    let told = LIFTED
        .iter()
        .filter_map(|word| text.split_once(word))
        .find_map(|(_, rest)| when(rest, now));
    // Some give a Unix time after a vertical bar.
    let second =
        || text.split('|').nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    told.or_else(|| Timestamp::from_second(second()?).ok()).filter(|at| is_sensible(*at, now))
}

/// A time of day, a point in time, or a duration.
fn when(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim_start_matches("at ").trim_start_matches("in ");
    let word = text.split([' ', ',', ')', ';']).next()?.trim_end_matches('.');
    if let Ok(at) = word.to_uppercase().parse::<Timestamp>() {
        return Some(at);
    }
    let day = || day_and_time(text).or_else(|| time_of_day(text, now));
    while_of(text).map_or_else(day, |span| now.checked_add(span).ok())
}

/// `Nov 20th, 2026 3:05 PM`, in the local time zone.
fn day_and_time(text: &str) -> Option<Timestamp> {
    let mut words = text.split_whitespace();
    let (month, day, year) = (words.next()?, words.next()?, words.next()?);
    let (time, half) = (words.next()?, words.next()?);
    let day = day.trim_end_matches(|c: char| !c.is_ascii_digit());
    let half = half.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let told = format!("{month} {day} {year} {time} {half}");
    let at = jiff::civil::DateTime::strptime("%b %d %Y %I:%M %p", told).ok()?;
    Some(at.to_zoned(TimeZone::system()).ok()?.timestamp())
}

/// `2h 5m`, `30 seconds`, `45s`, `34.07s`.
fn while_of(text: &str) -> Option<SignedDuration> {
    let mut total = SignedDuration::ZERO;
    let mut rest = text.trim_start();
    loop {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() || digits.len() > 6 {
            break;
        }
        let after = rest[digits.len()..].trim_start();
        let after = after
            .strip_prefix('.')
            .map_or(after, |fraction| fraction.trim_start_matches(|c: char| c.is_ascii_digit()));
        let unit: String = after.chars().take_while(char::is_ascii_alphabetic).collect();
        let seconds = match unit.as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            _ => break,
        };
        total += SignedDuration::from_secs(digits.parse::<i64>().ok()?.checked_mul(seconds)?);
        rest = after[unit.len()..].trim_start_matches([' ', ',']).trim_start_matches("and ");
    }
    (!total.is_zero()).then_some(total)
}

/// `3pm`, `3:30 pm`, `15:00`: the next such time in the local time zone.
fn time_of_day(text: &str, now: Timestamp) -> Option<Timestamp> {
    let digits = |text: &str| -> String { text.chars().take_while(char::is_ascii_digit).collect() };
    let hour = digits(text);
    let mut rest = &text[hour.len()..];
    let mut minute = String::new();
    if let Some(after) = rest.strip_prefix(':') {
        minute = digits(after);
        rest = &after[minute.len()..];
    }
    let rest = rest.trim_start();
    let half = if rest.starts_with("pm") { 12 } else { 0 };
    let has_half = half == 12 || rest.starts_with("am");
    let mut hour: i8 = hour.parse().ok().filter(|hour| (0..24).contains(hour))?;
    if has_half {
        hour = hour % 12 + half;
    } else if minute.is_empty() {
        return None;
    }
    let minute = if minute.is_empty() { 0 } else { minute.parse().ok()? };
    let time = Time::new(hour, minute, 0, 0).ok()?;
    let here = now.to_zoned(TimeZone::system());
    let today = here.date().to_datetime(time).to_zoned(TimeZone::system()).ok()?;
    let next = if today.timestamp() > now { today } else { today.checked_add(1.day()).ok()? };
    Some(next.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_from_other_trouble_with_the_time_they_are_lifted() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let after = |seconds: i64| Some(Some(now + SignedDuration::from_secs(seconds)));
        let check = |text: &str, expected| assert_eq!(limit_in(text, now), expected, "{text}");
        check("the file is not there", None);
        check("the speed limit is 30", None);
        check("Usage limit reached. Resets in 2h 5m.", after(7_500));
        check("429 Too Many Requests, try again in 30 seconds", after(30));
        check("Rate limit exceeded; retry after 2 minutes and 10 seconds", after(130));
        check(&format!("Claude AI usage limit reached|{}", now.as_second() + 60), after(60));
        check("usage limit reached, resets at 2026-11-16T12:00:00Z", after(7_200));
        check("Quota exceeded. Please retry in 34.07s.", after(34));
        check("You've hit your limit", Some(None));
        check("usage limit, resets at 1999-01-01T00:00:00Z", Some(None));
        assert!(limit_in("5-hour limit reached, resets 3pm", now).unwrap().is_some());
        assert!(limit_in("usage limit reached: resets at 03:30", now).unwrap().is_some());
        assert!(limit_in("hit your usage limit. Try again at 3:05 PM.", now).unwrap().is_some());
        let later = "You've hit your usage limit. Try again at Nov 20th, 2026 3:05 PM.";
        assert!(
            limit_in(later, now).unwrap().is_some_and(|at| at.duration_since(now).as_hours() > 72)
        );
    }
}
