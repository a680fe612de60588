//! Parses a message as it comes from outside: one JSON object.

use jiff::Timestamp;
use rethread_domain::conversation;
use rethread_domain::id::{self, Invalid};
use rethread_domain::message::{
    DEEPEST_FIELD, Extras, MARKS, NewMessage, Role, Usage, nests_deeper,
};
use rethread_domain::price::Price;
use serde_json::{Map, Value};

/// Field names of ours: unknown fields must not have them.
pub(crate) const KNOWN: &[&str] = &["agent", "model", "tool_calls", "usage", MARKS[0], MARKS[1]];

/// Why a line is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    #[error("not valid UTF-8")]
    Encoding,
    #[error("not valid JSON: {0}")]
    Json(String),
    #[error("not a JSON object")]
    Shape,
    #[error("{0:?} is missing")]
    Missing(&'static str),
    #[error("{0:?} must be {1}")]
    Type(&'static str, &'static str),
    #[error("{0}")]
    Role(String),
    #[error("not a time: {0:?} (expected RFC 3339, such as 2026-11-15T21:38:00Z)")]
    Time(String),
    #[error(transparent)]
    Name(#[from] Invalid),
    #[error("a field of the message is nested too deeply; at most {0} levels are allowed")]
    TooDeep(usize),
    #[error("the message has {0} bytes; at most {1} are allowed")]
    TooLong(u64, u64),
}

/// The deepest nesting that can be stored and read again, together with what is around a message.
pub(crate) const DEEPEST: usize = 127;

/// Parses a line. Its price is not counted yet.
pub fn parse(line: &[u8], now: Timestamp, most_bytes: u64) -> Result<NewMessage, BadEntry> {
    let text = std::str::from_utf8(line).map_err(|_| BadEntry::Encoding)?;
    let value: Value =
        serde_json::from_str(text).map_err(|error| BadEntry::Json(error.to_string()))?;
    // The message itself is one level.
    if nests_deeper(&value, DEEPEST_FIELD + 1) {
        return Err(BadEntry::TooDeep(DEEPEST_FIELD));
    }
    let Value::Object(mut fields) = value else { return Err(BadEntry::Shape) };
    let role = take_text(&mut fields, "role")?.ok_or(BadEntry::Missing("role"))?;
    let role: Role = role.parse().map_err(BadEntry::Role)?;
    let content = take_text(&mut fields, "content")?.ok_or(BadEntry::Missing("content"))?;
    if content.len() as u64 > most_bytes {
        return Err(BadEntry::TooLong(content.len() as u64, most_bytes));
    }
    let at = match take_text(&mut fields, "timestamp")? {
        Some(text) => time(&text)?,
        None => now,
    };
    let conversation = match take_text(&mut fields, "conversation")? {
        Some(name) => {
            id::check_conversation(&name)?;
            name
        }
        None => conversation::DEFAULT.to_owned(),
    };
    let id = take_text(&mut fields, "id")?;
    if let Some(id) = &id {
        id::check_message_id(id)?;
    }
    Ok(NewMessage {
        id,
        role,
        content,
        at,
        conversation,
        extras: extras(fields)?,
        price: Price::default(),
    })
}

/// The remaining fields: known ones are checked, unknown ones are kept as they are.
fn extras(mut fields: Map<String, Value>) -> Result<Extras, BadEntry> {
    let agent = take_text(&mut fields, "agent")?;
    let model = take_text(&mut fields, "model")?;
    for (what, name) in [("agent", &agent), ("model", &model)] {
        if let Some(name) = name {
            id::check_agent(what, name)?;
        }
    }
    let tool_calls = fields.shift_remove("tool_calls").filter(|calls| !calls.is_null());
    let usage = match fields.shift_remove("usage") {
        None | Some(Value::Null) => None,
        Some(usage) => Some(self::usage(&usage)?),
    };
    for mark in MARKS {
        fields.shift_remove(mark);
    }
    Ok(Extras { agent, model, tool_calls, usage, other: fields, ..Extras::default() })
}

pub(crate) fn usage(value: &Value) -> Result<Usage, BadEntry> {
    let Value::Object(fields) = value else { return Err(BadEntry::Type("usage", "an object")) };
    let tokens = |name: &'static str| match fields.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_u64()
            .filter(|tokens| *tokens <= 1 << 50)
            .ok_or(BadEntry::Type(name, "a whole number that is not negative")),
    };
    let cost_usd = match fields.get("cost_usd") {
        None | Some(Value::Null) => None,
        Some(value) => Some(
            value
                .as_f64()
                .filter(|cost| (0.0..=1e6).contains(cost))
                .ok_or(BadEntry::Type("cost_usd", "a number of dollars that is not negative"))?,
        ),
    };
    Ok(Usage {
        input_tokens: tokens("input_tokens")?,
        output_tokens: tokens("output_tokens")?,
        cost_usd,
    })
}

