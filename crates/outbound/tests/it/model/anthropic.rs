//! The dialect of Anthropic: what is sent, what is understood.

use std::collections::BTreeMap;

use rethread_outbound::model::{Answer, Dialect, Error, Request};
use rethread_testkit::http::{Reply, Server};
use serde_json::{Value, json};

use super::setup::{because, complete, good, good_body, request, schema, settings, structured};

async fn read(body: Value, request: &Request) -> Result<Answer, Error> {
    let server = Server::start(vec![Reply::new("200 OK", body.to_string())]);
    complete(settings(Dialect::Anthropic, &server.url()), request).await
}

fn with_content(content: Value) -> Value {
    let mut body = good_body(Dialect::Anthropic);
    body["content"] = content;
    body
}

#[tokio::test]
async fn a_plain_request() {
    let server = Server::start(vec![good(Dialect::Anthropic)]);
    let answer = complete(settings(Dialect::Anthropic, &server.url()), &request()).await;
    assert_eq!(answer, Ok(because()));
    let received = server.received(1).remove(0);
    assert_eq!(received.line, "POST /v1/messages HTTP/1.1");
    let headers = [
        ("accept", "*/*"),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("user-agent", concat!("rethread/", env!("CARGO_PKG_VERSION"))),
        ("x-api-key", "sk-test-4711"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(received.headers, BTreeMap::from(headers));
    let body = json!({
        "model": "small",
        "max_tokens": 400,
        "messages": [{ "role": "user", "content": "Why?" }],
        "system": "Be brief.",
    });
    assert_eq!(received.json(), body);
}

#[tokio::test]
async fn a_structured_request() {
    let body = with_content(json!([
        { "type": "text", "text": "Let me see." },
        { "type": "tool_use", "id": "t1", "name": "answer", "input": { "why": "so", "a": 1 } },
    ]));
    let server = Server::start(vec![Reply::new("200 OK", body.to_string())]);
    let answer = complete(settings(Dialect::Anthropic, &server.url()), &structured()).await;
    assert_eq!(answer.unwrap().text, r#"{"why":"so","a":1}"#);
    let received = server.received(1).remove(0).json();
    assert_eq!(received["tools"].as_array().unwrap().len(), 1);
    assert_eq!(received["tools"][0]["name"], "answer");
    assert_eq!(received["tools"][0]["input_schema"], schema());
    assert_eq!(received["tool_choice"], json!({ "type": "tool", "name": "answer" }));
}

#[tokio::test]
async fn no_key_and_no_system_text_leave_nothing_behind() {
    let server = Server::start(vec![good(Dialect::Anthropic)]);
    let mut settings = settings(Dialect::Anthropic, &format!("{}/proxy/", server.url()));
    settings.key = None;
    let request = Request { system: String::new(), ..request() };
    assert_eq!(complete(settings, &request).await, Ok(because()));
    let received = server.received(1).remove(0);
    assert_eq!(received.line, "POST /proxy/v1/messages HTTP/1.1");
    assert!(!received.headers.contains_key("x-api-key"));
    assert_eq!(received.json().get("system"), None);
}

#[tokio::test]
async fn only_text_is_taken_and_all_of_it() {
    let content = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "s" },
        { "type": "text", "text": "Be" },
        { "type": "text", "text": "cause." },
    ]);
    assert_eq!(read(with_content(content), &request()).await, Ok(because()));
}

#[tokio::test]
async fn what_is_no_whole_answer_is_none() {
    let stopped = |reason: &str| {
        let mut body = good_body(Dialect::Anthropic);
        body["stop_reason"] = json!(reason);
        body
    };
    let cases = [
        (with_content(json!([])), "it is empty"),
        (stopped("max_tokens"), "it was cut off at the limit of output tokens"),
        (stopped("refusal"), "the model declined"),
        (json!({ "a": 1 }), "missing field `content` at line 1 column 7"),
    ];
    for (body, why) in cases {
        let found = read(body, &request()).await;
        assert_eq!(found, Err(Error::Unintelligible(why.to_owned())));
    }
}

#[tokio::test]
async fn prose_and_other_tools_are_no_structured_answer() {
    let other = json!([{ "type": "tool_use", "id": "t1", "name": "other", "input": {} }]);
    for body in [good_body(Dialect::Anthropic), with_content(other)] {
        let found = read(body, &structured()).await;
        assert_eq!(found, Err(Error::Unintelligible("the tool was not called".to_owned())));
    }
}
