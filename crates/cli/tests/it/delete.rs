//! `rethread delete`, `undelete`

use serde_json::json;

use crate::env::{TestEnv, jsonl, user};

#[test]
fn a_deleted_session_can_be_brought_back() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["delete", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    Deleted [SHORT1] (The basket is lost when somebody logs in.). `rethread undelete [SHORT1]` brings it back within 30 days.
    ");
    assert_eq!(env.json(["list", "--all"]), json!([]));
    assert_eq!(env.json(["search", "passkey"]), json!([]));
    assert_eq!(env.json(["list", "--deleted"])[0]["session_id"], json!(id));
    assert_output!(env.run(["context", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is deleted
    hint: `rethread undelete [SHORT1]` brings it back
    ");
    assert_output!(env.feed(["record", "--session", &id], jsonl(&[user("x")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is deleted
    hint: `rethread undelete [SHORT1]` brings it back
    ");
    assert_output!(env.run(["delete", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is deleted
    hint: `rethread undelete [SHORT1]` brings it back
    ");
    assert_output!(env.run(["undelete", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT1] (The basket is lost when somebody logs in.) is back.
    ");
    assert_output!(env.run(["undelete", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is not deleted
    hint: `rethread list --deleted` shows those that are
    ");
    assert_eq!(env.messages(&id).len(), 5);
    assert_eq!(env.json(["search", "passkey"])[0]["seq"], 4);
}

#[test]
fn for_good_means_that_nothing_stays() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["delete", "--permanently", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT1] (The basket is lost when somebody logs in.) is gone for good.
    ");
    assert_output!(env.run(["undelete", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: no session [ID1]
    hint: `rethread list` lists the sessions
    ");
    env.assert_sound();
    for file in ["store/sessions.db", "store/sessions.db-wal"] {
        let bytes = std::fs::read(env.path(file)).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"heron-42"), "{file}");
    }
}
