//! Several processes on one store (PROMISES D9): nobody is refused, nothing is lost.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::env::{TestEnv, jsonl, user};
use crate::live::Live;

#[test]
fn thirty_two_processes_share_a_store_and_nobody_sees_an_error() {
    let env = TestEnv::new();
    let shared = &env;
    // Paths only: the environment itself stays on this thread.
    let commands = |args: &[&str]| shared.command(args);
    std::thread::scope(|scope| {
        for n in 0..32 {
            let record = commands(&["record", "--ack", "--title", &format!("session {n}")]);
            let others = [
                commands(&["list"]),
                commands(&["search", "heron"]),
                commands(&["context", "--prompt", "heron"]),
            ];
            scope.spawn(move || work(n, record, others));
        }
    });
    let sessions = env.json(["list", "-n", "100"]);
    assert_eq!(sessions.as_array().unwrap().len(), 32);
    for session in sessions.as_array().unwrap() {
        let id = session["session_id"].as_str().unwrap();
        let n = session["title"].as_str().unwrap().strip_prefix("session ").unwrap();
        let contents: Vec<Value> =
            env.messages(id).iter().map(|one| one["content"].clone()).collect();
        let expected: Vec<Value> =
            (1..=20).map(|line| format!("heron {line} of {n}").into()).collect();
        assert_eq!(contents, expected);
    }
    env.assert_sound();
}

fn work(n: usize, record: std::process::Command, others: [std::process::Command; 3]) {
    let lines: Vec<Value> = (1..=20).map(|line| user(&format!("heron {line} of {n}"))).collect();
    let (code, out, err) = run(record, &jsonl(&lines));
    assert_eq!((code, err.as_str()), (Some(0), ""), "record of {n}");
    let mut told = out.lines();
    let id = told.next().unwrap().to_owned();
    let acks: Vec<String> = (1..=20).map(|seq| format!("{{\"seq\":{seq}}}")).collect();
    assert!(told.eq(acks.iter()), "{out}");
    for mut command in others {
        if command.get_args().next().is_some_and(|first| first == "context") {
            command.arg(&id);
        }
        let (code, out, err) = run(command, "");
        // A list of so many sessions says how it goes on.
        let trouble = err.lines().find(|line| !line.starts_with("There are more: --cursor="));
        assert_eq!((code, trouble), (Some(0), None), "of {n}");
        assert!(!out.is_empty());
    }
}

fn run(mut command: std::process::Command, input: &str) -> (Option<i32>, String, String) {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn who_records_is_asked_to_pause_and_the_next_message_takes_the_session_up_again() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    live.say(&user("first"));
    let paused = env.json(["pause", &live.id]);
    assert_eq!(paused["status"], "paused");
    assert_eq!(env.json(["show", &live.id])["status"], "paused");
    assert_eq!(live.say(&user("second")), 2);
    assert_eq!(env.json(["show", &live.id])["status"], "active");
    let completed = env.json(["complete", &live.id]);
    assert_eq!(completed["status"], "completed");
    let id = live.id.clone();
    live.finish();
    let moves: Vec<Value> = env
        .data(["export", &id])
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["what"] == "moved")
        .map(|line| line["to"].clone())
        .collect();
    assert_eq!(moves, ["paused", "active", "completed"]);
    assert_eq!(env.messages(&id).len(), 2);
    env.assert_sound();
}

#[test]
fn a_pause_of_a_session_whose_recorder_was_killed_is_done_at_once() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    live.say(&user("first"));
    let id = live.id.clone();
    live.kill();
    assert_eq!(env.json(["pause", &id])["status"], "paused");
    assert_eq!(env.messages(&id).len(), 1);
    env.assert_sound();
}

#[test]
fn two_recorders_of_one_session_lose_nothing_of_either() {
    let env = TestEnv::new();
    let mut first = Live::start(&env, &[]);
    let id = first.id.clone();
    first.say(&user("a0"));
    let mut second = Live::start(&env, &["--session", &id]);
    let mut acked = BTreeSet::from([1]);
    std::thread::scope(|scope| {
        let talk = |live: &mut Live, name: &str| -> Vec<u64> {
            (1..=50).map(|n| live.say(&user(&format!("{name}{n}")))).collect()
        };
        let (first, second) = (&mut first, &mut second);
        let a = scope.spawn(move || talk(first, "a"));
        let b = scope.spawn(move || talk(second, "b"));
        acked.extend(a.join().unwrap());
        acked.extend(b.join().unwrap());
    });
    first.finish();
    second.say(&user("b51"));
    second.finish();
    assert_eq!(acked, (1..=101).collect());
    let messages = env.messages(&id);
    let seqs: Vec<u64> = messages.iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=102).collect::<Vec<_>>());
    let said = |name: &str| -> Vec<String> {
        let contents = messages.iter().map(|one| one["content"].as_str().unwrap());
        contents.filter(|one| one.starts_with(name)).map(str::to_owned).collect()
    };
    assert_eq!(said("a"), (0..=50).map(|n| format!("a{n}")).collect::<Vec<_>>());
    assert_eq!(said("b"), (1..=51).map(|n| format!("b{n}")).collect::<Vec<_>>());
    env.assert_sound();
}
