//! `rethread acp`: what an editor gets that starts it instead of the agent (SPEC PRX-1 to PRX-3).

use serde_json::{Value, json};

use crate::editor::Editor;
use crate::env::TestEnv;
use crate::reference::has_prompts;

pub(crate) const TELL: &str = "Remember PASSKEY-heron-42";
pub(crate) const ASK: &str = "what was the passkey";
pub(crate) const RECALLED: &str = "The passkey is PASSKEY-heron-42";

/// An environment without the line that says how a session was opened.
pub(crate) fn quiet(flags: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", flags);
    env.set("editors", "show_opening = false");
    env
}

/// A session in which the passkey was told through an editor that has ended.
fn told(flags: &[&str]) -> (TestEnv, String) {
    let env = quiet(flags);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    editor.end();
    (env, id)
}

#[test]
fn a_turn_passes_and_is_recorded_under_one_id() {
    let env = quiet(&[]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    assert_eq!(editor.say(&id, "stream: 3"), "word1 word2 word3");
    assert_eq!(env.only(), id);
    let said = ["stream: 3", "word1 word2 word3"].map(str::to_owned);
    let [asked, answered] = said;
    let expected = [("user".to_owned(), asked), ("assistant".to_owned(), answered)];
    assert_eq!(env.records(&id, "main"), expected);
    editor.say(&id, "do: think: hm\ndo: tool: look\ndo: plan: a, b\ndo: title: Herons");
    let kinds: Vec<Value> =
        editor.updates().iter().map(|update| update["sessionUpdate"].clone()).collect();
    for kind in ["agent_thought_chunk", "tool_call", "plan", "session_info_update"] {
        assert!(kinds.contains(&json!(kind)), "{kinds:?}");
    }
    for frame in &editor.seen {
        assert_eq!(frame["params"]["sessionId"], id.as_str(), "{frame}");
    }
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_conversation_goes_on_without_its_store_and_says_once_what_will_be_missing() {
    let (env, id) = told(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    assert_eq!(editor.say(&id, ASK), RECALLED);
    let aside = env.path("aside.db");
    std::fs::rename(env.store(), &aside).unwrap();
    let said = editor.say(&id, "say: unseen");
    assert!(said.contains("this turn is not recorded") && said.ends_with("unseen"), "{said}");
    assert_eq!(editor.say(&id, "say: unseen again"), "unseen again");
    editor.end();
    std::fs::rename(&aside, env.store()).unwrap();
    env.assert_nothing_runs();
    let texts: Vec<String> = env.records(&id, "main").into_iter().map(|(_, text)| text).collect();
    assert!(texts.contains(&RECALLED.to_owned()), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("unseen")), "{texts:?}");
}

#[test]
fn files_terminals_and_permissions_are_the_editor_s() {
    let env = quiet(&[]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    assert_eq!(editor.say(&id, "read: /a/b"), "from the editor");
    assert_eq!(editor.say(&id, "ask: dance"), "allowed");
    assert_eq!(editor.say(&id, "run: ls"), "printed");
    let messages = env.messages(&id);
    let asked = messages.iter().find(|message| message["extra"]["permissions"].is_array()).unwrap();
    assert_eq!(asked["extra"]["permissions"][0]["by"], "user", "{asked:#}");
    editor.end();
}

#[test]
fn what_we_do_not_know_passes_both_ways_with_its_error() {
    let env = quiet(&[]);
    let mut editor = Editor::start(&env, "ref");
    let answer = editor.call("_vendor/dance", json!({ "steps": [1.0, null], "_meta": { "x": 1 } }));
    assert_eq!(answer["error"]["code"], -32601, "{answer:#}");
    assert_eq!(answer["error"]["data"], json!({ "method": "_vendor/dance" }));
    editor.notify("_vendor/note", json!({ "a": { "b": [] } }));
    let id = editor.begin();
    editor.say(&id, "unknown update");
    let kinds = editor.updates();
    assert!(
        kinds
            .iter()
            .any(|update| update.get("steps").is_some() || update.get("sessionUpdate").is_some())
    );
    let received = env.received("ref");
    let notes: Vec<&Value> =
        received.iter().filter(|frame| frame["method"] == "_vendor/note").collect();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0]["params"], json!({ "a": { "b": [] } }));
    editor.end();
}

#[test]
fn a_session_is_listed_and_loaded_in_every_way_that_the_agent_has() {
    for (flags, how) in [
        (&["--resume", "--load", "--list"][..], "resumed"),
        (&["--load"], "loaded"),
        (&[], "retold"),
    ] {
        let (env, id) = told(flags);
        let mut editor = Editor::start(&env, "ref");
        let list = editor.ok("session/list", json!({ "cwd": env.path("project") }));
        let sessions = list["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 1, "{list:#}");
        assert_eq!(sessions[0]["sessionId"], id.as_str());
        assert_eq!(sessions[0]["title"], TELL);
        assert!(sessions[0]["updatedAt"].as_str().unwrap().ends_with('Z'));
        let params = editor.opened(&id);
        let loaded = editor.ok("session/load", params);
        assert_eq!(loaded["_meta"]["rethread"]["opened"], how, "{loaded:#}");
        assert!(loaded["modes"].is_object());
        assert_eq!(editor.text("user_message_chunk"), TELL);
        assert_eq!(editor.text("agent_message_chunk"), "ACK: I was told 1 message");
        assert_eq!(editor.say(&id, ASK), RECALLED, "{how}");
        editor.end();
        env.assert_held("ref", &id, "main");
        assert_eq!(env.records(&id, "main").len(), 4);
    }
}

#[test]
fn a_resume_shows_nothing_again() {
    let (env, id) = told(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/resume", params);
    assert_eq!(editor.updates(), [] as [Value; 0]);
    assert_eq!(editor.say(&id, ASK), RECALLED);
    editor.end();
}

#[test]
fn how_a_session_was_opened_is_said_once() {
    let (env, id) = told(&[]);
    env.set("editors", "show_opening = true");
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    let said = editor.say(&id, ASK);
    assert!(said.starts_with("*Rethread: ref was told the conversation so far"), "{said}");
    assert!(said.ends_with(RECALLED), "{said}");
    assert_eq!(editor.say(&id, "say: again"), "again");
    assert_eq!(env.records(&id, "main")[3].1, RECALLED);
    editor.end();
}

#[test]
fn what_was_set_is_set_again() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    editor.ok("session/set_mode", json!({ "sessionId": id, "modeId": "plan" }));
    let option = json!({ "sessionId": id, "configId": "model", "value": "large" });
    assert!(editor.ok("session/set_config_option", option)["configOptions"].is_array());
    assert_eq!(editor.say(&id, "mode?"), "mode plan model large");
    editor.end();
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    let loaded = editor.ok("session/load", params);
    assert_eq!(loaded["modes"]["currentModeId"], "plan", "{loaded:#}");
    assert_eq!(loaded["configOptions"][0]["currentValue"], "large", "{loaded:#}");
    assert_eq!(editor.say(&id, "mode?"), "mode plan model large");
    editor.end();
}

#[test]
fn a_session_that_was_never_prompted_opens_anew_under_its_id_and_is_not_listed() {
    let env = quiet(&["--resume", "--load", "--list"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.end();
    let mut editor = Editor::start(&env, "ref");
    let list = editor.ok("session/list", json!({}));
    assert_eq!(list["sessions"], json!([]));
    let params = editor.opened(&id);
    editor.ok("session/resume", params);
    assert_eq!(editor.say(&id, "say: hello"), "hello");
    editor.end();
    assert_eq!(env.only(), id);
}

#[test]
fn unknown_sessions_are_refused_as_the_protocol_says() {
    let env = quiet(&["--load", "--resume"]);
    let mut editor = Editor::start(&env, "ref");
    for method in ["session/load", "session/resume"] {
        let params = editor.opened("nobody-knows");
        let answer = editor.call(method, params);
        assert_eq!(answer["error"]["code"], -32002, "{answer:#}");
        assert_eq!(answer["error"]["data"]["sessionId"], "nobody-knows");
        assert!(answer["error"]["data"]["reason"].is_string());
    }
    editor.end();
}

#[test]
fn the_agent_s_own_sessions_are_listed_once_and_can_be_loaded() {
    let (env, _) = told(&["--load", "--list"]);
    // A session from before the proxy.
    let memory = env.path("ref.memory");
    let known: Vec<_> =
        std::fs::read_dir(&memory).unwrap().map(|file| file.unwrap().path()).collect();
    let text = std::fs::read_to_string(&known[0]).unwrap();
    let native = known[0].file_stem().unwrap().to_str().unwrap().to_owned();
    let text = text.replace(&native, "older-1").replace("heron", "stork");
    let ending = known[0].extension().unwrap().to_str().unwrap();
    std::fs::write(memory.join(format!("older-1.{ending}")), text).unwrap();
    let mut editor = Editor::start(&env, "ref");
    let list = editor.ok("session/list", json!({ "cwd": env.path("project") }));
    let ids: Vec<&str> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2, "{list:#}");
    assert!(ids.contains(&"older-1") && !ids.contains(&native.as_str()));
    // By the agent's own id, a session of ours is found too.
    let params = editor.opened(&native);
    editor.ok("session/load", params);
    assert_eq!(editor.text("user_message_chunk"), TELL);
    assert_eq!(editor.say(&native, ASK), RECALLED);
    let params = editor.opened("older-1");
    editor.ok("session/load", params);
    assert_eq!(editor.text("user_message_chunk"), TELL.replace("heron", "stork"));
    assert_eq!(editor.say("older-1", ASK), "The passkey is PASSKEY-stork-42");
    editor.end();
}

#[test]
fn between_doors_a_session_goes_on() {
    let (env, id) = told(&["--resume"]);
    let (answer, how, _) = env.ask(&["resume", &id, "say: from the terminal"]);
    assert_eq!((answer.as_str(), how.as_str()), ("from the terminal", "resumed"));
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    assert!(editor.text("agent_message_chunk").ends_with("from the terminal"));
    assert_eq!(editor.say(&id, "say: from the editor"), "from the editor");
    // The editor is still there: its session is only locked while it is being answered.
    let (answer, ..) = env.ask(&["send", &id, ASK]);
    assert_eq!(answer, RECALLED);
    assert_eq!(editor.say(&id, "say: and back"), "and back");
    editor.end();
    env.assert_held("ref", &id, "main");
    env.agent("other", &[]);
    let (answer, how, _) = env.ask(&["resume", &id, "--with", "other", ASK]);
    assert_eq!((answer.as_str(), how.as_str()), (RECALLED, "retold"));
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    assert_eq!(editor.say(&id, "say: home"), "home");
    editor.end();
    env.assert_sound();
}

#[test]
fn of_two_editors_in_one_session_the_second_is_told_why_it_has_to_wait() {
    let (env, id) = told(&["--resume", "--load"]);
    let mut first = Editor::start(&env, "ref");
    let params = first.opened(&id);
    first.ok("session/load", params);
    let hangs = first.prompt(&id, "hang");
    has_prompts(&env, 2);
    let mut second = Editor::start(&env, "ref");
    let list = second.ok("session/list", json!({}));
    assert_eq!(list["sessions"][0]["sessionId"], id.as_str());
    let params = second.opened(&id);
    second.ok("session/load", params);
    assert_eq!(second.text("user_message_chunk"), format!("{TELL}hang"));
    let asked = second.prompt(&id, ASK);
    let refused = second.answer(&asked);
    assert_eq!(refused["error"]["data"]["code"], "conversation_busy", "{refused:#}");
    first.notify("session/cancel", json!({ "sessionId": id, "reason": "enough" }));
    assert_eq!(first.answer(&hangs)["result"]["stopReason"], "cancelled");
    let received = env.received("ref");
    let cancel = received.iter().find(|frame| frame["method"] == "session/cancel").unwrap();
    assert_eq!(cancel["params"]["reason"], "enough");
    assert_eq!(second.say(&id, ASK), RECALLED);
    assert_eq!(first.say(&id, "say: mine again"), "mine again");
    first.end();
    second.end();
    env.assert_sound();
}

#[test]
fn an_agent_that_dies_is_started_again_with_the_next_prompt() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    let asked = editor.prompt(&id, "die");
    let died = editor.answer(&asked);
    let reason = died["error"]["message"].as_str().unwrap();
    assert!(reason.contains("exit code 3"), "{died:#}");
    assert_eq!(editor.say(&id, ASK), RECALLED);
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn an_editor_that_ends_in_the_middle_leaves_half_a_turn_and_no_process() {
    for is_killed in [false, true] {
        let env = quiet(&["--load", "--chunk-delay-ms", "5"]);
        let mut editor = Editor::start(&env, "ref");
        let id = editor.begin();
        editor.say(&id, TELL);
        editor.prompt(&id, "stream: 100000");
        let mut shown = String::new();
        while shown.len() < 100 {
            let frame = editor.frame().unwrap();
            shown.push_str(
                frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default(),
            );
        }
        if is_killed {
            editor.kill();
        } else {
            editor.end();
        }
        env.assert_nothing_runs();
        let mut editor = Editor::start(&env, "ref");
        let params = editor.opened(&id);
        editor.ok("session/load", params);
        assert!(editor.text("agent_message_chunk").contains(&shown), "{is_killed}");
        let messages = env.messages(&id);
        assert_eq!(messages.last().unwrap()["extra"]["interrupted"], true);
        assert_eq!(editor.say(&id, ASK), RECALLED);
        editor.end();
        env.assert_sound();
    }
}

#[test]
fn a_login_that_is_missing_is_said_at_the_prompt_not_at_the_load() {
    let (env, id) = told(&["--load"]);
    env.agent("ref", &["--load", "--auth-required"]);
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    assert_eq!(editor.text("user_message_chunk"), TELL);
    let asked = editor.prompt(&id, ASK);
    assert_eq!(editor.answer(&asked)["error"]["code"], -32000);
    editor.ok("authenticate", json!({ "methodId": "login" }));
    assert_eq!(editor.say(&id, ASK), RECALLED);
    editor.end();
}

#[test]
fn a_fork_goes_its_own_way_and_a_deleted_session_is_gone() {
    let (env, id) = told(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    let fork = editor.ok("session/fork", params)["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, id);
    assert_eq!(editor.say(&fork, ASK), RECALLED);
    editor.ok("session/close", json!({ "sessionId": fork }));
    editor.ok("session/delete", json!({ "sessionId": id }));
    let list = editor.ok("session/list", json!({}));
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{list:#}");
    assert_eq!(sessions[0]["sessionId"], fork.as_str());
    editor.end();
    env.assert_sound();
}

#[test]
fn our_commands_are_answered_here() {
    let (env, id) = told(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let params = editor.opened(&id);
    editor.ok("session/load", params);
    let found = editor.say(&id, "/rethread-search heron");
    assert!(found.contains(&id[id.len() - 8..]) || found.contains("heron"), "{found}");
    let context = editor.say(&id, "/rethread-context");
    assert!(context.contains("PASSKEY-heron-42"), "{context}");
    assert_eq!(env.prompts("ref").len(), 1);
    editor.end();
}
