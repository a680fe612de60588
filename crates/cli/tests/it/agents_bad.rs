//! Agents that are not there, die, hang or speak nonsense (SPEC AGT-10): a named error, a session that can be
//! resumed, and no process left behind.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::chat::Chat;
use crate::env::TestEnv;
use crate::reference::{is_gone, until};

const GOOD: &[&str] = &["--resume"];

/// A session with a good agent.
fn begun() -> (TestEnv, String) {
    let env = TestEnv::new();
    env.agent("ref", GOOD);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    (env, id)
}

/// The agent, as it is set up now, fails with this error, in a session that is there and in a new one; when it is
/// good again, the conversation goes on.
#[track_caller]
fn fails_and_goes_on(env: &TestEnv, id: &str, code: &str) {
    env.fails(&["resume", id, "hello"], code);
    env.fails(&["run", "ref", "hello"], code);
    goes_on(env, id);
}

#[track_caller]
fn goes_on(env: &TestEnv, id: &str) {
    env.assert_nothing_runs();
    env.agent("ref", GOOD);
    let ask = ["resume", id, "what was the passkey"];
    assert_eq!(env.ask(&ask).0, "The passkey is PASSKEY-a");
    assert_eq!(env.only(), *id, "nothing is left of sessions in which nothing was said");
    env.assert_held("ref", id, "main");
    env.assert_sound();
}

#[track_caller]
fn check_flags(flags: &[&str], code: &str) {
    let (env, id) = begun();
    env.agent("ref", flags);
    fails_and_goes_on(&env, &id, code);
}

#[track_caller]
fn check_command(env: &TestEnv, id: &str, command: &[&str], code: &str) {
    env.set("agents.ref", format!("command = {command:?}"));
    fails_and_goes_on(env, id, code);
}

#[test]
fn agents_that_cannot_be_started() {
    let (env, id) = begun();
    check_command(&env, &id, &["no-such-agent-4711"], "not_installed");
    check_command(&env, &id, &["/no/such/agent"], "not_installed");
    check_command(&env, &id, &["./agent"], "cannot_start");
    let file = env.path("agent");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    check_command(&env, &id, &[file.to_str().unwrap()], "cannot_start");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    check_command(&env, &id, &[file.to_str().unwrap()], "cannot_start");
    check_command(&env, &id, &[env.root().to_str().unwrap()], "cannot_start");
}

#[test]
fn an_agent_that_nobody_knows_leaves_no_session() {
    let env = TestEnv::new();
    env.fails(&["run", "nobody", "hello"], "unknown_agent");
    assert_eq!(env.json(["list"]), serde_json::json!([]));
}

#[test]
fn an_agent_that_ends_at_once_is_quoted() {
    let (env, id) = begun();
    env.agent("ref", &["--exit-at-once", "7", "--stderr", "no \u{1b}[31mconfiguration"]);
    let error = env.fails(&["resume", &id, "hello"], "agent_ended");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("exit code 7") && message.contains("configuration"), "{message}");
    assert!(!message.contains('\u{1b}'), "{message:?}");
    fails_and_goes_on(&env, &id, "agent_ended");
}

#[test]
fn an_agent_of_another_version() {
    check_flags(&["--wrong-version", "7"], "wrong_version");
}

#[test]
fn an_agent_that_never_answers() {
    let (env, id) = begun();
    env.set("talk", "initialize_seconds = 1\nopen_seconds = 1");
    env.agent("ref", &["--hang-on", "initialize", "--ignore-stdin-close"]);
    fails_and_goes_on(&env, &id, "timed_out");
    env.agent("ref", &["--hang-on", "session/new"]);
    env.fails(&["run", "ref", "hello"], "timed_out");
    goes_on(&env, &id);
}

#[test]
fn an_agent_that_dies_whatever_it_is_asked() {
    for method in ["initialize", "session/new"] {
        let (env, id) = begun();
        env.agent("ref", &["--die-on", method]);
        fails_and_goes_on(&env, &id, "agent_ended");
    }
    // Here the request has been made: it stays.
    let (env, id) = begun();
    env.agent("ref", &["--resume", "--die-on", "session/prompt"]);
    env.fails(&["resume", &id, "hello"], "agent_ended");
    env.agent("ref", GOOD);
    assert_eq!(env.ask(&["resume", &id, "what was the passkey"]).0, "The passkey is PASSKEY-a");
    let said: Vec<String> = env.records(&id, "main").into_iter().map(|(_, text)| text).collect();
    assert_eq!(said[2], "hello");
    env.assert_nothing_runs();
}

#[test]
fn an_agent_that_speaks_no_json() {
    let (env, id) = begun();
    env.set("talk", "initialize_seconds = 1");
    for (command, code) in [
        (&["echo", "{\"jsonrpc\":\"2.0\",\"id\":"][..], "agent_ended"),
        (&["yes"], "timed_out"),
        // What it is asked, it asks back, and is told that there is no such thing.
        (&["cat"], "nonsense"),
        (&["cat", "/dev/zero"], "line_too_long"),
    ] {
        env.set("agents.ref", format!("command = {command:?}"));
        env.fails(&["resume", &id, "hello"], code);
    }
    goes_on(&env, &id);
}

