//! An agent that is driven by Rethread uses Rethread's MCP server to invoke another agent.

use serde_json::{Value, json};

use crate::env::{PROGRAM, TestEnv};
use crate::mcp_client::{Mcp, text};

/// A program that asks the server of the agent that starts it.
fn asks(env: &TestEnv, name: &str, arguments: &Value) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "nested", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "invoke_agent", "arguments": arguments}});
    let script = env.path(name);
    let store = env.store().display();
    let lines = format!("{hello}\n{ready}\n{call}\n");
    std::fs::write(&script, format!("{PROGRAM} --store sqlite:{store} mcp <<'END'\n{lines}END\n"))
        .unwrap();
    script.display().to_string()
}

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("inner", &["--resume"]);
    env.agent_with("outer", &["--resume"], "permissions = \"allow\"");
    env
}

#[test]
fn both_sessions_are_linked_and_shown_so() {
    let env = world();
    let script = asks(&env, "ask.sh", &json!({"agentName": "inner", "prompt": "say: from below"}));
    let mut mcp = Mcp::start(&env);
    let outer = mcp.invoke(json!({"agentName": "outer", "prompt": format!("run: sh {script}")}));
    assert!(text(&outer["answer"]).contains("from below"), "{outer:#}");
    let parent = text(&outer["sessionId"]).to_owned();
    let sessions = env.json(["list"]);
    let child =
        sessions.as_array().unwrap().iter().find(|one| one["session_id"] != parent).unwrap();
    assert_eq!((&child["parent_session_id"], &child["agent"]), (&json!(parent), &json!("inner")));
    assert_eq!(child["user_id"], "anna", "it belongs to the same user");
    let child = text(&child["session_id"]).to_owned();
    assert_eq!(env.json(["show", &parent])["child_session_ids"], json!([child]));
    assert!(env.data(["show", &child]).contains(&format!("Invoked by    {parent}")));
    assert!(env.data(["show", &parent]).contains("\nInvoked       "));
    assert_eq!(
        mcp.tool("get_session", json!({"session_id": parent}))["child_session_ids"],
        json!([child])
    );
    let shown = mcp.tool("get_session", json!({"session_id": child}));
    assert_eq!(shown["session"]["parent_session_id"], json!(parent));
    // The same from the terminal.
    env.data(["run", "outer", &format!("run: sh {script}")]);
    let children = env.json(["list"]);
    let children = children.as_array().unwrap();
    assert_eq!(children.iter().filter(|one| one["parent_session_id"].is_string()).count(), 2);
    env.assert_sound();
}

#[test]
fn agents_do_not_invoke_each_other_for_ever() {
    let env = world();
    env.set("mcp", "max_depth = 3");
    // Each invocation runs the same program, which invokes again.
    let place = env.path("again.sh").display().to_string();
    asks(&env, "again.sh", &json!({"agentName": "outer", "prompt": format!("run: sh {place}")}));
    let mut mcp = Mcp::start(&env);
    let outer = mcp.invoke(json!({"agentName": "outer", "prompt": format!("run: sh {place}")}));
    assert!(text(&outer["answer"]).contains("have invoked each other 3 times"), "{outer:#}");
    assert_eq!(env.json(["list"]).as_array().map(Vec::len), Some(3));
}
