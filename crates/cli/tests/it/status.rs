//! `rethread pause`, `complete`, `activate`, `archive`, `unarchive`

use crate::env::{TestEnv, jsonl, user};

#[test]
fn pausing_says_how_to_go_on() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["pause", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    Paused [SHORT1] (The basket is lost when somebody logs in.) at message 5. `rethread context [SHORT1]` gives back what matters.
    ");
    assert_output!(env.run(["pause", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is already paused
    hint: `rethread activate [SHORT1]` takes it up again
    ");
}

#[test]
fn a_completed_session_is_asked_about_before_it_is_taken_up() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["complete", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    Completed [SHORT1] (The basket is lost when somebody logs in.).
    ");
    assert_output!(env.run(["activate", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is completed
    hint: `rethread activate --yes [SHORT1]` takes it up again; so does `--yes` of `rethread resume` and `rethread continue`
    ");
    assert_output!(env.run(["pause", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is completed
    hint: `rethread activate --yes [SHORT1]` takes it up again; so does `--yes` of `rethread resume` and `rethread continue`
    ");
    assert_output!(env.feed(["record", "--session", &id], jsonl(&[user("x")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is completed
    hint: `rethread activate --yes [SHORT1]` takes it up again; so does `--yes` of `rethread resume` and `rethread continue`
    ");
    assert_output!(env.run(["activate", "--yes", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT1] (The basket is lost when somebody logs in.) is active.
    ");
}

#[test]
fn an_archived_session_is_not_resumed_until_it_is_back() {
    let env = TestEnv::new();
    let id = env.basket();
    env.data(["pause", &id]);
    assert_output!(env.run(["archive", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    Archived [SHORT1] (The basket is lost when somebody logs in.). `rethread unarchive [SHORT1]` brings it back.
    ");
    for args in [
        &["context", &id][..],
        &["pause", &id],
        &["complete", &id],
        &["activate", &id],
        &["activate", "--yes", &id],
        &["archive", &id],
        &["fork", &id],
        &["prune", &id],
    ] {
        let refused = env.run([args, &["--json"]].concat());
        assert!(
            refused.code == Some(1) && refused.stderr.contains("archived"),
            "{args:?} {refused}"
        );
    }
    assert_output!(env.feed(["record", "--session", &id], jsonl(&[user("x")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is archived
    hint: `rethread unarchive [SHORT1]` brings it back
    ");
    assert_output!(env.run(["unarchive", &id]), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT1] (The basket is lost when somebody logs in.) is back: paused.
    ");
    assert_output!(env.run(["unarchive", &id]), @"
    exit: 1
    --- stdout
    --- stderr
    error: session [ID1] is not archived
    hint: `rethread list --status archived` shows those that are
    ");
    assert_eq!(env.messages(&id).len(), 5);
}

#[test]
fn a_message_makes_a_paused_session_active() {
    let env = TestEnv::new();
    let id = env.basket();
    env.data(["pause", &id]);
    env.record(["--session", &id], &[user("back again")]);
    assert_eq!(env.json(["show", &id])["status"], "active");
}

#[test]
fn programs_get_the_session_as_it_is_now() {
    let env = TestEnv::new();
    let id = env.basket();
    for (command, status) in [
        ("pause", "paused"),
        ("activate", "active"),
        ("complete", "completed"),
        ("archive", "archived"),
        ("unarchive", "completed"),
    ] {
        let session = env.json([command, &id]);
        assert_eq!(session["session_id"].as_str(), Some(id.as_str()));
        assert_eq!(session["status"], status, "{command}");
    }
}