/// The most memory that a process had, in KiB, as often as it can be looked at.
fn watched(env: &TestEnv, args: &[&str]) -> (Option<i32>, u64) {
    let mut command = env.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut most = 0;
    let status = until("it ends", || {
        let about = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let line = about.unwrap_or_default();
        let peak = line.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(peak.unwrap_or(0));
        child.try_wait().unwrap()
    });
    (status.code(), most)
}

#[test]
fn a_line_without_end_and_a_flood_cost_no_memory() {
    let (env, id) = begun();
    let (code, normal) = watched(&env, &["resume", &id, "hello"]);
    assert_eq!(code, Some(0));
    env.agent("ref", &["--resume", "--endless-line", "1073741824"]);
    let (code, endless) = watched(&env, &["resume", &id, "hello"]);
    assert_eq!(code, Some(1));
    assert!(endless < normal + 64 * 1024, "{endless} KiB, {normal} KiB otherwise");
    env.fails(&["resume", &id, "hello"], "line_too_long");
    env.assert_nothing_runs();
    env.agent("ref", &["--resume", "--flood", "50000"]);
    let (code, flood) = watched(&env, &["resume", &id, "say: over"]);
    assert_eq!(code, Some(0));
    assert!(flood < normal + 64 * 1024, "{flood} KiB, {normal} KiB otherwise");
    let (_, answer) = env.records(&id, "main").pop().unwrap();
    assert!(answer.len() == 50_000 * 100 + 4 && answer.ends_with("over"), "{}", answer.len());
    env.agent("ref", GOOD);
    assert_eq!(env.ask(&["resume", &id, "what was the passkey"]).0, "The passkey is PASSKEY-a");
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_project_folder_that_is_gone() {
    let env = TestEnv::new();
    env.agent("ref", GOOD);
    let folder = env.path("gone");
    std::fs::create_dir(&folder).unwrap();
    env.ask(&["run", "ref", "Remember PASSKEY-a", "--project", folder.to_str().unwrap()]);
    let id = env.only();
    std::fs::remove_dir(&folder).unwrap();
    env.fails(&["resume", &id, "hello"], "folder_gone");
    env.fails(&["send", &id, "hello"], "folder_gone");
    std::fs::create_dir(&folder).unwrap();
    goes_on(&env, &id);
}

#[test]
fn nothing_outlives_the_program() {
    let env = TestEnv::new();
    let file = env.path("daemon.pid");
    let daemon = file.to_str().unwrap();
    env.agent("ref", &["--resume", "--daemon", daemon, "--ignore-stdin-close"]);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    env.assert_nothing_runs();
    assert!(is_gone(&file), "after an answer");
    env.fails(&["resume", &id, "die"], "agent_ended");
    env.assert_nothing_runs();
    assert!(is_gone(&file), "after it died");
    env.agent("ref", &["--exit-at-once", "--daemon", daemon]);
    env.fails(&["resume", &id, "hello"], "agent_ended");
    assert!(is_gone(&file), "after it ended at once");
    env.agent("ref", &["--resume", "--daemon", daemon, "--ignore-stdin-close"]);
    let mut chat = Chat::start(&env, &["resume", &id]);
    chat.say("hello");
    chat.kill();
    env.assert_nothing_runs();
    until("the daemon is gone after we were killed", || is_gone(&file).then_some(()));
    goes_on(&env, &id);
}

#[test]
fn two_who_send_at_once_are_both_answered_one_after_the_other() {
    let (env, id) = begun();
    let send = |text: &str| {
        let mut command = env.command(["send", &id, text, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children = [send("say: one"), send("say: two"), send("say: three")];
    let mut answers: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            answer["answer"].as_str().unwrap().to_owned()
        })
        .collect();
    answers.sort();
    assert_eq!(answers, ["one", "three", "two"]);
    let records = env.records(&id, "main");
    assert_eq!(records.len(), 8);
    for turn in records[2..].chunks(2) {
        assert_eq!((turn[0].0.as_str(), turn[1].0.as_str()), ("user", "assistant"));
        assert_eq!(turn[0].1, format!("say: {}", turn[1].1));
    }
    env.assert_held("ref", &id, "main");
    env.assert_nothing_runs();
}

#[test]
fn two_conversations_of_a_session_run_side_by_side() {
    let (env, id) = begun();
    let mut chat = Chat::start(&env, &["resume", &id]);
    assert_eq!(chat.say("say: here"), "here");
    let answer = env.json(["send", &id, "say: there", "--conversation", "new"]);
    assert_eq!((&answer["answer"], &answer["opened"]["how"]), (&"there".into(), &"fresh".into()));
    assert_eq!(chat.say("say: still here"), "still here");
    assert!(chat.end().0.success());
    assert_eq!(env.records(&id, "main").len(), 6);
    assert_eq!(env.records(&id, "conversation-2").len(), 2);
}

#[test]
fn a_process_that_has_the_conversation_open_answers_what_others_send() {
    let env = TestEnv::new();
    env.agent("ref", GOOD);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.say("Remember PASSKEY-a");
    let id = env.only();
    let sent = env.json(["send", &id, "what was the passkey"]);
    assert_eq!(sent["answer"], "The passkey is PASSKEY-a");
    assert_eq!(chat.hear(), "The passkey is PASSKEY-a", "it is shown there as well");
    let printed = env.run(["send", &id, "say: for people"]).succeeded();
    assert_eq!(printed.text(), "for people\n", "{printed}");
    assert_eq!(chat.hear(), "for people");
    // An error there is an error here, and the conversation goes on.
    env.fails(&["send", &id, "die"], "elsewhere");
    assert_eq!(chat.hear(), "half of an answer …");
    assert_eq!(env.json(["send", &id, "say: alive"])["answer"], "alive");
    assert_eq!(chat.hear(), "alive");
    // To open it a second time is refused.
    env.fails(&["resume", &id], "conversation_busy");
    let (status, _, told) = chat.end();
    assert!(status.success() && told.contains("another process asks: say: alive"), "{told}");
    let starts = env.methods("ref").iter().filter(|one| *one == "initialize").count();
    assert_eq!(starts, 2, "one agent did all of it, and one more after it died");
    env.assert_held("ref", &id, "main");
    env.assert_nothing_runs();
}

#[test]
fn who_waits_for_a_process_that_is_killed_is_served_or_told() {
    let env = TestEnv::new();
    // The second word takes an hour.
    env.agent("ref", &["--resume", "--chunk-delay-ms", "3600000"]);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.say("Remember PASSKEY-a");
    let id = env.only();
    chat.type_line("stream: 2");
    // What is shown is written down.
    chat.hear_word("word1");
    let mut command = env.command(["send", &id, "what was the passkey"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut told = String::new();
    {
        use std::io::{BufRead, BufReader};
        let errors = waiting.stderr.as_mut().unwrap();
        BufReader::new(errors).read_line(&mut told).unwrap();
    }
    assert!(told.contains("another process has it open"), "{told}");
    chat.kill();
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "The passkey is PASSKEY-a");
    env.assert_held("ref", &id, "main");
    env.assert_nothing_runs();
}

#[test]
fn a_session_that_is_open_elsewhere_can_be_stopped() {
    let env = TestEnv::new();
    env.agent("ref", GOOD);
    for (args, status) in [(&["stop"][..], "paused"), (&["stop", "--complete"], "completed")] {
        let mut chat = Chat::start(&env, &["run", "ref"]);
        chat.say("Remember PASSKEY-a");
        let stopped = env.json(args);
        assert_eq!(stopped["status"], status);
        let (code, rest, told) = chat.wait();
        assert!(code.success() && rest.is_empty(), "{rest} {told}");
        let id = stopped["session_id"].as_str().unwrap();
        assert!(told.contains(if status == "paused" { "Paused" } else { "Completed" }), "{told}");
        assert_eq!(env.json(["show", id])["status"], status);
        env.assert_nothing_runs();
        assert_eq!(env.ask(&["resume", id, "what was the passkey", "--yes"]).1, "resumed");
        env.data(["complete", id]);
    }
    env.fails(&["stop"], "session_not_found");
}

#[test]
fn stopping_ends_the_turn_that_runs() {
    let env = TestEnv::new();
    env.agent("ref", GOOD);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.say("Remember PASSKEY-a");
    let id = env.only();
    chat.type_line("hang");
    until("the agent hangs", || (env.prompts("ref").len() == 2).then_some(()));
    assert_eq!(env.json(["stop", &id])["status"], "paused");
    let (code, _, told) = chat.wait();
    assert!(code.success(), "{told}");
    env.assert_nothing_runs();
    assert_eq!(env.ask(&["resume", &id, "what was the passkey"]).0, "The passkey is PASSKEY-a");
}

#[test]
fn agents_are_listed_with_what_they_can_do_or_why_not() {
    let env = TestEnv::new();
    env.agent("ref", &["--resume", "--load"]);
    env.agent("broken", &["--wrong-version", "7"]);
    env.set("agents.missing", "command = [\"no-such-agent-4711\"]");
    let agents = env.json(["agents"]);
    let agent = |name: &str| {
        let agents = agents.as_array().unwrap().iter();
        agents.into_iter().find(|agent| agent["name"] == name).unwrap().clone()
    };
    assert_eq!(agent("ref")["abilities"]["resume"], true);
    assert_eq!(agent("ref")["abilities"]["load"], true);
    assert!(agent("broken")["error"].as_str().unwrap().contains("version 7"));
    assert_eq!(agent("missing")["is_installed"], false);
    assert_eq!(agent("claude")["command"].as_array().map(Vec::is_empty), Some(false));
    env.assert_nothing_runs();
}
