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
    assert_eq!(recorded["messageCount"], 30);
    let id = json!({"sessionId": recorded["sessionId"]});
    let hits = mcp.tool("search_sessions", json!({"query": "\"17 eggs\""}));
    assert_eq!(
        (&hits["hits"][0]["sessionId"], &hits["hits"][0]["seq"]),
        (&id["sessionId"], &json!(17))
    );
    let got = mcp.tool("get_session", id.clone());
    assert_eq!((&got["omittedMessages"], &got["messages"][0]["seq"]), (&json!(10), &json!(11)));
    let earlier =
        mcp.tool("get_session", json!({"sessionId": id["sessionId"], "before": 11, "messages": 5}));
    assert_eq!(
        (&earlier["omittedMessages"], &earlier["messages"][4]["seq"]),
        (&json!(5), &json!(10))
    );
    let context = mcp.tool(
        "resume_session",
        json!({"sessionId": id["sessionId"], "prompt": "17 eggs?", "maxTokens": 600}),
    );
    assert!(context["tokenCount"].as_u64().unwrap() <= 600);
    assert!(text(&context["context"]).contains("17 eggs"), "{context:#}");
    let saved = mcp.tool("save_session", json!({"sessionId": id["sessionId"], "title": "Eggs"}));
    assert_eq!(
        (&saved["session"]["status"], &saved["session"]["title"]),
        (&json!("paused"), &json!("Eggs"))
    );
    assert!(text(&saved["told"]).contains("It stopped at message 30"), "{saved:#}");
    mcp.tool("save_session", id.clone());
    let fork = mcp.tool("fork_session", json!({"sessionId": id["sessionId"], "at": 3}));
    assert_eq!(
        (&fork["session"]["messageCount"], &fork["session"]["forkedFrom"]),
        (&json!(3), &id["sessionId"])
    );
    assert_eq!(mcp.tool("complete_session", id.clone())["session"]["status"], "completed");
    assert_eq!(mcp.tool("list_sessions", json!({}))["sessions"].as_array().map(Vec::len), Some(2));
    resources_and_prompts(&mut mcp, text(&id["sessionId"]));
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
