//! `rethread acp` where both sides speak version 2 of the protocol: recorded as in version 1.

use serde_json::{Value, json};

use crate::editor::Editor;
use crate::env::TestEnv;

const TELL: &str = "Remember PASSKEY-heron-42";
const ASK: &str = "what was the passkey";
const RECALLED: &str = "The passkey is PASSKEY-heron-42";

fn quiet(flags: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &[&["--second", "--list"], flags].concat());
    env.set("editors", "show_opening = false");
    env
}

/// A session in which the passkey was told through an editor that has ended.
fn told(flags: &[&str]) -> (TestEnv, String) {
    let env = quiet(flags);
    let (mut editor, _) = Editor::second(&env, "ref");
    let id = editor.begin();
    editor.say_second(&id, TELL);
    editor.end();
    (env, id)
}

#[test]
fn a_turn_passes_and_is_recorded() {
    let env = quiet(&[]);
    let (mut editor, greeted) = Editor::second(&env, "ref");
    assert_eq!(greeted["protocolVersion"], 2);
    let sessions = &greeted["capabilities"]["session"];
    assert!(sessions["delete"].is_object() && sessions["fork"].is_object(), "{greeted:#}");
    let id = editor.begin();
    assert_eq!(editor.say_second(&id, "stream: 3"), "word1 word2 word3");
    assert_eq!(env.only(), id);
    assert_eq!(env.records(&id, "main")[1].1, "word1 word2 word3");
    assert_eq!(editor.say_second(&id, "ask: dance"), "allowed");
    editor.say_second(&id, "do: think: hm\ndo: tool: look\ndo: plan: a, b\ndo: title: Herons");
    let kinds: Vec<Value> =
        editor.updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    for kind in ["agent_thought_chunk", "tool_call_update", "plan_update", "session_info_update"] {
        assert!(kinds.contains(&json!(kind)), "{kinds:?}");
    }
    for frame in &editor.seen {
        assert_eq!(frame["params"]["sessionId"], id.as_str(), "{frame}");
    }
    let messages = env.messages(&id);
    let asked = messages.iter().find(|message| message["extra"]["permissions"].is_array()).unwrap();
    assert_eq!(asked["extra"]["permissions"][0]["answer"], "allow_once", "{asked:#}");
    let text = json!(messages).to_string();
    for said in ["output of look", "hm", "\"content\":\"a\""] {
        assert!(text.contains(said), "{said}: {text}");
    }
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_session_is_resumed_with_its_history_if_that_is_wanted() {
    let (env, id) = told(&[]);
    let (mut editor, _) = Editor::second(&env, "ref");
    let list = editor.ok("session/list", json!({ "cwd": env.path("project") }));
    assert_eq!(list["sessions"][0]["sessionId"], id.as_str(), "{list:#}");
    let mut params = editor.opened(&id);
    editor.ok("session/resume", params.clone());
    assert_eq!(editor.text("user_message_chunk"), "");
    assert_eq!(editor.say_second(&id, ASK), RECALLED);
    editor.end();
    let (mut editor, _) = Editor::second(&env, "ref");
    params["replayFrom"] = json!({ "type": "start" });
    let resumed = editor.ok("session/resume", params.clone());
    assert_eq!(resumed["_meta"]["rethread"]["opened"], "resumed", "{resumed:#}");
    assert_eq!(resumed["configOptions"][0]["configId"], "model", "{resumed:#}");
    assert_eq!(editor.text("user_message_chunk"), format!("{TELL}{ASK}"));
    assert!(editor.text("agent_message_chunk").ends_with(RECALLED));
    assert_eq!(editor.updates().last().unwrap()["state"], "idle");
    assert_eq!(editor.say_second(&id, ASK), RECALLED);
    params["replayFrom"] = json!({ "type": "_elsewhere" });
    assert_eq!(editor.call("session/resume", params)["error"]["code"], -32602);
    let load = editor.opened(&id);
    assert_eq!(editor.call("session/load", load)["error"]["code"], -32601);
    editor.end();
    env.assert_held("ref", &id, "main");
    env.assert_sound();
}

#[test]
fn what_the_agent_has_lost_it_is_told() {
    let (env, id) = told(&[]);
    std::fs::remove_dir_all(env.path("ref.memory")).unwrap();
    std::fs::create_dir(env.path("ref.memory")).unwrap();
    let (mut editor, _) = Editor::second(&env, "ref");
    let params = editor.opened(&id);
    let resumed = editor.ok("session/resume", params);
    assert_eq!(resumed["_meta"]["rethread"]["opened"], "retold", "{resumed:#}");
    assert_eq!(editor.say_second(&id, ASK), RECALLED);
    editor.end();
}

#[test]
fn what_was_set_is_set_again() {
    let (env, id) = told(&[]);
    let (mut editor, _) = Editor::second(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/resume", params.clone());
    let option = json!({ "sessionId": id, "configId": "model", "type": "id", "value": "large" });
    assert!(editor.ok("session/set_config_option", option)["configOptions"].is_array());
    editor.say_second(&id, "say: hm");
    editor.end();
    let (mut editor, _) = Editor::second(&env, "ref");
    let resumed = editor.ok("session/resume", params);
    assert_eq!(resumed["configOptions"][0]["currentValue"], "large", "{resumed:#}");
    assert!(editor.say_second(&id, "mode?").ends_with("model large"));
    editor.end();
}

#[test]
fn a_prompt_ends_with_a_state_however_it_ends() {
    let env = quiet(&["--chunk-delay-ms", "5"]);
    let (mut editor, _) = Editor::second(&env, "ref");
    let id = editor.begin();
    editor.say_second(&id, TELL);
    let asked = editor.prompt(&id, "stream: 100000");
    editor.answer(&asked);
    editor.notify("session/cancel", json!({ "sessionId": id }));
    assert_eq!(editor.idle()["stopReason"], "cancelled");
    let asked = editor.prompt(&id, "die");
    editor.answer(&asked);
    let died = editor.idle();
    assert_eq!(died["stopReason"], "error", "{died:#}");
    assert!(died["error"]["message"].as_str().unwrap().contains("exit code 3"), "{died:#}");
    assert_eq!(editor.say_second(&id, ASK), RECALLED);
    let found = editor.say_second(&id, "/rethread-search heron");
    assert!(found.contains("heron"), "{found}");
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn what_was_shown_when_the_proxy_is_killed_is_kept() {
    let env = quiet(&["--chunk-delay-ms", "5"]);
    let (mut editor, _) = Editor::second(&env, "ref");
    let id = editor.begin();
    editor.prompt(&id, "stream: 100000");
    let mut shown = String::new();
    while shown.len() < 100 {
        let frame = editor.frame().unwrap();
        let text = frame["params"]["update"]["content"]["text"].as_str();
        shown.push_str(text.unwrap_or_default());
    }
    editor.kill();
    env.assert_nothing_runs();
    let (mut editor, _) = Editor::second(&env, "ref");
    let mut params = editor.opened(&id);
    params["replayFrom"] = json!({ "type": "start" });
    editor.ok("session/resume", params);
    assert!(editor.text("agent_message_chunk").contains(&shown));
    editor.end();
    assert_eq!(env.messages(&id).last().unwrap()["extra"]["interrupted"], true);
    env.assert_sound();
}

#[test]
fn an_agent_that_speaks_only_version_1_is_answered_with_1() {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    let (mut editor, greeted) = Editor::second(&env, "ref");
    assert_eq!(greeted["protocolVersion"], 1);
    assert_eq!(greeted["agentCapabilities"]["loadSession"], true);
    let id = editor.begin();
    editor.say(&id, TELL);
    editor.end();
    assert_eq!(env.records(&id, "main").len(), 2);
}

#[test]
fn begun_in_version_2_it_goes_on_elsewhere_and_back() {
    let (env, id) = told(&[]);
    env.agent("other", &[]);
    let (answer, how, _) = env.ask(&["resume", &id, "--with", "other", ASK]);
    assert_eq!((answer.as_str(), how.as_str()), (RECALLED, "retold"));
    let (mut editor, _) = Editor::second(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/resume", params);
    assert_eq!(editor.say_second(&id, "say: home"), "home");
    editor.end();
    env.assert_sound();
}

#[test]
fn a_terminal_speaks_version_2_where_the_settings_want_it() {
    let env = TestEnv::new();
    let wanted = "protocol = 2\nquirks = { keeps_request = true }";
    env.agent_with("ref", &["--second", "--list"], wanted);
    let (answer, how, _) = env.ask(&["run", "ref", TELL]);
    assert_eq!((answer.as_str(), how.as_str()), ("ACK: I was told 1 message", "fresh"));
    let id = env.only();
    let (answer, how, _) = env.ask(&["resume", &id, ASK]);
    assert_eq!((answer.as_str(), how.as_str()), (RECALLED, "resumed"));
    let (answer, ..) = env.ask(&["resume", &id, "--permissions", "allow", "ask: dance"]);
    assert_eq!(answer, "allowed");
    let (answer, ..) = env.ask(&["resume", &id, "--permissions", "deny", "ask: dance"]);
    assert_eq!(answer, "rejected");
    env.fails(&["resume", &id, "die"], "agent_ended");
    let (answer, ..) = env.ask(&["resume", &id, ASK]);
    assert_eq!(answer, RECALLED);
    let greeted = &env.received("ref")[0];
    assert_eq!(greeted["params"]["protocolVersion"], 2, "{greeted}");
    env.assert_nothing_runs();
    env.assert_sound();
    // One that only echoes the number, or answers with 1, is spoken to as before.
    env.agent_with("plain", &["--load"], wanted);
    let (answer, how, _) = env.ask(&["resume", &id, "--with", "plain", ASK]);
    assert_eq!((answer.as_str(), how.as_str()), (RECALLED, "retold"));
}
