//! Messages as Google's models take and give them, which Gemini and Qwen keep: lists of parts.

use jiff::Timestamp;
use serde_json::Value;

use crate::blocks;
use crate::json;
use crate::speech::{Call, File, Outcome, Speech};

/// What is said in parts, without calls and their results.
pub(crate) fn said(content: &Value) -> (String, Vec<File>) {
    let parts = match content {
        Value::Array(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let is_said = |part: &&Value| {
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        part.get("functionResponse").is_none() && part.get("functionCall").is_none() && !is_thought
    };
    blocks::read(&parts.iter().filter(is_said).cloned().collect())
}

/// What is thought in parts.
pub(crate) fn thoughts(content: &Value, speech: &mut Speech) {
    for part in content.as_array().map_or(&[][..], Vec::as_slice) {
        if part.get("thought") == Some(&Value::Bool(true)) {
            speech.think(json::text(part, "text").unwrap_or_default());
        }
    }
}

/// Calls in parts. Those without an id are known by the message and their place in it.
pub(crate) fn calls(content: &Value, message: &str, at: Timestamp, speech: &mut Speech) {
    for (number, part) in content.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate() {
        if let Some(call) = part.get("functionCall") {
            let place = format!("{message}.{number}");
            let id = json::text(call, "id").unwrap_or(&place);
            let name = json::text(call, "name").unwrap_or("tool");
            speech.call(Call::new(id, name, call["args"].clone(), at));
        }
    }
}

/// Results in parts.
pub(crate) fn results(content: &Value, message: &str, at: Timestamp, speech: &mut Speech) {
    for part in content.as_array().map_or(&[][..], Vec::as_slice) {
        if let Some(result) = part.get("functionResponse") {
            let id = json::text(result, "id").unwrap_or(message);
            speech.result(id, at, outcome(result));
        }
    }
}

/// What came of a call, from a `functionResponse`.
pub(crate) fn outcome(result: &Value) -> Outcome {
    let response = &result["response"];
    let field = |name| response.get(name).and_then(Value::as_str);
    // Either may be there and empty.
    let error = field("error").filter(|error| !error.is_empty() || field("output").is_none());
    let output = error.or_else(|| field("output")).map(str::to_owned);
    let (inside, files) = blocks::read(result.get("parts").unwrap_or(&Value::Null));
    let plain = || if inside.is_empty() { response.to_string() } else { inside.clone() };
    Outcome { output: output.unwrap_or_else(plain), has_failed: error.is_some(), files }
}
