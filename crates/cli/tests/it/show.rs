//! `rethread show`

use serde_json::json;

use crate::env::{TestEnv, user};

#[test]
fn a_session_is_shown_with_its_messages() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["show", &id]), @"
    exit: 0
    --- stdout
    Session       [ID1]
    Title         The basket is lost when somebody logs in.
    Status        active
    User          anna
    Project       [ROOT]/project
    Kind          debug
    Agent         claude
    Started       2023-05-01 10:00
    Last active   2023-05-01 10:04
    Messages      5 (61 tokens)

    #1 user, 2023-05-01 10:00
    The basket is lost when somebody logs in. Find out why.

    #2 assistant, 2023-05-01 10:01
    login.rs rotates the cookie before the basket has moved over.

    #3 tool, 2023-05-01 10:02
    src/login.rs:41: cookies.rotate()

    #4 user, 2023-05-01 10:03
    Do not rename the cookie. The staging passkey is heron-42.

    #5 assistant, 2023-05-01 10:04
    Understood: the basket moves in the same transaction.
    --- stderr
    ");
}

#[test]
fn the_last_twenty_are_shown_and_all_on_request() {
    let env = TestEnv::new();
    let lines: Vec<_> = (1..=23).map(|n| user(&format!("message {n}"))).collect();
    let id = env.record::<&str>([], &lines);
    let last = env.data(["show", &id]);
    assert!(last.contains("… 3 earlier messages; --all shows them"), "{last}");
    assert!(last.contains("#4 user") && !last.contains("#3 user"), "{last}");
    assert!(env.data(["show", &id, "--all"]).contains("#1 user"));
    let view = env.json(["show", &id]);
    assert_eq!((&view["omitted_messages"], &view["messages"][0]["seq"]), (&json!(3), &json!(4)));
    assert_eq!(env.messages(&id).len(), 23);
}

#[test]
fn conversations_are_told_apart() {
    let env = TestEnv::new();
    let id = env.record::<&str>(
        [],
        &[
            json!({"role": "user", "content": "one", "timestamp": "2023-05-01T10:00:00Z"}),
            json!({"role": "user", "content": "two", "timestamp": "2023-05-01T10:01:00Z", "conversation": "side talk"}),
        ],
    );
    assert_output!(env.run(["show", &id]), @"
    exit: 0
    --- stdout
    Session       [ID1]
    Title         one
    Status        active
    User          anna
    Project       [ROOT]/project
    Kind          chat
    Started       2023-05-01 10:00
    Last active   2023-05-01 10:01
    Messages      2 (2 tokens)
    Conversations main (1), side talk (1)

    #1 user in main, 2023-05-01 10:00
    one

    #2 user in side talk, 2023-05-01 10:01
    two
    --- stderr
    ");
}

#[test]
fn programs_get_the_session_with_its_messages() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["show", &id, "--json"]), @r#"
    exit: 0
    --- stdout
    {"session_id":"[ID1]","user_id":"anna","project_id":"[ROOT]/project","kind":"debug","title":"The basket is lost when somebody logs in.","agent":"claude","model":null,"status":"active","created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:04:00Z","session_summary":null,"conversation_count":1,"message_count":5,"total_tokens":61,"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"forked_from":null,"parent_session_id":null,"imported_from":null,"deleted_at":null,"resume_command":"rethread resume [SHORT1]","conversations":[{"name":"main","title":"The basket is lost when somebody logs in.","created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:04:00Z","message_count":5,"total_tokens":61,"agent":"claude","summary":null,"summarised_upto":0}],"child_session_ids":[],"openings":[],"metadata":{"conversation_count":1,"message_count":5,"total_tokens":61,"agent_interaction_count":2,"recent_agents":[{"name":"claude","usage_count":2}],"costs":{"total_cost_usd":0.0,"total_input_tokens":0,"total_output_tokens":0}},"omitted_messages":0,"messages":[
    {"seq":1,"id":"[ID1]:1","role":"user","content":"The basket is lost when somebody logs in. Find out why.","timestamp":"2023-05-01T10:00:00Z","conversation":"main","tokens":13},
    {"seq":2,"id":"[ID1]:2","role":"assistant","content":"login.rs rotates the cookie before the basket has moved over.","timestamp":"2023-05-01T10:01:00Z","conversation":"main","tokens":12},
    {"seq":3,"id":"[ID1]:3","role":"tool","content":"src/login.rs:41: cookies.rotate()","timestamp":"2023-05-01T10:02:00Z","conversation":"main","tokens":9},
    {"seq":4,"id":"[ID1]:4","role":"user","content":"Do not rename the cookie. The staging passkey is heron-42.","timestamp":"2023-05-01T10:03:00Z","conversation":"main","tokens":16},
    {"seq":5,"id":"[ID1]:5","role":"assistant","content":"Understood: the basket moves in the same transaction.","timestamp":"2023-05-01T10:04:00Z","conversation":"main","tokens":11}]}
    --- stderr
    "#);
}

#[test]
fn a_purged_message_is_shown_as_such() {
    let env = TestEnv::new();
    let source = env.basket();
    env.data(["purge", &source, "5"]);
    let shown = env.data(["show", &source]);
    assert!(shown.contains("[purged "), "{shown}");
}

#[test]
fn what_is_huge_is_folded_on_a_terminal_alone() {
    let env = TestEnv::new();
    let long = (1..=500).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let id = env.record::<&str>([], &[crate::env::user(&long)]);
    let (shown, code) = crate::chat::Terminal::start(&env, &["show", &id]).end();
    assert_eq!(code, 0);
    assert!(shown.contains("line 60\r\n") && !shown.contains("line 61\r\n"), "{shown}");
    assert!(shown.contains("440 more lines (--full shows them)"), "{shown}");
    let (shown, _) = crate::chat::Terminal::start(&env, &["show", &id, "--full"]).end();
    assert!(shown.contains("line 500\r\n"), "{shown}");
    assert!(env.data(["show", &id]).contains("\nline 500\n"));
}
