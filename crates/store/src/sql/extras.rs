//! What comes with a message, as it is kept. Agents give what a tool said twice, once to be read and once as it came:
//! where the text of the message has it already, only its place in it is kept.

use std::borrow::Cow;

use rethread_domain::message::Extras;

use crate::error::{Error, Result};

/// Stands before and after a place. JSON has no such character: nothing else can be taken for one.
pub(super) const MARK: char = '\u{1}';
/// A shorter text is not worth a place.
const SHORTEST: usize = 64;

/// As it is kept beside a text; `None` where there is nothing.
pub(super) fn encode(extras: &Extras, text: &str) -> Result<Option<String>> {
    if extras.is_empty() {
        return Ok(None);
    }
    let json = serde_json::to_string(extras).map_err(|error| Error::Failed(error.to_string()))?;
    Ok(Some(if json.len() < SHORTEST { json } else { shortened(&json, text) }))
}

/// The most common case by far, read without a parser: nothing but the version of the rules.
pub(super) fn only_rules(kept: &str) -> Option<Extras> {
    rules_alone(kept).map(|rules| Extras { rules, ..Extras::default() })
}

/// The version of the rules, where nothing else is kept.
pub(super) fn rules_alone(kept: &str) -> Option<u32> {
    kept.strip_prefix(r#"{"$rules":"#)?.strip_suffix('}')?.parse().ok()
}

/// The JSON of what is kept beside a text; `None` where a place is not in it.
pub(super) fn decode<'a>(kept: &'a str, text: &str) -> Option<Cow<'a, str>> {
    if !kept.contains(MARK) {
        return Some(Cow::Borrowed(kept));
    }
    let mut json = String::with_capacity(kept.len() + text.len());
    for (number, part) in kept.split(MARK).enumerate() {
        if number % 2 == 0 {
            json.push_str(part);
        } else {
            let (from, length) = part.split_once(',')?;
            let (from, length): (usize, usize) = (from.parse().ok()?, length.parse().ok()?);
            let said = text.get(from..from.checked_add(length)?)?;
            json.push_str(&serde_json::to_string(said).ok()?);
        }
    }
    Some(Cow::Owned(json))
}

/// With a place in the text instead of every string that is there.
fn shortened(json: &str, text: &str) -> String {
    let mut short = String::new();
    let mut rest = json;
    while let Some(begin) = rest.find('"') {
        let Some(length) = string_length(&rest[begin..]) else { break };
        let (before, string) = (&rest[..begin], &rest[begin..begin + length]);
        short.push_str(before);
        match place(string, text) {
            Some((from, bytes)) => short.push_str(&format!("{MARK}{from},{bytes}{MARK}")),
            None => short.push_str(string),
        }
        rest = &rest[begin + length..];
    }
    short + rest
}

/// How long the string is that a JSON text begins with, with its quotes.
fn string_length(json: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => (),
        }
    }
    None
}

/// Where a JSON string is in the text, and how long.
fn place(string: &str, text: &str) -> Option<(usize, usize)> {
    if string.len() < SHORTEST {
        return None;
    }
    let said: String = serde_json::from_str(string).ok()?;
    let from = text.find(&said)?;
    // It has to come back as it was.
    (serde_json::to_string(&said).ok()? == string).then_some((from, said.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(output: &str, text: &str, is_shorter: bool) {
        let tool =
            json!({ "id": "a", "rawOutput": { "output": output, "\u{1}0,9\u{1}": "\u{1}" } });
        let extras = Extras { tool_calls: Some(json!([tool])), ..Extras::default() };
        let json = serde_json::to_string(&extras).unwrap();
        let kept = encode(&extras, text).unwrap().unwrap();
        assert_eq!(decode(&kept, text).unwrap(), json, "{kept:?}");
        assert_eq!(kept.len() < json.len(), is_shorter, "{kept:?}");
    }

    #[test]
    fn what_the_text_has_is_not_kept_again_and_comes_back_as_it_was() {
        let long = "a \"word\" \\ and\n\u{1}\u{7f}ä\u{1f980} more ".repeat(20);
        check(&long, &format!("execute: x\n{long}"), true);
        check(&long, &long[..long.len() - 1], false);
        check("short", "short", false);
        check("", "", false);
        check(&"\\".repeat(200), &"\\".repeat(300), true);
    }

    #[test]
    fn the_version_of_the_rules_is_read_as_it_is_kept() {
        for extras in [
            Extras { rules: 7, ..Extras::default() },
            Extras { rules: 7, agent: Some("codex".to_owned()), ..Extras::default() },
        ] {
            let kept = encode(&extras, "text").unwrap().unwrap();
            let read: Extras = serde_json::from_str(&kept).unwrap();
            assert_eq!(read, extras);
            assert_eq!(only_rules(&kept), extras.agent.is_none().then_some(extras), "{kept}");
        }
    }

    #[test]
    fn a_place_that_is_not_in_the_text_is_noticed() {
        for kept in ["\u{1}0,9\u{1}", "\u{1}x\u{1}", "\u{1}18446744073709551615,1\u{1}"] {
            assert_eq!(decode(kept, "short"), None, "{kept:?}");
        }
        assert_eq!(decode("{}", "short").unwrap(), "{}");
    }
}
