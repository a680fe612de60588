//! `rethread purge`

use serde_json::json;

use crate::env::TestEnv;

#[test]
fn a_purged_message_is_gone_everywhere() {
    let env = TestEnv::new();
    let id = env.basket();
    let fork = env.data(["fork", &id]).trim().to_owned();
    env.data(["pause", &id]);
    env.data(["prune", &fork, "--keep", "0"]);
    assert_output!(env.run(["purge", &id, "4"]), @"
    exit: 0
    --- stdout
    --- stderr
    Purged message 4 of [SHORT1]. Backups and exports made before still have it.
    ");
    let again = env.run(["purge", &id, "4"]).stderr;
    assert!(again.contains(" was purged already, on 20"), "{again}");
    for session in [&id, &fork] {
        let message = &env.messages(session)[3];
        assert_eq!(message["content"], "");
        assert!(message["purged_at"].is_string(), "{message}");
        assert!(!env.data(["context", session]).contains("heron"));
        assert!(!env.data(["export", session]).contains("heron"));
    }
    assert_eq!(env.json(["search", "heron"]), json!([]));
    for (file, _) in env.tree() {
        let bytes = std::fs::read(env.root().join(&file)).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"heron-42"), "{}", file.display());
    }
    env.assert_sound();
}

#[test]
fn a_message_is_named_by_its_number_or_its_id() {
    let env = TestEnv::new();
    let id = env.record::<&str>(
        [],
        &[
            json!({"role": "user", "content": "one", "id": "m-1"}),
            json!({"role": "user", "content": "two"}),
        ],
    );
    assert_eq!(env.json(["purge", &id, "m-1"])["seq"], 1);
    assert_eq!(env.json(["purge", &id, &format!("{id}:2")])["seq"], 2);
}

#[test]
fn a_message_that_is_not_there_is_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["purge", &id, "6"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] has no message 6
    hint: `rethread show [SHORT1] --all` shows every message with its number
    ");
    assert_output!(env.run(["purge", &id, "m-1"]), @r#"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] has no message with the id "m-1"
    hint: `rethread show ID --all` shows every message with its number
    "#);
    assert_output!(env.run(["purge", &id, "../x"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a usable message id: "../x" (allowed: 1 to 256 letters, digits and . _ : @ + = / # -, starting with a letter, digit or _, without ..)
    "#);
}
