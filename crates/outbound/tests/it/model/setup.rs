//! Settings, requests and answers that most tests share.

use std::time::Duration;

use rethread_outbound::model::{Answer, Backoff, Dialect, Endpoint, Error, Key, Request, Settings};
use rethread_testkit::http::{Reply, Server};
use serde_json::{Value, json};

pub(crate) const KEY: &str = "sk-test-4711";
pub(crate) const BOTH: [Dialect; 2] = [Dialect::OpenAi, Dialect::Anthropic];

pub(crate) fn settings(dialect: Dialect, base_url: &str) -> Settings {
    Settings {
        dialect,
        base_url: base_url.to_owned(),
        model: "small".to_owned(),
        key: Some(Key::from(KEY.to_owned())),
        timeout: Duration::from_mins(1),
        attempts: 3,
        backoff: Backoff { base: Duration::from_millis(1), longest: Duration::from_millis(2) },
        max_output_tokens: 400,
    }
}

pub(crate) fn request() -> Request {
    Request { system: "Be brief.".to_owned(), prompt: "Why?".to_owned(), schema: None }
}

pub(crate) fn structured() -> Request {
    Request { schema: Some(schema()), ..request() }
}

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "why": { "type": "string" } },
        "required": ["why"],
        "additionalProperties": false,
    })
}

/// Asks an endpoint whose settings are the usual ones.
pub(crate) async fn ask(dialect: Dialect, server: &Server) -> Result<Answer, Error> {
    complete(settings(dialect, &server.url()), &request()).await
}

pub(crate) async fn complete(settings: Settings, request: &Request) -> Result<Answer, Error> {
    Endpoint::new(settings).unwrap().complete(request).await
}

pub(crate) fn because() -> Answer {
    Answer { text: "Because.".to_owned(), input_tokens: 12, output_tokens: 3 }
}

/// The reply that is understood as [`because`].
pub(crate) fn good(dialect: Dialect) -> Reply {
    Reply::new("200 OK", good_body(dialect).to_string())
}

pub(crate) fn good_body(dialect: Dialect) -> Value {
    match dialect {
        Dialect::OpenAi => json!({
            "id": "c1",
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "Because." },
                "finish_reason": "stop",
            }],
            "usage": { "prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15 },
        }),
        Dialect::Anthropic => json!({
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "content": [{ "type": "text", "text": "Because." }],
            "stop_reason": "end_turn",
            "usage": { "input_tokens": 12, "output_tokens": 3 },
        }),
    }
}
