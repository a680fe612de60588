//! `rethread mcp` on standard input and output.

use std::process::Command;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{Mcp, failed, passkey, succeeded, text};
use crate::reference::until;

fn env() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

fn invoke(prompt: &str) -> Value {
    json!({"agentName": "ref", "prompt": prompt})
}

fn go_on(id: &str, prompt: &str) -> Value {
    json!({"agentName": "ref", "prompt": prompt, "continueSessionId": id})
}

fn stream_file(env: &TestEnv, id: &str, name: &str) -> String {
    let path = env.path(&format!("home/.local/share/rethread/output_streams/{id}/{name}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_passkey_is_recalled_by_another_process_and_not_without_the_history() {
    for (policy, is_told) in [("auto", true), ("off", false)] {
        for flags in [&["--resume"][..], &[]] {
            let env = TestEnv::new();
            env.agent("ref", flags);
            env.set("talk", format!("policy = {policy:?}"));
            let key = passkey();

            let mut first = Mcp::start(&env);
            let told = first.invoke(invoke(&format!("my passkey is {key}")));
            assert_eq!(told["answer"], "ACK: I was told 1 message");
            assert_eq!(
                (&told["isSessionContinuation"], &told["status"]),
                (&json!(false), &json!("completed"))
            );
            assert!(first.end().success());

            let mut second = Mcp::start(&env);
            let asked = second.invoke(go_on(text(&told["sessionId"]), "What was the passkey?"));
            assert_eq!(asked["sessionId"], told["sessionId"]);
            assert_eq!(asked["isSessionContinuation"], true);
            let recalled = text(&asked["answer"]).contains(&key);
            assert_eq!(recalled, is_told, "policy {policy}, {flags:?}: {asked:#}");
            assert!(second.end().success());
        }
    }
}

#[test]
fn continue_means_the_most_recent_session_of_the_agent_in_the_project() {
    let env = env();
    env.agent("other", &[]);
    std::fs::create_dir(env.path("elsewhere")).unwrap();
    let mut mcp = Mcp::start(&env);
    let again = json!({"agentName": "ref", "prompt": "say: again", "continue": true});
    assert!(
        mcp.refused("invoke_agent", again.clone()).contains("no session of ref in this project")
    );

    let wanted = mcp.invoke(invoke("say: one"));
    mcp.invoke(json!({"agentName": "other", "prompt": "say: two"}));
    let cwd = env.path("elsewhere").display().to_string();
    mcp.invoke(json!({"agentName": "ref", "prompt": "say: three", "cwd": cwd}));
    let found = mcp.invoke(again);
    assert_eq!(found["sessionId"], wanted["sessionId"]);
    assert_eq!((&found["answer"], &found["messageCount"]), (&json!("again"), &json!(4)));
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let env = env();
    env.agent("other", &[]);
    let mut mcp = Mcp::start(&env);
    let id = text(&mcp.invoke(invoke("say: hello"))["sessionId"]).to_owned();
    let archived = text(&mcp.invoke(invoke("say: old"))["sessionId"]).to_owned();
    env.data(["archive", &archived]);
    let completed = text(&mcp.invoke(invoke("say: done"))["sessionId"]).to_owned();
    mcp.tool("complete_session", json!({"session_id": completed}));
    let unknown = "01999999-aaaa-7000-8000-000000000000";
    let with = |more: Value| {
        let mut all = invoke("say: x");
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for (arguments, expected) in [
        (with(json!({"continueSessionId": "../../etc"})), "Not a session id"),
        (with(json!({"continueSessionId": ""})), "Not a session id"),
        (with(json!({"continueSessionId": unknown})), "There is no session 01999999"),
        (with(json!({"continueSessionId": "1700000000000"})), "There is no session"),
        (with(json!({"continueSessionId": archived})), "is archived. `rethread unarchive"),
        (with(json!({"continueSessionId": completed})), "is completed. fork_session"),
        (with(json!({"continueSessionId": id, "continue": true})), "are both given"),
        (
            with(json!({"continueSessionId": id, "agentName": "other"})),
            "was held with ref, not other",
        ),
        (with(json!({"continueSessionId": id, "cwd": "/"})), "omit cwd"),
        (with(json!({"agentName": "nobody"})), "There is no agent \"nobody\". list_agents"),
        (with(json!({"agentName": "claude"})), "is not installed. To install it: npm"),
        (with(json!({"prompt": " \n"})), "The prompt is empty"),
        (with(json!({"prompt": "x".repeat(10 << 20)})), "has 10485760 bytes; at most 1048576"),
        (with(json!({"allowedTools": ["Bsah"]})), "There is no tool \"Bsah\""),
        (with(json!({"allowedTools": ["edit"], "disallowedTools": ["edit"]})), "both allowed and"),
        (with(json!({"maxTurns": 0})), "maxTurns is 0"),
        (with(json!({"maxTurns": -1})), "Invalid arguments"),
        (with(json!({"disallowedTool": ["edit"]})), "unknown field `disallowedTool`"),
        (with(json!({"cwd": "/nowhere/at/all"})), "cannot be used"),
        (json!({"agentName": "ref"}), "missing field `prompt`"),
    ] {
        let told = mcp.refused("invoke_agent", arguments.clone());
        assert!(told.to_lowercase().contains(&expected.to_lowercase()), "{expected}: {told}");
    }
    mistakes_with_sessions(&mut mcp, &id, &archived);
    // None of it has left anything behind.
    assert_eq!(env.json(["list", "--all"]).as_array().map(Vec::len), Some(3));
    assert!(mcp.end().success());
    env.assert_sound();
}

fn mistakes_with_sessions(mcp: &mut Mcp, id: &str, archived: &str) {
    let unknown = "01999999-aaaa-7000-8000-000000000000";
    for (tool, arguments, expected) in [
        ("get_session", json!({"session_id": unknown}), "There is no session"),
        ("resume_session", json!({"session_id": id, "max_tokens": 0}), "limits begin at 1"),
        ("resume_session", json!({"session_id": archived}), "is archived"),
        ("search_sessions", json!({"query": ""}), "query is empty"),
        ("search_sessions", json!({"query": "x", "since": "soon"}), "not a time"),
        ("list_sessions", json!({"status": "lost"}), "not a status"),
        ("record_messages", json!({"messages": []}), "give 1 to"),
        ("record_messages", json!({"messages": [{"role": "boss", "content": "x"}]}), "not a role"),
        ("fork_session", json!({"session_id": id, "at": 99}), "has no message 99"),
        ("wait_for_agent", json!({"handle": "run-0"}), "no invocation \"run-0\""),
    ] {
        let told = mcp.refused(tool, arguments);
        assert!(
            told.to_lowercase().contains(&expected.to_lowercase()),
            "{tool}: {expected}: {told}"
        );
    }
}

#[test]
fn another_agent_goes_on_when_the_change_is_meant() {
    let env = env();
    env.agent("other", &[]);
    let key = passkey();
    let mut mcp = Mcp::start(&env);
    let told = mcp.invoke(invoke(&format!("my passkey is {key}")));
    let asked = mcp.invoke(json!({
        "agentName": "other", "prompt": "What was the passkey?",
        "continueSessionId": told["sessionId"], "agentChange": true,
    }));
    assert_eq!(asked["opened"]["how"], "retold");
    assert!(text(&asked["answer"]).contains(&key), "{asked:#}");
}

#[test]
fn another_users_session_is_not_found() {
    let env = env();
    let mut anna = Mcp::start(&env);
    let told = anna.invoke(invoke("say: private"));
    let id = text(&told["sessionId"]).to_owned();
    let mut command = env.command(["mcp"]);
    command.env("RETHREAD_USER", "bob");
    let mut bob = Mcp::spawn(command);
    for (tool, arguments) in [
        ("invoke_agent", go_on(&id, "say: mine")),
        ("get_session", json!({"session_id": id})),
        ("resume_session", json!({"session_id": id})),
        (
            "record_messages",
            json!({"session_id": id, "messages": [{"role": "user", "content": "x"}]}),
        ),
        ("save_session", json!({"session_id": id})),
        ("complete_session", json!({"session_id": id})),
        ("fork_session", json!({"session_id": id})),
        ("search_sessions", json!({"session_id": id, "query": "private"})),
    ] {
        assert!(bob.refused(tool, arguments).starts_with("There is no session"), "{tool}");
    }
    let everywhere = json!({"all_projects": true});
    assert_eq!(bob.tool("list_sessions", everywhere)["sessions"], json!([]));
    assert_eq!(
        bob.tool("search_sessions", json!({"query": "private", "all_projects": true}))["items"],
        json!([])
    );
    let read = bob.call("resources/read", json!({"uri": format!("rethread://session/{id}")}));
    assert!(text(&read["error"]["message"]).contains("There is no session"), "{read}");
    assert_eq!(env.messages(&id).len(), 2);
}

#[test]
fn two_invocations_on_one_session_are_served_in_order() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    let id = text(&mcp.invoke(invoke("say: 0"))["sessionId"]).to_owned();
    let asked: Vec<u64> =
        (1..=4).map(|n| mcp.ask_tool("invoke_agent", go_on(&id, &format!("say: {n}")))).collect();
    for (n, request) in (1..).zip(asked) {
        let answer = mcp.answer(request);
        assert_eq!(succeeded(&answer)["answer"], n.to_string());
    }
    let said: Vec<String> = env
        .records(&id, "main")
        .into_iter()
        .filter(|(role, _)| role == "user")
        .map(|(_, said)| said)
        .collect();
    assert_eq!(said, ["say: 0", "say: 1", "say: 2", "say: 3", "say: 4"]);
}

#[test]
fn what_takes_long_gives_a_handle_and_tells_how_far_it_is() {
    let env = env();
    env.agent("slow", &["--chunk-delay-ms", "200"]);
    env.set("mcp", "wait_seconds = 1");
    let mut mcp = Mcp::start(&env);
    let slow = json!({"agentName": "slow", "prompt": "stream: 15"});
    let running = mcp.invoke(slow);
    assert_eq!(running["status"], "running", "{running:#}");
    let handle = json!({"handle": running["handle"], "seconds": 30});
    let done = mcp.tool("wait_for_agent", handle.clone());
    assert_eq!((&done["status"], &done["sessionId"]), (&json!("completed"), &running["sessionId"]));
    assert!(text(&done["answer"]).ends_with("word15"), "{done:#}");
    assert_eq!(mcp.tool("wait_for_agent", handle), done, "whoever asks late gets it as well");
    let progress: Vec<f64> = mcp
        .notes
        .iter()
        .filter(|note| note["method"] == "notifications/progress")
        .filter(|note| note["params"]["progressToken"] == "token-3")
        .map(|note| note["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(!progress.is_empty() && progress.is_sorted(), "{:?}", mcp.notes);
}

#[test]
fn a_cancelled_call_ends_the_turn_and_keeps_what_was_said() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    let request = mcp.ask_tool("invoke_agent", invoke("hang"));
    let id = until("the turn runs", || {
        let found = env.json(["list"]);
        found[0]["session_id"].as_str().filter(|id| env.messages(id).len() == 1).map(str::to_owned)
    });
    mcp.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request},
    }));
    until("the turn ends", || {
        stream_file(&env, &id, "session.log").contains("END: ").then_some(())
    });
    let log = stream_file(&env, &id, "session.log");
    assert!(log.contains("END: cancelled"), "{log}");
    assert_eq!(mcp.invoke(go_on(&id, "say: still there"))["answer"], "still there");
}

