//! What tools of `rethread mcp` give: bounded, given once, and marked where it is not whole.

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, failed, text};
use crate::reference::until;

/// The longest line that is ever answered: the bound of a result, with what quoting JSON in JSON adds.
const LONGEST_LINE: usize = 600 * 1024;

fn started() -> (TestEnv, Mcp) {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    let mcp = Mcp::start(&env);
    (env, mcp)
}

fn invoke(prompt: &str) -> Value {
    json!({"agentName": "ref", "prompt": prompt})
}

#[test]
fn a_long_answer_is_bounded_and_can_be_read_to_its_end() {
    let (env, mut mcp) = started();
    let told = mcp.invoke(invoke("large: 5 1000000"));
    let id = text(&told["sessionId"]).to_owned();
    assert_eq!(text(&told["answer"]).len(), 64 * 1024);
    assert_eq!(told["omittedBytes"], 5_000_000 - 64 * 1024);
    assert!(text(&told["readOn"]).contains("seq 2 and an offset"), "{told}");
    let mut read = String::new();
    loop {
        let piece = json!({"session_id": id, "seq": 2, "offset": read.len()});
        let got = mcp.tool("get_session", piece);
        let message = &got["messages"][0];
        assert_eq!(
            (&message["seq"], got["messages"].as_array().map(Vec::len)),
            (&json!(2), Some(1))
        );
        read.push_str(text(&message["content"]));
        if message.get("omitted_bytes").is_none() {
            break;
        }
    }
    assert_eq!(read, env.messages(&id)[1]["content"]);
    assert_eq!(read.len(), 5_000_000);
    let full = mcp.tool("get_session", json!({"session_id": id, "full": true}));
    assert_eq!(full["messages"].as_array().map(Vec::len), Some(1), "the last one fills the answer");
    assert_eq!(full["omitted_messages"], 1);
    let uri = format!("rethread://session/{id}");
    let read = mcp.call("resources/read", json!({"uri": uri}));
    assert!(
        text(&read["result"]["contents"][0]["text"]).contains("bytes are left out: get_session")
    );
    mcp.tool("resume_session", json!({"session_id": id, "max_tokens": 1_000_000}));
    assert!(mcp.longest < LONGEST_LINE, "{}", mcp.longest);
}

#[test]
fn mistakes_with_pieces_are_told() {
    let (_env, mut mcp) = started();
    let id = mcp.invoke(invoke("say: hello"))["sessionId"].clone();
    for (arguments, expected) in [
        (json!({"session_id": id, "seq": 0}), "has no message 0"),
        (json!({"session_id": id, "seq": 3}), "has no message 3"),
        (json!({"session_id": id, "offset": 3}), "offset is given without seq"),
    ] {
        let told = mcp.refused("get_session", arguments);
        assert!(told.contains(expected), "{expected}: {told}");
    }
    // Beyond the end there is nothing, and that is said.
    let beyond = mcp.tool("get_session", json!({"session_id": id, "seq": 2, "offset": 999}));
    assert_eq!(beyond["messages"][0]["content"], "");
}

#[test]
fn an_answer_that_was_interrupted_says_so_wherever_it_is_read() {
    let (env, mut mcp) = started();
    let whole = mcp.invoke(invoke("say: whole"));
    assert!(whole.get("isInterrupted").is_none(), "{whole:#}");
    env.agent("slow", &["--chunk-delay-ms", "100"]);
    env.set("mcp", "wait_seconds = 0");
    let mut mcp = Mcp::start(&env);
    let running = mcp.invoke(json!({"agentName": "slow", "prompt": "stream: 1000"}));
    let handle = running["handle"].clone();
    until("it has said something", || {
        let now = mcp.tool("wait_for_agent", json!({"handle": handle, "seconds": 0}));
        now["progress"].as_str().is_some_and(|now| now.starts_with("answering")).then_some(())
    });
    let cancel = json!({"handle": handle, "seconds": 30, "cancel": true});
    let ended = mcp.tool("wait_for_agent", cancel);
    assert_eq!((&ended["status"], &ended["isInterrupted"]), (&json!("cancelled"), &json!(true)));
    let got = mcp.tool("get_session", json!({"session_id": ended["sessionId"]}));
    assert_eq!(got["messages"][1]["is_interrupted"], true, "{got:#}");
    assert!(got["messages"][0].get("is_interrupted").is_none(), "{got:#}");
    let uri = format!("rethread://session/{}", text(&ended["sessionId"]));
    let read = mcp.call("resources/read", json!({"uri": uri}));
    let transcript = text(&read["result"]["contents"][0]["text"]).to_owned();
    assert!(transcript.contains("\n[This answer was interrupted.]\n"), "{transcript}");
}

#[test]
fn the_conversation_is_in_its_file_from_the_first_message_on() {
    let (env, mut mcp) = started();
    let streams = env.path("home/.local/share/rethread/output_streams");
    mcp.ask_tool("invoke_agent", invoke("hang"));
    let said = until("the request is in the file", || {
        let folder = std::fs::read_dir(&streams).ok()?.next()?.ok()?.path();
        let text = std::fs::read_to_string(folder.join("conversation.json")).ok()?;
        // One document at every moment; while it is begun it is empty.
        let whole: Value = serde_json::from_str(&text).ok()?;
        (whole["messageCount"] == 1).then_some(whole)
    });
    assert_eq!(said["messages"][0]["content"], "hang");
    assert_eq!(said["messages"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_no_json_is_answered_as_such() {
    let (_env, mut mcp) = started();
    for line in ["{", "hello", "{\"jsonrpc\": \"2.0\",}", "[["] {
        mcp.send_line(line.as_bytes());
        let answer = mcp.next();
        assert_eq!(answer["error"]["code"], -32700, "{line}: {answer}");
        assert!(text(&answer["error"]["message"]).contains("not JSON"), "{answer}");
        assert_eq!(answer.get("id").unwrap_or(&Value::Null), &Value::Null);
    }
    mcp.send_line(&[0xff, b'{', b'}']);
    assert_eq!(mcp.next()["error"]["code"], -32700);
    // Lines without anything in them are no messages: the next answer is to the next request.
    mcp.send_line(b"");
    mcp.send_line(b" \r");
    for line in ["7", "\u{feff}{}"] {
        mcp.send_line(line.as_bytes());
        assert_eq!(mcp.next()["error"]["code"], -32600, "{line} is JSON, but no request");
    }
    let id = mcp.ask_tool("get_session", json!({"session_id": "none"}));
    assert!(failed(&mcp.answer(id)).contains("session id"));
}

#[test]
fn schemas_and_prompts_are_such_as_clients_can_show() {
    let (_env, mut mcp) = started();
    let listed = mcp.call("tools/list", json!({}));
    for tool in listed["result"]["tools"].as_array().unwrap() {
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool:#}");
        assert!(!tool.to_string().contains("\"format\""), "{tool:#}");
        assert!(tool.get("outputSchema").is_none(), "{tool:#}");
    }
    let prompts = mcp.call("prompts/list", json!({}));
    let names: Vec<&str> = prompts["result"]["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| text(&prompt["name"]))
        .collect();
    assert_eq!(names, ["rethread-resume", "stop-conversation"]);
}
