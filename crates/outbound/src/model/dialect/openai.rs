//! Chat completions, as `OpenAI` and most local servers speak it.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, InvalidHeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NAME, secret};
use crate::model::{Answer, Key, Request, Settings};

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

pub(super) fn headers(key: Option<&Key>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key.reveal()))?);
    }
    Ok(headers)
}

pub(super) fn body(url: &Url, settings: &Settings, request: &Request) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    messages.push(json!({ "role": "user", "content": request.prompt }));
    let mut body = json!({ "model": settings.model, "messages": messages });
    body[limit_name(url)] = json!(settings.max_output_tokens);
    if let Some(schema) = &request.schema {
        let wanted = json!({ "name": NAME, "strict": true, "schema": schema });
        body["response_format"] = json!({ "type": "json_schema", "json_schema": wanted });
    }
    body
}

/// Returns the name of the limit on output. The newer models of `OpenAI` refuse the old name; other servers ignore
/// or refuse the new one.
fn limit_name(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    if host == "api.openai.com" || host.ends_with(".openai.azure.com") {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let reply: Reply = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let choice = reply.choices.into_iter().next().ok_or("it has no choices")?;
    match choice.finish_reason.as_deref() {
        Some("length") => return Err("it was cut off at the limit of output tokens".to_owned()),
        Some("content_filter") => return Err("it was held back by a content filter".to_owned()),
        _ => {}
    }
    if let Some(refusal) = choice.message.refusal.filter(|refusal| !refusal.is_empty()) {
        return Err(format!("the model declined: {refusal}"));
    }
    let usage = reply.usage.unwrap_or_default();
    Ok(Answer {
        text: choice.message.content.unwrap_or_default(),
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openai_itself_gets_the_new_name_of_the_limit() {
        let name = |url: &str| limit_name(&url.parse().unwrap());
        assert_eq!(name("https://api.openai.com/v1/chat/completions"), "max_completion_tokens");
        assert_eq!(name("https://us.openai.azure.com/openai/v1"), "max_completion_tokens");
        assert_eq!(name("http://127.0.0.1:1234/v1"), "max_tokens");
        assert_eq!(name("https://api.openai.com.example/v1"), "max_tokens");
    }
}