#[test]
fn a_handle_cancels_too() {
    let env = env();
    env.set("mcp", "wait_seconds = 0");
    let mut mcp = Mcp::start(&env);
    let running = mcp.invoke(invoke("hang"));
    assert_eq!(running["status"], "running");
    let cancel = json!({"handle": running["handle"], "seconds": 30, "cancel": true});
    let id = mcp.ask_tool("wait_for_agent", cancel);
    let answer = mcp.answer(id);
    // It may have been cancelled before anything was sent.
    if answer["result"]["isError"] == true {
        assert!(failed(&answer).contains("ancelled"), "{answer}");
    } else {
        assert_eq!(succeeded(&answer)["status"], "cancelled");
    }
}

#[test]
fn a_client_that_is_gone_in_mid_call_does_not_end_the_turn() {
    let env = TestEnv::new();
    env.agent("slow", &["--chunk-delay-ms", "100"]);
    let mut mcp = Mcp::start(&env);
    mcp.ask_tool("invoke_agent", json!({"agentName": "slow", "prompt": "stream: 20"}));
    let id = until("the turn runs", || {
        let found = env.json(["list"]);
        found[0]["session_id"].as_str().filter(|id| env.messages(id).len() == 1).map(str::to_owned)
    });
    assert!(mcp.end().success());
    let said = env.records(&id, "main");
    assert!(said[1].1.ends_with("word20"), "{said:?}");
    assert!(stream_file(&env, &id, "session.log").contains("END: end_turn"));
    assert!(env.messages(&id).iter().all(|message| message["extra"]["interrupted"].is_null()));
}

