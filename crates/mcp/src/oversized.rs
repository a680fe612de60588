//! Answers messages that cannot be read: requests that are too long to be kept, whose id is found while they stream past, and
//! invalid JSON.

use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage, ServerResult};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::error::Failure;

/// How many bytes of a name or a value are kept.
const KEPT: usize = 256;

/// Finds the id and the method of a request while it streams past, in whatever order they come.
#[derive(Debug, Default)]
pub(crate) struct RequestScanner {
    depth: u32,
    in_text: bool,
    is_escaped: bool,
    token: Vec<u8>,
    key: Vec<u8>,
    id: Option<RequestId>,
    method: Option<String>,
}

impl RequestScanner {
    pub(crate) fn look(&mut self, byte: u8) {
        if self.in_text {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_text = false,
                _ => (),
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_text = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.value_ends();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
            b',' => self.value_ends(),
            _ if byte.is_ascii_whitespace() => (),
            _ => self.keep(byte),
        }
    }

    /// Keeps only members of the request itself, not of values nested in it.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < KEPT {
            self.token.push(byte);
        }
    }

    fn value_ends(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = std::mem::take(&mut self.token);
        match std::mem::take(&mut self.key).as_slice() {
            b"\"id\"" => self.id = read(&value),
            b"\"method\"" => self.method = read(&value),
            _ => (),
        }
    }

    /// The error response, if the message was a request and not a notification.
    pub(crate) fn answer(self, what: &str) -> Option<ServerJsonRpcMessage> {
        let failure = Failure::new(
            format!("The request came in {what}, which is too long"),
            "put the long part into a file and name it in the request",
        );
        let id = self.id?;
        Some(if self.method.as_deref() == Some("tools/call") {
            let result = ServerResult::CallToolResult(failure.result());
            ServerJsonRpcMessage::response(result, id)
        } else {
            let error = ErrorData::invalid_request(failure.to_string(), None);
            ServerJsonRpcMessage::error(error, Some(id))
        })
    }
}

/// The response to a message that is invalid JSON, or that cannot be represented: a lone surrogate, a number out of range, very
/// deep nesting. The library would drop it silently. An empty line gets no answer.
pub(crate) fn not_json(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    // The library skips a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return None;
    }
    let error = serde_json::from_slice::<Value>(text).err()?;
    let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
    let (what, id) = if is_json {
        let mut scanner = RequestScanner::default();
        for byte in text {
            scanner.look(*byte);
        }
        ("This message cannot be read", scanner.id)
    } else {
        ("This is not JSON", None)
    };
    let failure =
        Failure::new(format!("{what}: {error}"), "send each message as one line of JSON, in UTF-8");
    Some(ServerJsonRpcMessage::error(ErrorData::parse_error(failure.to_string(), None), id))
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: Option<(&str, &str)>) {
        let mut scanner = RequestScanner::default();
        for byte in request.bytes() {
            scanner.look(byte);
        }
        let found = scanner.id.zip(scanner.method).map(|(id, method)| (id.to_string(), method));
        let expected = expected.map(|(id, method)| (id.to_owned(), method.to_owned()));
        assert_eq!(found, expected, "{request}");
    }

    #[test]
    fn what_nobody_can_read_is_answered() {
        let deep = format!("{}{}", "[".repeat(130), "]".repeat(130));
        for (params, has_id) in [
            (r#"{"content":"cut \ud83d"}"#, true),
            (r#"{"limit":1e999}"#, true),
            (deep.as_str(), true),
            ("{", false),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{params}}}"#);
            let answer = serde_json::to_value(not_json(line.as_bytes()).unwrap()).unwrap();
            assert_eq!(answer["error"]["code"], -32700, "{line}");
            assert_eq!(answer["id"] == 7, has_id, "{answer}");
        }
        assert!(not_json(br#"{"jsonrpc":"2.0","id":7,"method":"m"}"#).is_none());
        assert!(not_json(b" ").is_none());
    }

    #[test]
    fn id_and_method_are_found_wherever_they_stand() {
        check(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#, Some(("7", "tools/call")));
        check(
            r#"{ "params" : {"id": 1, "x": ["}", {"method":"no"}], "y":"\"id\":3"}, "method": "a", "id" : "q,}"}"#,
            Some(("q,}", "a")),
        );
        check(r#"{"method":"a","params":{"id":1}}"#, None);
        check(r#"{"id":null,"method":"a"}"#, None);
        check("]]}}{{:,", None);
    }
}
