//! `rethread fork`

use crate::env::{TestEnv, user};

#[test]
fn a_fork_goes_on_from_the_end_or_from_a_message() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["fork", &id]), @"
    exit: 0
    --- stdout
    [ID2]
    --- stderr
    [SHORT2] (The basket is lost when somebody logs in.) shares 5 messages with [SHORT1].
    ");
    assert_output!(env.run(["fork", &id, "--at", "2"]), @"
    exit: 0
    --- stdout
    [ID3]
    --- stderr
    [SHORT3] (The basket is lost when somebody logs in.) shares 2 messages with [SHORT1].
    ");
}

#[test]
fn neither_changes_the_other() {
    let env = TestEnv::new();
    let id = env.basket();
    let fork = env.data(["fork", &id, "--at", "2"]).trim().to_owned();
    env.record(["--session", &fork], &[user("another way")]);
    env.record(["--session", &id], &[user("the old way")]);
    let contents = |id: &str| -> Vec<String> {
        env.messages(id).iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(contents(&fork).len(), 3);
    assert_eq!(contents(&fork)[..2], contents(&id)[..2]);
    assert_eq!(contents(&fork)[2], "another way");
    assert_eq!(contents(&id)[5], "the old way");
    let view = env.json(["show", &fork]);
    assert_eq!(view["forked_from"], serde_json::json!({"session_id": id, "seq": 2}));
    env.data(["delete", &id, "--permanently"]);
    assert_eq!(contents(&fork).len(), 3);
    assert!(env.data(["context", &fork]).contains("rotates the cookie"));
    env.assert_sound();
}

#[test]
fn a_message_that_is_not_there_is_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["fork", &id, "--at", "6"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] has no message 6
    hint: `rethread show [SHORT1] --all` shows every message with its number
    ");
    assert_output!(env.run(["fork", &id, "--at", "0"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] has no message 0
    hint: `rethread show [SHORT1] --all` shows every message with its number
    ");
    env.run(["fork", &id, "--at", "-5", "--json"]).assert_error(2, "usage");
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
}