/// A time that a context can show.
pub fn time(text: &str) -> Result<Timestamp, BadEntry> {
    let shown = || BadEntry::Time(text.chars().take(60).collect());
    let at: Timestamp = text.parse().map_err(|_| shown())?;
    let (first, last) = (-62_135_596_800, 253_402_300_799);
    if !(first..=last).contains(&at.as_second()) {
        return Err(shown());
    }
    // The store keeps microseconds.
    Timestamp::from_microsecond(at.as_microsecond()).map_err(|_| shown())
}

fn take_text(
    fields: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<String>, BadEntry> {
    match fields.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(BadEntry::Type(name, "a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, error: &str) {
        let found = parse(line.as_bytes(), Timestamp::UNIX_EPOCH, 100).unwrap_err().to_string();
        assert!(found.contains(error), "{line}: {found}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("{", "not valid JSON");
        check("[]", "not a JSON object");
        check(r#"{"content":"x"}"#, r#""role" is missing"#);
        check(r#"{"role":"user"}"#, r#""content" is missing"#);
        check(r#"{"role":"user","content":1}"#, r#""content" must be a text"#);
        check(r#"{"role":"boss","content":"x"}"#, "expected user, assistant, system or tool");
        check(r#"{"role":"user","content":"x","timestamp":"yesterday"}"#, "expected RFC 3339");
        check(
            r#"{"role":"user","content":"x","timestamp":"-009999-01-01T00:00:00Z"}"#,
            "not a time",
        );
        check(r#"{"role":"user","content":"x","conversation":"../x"}"#, "allowed:");
        check(r#"{"role":"user","content":"x","id":"-rf"}"#, "allowed:");
        check(r#"{"role":"user","content":"x","usage":{"input_tokens":-1}}"#, "not negative");
        check(&format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(101)), "at most 100");
        assert_eq!(parse(b"\xff", Timestamp::UNIX_EPOCH, 100), Err(BadEntry::Encoding));
        // A parser may take a text for a part of it: what comes of that could not be read again.
        let levels = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
        let hidden = format!(r#"{{"$serde_json::private::RawValue":"{}"}}"#, levels(126));
        check(&format!(r#"{{"role":"user","content":"x","a":[{hidden}]}}"#), "nested too deeply");
    }

    #[test]
    fn what_no_folder_could_carry_is_refused_with_the_limit() {
        let line = |name: &str, levels: usize| {
            let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"role":"user","content":"x","{name}":{deep}}}"#)
        };
        for name in ["a", "tool_calls"] {
            check(&line(name, DEEPEST_FIELD + 1), "nested too deeply; at most 90 levels");
            let taken = line(name, DEEPEST_FIELD);
            assert!(parse(taken.as_bytes(), Timestamp::UNIX_EPOCH, 100).is_ok());
        }
    }

    #[test]
    fn a_field_of_somebody_is_none_of_our_marks() {
        let line = br#"{"role":"user","content":"x","damaged":true,"$damaged":true,"$rules":1}"#;
        let message = parse(line, Timestamp::UNIX_EPOCH, 100).unwrap();
        assert_eq!(serde_json::to_string(&message.extras).unwrap(), r#"{"damaged":true}"#);
    }

    #[test]
    fn unknown_fields_are_kept_as_they_came() {
        let line = br#"{"role":"user","content":"x","b":[1,{"c":null}],"a":2}"#;
        let message = parse(line, Timestamp::UNIX_EPOCH, 100).unwrap();
        assert_eq!(
            serde_json::to_string(&message.extras).unwrap(),
            r#"{"b":[1,{"c":null}],"a":2}"#
        );
    }
}
