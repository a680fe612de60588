//! Classifies an agent's errors. Agents agree neither on codes nor on wording, so both are considered.
//!
//! The costly mistake is to take a timeout, a cancel or a missing login for a lost session: its history would be retold for nothing.
//! So a session counts as gone only if the agent says so.

use std::time::Duration;

use jiff::Timestamp;
use rethread_engine::agents::{AgentError, Lifted, is_model_error};
use rethread_engine::workflows::says_limit;
use serde_json::Value;

use crate::frame::{self, Fields};
use crate::presets::Quirks;

const CANCELLED: i64 = -32800;
const NO_METHOD: i64 = -32601;
const NOT_FOUND: i64 = -32002;
const LOGIN: i64 = -32000;
const INTERNAL: i64 = -32603;
/// The HTTP status, which some agents pass on.
const TOO_MANY: i64 = 429;

/// How much of a message is shown.
const MOST_MESSAGE: usize = 2000;

/// A JSON-RPC error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// Raw JSON; empty if there is none.
    pub(crate) data: String,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: String::new() }
    }

    pub(crate) fn parse(raw: &str) -> Self {
        let Some(fields) = Fields::parse(raw) else {
            return Self::new(INTERNAL, frame::text(raw).unwrap_or_else(|| raw.to_owned()));
        };
        let number = |raw: &str| serde_json::from_str::<f64>(raw).ok();
        #[expect(clippy::cast_possible_truncation, reason = "what is no code fits no meaning")]
        let code = fields.get("code").and_then(number).map_or(0, |code| code as i64);
        Self {
            code,
            message: fields.text("message").unwrap_or_default(),
            data: fields.get("data").filter(|data| *data != "null").unwrap_or_default().to_owned(),
        }
    }

    /// The message and the texts in the data, for a reader.
    fn describe(&self) -> String {
        let mut told = self.message.clone();
        let mut add = |more: String| {
            if !more.is_empty() && !told.contains(&more) {
                told = if told.is_empty() { more } else { format!("{told}: {more}") };
            }
        };
        if let Some(text) = frame::text(&self.data) {
            add(text);
        }
        let data = Fields::parse(&self.data).unwrap_or_default();
        for name in ["message", "details", "detail", "error", "reason"] {
            add(data.text(name).unwrap_or_default());
        }
        told.truncate(told.floor_char_boundary(MOST_MESSAGE));
        rethread_domain::quote::safe(&told)
    }
}

/// What follows from the error that `method` was answered with.
pub(crate) fn classify(method: &str, error: &RpcError, quirks: Quirks) -> AgentError {
    let told = error.describe();
    let words = format!("{} {}", error.message, error.data).to_lowercase();
    if error.code == CANCELLED {
        return AgentError::Cancelled;
    }
    if error.code == NO_METHOD {
        return AgentError::Unsupported(method.to_owned());
    }
    if is_gone(method, error, &words, quirks) {
        return AgentError::SessionGone(told);
    }
    if error.code == TOO_MANY || says_limit(&words) {
        return AgentError::LimitReached {
            message: told,
            lifted: lifted(&frame::tree(&error.data)),
        };
    }
    if error.code == LOGIN || wants_login(&words) {
        return AgentError::NeedsLogin(told);
    }
    let own = told.strip_prefix("Internal error: ").unwrap_or(&told);
    if method == "session/prompt" && (is_model_error(own) || names_a_model_error(error)) {
        return AgentError::ModelFailed(own.to_owned());
    }
    AgentError::Refused { what: method.to_owned(), code: error.code, message: told }
}

/// opencode names the class of the error in the data; its message may be any text of the provider.
fn names_a_model_error(error: &RpcError) -> bool {
    let name = Fields::parse(&error.data).and_then(|data| data.text("errorName"));
    name.is_some_and(|name| matches!(name.as_str(), "APIError" | "AI_APICallError"))
}

