//! What the agent remembers: in the process, after its death, and not at all.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod common;

use common::{Agent, kinds, prompt};
use serde_json::{Value, json};

const QUESTION: &str = "What was the passkey?";

#[test]
fn a_passkey_is_recalled_in_the_process_and_only_in_its_session() {
    let mut agent = Agent::start(&[]);
    let (one, other) = (agent.new_session(), agent.new_session());
    assert_ne!(one, other);
    assert_eq!(agent.prompt(&one, "Remember PASSKEY-blue_7."), "ACK: I was told 1 message");
    assert_eq!(agent.prompt(&one, QUESTION), "The passkey is PASSKEY-blue_7");
    assert_eq!(agent.prompt(&other, QUESTION), "I don't know the passkey");
}

#[test]
fn a_passkey_survives_kill_with_resume_and_nothing_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.prompt(&session, "Remember PASSKEY-a1.");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &[]);
    let answer = agent.attach("session/resume", &session);
    assert_eq!(answer["result"]["modes"]["currentModeId"], "code");
    assert!(agent.updates.is_empty());
    assert_eq!(agent.prompt(&session, QUESTION), "The passkey is PASSKEY-a1");
}

#[test]
fn load_replays_everything_before_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.prompt(&session, "Remember PASSKEY-a2.");
    agent.prompt(&session, "tool: build");
    agent.prompt(&session, "stream: 3");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &[]);
    assert!(agent.attach("session/load", &session)["error"].is_null());
    let replayed = agent.updates.clone();
    let expected = [
        "user_message_chunk",
        "agent_message_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_message_chunk",
    ];
    assert_eq!(kinds(&replayed), expected);
    assert_eq!(replayed[0]["content"]["text"], "Remember PASSKEY-a2.");
    assert_eq!(replayed[4]["content"][0]["content"]["text"], "output of build");
    assert_eq!(replayed[7]["content"]["text"], "word1 word2 word3");
    assert_eq!(agent.prompt(&session, QUESTION), "The passkey is PASSKEY-a2");
}

#[test]
fn without_a_folder_everything_is_forgotten() {
    let mut agent = Agent::start(&["--resume"]);
    let session = agent.new_session();
    agent.prompt(&session, "Remember PASSKEY-a3.");
    assert!(agent.attach("session/resume", &session)["error"].is_null(), "the process still knows");
    agent.kill();

    let mut agent = Agent::start(&["--resume"]);
    let refused = agent.attach("session/resume", &session);
    assert_eq!(refused["error"]["code"], -32002);
    assert_eq!(refused["error"]["data"], json!({ "sessionId": session }));
    let fresh = agent.new_session();
    assert_eq!(agent.prompt(&fresh, QUESTION), "I don't know the passkey");
}

#[test]
fn told_is_exactly_what_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    let blocks = json!([
        { "type": "resource", "resource": { "uri": "rethread:history", "text": "PASSKEY-r" } },
        { "type": "resource_link", "uri": "file:///notes", "name": "notes" },
        { "type": "text", "text": "hello" },
    ]);
    let id = agent.ask("session/prompt", prompt(&session, blocks));
    assert_eq!(agent.answer(id).0, "ACK: I was told 1 message");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &[]);
    agent.attach("session/resume", &session);
    let told: Value = serde_json::from_str(&agent.prompt(&session, "told?")).unwrap();
    let expected = json!([
        { "kind": "resource", "text": "PASSKEY-r" },
        { "kind": "resource", "text": "file:///notes" },
        { "kind": "text", "text": "hello" },
        { "kind": "text", "text": "told?" },
    ]);
    assert_eq!(told, expected);
    assert_eq!(agent.prompt(&session, QUESTION), "The passkey is PASSKEY-r");
}

#[test]
fn death_in_the_middle_keeps_the_prompt_and_not_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.tell(&session, "die");
    assert_eq!(agent.ended().code(), Some(3));
    assert_eq!(agent.said_since(0), "half of an answer …");

    let mut agent = Agent::lasting(folder.path(), &[]);
    agent.attach("session/load", &session);
    assert_eq!(kinds(&agent.updates), ["user_message_chunk"]);
}

#[test]
fn a_turn_is_lost_whole_when_nothing_is_kept_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let late = ["--persist-nothing-until-end"];
    let mut agent = Agent::lasting(folder.path(), &late);
    let session = agent.new_session();
    agent.prompt(&session, "Remember PASSKEY-kept.");
    agent.tell(&session, "exit");
    assert!(agent.ended().success());

    let mut agent = Agent::lasting(folder.path(), &late);
    agent.attach("session/load", &session);
    assert_eq!(kinds(&agent.updates), ["user_message_chunk", "agent_message_chunk"]);
}

#[test]
fn a_session_that_was_never_prompted_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    agent.kill();
    let mut agent = Agent::lasting(folder.path(), &[]);
    assert_eq!(agent.attach("session/load", &session)["error"]["code"], -32002);
    assert_eq!(agent.attach("session/load", "../../etc/passwd")["error"]["code"], -32002);
}

#[test]
fn what_was_set_is_forgotten_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &[]);
    let session = agent.new_session();
    agent.call("session/set_mode", json!({ "sessionId": session, "modeId": "plan" }));
    let set = json!({ "sessionId": session, "configId": "model", "value": "large" });
    let answer = agent.call("session/set_config_option", set);
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "large");
    let wrong = json!({ "sessionId": session, "configId": "model", "value": "huge" });
    assert_eq!(agent.call("session/set_config_option", wrong)["error"]["code"], -32602);
    assert_eq!(agent.prompt(&session, "mode?"), "mode plan model large");
    agent.kill();

    let mut agent = Agent::lasting(folder.path(), &[]);
    agent.attach("session/resume", &session);
    assert_eq!(agent.prompt(&session, "mode?"), "mode code model small");
}

#[test]
fn sessions_are_listed_by_folder_and_can_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::lasting(folder.path(), &["--ids", "own"]);
    let session = agent.new_session();
    assert_eq!(session, "own-1");
    assert_eq!(agent.call("session/list", json!({}))["result"]["sessions"], json!([]));
    agent.prompt(&session, "title: A name");
    let listed = agent.call("session/list", json!({ "cwd": "/tmp" }));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], "own-1");
    assert_eq!(listed["result"]["sessions"][0]["title"], "A name");
    let elsewhere = agent.call("session/list", json!({ "cwd": "/" }));
    assert_eq!(elsewhere["result"]["sessions"], json!([]));
    assert_eq!(agent.call("session/list", json!({ "cursor": "x" }))["error"]["code"], -32602);

    assert_eq!(agent.call("session/close", json!({ "sessionId": session }))["result"], json!({}));
    let id = agent.tell(&session, "hello");
    assert_eq!(agent.response(id)["error"]["code"], -32002, "a closed session takes no prompt");
    agent.attach("session/resume", &session);
    assert_eq!(agent.prompt(&session, "hello"), "ACK: I was told 2 messages");
}
