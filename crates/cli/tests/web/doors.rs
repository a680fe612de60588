//! One turn runner behind every door: what happens to a request is the same through the terminal, `send`, MCP and HTTP.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::chat::{Chat, Terminal};
use crate::env::TestEnv;
use crate::mcp_client::{Mcp, succeeded};
use crate::site::Site;
use crate::sockets::until;

/// A session of the agent, which waits so long after a resume that a prompt is written down well before it is sent.
fn begun(env: &TestEnv) -> String {
    let answer = env.json(["run", "ref", "say: hello"]);
    answer["session_id"].as_str().unwrap().to_owned()
}

/// Waits until the session has the prompt, which the agent does not have yet.
fn recorded(env: &TestEnv, id: &str) {
    until("the prompt is written down", || (env.messages(id).len() == 3).then_some(()));
    let log = std::fs::read_to_string(env.path("ref.log")).unwrap();
    assert!(!log.contains("hang"), "the agent has it already");
}

/// The turn was ended, and the conversation goes on.
fn ended(env: &TestEnv, id: &str) {
    let answer = env.json(["send", id, "say: still there"]);
    assert_eq!(
        (&answer["answer"], &answer["stop_reason"]),
        (&json!("still there"), &json!("end_turn"))
    );
    std::fs::remove_file(env.path("ref.log")).unwrap();
}

#[test]
fn a_cancel_that_comes_before_the_prompt_is_heard_at_every_door() {
    let env = TestEnv::new();
    env.agent_with("ref", &["--resume"], "quirks = { quiet_ms = 2000 }");
    env.set("mcp", "wait_seconds = 0");
    let site = Site::within(env, &[]);
    let env = &site.env;

    let id = begun(env);
    let turn = site.prompt(&id, "hang");
    recorded(env, &id);
    site.post(&format!("/api/v1/turns/{turn}/cancel"), &json!({})).is(200);
    assert_eq!(site.over(&turn)["stop_reason"], "cancelled");
    ended(env, &id);

    let id = begun(env);
    let mut mcp = Mcp::start(env);
    let asked = json!({"agentName": "ref", "prompt": "hang", "continueSessionId": &id});
    let running = mcp.invoke(asked);
    recorded(env, &id);
    let cancel = json!({"handle": running["handle"], "seconds": 30, "cancel": true});
    let waits = mcp.ask_tool("wait_for_agent", cancel);
    assert_eq!(succeeded(&mcp.answer(waits))["status"], "cancelled");
    assert!(mcp.end().success());
    ended(env, &id);

    let id = begun(env);
    let mut sender = env.command(["send", &id, "hang"]);
    let sender = sender.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    recorded(env, &id);
    let interrupt = Command::new("kill").args(["-INT", &sender.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    ended(env, &id);

    let id = begun(env);
    let mut terminal = Terminal::start(env, &["resume", &id]);
    terminal.wait_for("resumed in its own session");
    terminal.type_line("hang");
    recorded(env, &id);
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    ended(env, &id);
}

#[test]
fn whoever_has_a_conversation_open_sends_what_comes_through_every_door() {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    let site = Site::within(env, &[]);
    let env = &site.env;
    let mut chat = Chat::start(env, &["run", "ref"]);
    chat.say("say: hello");
    let id = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();

    assert_eq!(env.json(["send", &id, "say: by send"])["answer"], "by send");
    let turn = site.prompt(&id, "say: by HTTP");
    assert_eq!(site.over(&turn)["answer"], "by HTTP");
    assert!(site.steps(&turn).iter().any(|step| step["is"] == "elsewhere"));
    let mut mcp = Mcp::start(env);
    let asked = json!({"agentName": "ref", "prompt": "say: by MCP", "continueSessionId": &id});
    assert_eq!(mcp.invoke(asked)["answer"], "by MCP");
    assert!(mcp.end().success());

    let said: Vec<Value> = env.messages(&id).iter().map(|one| one["content"].clone()).collect();
    let asked = ["hello", "by send", "by HTTP", "by MCP"];
    let all = asked.iter().flat_map(|text| [format!("say: {text}"), (*text).to_owned()]);
    assert_eq!(said, all.map(Value::from).collect::<Vec<_>>());
    let log = std::fs::read_to_string(env.path("ref.log")).unwrap();
    assert_eq!(log.matches("\"initialize\"").count(), 1, "one agent did it all");
    assert!(chat.end().0.success());
}