fn is_gone(method: &str, error: &RpcError, words: &str, quirks: Quirks) -> bool {
    let opens = matches!(method, "session/load" | "session/resume");
    let speaks = matches!(method, "session/prompt" | "session/close");
    if !opens && !speaks && !method.starts_with("session/set_") {
        return false;
    }
    if error.code == NOT_FOUND {
        return opens || !names_a_file(error);
    }
    if says_gone(words) || (opens || speaks) && says_missing(words) {
        return true;
    }
    opens && quirks.opaque_not_found && error.code == INTERNAL && words.contains("service failure")
}

/// Whether it is about a file of the prompt, not about the session.
fn names_a_file(error: &RpcError) -> bool {
    let uri = Fields::parse(&error.data).and_then(|data| data.text("uri"));
    uri.is_some_and(|uri| uri.contains("://") || uri.starts_with('/'))
}

/// Phrases that mean nothing else.
fn says_gone(words: &str) -> bool {
    const SAYINGS: &[&str] = &[
        "session not found",
        "unknown session",
        "no such session",
        "session does not exist",
        "session no longer exists",
        "no rollout found",
        "no previous sessions",
        "invalid session identifier",
        "invalid session id",
        "no conversation found",
        "query closed before response",
        "thread not found",
        "conversation not found",
        "session_not_found",
    ];
    SAYINGS.iter().any(|saying| words.contains(saying))
}

/// "not found" and "session" in one sentence, in any order.
fn says_missing(words: &str) -> bool {
    let sentences = words.split(['.', ';', '\n']);
    let missing = ["not found", "does not exist", "doesn't exist", "could not find", "not exist"];
    sentences
        .filter(|sentence| sentence.contains("session"))
        .any(|sentence| missing.iter().any(|word| sentence.contains(word)))
}

fn wants_login(words: &str) -> bool {
    const SAYINGS: &[&str] = &[
        "authenticat",
        "unauthoriz",
        "unauthoris",
        "auth required",
        "auth_required",
        "not logged in",
        "log in",
        "login",
        "sign in",
        "api key",
        "api_key",
    ];
    SAYINGS.iter().any(|saying| words.contains(saying))
}

/// When a limit ends, by the data of an error: providers name such fields much alike.
fn lifted(data: &Value) -> Option<Lifted> {
    match data {
        Value::Object(fields) => {
            let own = fields.iter().find_map(|(name, value)| by_name(name, value));
            own.or_else(|| fields.values().find_map(lifted))
        }
        Value::Array(values) => values.iter().find_map(lifted),
        _ => None,
    }
}

fn by_name(name: &str, value: &Value) -> Option<Lifted> {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let number = || {
        let text = value.as_str().map(|text| text.trim_end_matches('s').parse().ok());
        value.as_f64().or(text.flatten()).filter(|number: &f64| number.is_finite())
    };
    match name.to_lowercase().as_str() {
        "retryafter" | "retryafterseconds" | "retrydelay" | "retryinseconds" | "resetsin"
        | "resetsinseconds" | "resetinseconds" | "resetafterseconds" => {
            Some(Lifted::After(Duration::try_from_secs_f64(number()?).ok()?))
        }
        "retryafterms" | "retrydelayms" | "resetsinms" | "resetinms" => {
            Some(Lifted::After(Duration::try_from_secs_f64(number()? / 1e3).ok()?))
        }
        "resetsat" | "resetat" | "resettime" | "resettimestamp" | "ratelimitreset" | "retryat" => {
            let text = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            text.or_else(|| moment(number()?)).map(Lifted::At)
        }
        _ => None,
    }
}

