//! The errors that the agent answers: its own, and every shape in which real agents say that a session is unknown.

use serde_json::{Value, json};

/// The shape that the protocol asks for.
pub(crate) const DEFAULT: &str = "-32002-session-id";

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Error {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Error {
    pub(crate) fn parse() -> Self {
        Self::new(-32700, "Parse error")
    }

    pub(crate) fn invalid_request(message: &str) -> Self {
        Self::new(-32600, message)
    }

    pub(crate) fn no_method(method: &str) -> Self {
        Self::new(-32601, "Method not found").with(json!({ "method": method }))
    }

    pub(crate) fn invalid_params(message: &str) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: impl ToString) -> Self {
        Self::new(-32603, "Internal error").with(json!({ "details": message.to_string() }))
    }

    pub(crate) fn auth_required() -> Self {
        Self::new(-32000, "Authentication required")
    }

    /// An internal error with this message, or the one that stands there as JSON.
    pub(crate) fn told(text: &str) -> Self {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(fields)) => Self {
                code: fields.get("code").and_then(Value::as_i64).unwrap_or(-32603),
                message: fields.get("message").and_then(Value::as_str).unwrap_or("").to_owned(),
                data: fields.get("data").cloned(),
            },
            _ => Self::new(-32603, text),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }

    pub(crate) fn new(code: i64, message: &str) -> Self {
        Self { code, message: message.to_owned(), data: None }
    }

    fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// One way in which an unknown session is answered.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

/// What an unknown session leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An error: its code, its message (`{id}` is the session) and its data.
    Error(i64, &'static str, Data),
    /// Load and resume succeed; prompts end with `stopReason: refusal` and no update.
    Refusal,
    /// Load and resume succeed with an empty memory.
    Empty,
}

/// The `data` of an error; `{id}` is the session, `{method}` what was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    Text(&'static str),
    Field(&'static str, &'static str),
}

const fn shape_of(name: &'static str, code: i64, message: &'static str, data: Data) -> Shape {
    Shape { name, kind: Kind::Error(code, message, data) }
}

/// Every shape there is. Who answers so is said where it is known.
#[rustfmt::skip] // A table.
pub(crate) const SHAPES: &[Shape] = &[
    shape_of("resource-not-found", -32002, "Resource not found", Data::None), // Old codex-acp, copilot.
    shape_of(DEFAULT, -32002, "Resource not found", Data::Field("sessionId", "{id}")), // The protocol, claude.
    shape_of("-32002-uri", -32002, "Resource not found", Data::Field("uri", "{id}")), // Qwen, fast-agent.
    shape_of("-32002-string", -32002, "Resource not found", Data::Text("Session not found: {id}")), // Goose.
    shape_of("-32001", -32001, "Session not found", Data::None),
    shape_of("-32603-session-not-found", -32603, "Session not found", Data::None), // Old claude-code-acp.
    shape_of("-32603-details", -32603, "Internal error", Data::Field("details", "Session not found")),
    shape_of("-32603-error", -32603, "Internal error", Data::Field("error", "unknown session {id}")),
    shape_of("-32603-no-rollout", -32603, "no rollout found for thread id {id}", Data::None), // Codex.
    shape_of("-32603-no-previous", -32603, "No previous sessions found for this project.", Data::None), // Gemini.
    shape_of("-32603-invalid-identifier", -32603, "Invalid session identifier \"{id}\".", Data::None), // Gemini.
    shape_of("-32603-no-conversation", -32603, "No conversation found with session ID: {id}", Data::None),
    shape_of("-32603-query-closed", -32603, "Query closed before response received", Data::None),
    shape_of("-32603-opencode", -32603, "OpenCode service failure", Data::Field("service", "session")),
    shape_of("-32602-unknown", -32602, "Unknown sessionId", Data::None), // Kimi Code.
    shape_of("-32602-session_id", -32602, "Session not found", Data::Field("session_id", "{id}")), // Vibe.
    shape_of("-32602-details", -32602, "Invalid params", Data::Field("details", "Session not found: {id}")),
    shape_of("-32601", -32601, "Method not found", Data::Field("method", "{method}")), // No resume: gemini, goose.
    shape_of("-32000", -32000, "Authentication required", Data::None),
    shape_of("-32800", -32800, "Request cancelled", Data::None),
    Shape { name: "refusal", kind: Kind::Refusal }, // Fast-agent on prompt.
    Shape { name: "success-and-empty", kind: Kind::Empty },
];

/// The shape of that name.
pub(crate) fn shape(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name)
}

impl Shape {
    /// The error for `session`, asked for by `method`. A shape that is no error falls back to the protocol's.
    pub(crate) fn error(&self, session: &str, method: &str) -> Error {
        let fill = |text: &str| text.replace("{id}", session).replace("{method}", method);
        let Kind::Error(code, message, data) = self.kind else {
            return Error::new(-32002, "Resource not found").with(json!({ "sessionId": session }));
        };
        let error = Error::new(code, &fill(message));
        match data {
            Data::None => error,
            Data::Text(text) => error.with(json!(fill(text))),
            Data::Field(name, text) => error.with(json!({ name: fill(text) })),
        }
    }
}