#[test]
fn a_server_that_is_asked_to_end_saves_what_was_said() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    mcp.ask_tool("invoke_agent", invoke("hang"));
    let id = until("the turn runs", || {
        let found = env.json(["list"]);
        found[0]["session_id"].as_str().filter(|id| env.messages(id).len() == 1).map(str::to_owned)
    });
    let pid = mcp.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(mcp.child.wait().unwrap().success());
    assert!(stream_file(&env, &id, "session.log").contains("END: cancelled"));
    env.assert_sound();
}

#[test]
fn tools_are_held_by_permission_and_by_watching() {
    let env = env();
    env.agent_with("free", &["--resume"], "permissions = \"allow\"");
    let mut mcp = Mcp::start(&env);
    let with = |prompt: &str, allowed: &[&str], disallowed: &[&str]| json!({"agentName": "free", "prompt": prompt, "allowedTools": allowed, "disallowedTools": disallowed});
    let answer =
        |mcp: &mut Mcp, arguments: Value| text(&mcp.invoke(arguments)["answer"]).to_owned();
    assert_eq!(answer(&mut mcp, with("ask: rm", &[], &[])), "allowed");
    assert_eq!(answer(&mut mcp, with("ask: rm", &[], &["Bash"])), "rejected");
    assert_eq!(answer(&mut mcp, with("ask: rm", &["read"], &[])), "rejected");
    assert_eq!(answer(&mut mcp, with("ask: rm", &["execute"], &[])), "allowed");
    assert!(answer(&mut mcp, with("run: echo x", &["edit"], &[])).contains("does not allow"));
    let file = env.path("project/new.txt").display().to_string();
    assert!(
        answer(&mut mcp, with(&format!("write: {file}=x"), &["execute"], &[]))
            .contains("does not allow")
    );
    assert_eq!(answer(&mut mcp, with(&format!("write: {file}=x"), &["edit"], &[])), "written");

    // It does not ask, but it is seen.
    let told = mcp.refused("invoke_agent", with("tool: rm -rf", &[], &["execute"]));
    assert!(told.contains("used execute: rm -rf, which this invocation forbids"), "{told}");
    let id = told.split("sessionId ").nth(1).unwrap()[..36].to_owned();
    let log = stream_file(&env, &id, "session.log");
    assert!(log.contains("TOOLS: allowed: 0 (all); disallowed: 1 (execute); held"), "{log}");
    assert!(log.contains("CANCELLED: execute: rm -rf is forbidden"), "{log}");
    // And without asking, nobody allows it.
    assert_eq!(mcp.invoke(invoke("ask: rm"))["answer"], "rejected");
    // An agent that can neither be asked nor told is not restricted, but refused.
    env.agent_with("deaf", &[], "quirks = { asks = false }");
    let mut mcp = Mcp::start(&env);
    let deaf = json!({"agentName": "deaf", "prompt": "say: x", "disallowedTools": ["edit"]});
    assert!(mcp.refused("invoke_agent", deaf).contains("deaf cannot be kept from using tools"));
    assert_eq!(mcp.invoke(json!({"agentName": "deaf", "prompt": "say: x"}))["answer"], "x");
}

