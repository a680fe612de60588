//! What other agents get through `rethread mcp` has no secrets in it, nor have the files beside it (SPEC FILE-11).

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, text};
use crate::workspace_secrets::{KNOWN, TOKEN, assert_nowhere, with};

/// Enough of the token to be of use to somebody.
const HALF: &str = "ghp_16C7e42F292c";
const STREAMS: &str = "home/.local/share/rethread/output_streams";

#[track_caller]
fn assert_clean(answer: &Value) {
    let told = answer.to_string();
    assert!(!told.contains(HALF), "{answer:#}");
    assert!(!told.contains(KNOWN), "{answer:#}");
}

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

/// A session with a token in its title, in a short message, and where long ones are cut.
fn recorded(mcp: &mut Mcp) -> String {
    let cut = |bytes: usize| format!("{}{TOKEN} heron", "a ".repeat(bytes / 2));
    let messages = [format!("The heron has {TOKEN}"), cut(3_980), cut(100), cut(60)];
    let messages: Vec<Value> =
        messages.iter().map(|content| json!({"role": "user", "content": content})).collect();
    let title = format!("Heron {TOKEN}");
    let recorded = mcp.tool("record_messages", json!({"messages": messages, "title": title}));
    text(&recorded["session_id"]).to_owned()
}

#[test]
fn what_a_rule_recognises_does_not_come_out() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    let id = recorded(&mut mcp);
    // It is there, for its owner.
    assert!(env.data(["show", &id, "--all"]).contains(TOKEN));
    for (name, arguments) in [
        ("get_session", json!({"session_id": id})),
        ("get_session", json!({"session_id": id, "full": true})),
        ("list_sessions", json!({})),
        ("search_sessions", json!({"query": "heron"})),
        ("resume_session", json!({"session_id": id, "prompt": "What does the heron have?"})),
        ("fork_session", json!({"session_id": id})),
        ("save_session", json!({"session_id": id})),
        ("complete_session", json!({"session_id": id})),
    ] {
        let answer = mcp.tool(name, arguments.clone());
        assert_clean(&answer);
        let about = answer.to_string();
        assert!(about.contains("[redacted: "), "{name} {arguments}: {answer:#}");
    }
    for uri in ["rethread://sessions", "rethread://session/ID", "rethread://session/ID/context"] {
        let answer = mcp.call("resources/read", json!({"uri": uri.replace("ID", &id)}));
        assert_clean(&answer);
        assert!(answer.to_string().contains("[redacted: "), "{uri}: {answer:#}");
    }
    assert_clean(&mcp.call("resources/list", json!({})));
    for arguments in [json!({}), json!({"session": id}), json!({"session": "heron"})] {
        let asked = json!({"name": "rethread-resume", "arguments": arguments});
        assert_clean(&mcp.call("prompts/get", asked));
    }
    assert!(mcp.notes.iter().all(|note| !note.to_string().contains(HALF)), "{:#?}", mcp.notes);
}

/// Whoever guesses at a token letter by letter is never told that a guess was right.
#[test]
fn nor_can_it_be_searched() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    recorded(&mut mcp);
    for end in (4..=TOKEN.len()).step_by(3) {
        let right = &TOKEN[..end];
        for form in ["{}", "{}*", "\"{}\"", "\"has {}\""] {
            let query = form.replace("{}", right);
            let answer = mcp.tool("search_sessions", json!({"query": query}));
            assert_eq!(answer["items"], json!([]), "{query}");
        }
        let told = |query: String, mcp: &mut Mcp| {
            mcp.tool("search_sessions", json!({"query": query}))["items"].clone()
        };
        let wrong = format!("{}Q", &right[..right.len() - 1]);
        assert_eq!(
            told(format!("heron {right}*"), &mut mcp),
            told(format!("heron {wrong}*"), &mut mcp)
        );
    }
}

#[test]
fn nor_does_what_an_invoked_agent_says() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    let long = format!("{}{TOKEN}", "a ".repeat(245));
    for said in [format!("say: it is {TOKEN}"), format!("tool: {TOKEN}"), format!("say: {long}")] {
        let told = mcp.invoke(json!({"agentName": "ref", "prompt": said}));
        assert_clean(&told);
        let id = text(&told["sessionId"]);
        let files = env.path(&format!("{STREAMS}/{id}"));
        for name in ["conversation.json", "session.log", "summary.json"] {
            let file = std::fs::read_to_string(files.join(name)).unwrap();
            assert!(!file.contains(HALF), "{name}: {file}");
            assert!(file.contains("[redacted: ") || name == "summary.json", "{name}: {file}");
        }
        let more =
            json!([{"role": "user", "content": TOKEN, "note": {"password": "vK3-heron-92x"}}]);
        mcp.tool("record_messages", json!({"session_id": id, "messages": more}));
    }
    assert!(mcp.notes.iter().all(|note| !note.to_string().contains(HALF)), "{:#?}", mcp.notes);
    assert_eq!(with(&env.path(STREAMS), HALF), [] as [String; 0]);
    assert_eq!(with(&env.path(STREAMS), "vK3-heron-92x"), [] as [String; 0]);
    let refused = mcp.refused("invoke_agent", json!({"agentName": TOKEN, "prompt": "x"}));
    assert_clean(&json!(refused));
}

#[test]
fn a_value_that_we_know_is_nowhere_on_the_disk() {
    let env = env();
    let mut command = env.command(["mcp"]);
    command.env("FOO_API_KEY", KNOWN);
    let mut mcp = Mcp::spawn(command);
    for ask in ["say: it is", "tool: run", "think: of", "title: about", "ask: for", "fail: with"] {
        let asked = json!({"agentName": "ref", "prompt": format!("{ask} {KNOWN}")});
        let id = mcp.ask_tool("invoke_agent", asked);
        assert_clean(&mcp.answer(id));
    }
    // The agent has the variable too, and says it.
    assert_clean(&mcp.invoke(json!({"agentName": "ref", "prompt": "env: FOO_API_KEY"})));
    let messages = json!([{"role": "user", "content": KNOWN, "more": {"deep": [KNOWN]}}]);
    let recorded =
        mcp.tool("record_messages", json!({"messages": messages, "title": format!("t {KNOWN}")}));
    let title = json!({"session_id": recorded["session_id"], "title": format!("u {KNOWN}")});
    assert_clean(&mcp.tool("save_session", title));
    assert!(mcp.notes.iter().all(|note| !note.to_string().contains(KNOWN)), "{:#?}", mcp.notes);
    assert!(mcp.end().success());
    assert_nowhere(&env, KNOWN);
}
