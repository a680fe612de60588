//! What went wrong once, and must not again.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::env::{TestEnv, basket, jsonl, user};
use crate::live::Live;

/// A message by an agent that its line names.
fn by(agent: &str, content: &str) -> Value {
    json!({"role": "assistant", "content": content, "agent": agent})
}

#[test]
fn a_recorder_that_heard_nothing_does_not_take_away_what_another_one_wrote() {
    let env = TestEnv::new();
    let mut first = env.command(["record", "--ack"]);
    first.stdin(std::process::Stdio::piped());
    let silent = Live::spawn(first);
    let id = silent.id.clone();
    let mut other = Live::start(&env, &["--session", &id]);
    assert_eq!(other.say(&user("acknowledged")), 1);
    other.finish();
    assert!(!silent.end().success(), "it heard nothing");
    assert_eq!(env.messages(&id).len(), 1);
}

#[test]
fn an_export_of_a_session_that_is_being_recorded_comes_back_in() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    let id = live.id.clone();
    live.say(&user("first"));
    let exported = AtomicBool::new(false);
    let texts: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !exported.load(Ordering::SeqCst) {
                live.say(&json!({"role": "user", "content": "more", "conversation": "other"}));
            }
        });
        let texts = (0..12).map(|_| env.data(["export", &id])).collect();
        exported.store(true, Ordering::SeqCst);
        texts
    });
    live.finish();
    for (at, text) in texts.into_iter().enumerate() {
        let elsewhere = TestEnv::with_store(&env.path(&format!("{at}.db")));
        elsewhere.feed(["import", "-"], text).succeeded();
    }
}

/// The second session's line begins near the end of what is read at once (8 KiB).
#[test]
fn sessions_of_any_length_follow_each_other_in_an_export() {
    let export = |text: &str| {
        let env = TestEnv::new();
        env.record(["--title", "t"], &[user(text)]);
        env.data(["export", "--all"])
    };
    let (first, second) = (export("THE TEXT"), export("hello"));
    for length in 8_192 - 18..=8_192 {
        let text = "x".repeat(length - first.len() + "THE TEXT".len());
        let first = first.replacen("THE TEXT", &text, 1);
        assert_eq!(first.len(), length);
        TestEnv::new().feed(["import", "-"], format!("{first}{second}")).succeeded();
    }
}

#[test]
fn several_sessions_as_json_are_json() {
    let env = TestEnv::new();
    env.basket();
    env.record(["--title", "other"], &[user("hello")]);
    let text = env.data(["export", "--all", "--format", "json"]);
    let whole: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(whole.as_array().unwrap().len(), 2);
    let elsewhere = TestEnv::new();
    elsewhere.feed(["import", "-"], &text).succeeded();
    assert_eq!(elsewhere.data(["export", "--all", "--format", "json"]), text);
}

#[test]
fn an_agent_is_found_wherever_it_spoke() {
    let env = TestEnv::new();
    let id = env
        .record(Vec::<&str>::new(), &[user("a token"), by("claude", "fine"), by("codex", "well")]);
    for agent in ["claude", "codex"] {
        assert_eq!(env.json(["list", "--agent", agent])[0]["session_id"], id.as_str(), "{agent}");
        assert_eq!(
            env.json(["search", "token", "--agent", agent])[0]["session_id"],
            id.as_str(),
            "{agent}"
        );
    }
    assert_eq!(env.json(["list"])[0]["agent"], "codex", "the one that spoke last");
    assert_eq!(env.json(["list", "--agent", "gemini"]), json!([]));
}

#[test]
fn as_many_are_found_as_are_asked_for() {
    let env = TestEnv::new();
    let lines: Vec<Value> = (0..250).map(|n| user(&format!("walrus {n}"))).collect();
    env.record(["--title", "sea"], &lines);
    assert_eq!(env.json(["search", "walrus", "-n", "240"]).as_array().unwrap().len(), 240);
}

