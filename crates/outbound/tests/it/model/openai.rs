//! The dialect of `OpenAI`: what is sent, what is understood.

use std::collections::BTreeMap;

use rethread_outbound::model::{Answer, Dialect, Error, Request};
use rethread_testkit::http::{Reply, Server};
use serde_json::{Value, json};

use super::setup::{because, complete, good, good_body, request, schema, settings, structured};

fn base(server: &Server) -> String {
    format!("{}/v1", server.url())
}

async fn read(body: Value, request: &Request) -> Result<Answer, Error> {
    let server = Server::start(vec![Reply::new("200 OK", body.to_string())]);
    complete(settings(Dialect::OpenAi, &base(&server)), request).await
}

#[tokio::test]
async fn a_plain_request() {
    let server = Server::start(vec![good(Dialect::OpenAi)]);
    let answer = complete(settings(Dialect::OpenAi, &base(&server)), &request()).await;
    assert_eq!(answer, Ok(because()));
    let received = server.received(1).remove(0);
    assert_eq!(received.line, "POST /v1/chat/completions HTTP/1.1");
    let headers = [
        ("accept", "*/*"),
        ("authorization", "Bearer sk-test-4711"),
        ("content-type", "application/json"),
        ("user-agent", concat!("rethread/", env!("CARGO_PKG_VERSION"))),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(received.headers, BTreeMap::from(headers));
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Why?" },
    ]);
    let body = json!({ "model": "small", "messages": messages, "max_tokens": 400 });
    assert_eq!(received.json(), body);
}

#[tokio::test]
async fn a_structured_request() {
    let mut body = good_body(Dialect::OpenAi);
    body["choices"][0]["message"]["content"] = json!("{\"why\": \"so\"}");
    let server = Server::start(vec![Reply::new("200 OK", body.to_string())]);
    let answer = complete(settings(Dialect::OpenAi, &base(&server)), &structured()).await;
    assert_eq!(answer.unwrap().text, "{\"why\": \"so\"}");
    let received = server.received(1).remove(0);
    let wanted = json!({ "name": "answer", "strict": true, "schema": schema() });
    let format = json!({ "type": "json_schema", "json_schema": wanted });
    assert_eq!(received.json()["response_format"], format);
}

#[tokio::test]
async fn no_key_and_no_system_text_leave_nothing_behind() {
    let server = Server::start(vec![good(Dialect::OpenAi)]);
    let mut settings = settings(Dialect::OpenAi, &format!("{}/", base(&server)));
    settings.key = None;
    let request = Request { system: String::new(), ..request() };
    assert_eq!(complete(settings, &request).await, Ok(because()));
    let received = server.received(1).remove(0);
    assert_eq!(received.line, "POST /v1/chat/completions HTTP/1.1");
    assert!(!received.headers.contains_key("authorization"));
    assert_eq!(received.json()["messages"], json!([{ "role": "user", "content": "Why?" }]));
}

#[tokio::test]
async fn a_server_that_does_not_count_is_understood() {
    let mut body = good_body(Dialect::OpenAi);
    body["usage"] = Value::Null;
    let answer = read(body, &request()).await.unwrap();
    assert_eq!((answer.input_tokens, answer.output_tokens), (0, 0));
}

#[tokio::test]
async fn what_is_no_whole_answer_is_none() {
    let changed = |path: &str, value: Value| {
        let mut body = good_body(Dialect::OpenAi);
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    let declined = json!({ "content": null, "refusal": "No." });
    let cases = [
        (changed("/choices", json!([])), "it has no choices"),
        (changed("/choices/0/message/content", Value::Null), "it is empty"),
        (changed("/choices/0/message/content", json!(" \n")), "it is empty"),
        (
            changed("/choices/0/finish_reason", json!("length")),
            "it was cut off at the limit of output tokens",
        ),
        (
            changed("/choices/0/finish_reason", json!("content_filter")),
            "it was held back by a content filter",
        ),
        (changed("/choices/0/message", declined), "the model declined: No."),
        (json!({ "error": "x" }), "missing field `choices` at line 1 column 13"),
    ];
    for (body, why) in cases {
        let found = read(body, &request()).await;
        assert_eq!(found, Err(Error::Unintelligible(why.to_owned())));
    }
}

#[tokio::test]
async fn prose_is_no_structured_answer() {
    let found = read(good_body(Dialect::OpenAi), &structured()).await;
    assert!(
        matches!(&found, Err(Error::Unintelligible(why)) if why.starts_with("JSON was asked for")),
        "{found:?}"
    );
}
