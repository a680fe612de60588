//! Sessions as tools, resources and prompts of `rethread mcp`.

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, text};

#[test]
fn sessions_are_found_read_recorded_saved_and_forked() {
    let env = TestEnv::new();
    let mut mcp = Mcp::start(&env);
    let messages: Vec<Value> = (1..=30)
        .map(|n| json!({"role": "user", "content": format!("The heron has {n} eggs.")}))
        .collect();
    let recorded = mcp
        .tool("record_messages", json!({"messages": messages, "title": "Herons", "kind": "debug"}));
    assert_eq!(recorded["message_count"], 30);
    let id = json!({"session_id": recorded["session_id"]});
    let hits = mcp.tool("search_sessions", json!({"query": "\"17 eggs\""}));
    assert_eq!(
        (&hits["items"][0]["session_id"], &hits["items"][0]["seq"]),
        (&id["session_id"], &json!(17))
    );
    let got = mcp.tool("get_session", id.clone());
    assert_eq!((&got["omitted_messages"], &got["messages"][0]["seq"]), (&json!(10), &json!(11)));
    let earlier = mcp
        .tool("get_session", json!({"session_id": id["session_id"], "before": 11, "messages": 5}));
    assert_eq!(
        (&earlier["omitted_messages"], &earlier["messages"][4]["seq"]),
        (&json!(5), &json!(10))
    );
    let context = mcp.tool(
        "resume_session",
        json!({"session_id": id["session_id"], "prompt": "17 eggs?", "max_tokens": 600}),
    );
    assert!(context["token_count"].as_u64().unwrap() <= 600);
    assert!(text(&context["context"]).contains("17 eggs"), "{context:#}");
    let saved = mcp.tool("save_session", json!({"session_id": id["session_id"], "title": "Eggs"}));
    assert_eq!(
        (&saved["session"]["status"], &saved["session"]["title"]),
        (&json!("paused"), &json!("Eggs"))
    );
    assert!(text(&saved["text"]).contains("It stopped at message 30"), "{saved:#}");
    mcp.tool("save_session", id.clone());
    let fork = mcp.tool("fork_session", json!({"session_id": id["session_id"], "at": 3}));
    assert_eq!(
        (&fork["session"]["message_count"], &fork["session"]["forked_from"]["session_id"]),
        (&json!(3), &id["session_id"])
    );
    assert_eq!(mcp.tool("complete_session", id.clone())["session"]["status"], "completed");
    assert_eq!(mcp.tool("list_sessions", json!({}))["sessions"].as_array().map(Vec::len), Some(2));
    resources_and_prompts(&mut mcp, text(&id["session_id"]));
}

fn resources_and_prompts(mcp: &mut Mcp, id: &str) {
    let uri = format!("rethread://session/{id}");
    for (uri, expected) in [
        ("rethread://sessions".to_owned(), "\"Eggs\""),
        (uri.clone(), "The heron has 17 eggs."),
        (format!("{uri}/context"), "The heron has 30 eggs."),
    ] {
        let read = mcp.call("resources/read", json!({"uri": uri}));
        assert!(text(&read["result"]["contents"][0]["text"]).contains(expected), "{read:#}");
    }
    let read = mcp.call("resources/read", json!({"uri": "rethread://session/../../etc/passwd"}));
    assert!(read["error"]["code"].is_number(), "{read:#}");
    for (name, arguments, expected) in [
        ("rethread-resume", json!({}), "ask which one"),
        ("rethread-resume", json!({"session": "heron"}), "The heron has 30 eggs."),
        ("stop-conversation", json!({}), "save_session"),
        ("stop-conversation", json!({"status": "completed"}), "complete_session"),
    ] {
        let got = mcp.call("prompts/get", json!({"name": name, "arguments": arguments}));
        assert!(
            text(&got["result"]["messages"][0]["content"]["text"]).contains(expected),
            "{got:#}"
        );
    }
}
