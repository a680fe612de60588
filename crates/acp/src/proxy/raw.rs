//! Lines of JSON-RPC that pass through: read only as far as needed, changed only in single places.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::frame::{self, Fields};

/// What a line is.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Request { id: &'a str, method: Cow<'a, str> },
    Notification { method: Cow<'a, str> },
    Result { id: &'a str, result: &'a str },
    Error { id: &'a str, error: &'a str },
}

/// A line that is a frame.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) line: &'a str,
    pub(crate) kind: Kind<'a>,
    /// `null` where there are none.
    pub(crate) params: &'a str,
    /// The session that it is about.
    pub(crate) session: Option<(&'a str, String)>,
}

impl<'a> Raw<'a> {
    /// `None` for what is no frame.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let line = line.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        let fields = Fields::parse(line)?;
        let id = fields.get("id");
        let kind = match fields.get("method") {
            Some(method) => {
                let method = Cow::Owned(frame::text(method)?);
                match id {
                    Some(id) => Kind::Request { id, method },
                    None => Kind::Notification { method },
                }
            }
            None => match (fields.get("error").filter(|error| *error != "null"), id) {
                (Some(error), id) => Kind::Error { id: id.unwrap_or("null"), error },
                (None, Some(id)) => {
                    Kind::Result { id, result: fields.get("result").unwrap_or("null") }
                }
                (None, None) => return None,
            },
        };
        let params = fields.get("params").unwrap_or("null");
        let session = session_of(params);
        Some(Self { line, kind, params, session })
    }

    /// The line with another id and another session.
    pub(crate) fn with(&self, id: Option<&str>, session: Option<&str>) -> String {
        let mut edit = Edit::new(self.line);
        if let (
            Kind::Request { id: old, .. }
            | Kind::Result { id: old, .. }
            | Kind::Error { id: old, .. },
            Some(id),
        ) = (&self.kind, id)
        {
            edit.replace(old, id);
        }
        if let (Some((old, _)), Some(session)) = (&self.session, session) {
            edit.replace(old, &quoted(session));
        }
        edit.finish()
    }
}

/// The session that something is about: as it is written, and its text.
pub(crate) fn session_of(object: &str) -> Option<(&str, String)> {
    let raw = Fields::parse(object)?.get("sessionId")?;
    Some((raw, frame::text(raw)?))
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces parts of a text that were found in it.
#[derive(Debug)]
pub(crate) struct Edit<'a> {
    text: &'a str,
    changes: Vec<(usize, usize, String)>,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, changes: Vec::new() }
    }

    /// `part` has to be a part of the text itself; what is not is left as it is.
    pub(crate) fn replace(&mut self, part: &str, by: &str) {
        let at = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if at <= self.text.len() && part.len() <= self.text.len() - at {
            self.changes.push((at, at + part.len(), by.to_owned()));
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.changes.sort_by_key(|(from, ..)| *from);
        let more: usize = self.changes.iter().map(|(.., by)| by.len()).sum();
        let mut done = String::with_capacity(self.text.len() + more);
        let mut at = 0;
        for (from, to, by) in self.changes {
            if from >= at {
                done.push_str(&self.text[at..from]);
                done.push_str(&by);
                at = to;
            }
        }
        done.push_str(&self.text[at..]);
        done
    }
}

/// An object with a member of this value: in the place of the one that is there, or at the end.
pub(crate) fn set(object: &str, name: &str, value: &str) -> String {
    let fields = Fields::parse(object).unwrap_or_default();
    if let Some(old) = fields.get(name) {
        let mut edit = Edit::new(object);
        edit.replace(old, value);
        return edit.finish();
    }
    let body = object.trim_end();
    let Some(body) = body.strip_suffix('}').filter(|_| body.trim_start().starts_with('{')) else {
        return format!("{{{}:{value}}}", quoted(name));
    };
    let comma = if body.trim_end().ends_with('{') { "" } else { "," };
    format!("{body}{comma}{}:{value}}}", quoted(name))
}

/// An object without a member.
pub(crate) fn without(object: &str, name: &str) -> String {
    let fields = Fields::parse(object).unwrap_or_default();
    let mut done = String::from("{");
    for (known, value) in fields.iter().filter(|(known, _)| *known != name) {
        if done.len() > 1 {
            done.push(',');
        }
        let _infallible = write!(done, "{}:{value}", quoted(known));
    }
    done.push('}');
    done
}

pub(crate) fn request(id: u64, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{},\"params\":{params}}}", quoted(method))
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{params}}}", quoted(method))
}

pub(crate) fn result(id: &str, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

pub(crate) fn error(id: &str, error: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

/// An error of ours.
pub(crate) fn fault(code: i64, message: &str, data: &serde_json::Value) -> String {
    serde_json::json!({ "code": code, "message": message, "data": data }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_and_the_session_are_changed() {
        let line = r#"{ "x":1e400,"id": "a\u0062","method":"m/x", "params":{"b":[1, 2],"sessionId":"n\"1","sessionID":"n"} ,"_y":{"id":3}}"#;
        let raw = Raw::parse(line.as_bytes()).unwrap();
        assert!(matches!(&raw.kind, Kind::Request { method, .. } if method == "m/x"));
        assert_eq!(raw.session.as_ref().unwrap().1, "n\"1");
        assert_eq!(
            raw.with(Some("7"), Some("ours")),
            r#"{ "x":1e400,"id": 7,"method":"m/x", "params":{"b":[1, 2],"sessionId":"ours","sessionID":"n"} ,"_y":{"id":3}}"#
        );
        assert_eq!(raw.with(None, None), line);
    }

    #[test]
    fn frames_are_told_apart_whatever_their_ids() {
        let kind = |line: &'static str| Raw::parse(line.as_bytes()).map(|raw| raw.kind);
        assert!(matches!(
            kind(r#"{"id":null,"method":"m"}"#),
            Some(Kind::Request { id: "null", .. })
        ));
        assert!(matches!(kind(r#"{"method":"m"}"#), Some(Kind::Notification { .. })));
        assert!(matches!(
            kind(r#"{"id":1.5,"result":null}"#),
            Some(Kind::Result { id: "1.5", result: "null" })
        ));
        assert!(matches!(kind(r#"{"error":{"code":1}}"#), Some(Kind::Error { id: "null", .. })));
        for noise in ["", "[]", "{}", "x", "{\"id\":", r#"{"method":1}"#, "\u{0}"] {
            assert!(kind(noise).is_none(), "{noise}");
        }
    }

    #[test]
    fn members_are_put_in_and_taken_out() {
        assert_eq!(set("{}", "a", "1"), r#"{"a":1}"#);
        assert_eq!(set(r#"{ "b" : 2 }"#, "a", "1"), r#"{ "b" : 2 ,"a":1}"#);
        assert_eq!(set(r#"{"a":[3], "b":2}"#, "a", "1"), r#"{"a":1, "b":2}"#);
        assert_eq!(set("null", "a", "1"), r#"{"a":1}"#);
        assert_eq!(
            without(r#"{"a":1,"sessionId":"x","b":"y"}"#, "sessionId"),
            r#"{"a":1,"b":"y"}"#
        );
    }
}
