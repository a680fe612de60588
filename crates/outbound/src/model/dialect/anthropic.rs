//! Messages, as Anthropic speaks it. A structured answer is the input of one tool that the model is made to call.

use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NAME, secret};
use crate::model::{Answer, Key, Request, Settings};

const VERSION: &str = "2023-06-01";

#[derive(Deserialize)]
struct Reply {
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        name: String,
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

pub(super) fn headers(key: Option<&Key>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    if let Some(key) = key {
        headers.insert("x-api-key", secret(key.reveal())?);
    }
    Ok(headers)
}

pub(super) fn body(settings: &Settings, request: &Request) -> Value {
    let messages = [json!({ "role": "user", "content": request.prompt })];
    let mut body = json!({
        "model": settings.model,
        "max_tokens": settings.max_output_tokens,
        "messages": messages,
    });
    if !request.system.is_empty() {
        body["system"] = json!(request.system);
    }
    if let Some(schema) = &request.schema {
        let description = "Takes the answer. Call it once, with the whole answer.";
        let tool = json!({ "name": NAME, "description": description, "input_schema": schema });
        body["tools"] = json!([tool]);
        body["tool_choice"] = json!({ "type": "tool", "name": NAME });
    }
    body
}

pub(super) fn answer(body: &[u8], structured: bool) -> Result<Answer, String> {
    let reply: Reply = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match reply.stop_reason.as_deref() {
        Some("max_tokens" | "model_context_window_exceeded") => {
            return Err("it was cut off at the limit of output tokens".to_owned());
        }
        Some("refusal") => return Err("the model declined".to_owned()),
        _ => {}
    }
    let text = if structured { tool_input(reply.content)? } else { plain(reply.content) };
    let usage = reply.usage.unwrap_or_default();
    Ok(Answer { text, input_tokens: usage.input_tokens, output_tokens: usage.output_tokens })
}

fn plain(content: Vec<Block>) -> String {
    let text = |block| if let Block::Text { text } = block { Some(text) } else { None };
    content.into_iter().filter_map(text).collect()
}

fn tool_input(content: Vec<Block>) -> Result<String, String> {
    let input = |block| match block {
        Block::ToolUse { name, input } if name == NAME => Some(input.to_string()),
        _ => None,
    };
    content.into_iter().find_map(input).ok_or_else(|| "the tool was not called".to_owned())
}