#[test]
fn a_name_in_which_the_word_stands_twice_is_found() {
    let env = TestEnv::new();
    env.record(["--title", "x"], &[user("see test/fixtures/test_data.json please")]);
    let found = env.json(["search", "test*"]);
    assert_eq!(found[0]["excerpt"], "see **test/fixtures/test_data.json** please");
}

#[test]
fn a_number_that_may_mean_two_messages_purges_neither() {
    let env = TestEnv::new();
    let said = |id: &str, content: &str| json!({"role": "user", "content": content, "id": id});
    let id = env.record(Vec::<&str>::new(), &[said("0", "zero"), said("1", "one")]);
    let refused = env.run(["purge", &id, "1", "--json"]);
    refused.assert_error(1, "ambiguous_id");
    env.run(["purge", &id, &format!("{id}:2")]).succeeded();
    let messages = env.messages(&id);
    assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!("zero"), &json!("")));
}

#[test]
fn a_backup_replaces_a_store_that_cannot_be_read() {
    let env = TestEnv::new();
    let id = env.basket();
    let copy = env.path("copy.db");
    env.run(["backup", copy.to_str().unwrap()]).succeeded();
    std::fs::write(env.store(), "garbage ".repeat(4096)).unwrap();
    let restored = env.json(["restore", copy.to_str().unwrap()]);
    assert_eq!(env.messages(&id).len(), basket().len());
    let aside = restored["kept"].as_str().unwrap();
    assert!(std::fs::read_to_string(aside).unwrap().starts_with("garbage"));
}

#[test]
fn doctor_tells_what_is_damaged() {
    let env = TestEnv::new();
    let lines: Vec<Value> =
        (0..400).map(|n| user(&format!("message {n} {}", "x".repeat(200)))).collect();
    env.record(Vec::<&str>::new(), &lines);
    let mut bytes = std::fs::read(env.store()).unwrap();
    let middle = bytes.len() / 4096 * 3 / 4 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(env.store(), bytes).unwrap();
    let mut command = env.command(["doctor", "--json"]);
    command.stdin(std::process::Stdio::null());
    let output = env.finish(command, b"");
    assert_eq!(output.code, Some(1), "{output}");
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!checked["damage"].as_array().unwrap().is_empty(), "{checked}");
}

#[test]
fn a_folder_that_is_not_recorded_is_not_recorded_into_an_old_session_either() {
    let env = TestEnv::new();
    let folder = env.path("private");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let id = env.record(["--project", folder], &[user("before")]);
    env.run(["config", "set", "record.exclude", &format!("[{folder:?}]")]).succeeded();
    for args in
        [vec!["record", "--project", folder, "--json"], vec!["record", "--session", &id, "--json"]]
    {
        env.feed(args, jsonl(&[user("after")])).assert_error(1, "not_recorded");
    }
    assert_eq!(env.messages(&id).len(), 1);
}

#[test]
fn a_fork_keeps_the_name_that_a_person_gave() {
    let env = TestEnv::new();
    let id = env.basket();
    env.run(["rename", &id, "by hand"]).succeeded();
    let fork = env.data(["fork", &id]).trim().to_owned();
    env.record(["--session", &fork, "--title", "by an agent"], &[user("more")]);
    assert_eq!(env.json(["show", &fork])["title"], "by hand");
}

#[test]
fn a_query_made_of_quotation_marks_or_of_one_long_word_ends() {
    let env = TestEnv::new();
    env.basket();
    env.run(["search", &"\"".repeat(60_000)]).succeeded();
    env.run(["search", &format!("{}*", "a".repeat(100_000))]).succeeded();
}

#[test]
fn recording_goes_on_when_nobody_reads_the_acknowledgements() {
    let env = TestEnv::new();
    let mut command = env.command(["record", "--ack"]);
    command.stdin(std::process::Stdio::piped());
    let mut live = Live::spawn(command);
    live.say(&user("one"));
    let id = live.id.clone();
    live.go_on_unheard(&[user("two"), user("three")]);
    assert_eq!(env.messages(&id).len(), 3);
}
