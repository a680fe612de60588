//! `rethread record`

use serde_json::json;

use crate::env::{TestEnv, basket, jsonl, user};

#[test]
fn recording_prints_the_session_then_an_ack_for_each_message() {
    let env = TestEnv::new();
    assert_output!(env.feed(["record", "--ack"], jsonl(&basket())), @r#"
    exit: 0
    --- stdout
    [ID1]
    {"seq":1}
    {"seq":2}
    {"seq":3}
    {"seq":4}
    {"seq":5}
    --- stderr
    "#);
}

#[test]
fn without_ack_only_the_session_is_printed() {
    let env = TestEnv::new();
    assert_output!(env.feed(["record"], jsonl(&basket())), @"
    exit: 0
    --- stdout
    [ID1]
    --- stderr
    ");
}

#[test]
fn a_session_goes_on_where_it_stopped() {
    let env = TestEnv::new();
    let id = env.basket();
    let more = [user("And the orphaned ones?")];
    assert_output!(env.feed(["record", "--ack", "--session", &id[..13]], jsonl(&more)), @r#"
    exit: 0
    --- stdout
    [ID1]
    {"seq":6}
    --- stderr
    "#);
    assert_eq!(env.messages(&id).len(), 6);
}

#[test]
fn every_field_of_a_line_is_kept() {
    let env = TestEnv::new();
    let id = env.record(
        ["--user", "berta", "--kind", "plan", "--title", "Big plan", "--agent", "codex"],
        &[
            json!({"role": "system", "content": "Be brief.", "timestamp": "2023-05-01T12:00:00+02:00"}),
            json!({"role": "assistant", "content": "Yes.", "timestamp": "2023-05-01T10:00:01.5Z",
                "conversation": "side talk", "agent": "gemini", "model": "pro-3", "id": "m/1",
                "tool_calls": [{"name": "ls", "arguments": {"path": "."}}],
                "usage": {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25},
                "thought": {"deep": [1, null]}}),
        ],
    );
    assert_output!(env.run(["show", &id, "--json"]), @r#"
    exit: 0
    --- stdout
    {"session_id":"[ID1]","user_id":"berta","project_id":"[ROOT]/project","kind":"plan","title":"Big plan","agent":"gemini","model":"pro-3","status":"active","created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:00:01.5Z","session_summary":null,"conversation_count":2,"message_count":2,"total_tokens":5,"input_tokens":7,"output_tokens":3,"cost_usd":0.25,"forked_from":null,"parent_session_id":null,"imported_from":null,"deleted_at":null,"resume_command":"rethread resume [SHORT1]","conversations":[{"name":"main","title":null,"created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:00:00Z","message_count":1,"total_tokens":3,"agent":null,"summary":null,"summarised_upto":0},{"name":"side talk","title":null,"created_at":"2023-05-01T10:00:01.5Z","last_active_at":"2023-05-01T10:00:01.5Z","message_count":1,"total_tokens":2,"agent":"gemini","summary":null,"summarised_upto":0}],"child_session_ids":[],"openings":[],"metadata":{"conversation_count":2,"message_count":2,"total_tokens":5,"agent_interaction_count":1,"recent_agents":[{"name":"gemini","usage_count":1}],"costs":{"total_cost_usd":0.25,"total_input_tokens":7,"total_output_tokens":3}},"omitted_messages":0,"messages":[
    {"seq":1,"id":"[ID1]:1","role":"system","content":"Be brief.","timestamp":"2023-05-01T10:00:00Z","conversation":"main","tokens":3},
    {"seq":2,"id":"m/1","role":"assistant","content":"Yes.","timestamp":"2023-05-01T10:00:01.5Z","conversation":"side talk","tokens":2,"agent":"gemini","model":"pro-3","tool_calls":[{"name":"ls","arguments":{"path":"."}}],"usage":{"input_tokens":7,"output_tokens":3,"cost_usd":0.25},"extra":{"thought":{"deep":[1,null]}}}]}
    --- stderr
    "#);
}

#[test]
fn the_same_id_twice_is_one_message_and_the_ack_repeats_its_number() {
    let env = TestEnv::new();
    let one = json!({"role": "user", "content": "one", "id": "a"});
    let two = json!({"role": "user", "content": "two", "id": "b"});
    let lines = jsonl(&[one.clone(), two, one.clone()]);
    let recorded = env.feed(["record", "--ack"], lines);
    assert_output!(recorded, @r#"
    exit: 0
    --- stdout
    [ID1]
    {"seq":1}
    {"seq":2}
    {"seq":1}
    --- stderr
    "#);
    let id = recorded.text().lines().next().unwrap().to_owned();
    let again = env.feed(["record", "--ack", "--session", &id], jsonl(&[one]));
    assert_eq!(again.text().lines().nth(1), Some(r#"{"seq":1}"#));
    assert_eq!(env.messages(&id).len(), 2);
}

#[test]
fn other_content_under_a_known_id_is_an_error_and_what_came_before_is_kept() {
    let env = TestEnv::new();
    let lines = jsonl(&[
        json!({"role": "user", "content": "one", "id": "a"}),
        user("two"),
        json!({"role": "user", "content": "other", "id": "a"}),
        user("never read"),
    ]);
    let recorded = env.feed(["record", "--ack"], lines);
    assert_output!(recorded, @r#"
    exit: 2
    --- stdout
    [ID1]
    {"seq":1}
    {"seq":2}
    --- stderr
    error: line 3: message id "a" is taken: message 1 has it, with other content
    hint: a new message needs an id of its own, or none
    "#);
    let id = recorded.text().lines().next().unwrap().to_owned();
    let contents: Vec<_> = env.messages(&id).iter().map(|one| one["content"].clone()).collect();
    assert_eq!(contents, ["one", "two"]);
}

#[test]
fn what_a_session_is_does_not_change_when_it_goes_on() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.feed(["record", "--session", &id, "--kind", "plan"], jsonl(&[user("x")])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: session [ID1] already has the kind "debug", which cannot be changed
    hint: omit --kind
    "#);
    assert_eq!(env.messages(&id).len(), 5);
}

#[test]
fn empty_lines_are_skipped_and_the_last_line_needs_no_end() {
    let env = TestEnv::new();
    let recorded = env.feed(["record", "--ack"], format!("\n  \n{}\r\n\n{}", user("a"), user("b")));
    assert_output!(recorded, @r#"
    exit: 0
    --- stdout
    [ID1]
    {"seq":1}
    {"seq":2}
    --- stderr
    "#);
}

#[test]
fn folders_can_be_set_not_to_record() {
    let env = TestEnv::new();
    let project = env.path("project");
    env.data(["config", "set", "record.exclude", &format!("[{:?}]", project.to_str().unwrap())]);
    assert_output!(env.feed(["record"], jsonl(&[user("secret")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: sessions in [ROOT]/project are not recorded
    hint: the setting record.exclude says so; `rethread config path` shows the file
    ");
}
