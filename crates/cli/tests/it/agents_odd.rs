//! Agents that send what cannot be kept as it came, more than can be kept, or nothing at all (SPEC AGT-10, PROMISES
//! I2): the session stays readable, the memory small, and nobody waits for ever.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::chat::{Chat, Terminal};
use crate::env::{PROGRAM, TestEnv};
use crate::reference::until;

const MIB: u64 = 1024 * 1024;
/// What the program may use at most, in KiB, whatever an agent sends.
const MOST_MEMORY: u64 = 256 * 1024;

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env.agent("other", &[]);
    env
}

/// Everything that reads the session does so, and another agent is told of it.
#[track_caller]
fn assert_readable(env: &TestEnv, id: &str) {
    env.data(["list"]);
    env.data(["show", id, "--all"]);
    env.data(["export", id]);
    env.data(["context", id]);
    assert_eq!(env.ask(&["resume", id, "say: goes on"]).0, "goes on");
    assert_eq!(env.ask(&["resume", id, "say: elsewhere", "--with", "other"]).1, "retold");
    env.assert_sound();
    env.assert_nothing_runs();
}

#[test]
fn what_is_nested_deeply_leaves_the_session_readable() {
    let env = world();
    for prompt in ["deep: update 125", "deep: tool 125", "deep: hidden 120"] {
        let answer = env.json(["run", "ref", prompt]);
        assert_eq!(answer["answer"], "sent", "{prompt}");
        assert_readable(&env, answer["session_id"].as_str().unwrap());
    }
}

#[test]
fn what_is_nested_deeply_in_a_turn_that_is_cut_off_does_not_close_the_store() {
    let env = world();
    for prompt in ["deep: update 125 hang", "deep: hidden 120 hang"] {
        let before = env.json(["list"]).as_array().unwrap().len();
        let mut chat = Chat::start(&env, &["run", "ref"]);
        chat.type_line(prompt);
        // What is shown is written down.
        chat.hear_word("sent");
        chat.kill();
        let sessions = env.json(["list"]);
        assert_eq!(sessions.as_array().unwrap().len(), before + 1, "{prompt}");
        assert_readable(&env, sessions[0]["session_id"].as_str().unwrap());
    }
}

#[test]
fn a_turn_that_cannot_be_read_is_told_of_and_in_nobodys_way() {
    let env = world();
    env.ask(&["run", "other", "say: hello", "--title", "The other one"]);
    let other = env.only();
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.type_line("deep: update 3 hang");
    chat.hear_word("sent");
    chat.kill();
    // An update that cannot be read is kept as text.
    env.change_store(
        "update stream set what = '{\"is\":\"text\",' where what like '%deep_update%'",
    );
    let listed = env.run(["list"]).succeeded();
    assert!(listed.stderr.contains("was interrupted"), "{listed}");
    let sessions = env.json(["list"]);
    let id = sessions.as_array().unwrap().iter().find(|one| one["session_id"] != *other).unwrap();
    let id = id["session_id"].as_str().unwrap();
    let messages = env.messages(id);
    assert_eq!(messages.last().unwrap()["content"], "sent", "{messages:#?}");
    assert_readable(&env, id);
    // A turn of which nothing can be read stays where it is.
    let mut chat = Chat::start(&env, &["resume", id]);
    chat.type_line("deep: update 3 hang");
    chat.hear_word("sent");
    chat.kill();
    env.change_store("update underway set what = '{'");
    let listed = env.run(["list"]).succeeded();
    assert!(listed.stderr.contains("cannot be read"), "{listed}");
    assert_eq!(env.ask(&["resume", &other, "say: still here"]).0, "still here");
}

/// The most memory that the program had, in KiB, with its exit code.
#[track_caller]
fn measured(env: &TestEnv, args: &[&str]) -> (Option<i32>, u64) {
    let mut command = env.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut most = 0;
    let status = until("it ends", || {
        let about = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let about = about.unwrap_or_default();
        let peak = about.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most =
            most.max(peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse().unwrap()));
        child.try_wait().unwrap()
    });
    (status.code(), most)
}

/// An agent that writes no log: it would be as large as what it says.
fn talkative() -> TestEnv {
    let env = TestEnv::new();
    let command = [PROGRAM, "reference-agent"];
    env.set("agents.big", format!("command = {}", json!(command)));
    env
}

#[test]
fn many_large_lines_cost_little_memory_and_end_with_a_name() {
    let env = talkative();
    let prompt = format!("large: 100 {}", 15 * MIB);
    let (code, most) = measured(&env, &["run", "big", &prompt]);
    assert!(most < MOST_MEMORY, "{most} KiB");
    assert_eq!(code, Some(1));
    let id = env.only();
    // What was said until then is kept.
    let said = env.messages(&id).pop().unwrap();
    let bytes = said["content"].as_str().unwrap().len() as u64;
    assert!((48 * MIB..80 * MIB).contains(&bytes), "{bytes}");
    let (code, most) = measured(&env, &["show", &id]);
    assert!(code == Some(0) && most < MOST_MEMORY, "{code:?} {most} KiB");
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn what_one_turn_may_say_can_be_set() {
    let env = talkative();
    env.set("talk", "max_turn_bytes = 100000");
    let error = env.fails(&["run", "big", "large: 1000 1000"], "turn_too_large");
    assert!(error["hint"].as_str().unwrap().contains("talk.max_turn_bytes"), "{error}");
    let id = env.only();
    let said = env.messages(&id).pop().unwrap();
    assert!(said["extra"]["error"].as_str().unwrap().contains("100000"), "{said}");
    assert!(said["content"].as_str().unwrap().len() >= 100_000);
    assert_eq!(env.ask(&["resume", &id, "large: 99 1000"]).0.len(), 99_000);
    env.assert_nothing_runs();
}

#[test]
fn an_agent_that_says_nothing_any_more_is_given_up() {
    let env = world();
    env.set("talk", "answer_seconds = 1\ncancel_seconds = 1");
    let error = env.fails(&["run", "ref", "hang"], "silent");
    assert!(error["message"].as_str().unwrap().contains("1 second"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("talk.answer_seconds"), "{error}");
    assert_eq!(env.methods("ref").last().unwrap(), "session/cancel");
    let id = env.only();
    let said: Value = env.messages(&id).pop().unwrap();
    assert_eq!(said["extra"]["interrupted"], true, "{said}");
    env.assert_nothing_runs();
    // Neither does one that does not obey keep anybody.
    env.agent("ref", &["--resume", "--ignore-cancel"]);
    env.fails(&["resume", &id, "hang"], "silent");
    env.assert_nothing_runs();
    // Who says something from time to time may take its time, and so may we.
    env.agent("ref", &["--resume", "--chunk-delay-ms", "400"]);
    assert_eq!(env.ask(&["resume", &id, "stream: 5"]).0, "word1 word2 word3 word4 word5");
    let slow = ["resume", &id, "run: sleep 2", "--permissions", "allow"];
    assert_eq!(env.json(slow)["stop_reason"], "end_turn");
}

#[test]
fn a_question_may_wait_for_its_answer() {
    let env = world();
    env.set("talk", "answer_seconds = 1\ncancel_seconds = 1");
    let mut terminal = Terminal::start(&env, &["run", "ref", "ask: rm things"]);
    terminal.wait_for("Number");
    // The person thinks for longer than an agent may.
    let begun = std::time::Instant::now();
    until("a while passes", || (begun.elapsed().as_millis() > 2500).then_some(()));
    terminal.press("1\r");
    terminal.wait_for("allowed");
    assert_eq!(terminal.end().1, 0);
}