#[test]
fn more_turns_than_allowed_end_it() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    let once = json!({"agentName": "ref", "prompt": "tool: ls", "maxTurns": 1});
    assert_eq!(mcp.invoke(once)["stopReason"], "max_turns");
    let twice = json!({"agentName": "ref", "prompt": "tool: ls", "maxTurns": 2});
    assert_eq!(mcp.invoke(twice)["stopReason"], "end_turn");
}

#[test]
fn lines_that_are_no_messages_or_too_long_do_no_harm() {
    let env = env();
    let mut mcp = Mcp::start(&env);
    for line in [
        "{",
        "\u{feff}{}",
        "[]",
        "null",
        "{\"jsonrpc\":\"2.0\"}",
        "\"\u{1b}\"",
        "{\"id\":1,\"method\":7}",
    ] {
        mcp.send_line(line.as_bytes());
    }
    mcp.send_line(&[0xff, 0xfe, b'{']);
    mcp.send_line("[".repeat(200_000).as_bytes());
    let long = "x".repeat(17 << 20);
    let id = mcp.ask_tool("invoke_agent", invoke(&long));
    let told = failed(&mcp.answer(id));
    assert!(told.contains("too long. Put the long part into a file"), "{told}");
    let id = mcp.ask("prompts/get", json!({"name": long}));
    assert!(text(&mcp.answer(id)["error"]["message"]).contains("too long"));
    let answer = mcp.call("tools/call", json!({"name": "nothing"}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(mcp.invoke(invoke("say: well"))["answer"], "well");
    let answer = mcp.call("no/such/method", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert!(mcp.end().success());
}

#[test]
fn a_client_that_says_nothing_is_no_error() {
    let env = env();
    assert!(Mcp::mute(env.command(["mcp"])).end().success());
}

#[test]
fn the_newer_protocol_needs_no_hello() {
    let env = env();
    let mut mcp = Mcp::mute(env.command(["mcp"]));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = mcp.call("server/discover", json!({"_meta": meta}));
    assert_eq!(
        found["result"]["supportedVersions"]
            .as_array()
            .map(|all| all.contains(&json!("2026-07-28"))),
        Some(true),
        "{found:#}"
    );
    let listed = mcp.call("tools/list", json!({"_meta": meta}));
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(20), "{listed:#}");
    let call = json!({"name": "invoke_agent", "arguments": invoke("say: hello"), "_meta": meta});
    let answer = mcp.call("tools/call", call);
    assert_eq!(succeeded(&answer)["answer"], "hello", "{answer:#}");
}

#[test]
fn the_files_of_a_session_follow_its_store() {
    let env = env();
    env.set("mcp", format!("output_streams = {:?}", env.path("streams").display().to_string()));
    let mut mcp = Mcp::start(&env);
    let first = mcp.invoke(invoke("say: one\nand two"));
    let id = text(&first["sessionId"]).to_owned();
    let folder = env.path("streams").join(&id);
    assert_eq!(text(&first["outputFolder"]), folder.display().to_string());
    let read = || {
        serde_json::from_slice::<Value>(&std::fs::read(folder.join("conversation.json")).unwrap())
            .unwrap()
    };
    assert_eq!(read()["messages"].as_array().map(Vec::len), Some(2));
    mcp.invoke(go_on(&id, "say: two"));
    mcp.tool(
        "record_messages",
        json!({"session_id": id, "messages": [{"role": "user", "content": "three"}]}),
    );
    let whole = read();
    assert_eq!(
        (&whole["messageCount"], &whole["sessionId"], &whole["agentName"]),
        (&json!(5), &json!(id), &json!("ref"))
    );
    let said: Vec<Value> =
        env.messages(&id).iter().map(|message| message["content"].clone()).collect();
    let filed: Vec<Value> = whole["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(filed, said);
    // A torn file is made anew.
    let file = folder.join("conversation.json");
    let torn = std::fs::read(&file).unwrap();
    std::fs::write(&file, &torn[..torn.len() / 2]).unwrap();
    mcp.invoke(go_on(&id, "say: four"));
    assert_eq!(read()["messages"].as_array().map(Vec::len), Some(7));
    let summary: Value =
        serde_json::from_slice(&std::fs::read(folder.join("summary.json")).unwrap()).unwrap();
    assert_eq!(
        (&summary["messageCount"], &summary["lastOutcome"]),
        (&json!(7), &json!("end_turn"))
    );
    env.data(["purge", &id, "1"]);
    assert!(!folder.exists(), "what is purged is nowhere any more");
}