/// Seconds or milliseconds since 1970.
fn moment(number: f64) -> Option<Timestamp> {
    const FIRST_MILLISECOND: f64 = 1e11;
    let seconds = if number < FIRST_MILLISECOND { number } else { number / 1e3 };
    #[expect(clippy::cast_possible_truncation, reason = "what is no time is refused below")]
    Timestamp::from_second(seconds as i64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that was seen with real agents: method, code, message, data, and what it means.
    const SEEN: &[(&str, i64, &str, &str, &str)] = &[
        // Claude, and what the protocol wants.
        ("session/load", -32002, "Resource not found", r#"{"sessionId":"x"}"#, "session_gone"),
        ("session/resume", -32002, "Resource not found", r#"{"sessionId":"x"}"#, "session_gone"),
        ("session/prompt", -32002, "Resource not found", r#"{"sessionId":"x"}"#, "session_gone"),
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"details":"Invalid session ID: x"}"#,
            "session_gone",
        ),
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"details":"Query closed before response received"}"#,
            "session_gone",
        ),
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"details":"No conversation found with session ID: x"}"#,
            "session_gone",
        ),
        // The old Claude adapter.
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"details":"Session not found"}"#,
            "session_gone",
        ),
        // Codex, new and old.
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"message":"no rollout found for thread id x"}"#,
            "session_gone",
        ),
        ("session/load", -32603, "no rollout found for thread id 019", "", "session_gone"),
        ("session/load", -32002, "Resource not found", "", "session_gone"),
        // opencode says nothing.
        (
            "session/load",
            -32603,
            "OpenCode service failure",
            r#"{"service":"session"}"#,
            "session_gone",
        ),
        (
            "session/prompt",
            -32602,
            "Invalid params",
            r#""Session not found: ses_x""#,
            "session_gone",
        ),
        // Gemini.
        (
            "session/load",
            -32603,
            "Internal error",
            r#"{"details":"No previous sessions found for this project."}"#,
            "session_gone",
        ),
        ("session/load", -32603, "Invalid session identifier \"x\".", "", "session_gone"),
        ("session/prompt", -32602, "Session not found: x", "", "session_gone"),
        // Qwen and fast-agent put the id where a file's address belongs.
        ("session/load", -32002, "Resource not found: x", r#"{"uri":"x"}"#, "session_gone"),
        ("session/load", -32002, "Resource not found", r#"{"uri":"session:///x"}"#, "session_gone"),
        (
            "session/prompt",
            -32603,
            "Internal error",
            r#"{"details":"Session not found: x"}"#,
            "session_gone",
        ),
        // Copilot, goose (data is a text), Kimi, Vibe, pi, Auggie, Cline.
        ("session/prompt", -32602, "Session x not found", "", "session_gone"),
        (
            "session/load",
            -32002,
            "Resource not found",
            r#""Session not found: 20261115_2""#,
            "session_gone",
        ),
        ("session/load", -32602, "Unknown sessionId", r#"{"sessionId":"x"}"#, "session_gone"),
        ("session/prompt", -32602, "Session not found", r#"{"session_id":"x"}"#, "session_gone"),
        (
            "session/load",
            -32602,
            "Invalid params",
            r#"{"error":"Unknown session: x"}"#,
            "session_gone",
        ),
        (
            "session/load",
            -32602,
            "Invalid params",
            r#"{"message":"session file does not exist"}"#,
            "session_gone",
        ),
        ("session/set_mode", -32002, "Resource not found", r#"{"sessionId":"x"}"#, "session_gone"),
        ("session/set_config_option", -32603, "Session not found", "", "session_gone"),
        // What must not be taken for it.
        ("session/load", -32800, "Session not found: request cancelled", "", "cancelled"),
        ("session/load", -32603, "Timed out while loading the session", "", "refused"),
        ("session/load", -32603, "Internal error", "", "refused"),
        ("session/prompt", -32603, "model not found: gpt-9", "", "refused"),
        ("session/prompt", -32002, "Resource not found", r#"{"uri":"file:///a.txt"}"#, "refused"),
        ("session/prompt", -32603, "Rate limit reached", r#"{"status":429}"#, "usage_limit"),
        ("session/set_config_option", -32602, "Invalid value for session option", "", "refused"),
        ("session/set_mode", -32602, "Mode not found in session", "", "refused"),
        ("session/new", -32002, "Resource not found", "", "refused"),
        // The model failed: Claude, and opencode.
        (
            "session/prompt",
            -32603,
            "Internal error: API Error: 400 {\"type\":\"error\"}",
            "",
            "model_error",
        ),
        (
            "session/prompt",
            -32603,
            "Internal error",
            r#"{"details":"API Error: 500 Internal server error"}"#,
            "model_error",
        ),
        (
            "session/prompt",
            -32603,
            "Internal error: the request is not valid",
            r#"{"errorName":"APIError","service":"session"}"#,
            "model_error",
        ),
        ("session/prompt", -32603, "Internal error: no disk space", "", "refused"),
        ("session/load", -32603, "Internal error: API Error: 400", "", "refused"),
        // Login.
        ("session/new", -32000, "Authentication required", "", "needs_login"),
        ("session/load", -32000, "Authentication required", "", "needs_login"),
        ("session/new", -32603, "Please run /login", "", "needs_login"),
        (
            "session/prompt",
            -32603,
            "Internal error",
            r#"{"details":"Invalid API key"}"#,
            "needs_login",
        ),
        ("session/new", -32603, "User is not logged in", "", "needs_login"),
        // Not there.
        ("session/load", -32601, "Method not found", r#"{"method":"session/load"}"#, "unsupported"),
        ("session/resume", -32601, "\"Method not found\": session/resume", "", "unsupported"),
    ];

    #[test]
    fn every_shape_that_was_seen_is_told_apart() {
        for (method, code, message, data, expected) in SEEN {
            let data = (*data).to_owned();
            let error = RpcError { code: *code, message: (*message).to_owned(), data };
            let quirks =
                Quirks { opaque_not_found: message.contains("OpenCode"), ..Quirks::default() };
            assert_eq!(classify(method, &error, quirks).name(), *expected, "{method} {error:?}");
        }
    }

    #[test]
    fn a_usage_limit_says_when_it_is_lifted() {
        let at = |second| Some(Lifted::At(Timestamp::from_second(second).unwrap()));
        let after = |ms| Some(Lifted::After(Duration::from_millis(ms)));
        for (code, message, data, expected) in [
            (429, "slow down", "", None),
            (-32603, "Internal error", r#"{"type":"rate_limit_error"}"#, None),
            (-32603, "Rate limit reached", r#"{"retry_after":90}"#, after(90_000)),
            (429, "", r#"{"error":{"details":[{"retryDelay":"34.5s"}]}}"#, after(34_500)),
            (429, "", r#"{"retryAfterMs":"1500"}"#, after(1_500)),
            (429, "", r#"{"info":{"resetsAt":1794909600}}"#, at(1_794_909_600)),
            (429, "", r#"{"reset_at":1794909600000}"#, at(1_794_909_600)),
            (429, "", r#"{"resets_at":"2026-11-17T10:00:00Z"}"#, at(1_794_909_600)),
            (429, "", r#"{"retry_after":-1,"resets_at":"soon"}"#, None),
        ] {
            let data = data.to_owned();
            let error = RpcError { code, message: message.to_owned(), data };
            let trouble = classify("session/prompt", &error, Quirks::default());
            let AgentError::LimitReached { lifted, .. } = &trouble else { panic!("{trouble:?}") };
            assert_eq!(*lifted, expected, "{error:?}");
        }
    }

    #[test]
    fn an_opaque_failure_means_nothing_of_an_agent_that_speaks_up() {
        let error = RpcError {
            code: -32603,
            message: "OpenCode service failure".to_owned(),
            data: r#"{"service":"session"}"#.to_owned(),
        };
        assert_eq!(classify("session/load", &error, Quirks::default()).name(), "refused");
    }

    #[test]
    fn errors_are_read_leniently_and_shown_safely() {
        assert_eq!(RpcError::parse(r#""boom""#), RpcError::new(INTERNAL, "boom"));
        assert_eq!(RpcError::parse("7").message, "7");
        assert_eq!(RpcError::parse(r#"{"code":"x","message":5}"#), RpcError::default());
        assert_eq!(RpcError::parse(r#"{"code":-1.0,"data":null}"#).code, -1);
        let shown = RpcError::parse(r#"{"code":1,"message":"a\u001b[31m","data":{"details":"b"}}"#);
        assert_eq!(shown.describe(), "a\u{241b}1b;[31m: b");
    }
}
