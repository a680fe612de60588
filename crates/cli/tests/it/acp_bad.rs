//! Bad input to `rethread acp`: floods, half lines, a wrong order, ids of others, a disk that is full.

use std::path::Path;

use serde_json::json;

use crate::acp::{ASK, RECALLED, TELL, quiet};
use crate::editor::Editor;
use crate::env::TestEnv;

#[test]
fn what_comes_before_initialize_is_answered_and_initialize_too() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start_silently(&env, "ref");
    let id = editor.begin();
    let list = editor.ok("session/list", json!({}));
    assert_eq!(list["sessions"], json!([]));
    let greeted = editor.ok("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(greeted["agentCapabilities"]["loadSession"], true);
    assert_eq!(editor.say(&id, "say: late"), "late");
    editor.end();
    env.assert_sound();
}

#[test]
fn sessions_of_another_user_are_unknown() {
    let env = quiet(&["--load", "--resume"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    editor.end();
    let mut command = env.command(["acp", "ref"]);
    command.env("RETHREAD_USER", "ben");
    let mut other = Editor::of(&env, command);
    other.ok("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(other.ok("session/list", json!({}))["sessions"], json!([]));
    let params = other.opened(&id);
    for method in ["session/load", "session/resume"] {
        let refused = other.call(method, params.clone());
        assert_eq!(refused["error"]["code"], -32002, "{method}: {refused:#}");
    }
    for method in ["session/delete", "session/fork", "session/close"] {
        let refused = other.call(method, params.clone());
        assert!(refused.get("error").is_some(), "{method}: {refused:#}");
    }
    let asked = other.prompt(&id, ASK);
    let refused = other.answer(&asked);
    assert!(refused.get("error").is_some(), "{refused:#}");
    assert_eq!(other.text("user_message_chunk"), "");
    other.end();
    assert_eq!(env.records(&id, "main").len(), 2);
}

#[test]
fn what_comes_right_behind_a_close_is_answered() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    for _ in 0..5 {
        let close = editor.send("session/close", json!({ "sessionId": id }));
        let params = editor.opened(&id);
        let load = editor.send("session/load", params);
        let asked = editor.prompt(&id, ASK);
        assert!(editor.answer(&close).get("error").is_none());
        assert!(editor.answer(&load).get("error").is_none());
        assert_eq!(editor.answer(&asked)["result"]["stopReason"], "end_turn");
        assert_eq!(editor.text("agent_message_chunk"), RECALLED);
    }
    // A session that nobody knows: the prompt behind its load is answered too.
    let params = editor.opened("nobody-knows");
    let load = editor.send("session/load", params);
    let asked = editor.prompt("nobody-knows", ASK);
    assert_eq!(editor.answer(&load)["error"]["code"], -32002);
    assert!(editor.answer(&asked).get("error").is_some());
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_cancel_right_behind_its_prompt_ends_it() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    for _ in 0..20 {
        let asked = editor.prompt(&id, "hang");
        editor.notify("session/cancel", json!({ "sessionId": id }));
        assert_eq!(editor.answer(&asked)["result"]["stopReason"], "cancelled");
    }
    editor.end();
    env.assert_sound();
}

#[test]
fn floods_from_both_sides_starve_nobody() {
    let env = quiet(&["--flood", "20000"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    let asked = editor.prompt(&id, "say: flooded");
    let all: Vec<String> =
        (0..3_000).map(|n| editor.send("_vendor/flood", json!({ "n": n }))).collect();
    let (mut answers, mut is_over) = (Vec::new(), false);
    while answers.len() < all.len() || !is_over {
        let frame = editor.frame().expect("the proxy lives");
        let Some(answered) = frame["id"].as_str() else { continue };
        if answered == asked {
            assert_eq!(frame["result"]["stopReason"], "end_turn");
            is_over = true;
        } else {
            assert_eq!(frame["error"]["code"], -32601);
            answers.push(answered.to_owned());
        }
    }
    assert_eq!(answers, all);
    editor.end();
    env.assert_nothing_runs();
    assert!(env.records(&id, "main")[1].1.ends_with("flooded"));
    env.assert_sound();
}

#[test]
fn a_line_that_breaks_off_does_nothing() {
    let env = quiet(&["--load"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    editor.write_raw(br#"{"jsonrpc":"2.0","id":9,"method":"session/del"#);
    editor.end();
    env.assert_nothing_runs();
    assert_eq!(env.only(), id);
    env.assert_sound();
}

#[test]
fn what_is_still_shown_when_the_editor_leaves_is_recorded() {
    let env = quiet(&["--load", "--chunk-delay-ms", "1"]);
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.prompt(&id, "stream: 100000");
    let mut shown = String::new();
    while shown.len() < 2_000 {
        shown.push_str(text(&editor.frame().unwrap()));
    }
    editor.leave();
    while let Some(frame) = editor.frame() {
        shown.push_str(text(&frame));
    }
    drop(editor);
    env.assert_nothing_runs();
    let answer = env.records(&id, "main")[1].1.clone();
    assert!(answer.contains(&shown), "{} bytes were shown, {} recorded", shown.len(), answer.len());
    env.assert_sound();
}

fn text(frame: &serde_json::Value) -> &str {
    frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default()
}

/// Set where the test runs inside a mount of its own.
const INSIDE: &str = "RETHREAD_TEST_SMALL_DISK_OF_AN_EDITOR";

#[test]
fn a_conversation_goes_on_when_the_disk_is_full_and_is_recorded_again_when_there_is_space() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return full(Path::new(&disk));
    }
    let name = "acp_bad::a_conversation_goes_on_when_the_disk_is_full_and_is_recorded_again_when_there_is_space";
    crate::env::on_small_disk(name, INSIDE, 2);
}

fn full(disk: &Path) {
    let env = TestEnv::with_store(&disk.join("sessions.db"));
    env.agent("ref", &["--load"]);
    env.set("editors", "show_opening = false");
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, TELL);
    let filler = disk.join("filler");
    // As much as fits, down to the last page.
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
    let mut told = Vec::new();
    let long = "word ".repeat(2_000);
    for turn in 0..5 {
        told.push(editor.say(&id, &format!("say: turn {turn} {long}")));
    }
    assert!(told.iter().enumerate().all(|(n, text)| text.contains(&format!("turn {n} word"))));
    let missing = told.iter().filter(|text| text.contains("this turn is not recorded")).count();
    assert_eq!(missing, 1, "the user is told once");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(editor.say(&id, ASK), RECALLED);
    editor.end();
    let texts: Vec<String> = env.records(&id, "main").into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.last().map(String::as_str), Some(RECALLED), "{texts:?}");
    env.assert_nothing_runs();
    env.assert_sound();
}
