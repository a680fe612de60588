//! What happens between a prompt and its response.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod common;

use common::{Agent, kinds};
use serde_json::{Value, json};

fn stop_reason(response: &Value) -> &str {
    response["result"]["stopReason"].as_str().unwrap_or("none")
}

#[test]
fn what_is_offered_follows_the_flags() {
    let plain = Agent::start(&[]);
    assert_eq!(plain.capabilities["protocolVersion"], 1);
    let offered = &plain.capabilities["agentCapabilities"];
    assert_eq!(offered["loadSession"], false);
    assert_eq!(offered["sessionCapabilities"], json!({ "close": {} }));
    assert_eq!(offered["promptCapabilities"]["embeddedContext"], true);

    let flags = ["--load", "--resume", "--list", "--no-close", "--no-embedded"];
    let mut full = Agent::start(&flags);
    let offered = &full.capabilities["agentCapabilities"];
    assert_eq!(offered["loadSession"], true);
    assert_eq!(offered["sessionCapabilities"], json!({ "resume": {}, "list": {} }));
    let session = full.new_session();
    let resource = json!([{ "type": "resource", "resource": { "uri": "a", "text": "b" } }]);
    let refused = full.call("session/prompt", common::prompt(&session, resource));
    assert_eq!(refused["error"]["code"], -32602);
}

#[test]
fn a_method_that_is_not_offered_is_not_found() {
    let mut agent = Agent::start(&["--no-close"]);
    for method in ["session/load", "session/resume", "session/list", "session/close", "no/such"] {
        let refused = agent.attach(method, "x");
        assert_eq!(refused["error"]["code"], -32601, "{method}");
        assert_eq!(refused["error"]["data"], json!({ "method": method }));
    }
}

#[test]
fn an_answer_is_streamed_under_one_message_and_counted() {
    let mut agent = Agent::start(&["--chunk-delay-ms", "1"]);
    let session = agent.new_session();
    let id = agent.tell(&session, "stream: 4");
    let (said, response) = agent.answer(id);
    assert_eq!(said, "word1 word2 word3 word4");
    let chunks = ["agent_message_chunk"; 4];
    assert_eq!(kinds(&agent.updates), [&chunks[..], &["usage_update"]].concat());
    assert!(
        agent.updates[..4].iter().all(|chunk| chunk["messageId"] == agent.updates[0]["messageId"])
    );
    assert!(agent.updates[0]["messageId"].is_string());
    let usage = json!({ "inputTokens": 2, "outputTokens": 4, "totalTokens": 6 });
    assert_eq!(response["result"], json!({ "stopReason": "end_turn", "usage": usage }));
    assert_eq!(agent.updates[4]["used"], 6);
    assert_eq!(agent.updates[4]["cost"]["currency"], "USD");
}

#[test]
fn thoughts_tools_plans_titles_and_the_unknown_are_shown() {
    let mut agent = Agent::start(&[]);
    let session = agent.new_session();
    for text in ["think: hm", "tool: build", "plan: a, b", "title: T", "unknown update"] {
        agent.prompt(&session, text);
    }
    let shown = kinds(&agent.updates).into_iter();
    let shown: Vec<&str> =
        shown.filter(|kind| !["agent_message_chunk", "usage_update"].contains(kind)).collect();
    let expected = [
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "session_info_update",
        "weather_update",
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        agent.prompt(&session, "say: what was the passkey"),
        "what was the passkey",
        "a command comes first"
    );
    assert_eq!(agent.prompt(&session, "env: REFERENCE_TEST"), "seen");
    assert_eq!(agent.prompt(&session, "env: REFERENCE_TEST_NOT"), "unset");
    assert_eq!(agent.prompt(&session, "cwd?"), "/tmp");
}

#[test]
fn a_hanging_prompt_can_be_cancelled_while_another_session_goes_on() {
    let mut agent = Agent::start(&[]);
    let (one, other) = (agent.new_session(), agent.new_session());
    let hanging = agent.tell(&one, "hang");
    assert_eq!(agent.prompt(&other, "say: side by side"), "side by side");
    let second = agent.tell(&one, "hello");
    assert_eq!(agent.response(second)["error"]["code"], -32600);
    agent.cancel(&one);
    assert_eq!(stop_reason(&agent.response(hanging)), "cancelled");
    assert_eq!(agent.prompt(&one, "hello"), "ACK: I was told 2 messages");
}

