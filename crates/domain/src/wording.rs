//! Words that every door uses: numbers with their nouns, and what a parser complains of, in plain English.

use std::fmt::Display;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A number with its noun: `1 message`, `2 messages`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// `just now`, `5 minutes ago`; a date in the reader's time zone if it is long ago or in the future.
pub fn ago(at: Timestamp, now: Timestamp, zone: TimeZone) -> String {
    let seconds = now.as_second() - at.as_second();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} ago", counted(seconds / 60, "minute")),
        3_600..86_400 => format!("{} ago", counted(seconds / 3_600, "hour")),
        86_400..2_592_000 => format!("{} ago", counted(seconds / 86_400, "day")),
        _ => at.to_zoned(zone).strftime("%Y-%m-%d").to_string(),
    }
}

/// A sentence that begins with a capital letter, unless it begins with the name of a tool, a field, a command or a file.
pub fn capitalised(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    let word = first.trim_end_matches([',', ':', ';', '.']);
    let is_word = word.chars().all(|char| char.is_alphabetic() || matches!(char, '\'' | '’' | '-'));
    let is_camel = word.chars().skip(1).any(char::is_uppercase);
    let mut letters = text.chars();
    match letters.next() {
        Some(letter) if is_word && !is_camel => {
            format!("{}{}", letter.to_uppercase(), letters.as_str())
        }
        _ => text.to_owned(),
    }
}

/// What a parser says is wrong with a value, with what was expected in the words of a person.
pub fn plain(complaint: &str) -> String {
    let mut text = complaint.to_owned();
    for (from, to) in [
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("invalid float literal", "expected a number"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("provided string was not `true` or `false`", "expected true or false"),
        (
            "invalid socket address syntax",
            "expected an address with its port, such as 127.0.0.1:8617",
        ),
    ] {
        text = text.replace(from, to);
    }
    for (types, expected) in [
        (&["u8", "u16", "u32", "u64", "usize", "i32", "i64"][..], "expected a whole number"),
        (&["f32", "f64"], "expected a number"),
        (&["a boolean"], "expected true or false"),
        (&["a string"], "expected a text"),
        (&["a sequence"], "expected a list"),
    ] {
        for one in types {
            if let Some(before) = text.strip_suffix(&format!("expected {one}")) {
                return format!("{before}{expected}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(0_u32, "message"), "0 messages");
        assert_eq!(counted(1_u64, "message"), "1 message");
        assert_eq!(counted(2_usize, "tool call"), "2 tool calls");
    }

    #[test]
    fn names_keep_their_letters() {
        for (text, expected) in [
            ("give one of these", "Give one of these"),
            ("list_agents lists the agents", "list_agents lists the agents"),
            ("maxTurns is 0", "maxTurns is 0"),
            ("docs/guide has a plan", "docs/guide has a plan"),
            ("`rethread doctor` looks closer", "`rethread doctor` looks closer"),
            ("not a role: \"x\"", "Not a role: \"x\""),
            ("", ""),
        ] {
            assert_eq!(capitalised(text), expected);
        }
    }

    #[test]
    fn complaints_say_what_was_expected() {
        let digits = "abc".parse::<u32>().unwrap_err().to_string();
        assert_eq!(plain(&digits), "expected a whole number");
        let address = "foo".parse::<std::net::SocketAddr>().unwrap_err().to_string();
        assert!(plain(&address).contains("such as 127.0.0.1:8617"), "{address}");
        assert_eq!(
            plain("invalid type: string \"many\", expected u32"),
            "invalid type: string \"many\", expected a whole number"
        );
    }
}
