//! What the agent does wrong when it is asked to.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod common;

use std::io::Read;
use std::process::Command;

use common::{Agent, kinds};
use serde_json::{Value, json};

/// Each shape with the error it must give for the session `s`, asked for by load.
fn shapes() -> Vec<(&'static str, Value)> {
    let error = |code: i64, message: &str, data: Value| {
        let mut error = json!({ "code": code, "message": message });
        if !data.is_null() {
            error["data"] = data;
        }
        error
    };
    let none = || Value::Null;
    let missing = "Resource not found";
    vec![
        ("resource-not-found", error(-32002, missing, none())),
        ("-32002-session-id", error(-32002, missing, json!({ "sessionId": "s" }))),
        ("-32002-uri", error(-32002, missing, json!({ "uri": "s" }))),
        ("-32002-string", error(-32002, missing, json!("Session not found: s"))),
        ("-32001", error(-32001, "Session not found", none())),
        ("-32603-session-not-found", error(-32603, "Session not found", none())),
        (
            "-32603-details",
            error(-32603, "Internal error", json!({ "details": "Session not found" })),
        ),
        ("-32603-error", error(-32603, "Internal error", json!({ "error": "unknown session s" }))),
        ("-32603-no-rollout", error(-32603, "no rollout found for thread id s", none())),
        (
            "-32603-no-previous",
            error(-32603, "No previous sessions found for this project.", none()),
        ),
        ("-32603-invalid-identifier", error(-32603, "Invalid session identifier \"s\".", none())),
        (
            "-32603-no-conversation",
            error(-32603, "No conversation found with session ID: s", none()),
        ),
        ("-32603-query-closed", error(-32603, "Query closed before response received", none())),
        (
            "-32603-opencode",
            error(-32603, "OpenCode service failure", json!({ "service": "session" })),
        ),
        ("-32602-unknown", error(-32602, "Unknown sessionId", none())),
        ("-32602-session_id", error(-32602, "Session not found", json!({ "session_id": "s" }))),
        (
            "-32602-details",
            error(-32602, "Invalid params", json!({ "details": "Session not found: s" })),
        ),
        ("-32601", error(-32601, "Method not found", json!({ "method": "session/load" }))),
        ("-32000", error(-32000, "Authentication required", none())),
        ("-32800", error(-32800, "Request cancelled", none())),
    ]
}

#[test]
fn every_error_shape_is_answered_to_load_resume_and_prompt() {
    for (name, expected) in shapes() {
        let mut agent = Agent::start(&["--load", "--resume", "--error-shape", name]);
        assert_eq!(agent.attach("session/load", "s")["error"], expected, "{name}");
        let resumed = agent.attach("session/resume", "s");
        assert_eq!(resumed["error"]["code"], expected["code"], "{name}");
        let id = agent.tell("s", "hello");
        assert_eq!(agent.response(id)["error"]["message"], expected["message"], "{name}");
    }
}

#[test]
fn a_refusal_succeeds_and_says_nothing() {
    let mut agent = Agent::start(&["--load", "--resume", "--error-shape", "refusal"]);
    assert!(agent.attach("session/load", "s")["error"].is_null());
    for session in ["s", "never attached"] {
        let id = agent.tell(session, "hello");
        assert_eq!(agent.response(id)["result"], json!({ "stopReason": "refusal" }));
    }
    assert!(agent.updates.is_empty());
    let fresh = agent.new_session();
    assert_eq!(agent.prompt(&fresh, "hello"), "ACK: I was told 1 message");
}

#[test]
fn a_lost_session_may_look_like_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.prompt(&session, "Remember PASSKEY-x.");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &["--lose", "--error-shape=success-and-empty"]);
    assert!(agent.attach("session/load", &session)["error"].is_null());
    assert!(agent.updates.is_empty());
    assert_eq!(agent.prompt(&session, "what was the passkey"), "I don't know the passkey");
}

#[test]
fn a_session_can_be_lost_at_once_or_at_the_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &["--lose"]);
    let session = agent.new_session();
    assert_eq!(agent.prompt(&session, "hello"), "ACK: I was told 1 message");
    for method in ["session/load", "session/resume"] {
        let error = &agent.attach(method, &session)["error"];
        assert_eq!(error["data"], json!({ "sessionId": session }), "{method}");
    }
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &["--lose-on-prompt"]);
    assert!(agent.attach("session/resume", &session)["error"].is_null());
    let id = agent.tell(&session, "hello");
    assert_eq!(agent.response(id)["error"]["code"], -32002);
}

#[test]
fn a_replay_can_be_wrong_late_or_uncalled_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.prompt(&session, "hello");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &["--replay", "wrong"]);
    agent.attach("session/load", &session);
    assert_eq!(agent.updates[0]["content"]["text"], "Where is the station?");

    let mut agent = Agent::lasting(folder.path(), &["--replay", "late"]);
    agent.attach("session/load", &session);
    assert!(agent.updates.is_empty());
    let late = agent.until(|frame| frame["method"] == "session/update");
    assert_eq!(late["params"]["update"]["content"]["text"], "hello");

    let mut agent = Agent::lasting(folder.path(), &["--replay-on-resume"]);
    agent.attach("session/resume", &session);
    assert_eq!(kinds(&agent.updates), ["user_message_chunk", "agent_message_chunk"]);
}