#[test]
fn a_stream_can_be_cancelled() {
    let mut agent = Agent::start(&["--chunk-delay-ms", "3600000"]);
    let session = agent.new_session();
    let id = agent.tell(&session, "stream: 2");
    agent.until(|frame| frame["method"] == "session/update");
    agent.cancel(&session);
    assert_eq!(stop_reason(&agent.response(id)), "cancelled");
    assert_eq!(agent.said_since(0), "word1");
}

#[test]
fn a_deaf_agent_ignores_a_cancellation() {
    let mut agent = Agent::start(&["--ignore-cancel"]);
    let session = agent.new_session();
    let id = agent.tell(&session, "ask: build");
    let request = agent.request();
    agent.cancel(&session);
    agent
        .reply(&request, json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }));
    let (said, response) = agent.answer(id);
    assert_eq!((said.as_str(), stop_reason(&response)), ("allowed", "end_turn"));
}

#[test]
fn permission_is_asked_for_and_obeyed() {
    let mut agent = Agent::start(&[]);
    let session = agent.new_session();
    let choices = [
        ("allow_once", "allowed"),
        ("allow_always", "allowed"),
        ("reject_once", "rejected"),
        ("reject_always", "rejected"),
    ];
    for (option, expected) in choices {
        let id = agent.tell(&session, "ask: Delete everything");
        let request = agent.request();
        assert_eq!(request["method"], "session/request_permission");
        assert_eq!(request["params"]["sessionId"], session.as_str());
        assert_eq!(request["params"]["toolCall"]["title"], "Delete everything");
        assert_eq!(request["params"]["options"].as_array().unwrap().len(), 4);
        agent.reply(&request, json!({ "outcome": { "outcome": "selected", "optionId": option } }));
        assert_eq!(agent.answer(id).0, expected);
    }
    let id = agent.tell(&session, "ask: Delete everything");
    let request = agent.request();
    agent.reply(&request, json!({ "outcome": { "outcome": "cancelled" } }));
    let (said, response) = agent.answer(id);
    assert_eq!((said.as_str(), stop_reason(&response)), ("cancelled", "cancelled"));
}

#[test]
fn files_and_terminals_are_those_of_the_client() {
    let mut agent = Agent::start(&[]);
    let session = agent.new_session();

    let id = agent.tell(&session, "read: /notes");
    let request = agent.request();
    assert_eq!(request["params"], json!({ "sessionId": session, "path": "/notes" }));
    agent.reply(&request, json!({ "content": "from the client" }));
    assert_eq!(agent.answer(id).0, "from the client");

    let id = agent.tell(&session, "write: /notes=a=b");
    let request = agent.request();
    assert_eq!(request["params"]["content"], "a=b");
    let error = json!({ "code": -32603, "message": "disk full" });
    agent.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    assert_eq!(agent.answer(id).0, "error -32603 disk full");

    let id = agent.tell(&session, "run: echo one two");
    let request = agent.request();
    assert_eq!(request["params"]["args"], json!(["one", "two"]));
    agent.reply(&request, json!({ "terminalId": "t1" }));
    let replies = [
        ("terminal/wait_for_exit", json!({ "exitCode": 0 })),
        ("terminal/output", json!({ "output": "one two\n", "truncated": false })),
        ("terminal/release", Value::Null),
    ];
    for (method, result) in replies {
        let request = agent.request();
        assert_eq!(request["method"], method);
        assert_eq!(request["params"]["terminalId"], "t1");
        agent.reply(&request, result);
    }
    assert_eq!(agent.answer(id).0, "one two\n");
}

#[test]
fn the_log_holds_every_frame() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut agent = Agent::start(&["--log", log.to_str().unwrap()]);
    let session = agent.new_session();
    agent.prompt(&session, "say: hello");
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let directions: Vec<&str> = lines.iter().filter_map(|line| line["dir"].as_str()).collect();
    assert_eq!(directions, ["in", "out", "in", "out", "in", "out", "out", "out"]);
    assert!(lines.iter().all(|line| line["at"].is_u64()));
    assert_eq!(lines[4]["frame"]["params"]["prompt"][0]["text"], "say: hello");
}

#[test]
fn the_agent_ends_with_its_input() {
    let mut agent = Agent::start(&[]);
    agent.close_stdin();
    assert!(agent.ended().success());
}