#[test]
fn rubbish_does_not_break_the_frames() {
    for (flag, least) in [("--noise", 12), ("--garbage", 12)] {
        let mut agent = Agent::start(&[flag, "--echo"]);
        let session = agent.new_session();
        assert_eq!(
            agent.prompt(&session, "Remember PASSKEY-n."),
            "ACK: I was told 1 message",
            "{flag}"
        );
        let id = agent.tell(&session, "what was the passkey");
        let (said, response) = agent.answer(id);
        let said = said.replace("after the end", "");
        assert_eq!(said, "The passkey is PASSKEY-n", "{flag}");
        assert_eq!(response["result"]["stopReason"], "end_turn", "{flag}");
        assert!(kinds(&agent.updates).contains(&"user_message_chunk"), "{flag}");
        assert!(agent.rubbish >= least, "{flag}: {} lines were no frames", agent.rubbish);
    }
}

#[test]
fn noise_comes_before_the_first_frame() {
    let agent = Agent::spawn(&["--noise"]);
    assert_eq!(agent.line().unwrap(), b"Debugger attached.\n");
    let some_line_is_broken = (0..5).any(|_| String::from_utf8(agent.line().unwrap()).is_err());
    assert!(some_line_is_broken);
}

#[test]
fn garbage_answers_twice_and_after_the_end() {
    let mut agent = Agent::start(&["--garbage"]);
    let session = agent.new_session();
    let id = agent.tell(&session, "hello");
    let first = agent.response(id);
    assert_eq!(agent.response(id), first);
    let after = agent.until(|frame| frame["method"] == "session/update");
    assert_eq!(after["params"]["update"]["content"]["text"], "after the end");
}

#[test]
fn methods_can_hang_or_kill() {
    let mut agent = Agent::start(&["--hang-on", "session/new", "--die-on", "session/prompt"]);
    let hanging = agent.ask("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }));
    let answered = agent.ask("session/nothing", json!({}));
    let next = agent.frame().unwrap();
    assert_ne!(next["id"], hanging);
    assert_eq!(next["id"], answered);
    agent.tell("s", "hello");
    assert_eq!(agent.ended().code(), Some(3));
}

#[test]
fn it_can_fail_to_start() {
    assert_eq!(Agent::spawn(&["--exit-at-once"]).ended().code(), Some(1));
    let mut agent =
        Agent::spawn(&["--stderr", "- no key", "--exit-at-once", "7", "--start-delay-ms", "1"]);
    assert_eq!(agent.ended().code(), Some(7));
    let mut complaint = String::new();
    agent.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(complaint, "- no key\n");
    assert_eq!(Agent::start(&["--wrong-version", "2"]).capabilities["protocolVersion"], 2);
}

#[test]
fn a_login_can_be_required() {
    let mut agent = Agent::start(&["--auth-required"]);
    let params = json!({ "cwd": "/tmp", "mcpServers": [] });
    assert_eq!(agent.call("session/new", params.clone())["error"]["code"], -32000);
    agent.call("authenticate", json!({ "methodId": agent.capabilities["authMethods"][0]["id"] }));
    assert!(agent.call("session/new", params)["error"].is_null());
}

#[test]
fn it_can_flood_and_never_end_a_line() {
    let mut agent = Agent::start(&["--flood", "1000", "--updates-after-end"]);
    let session = agent.new_session();
    assert_eq!(
        agent.prompt(&session, "hello").len(),
        1000 * 100 + "ACK: I was told 1 message".len()
    );
    let after = agent.until(|frame| frame["method"] == "session/update");
    assert_eq!(after["params"]["update"]["content"]["text"], "after the end");

    let mut agent = Agent::start(&["--endless-line", "1000000"]);
    agent.close_stdin();
    assert_eq!(agent.line().unwrap().len(), 1_000_000);
    assert!(agent.ended().success());
}

#[test]
fn it_can_outlive_its_input_and_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut agent = Agent::start(&["--ignore-stdin-close", "--log", log.to_str().unwrap()]);
    let session = agent.new_session();
    let pid = agent.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(agent.prompt(&session, "say: still here"), "still here");
    // A stream that goes on shows that the end of the input changed nothing.
    agent.tell(&session, "stream: 20000");
    agent.close_stdin();
    agent.until(|frame| frame["result"]["stopReason"] == "end_turn");
    assert!(agent.child.try_wait().unwrap().is_none());
}

#[test]
fn it_can_leave_a_daemon_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut agent = Agent::start(&["--daemon", file.to_str().unwrap()]);
    let pid = std::fs::read_to_string(file).unwrap().trim().to_owned();
    agent.close_stdin();
    assert!(agent.ended().success());
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success(), "it was still there");
}
