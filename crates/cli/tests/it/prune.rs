//! `rethread prune`

use crate::env::{TestEnv, user};

#[test]
fn old_messages_are_folded_and_none_is_deleted() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["prune", &id, "--keep", "2"]), @"
    exit: 0
    --- stdout
    --- stderr
    Folded 3 messages of 1 conversation into summaries.
    ");
    assert_output!(env.run(["prune", &id, "--keep", "2"]), @"
    exit: 0
    --- stdout
    --- stderr
    Nothing to fold.
    ");
    let view = env.json(["show", &id, "--all"]);
    assert_eq!(view["messages"].as_array().unwrap().len(), 5);
    assert_eq!(view["conversations"][0]["summarised_upto"], 3);
    assert!(view["session_summary"].as_str().is_some_and(|text| !text.is_empty()), "{view:#}");
    env.assert_sound();
}

#[test]
fn it_happens_by_itself_past_the_threshold() {
    let env = TestEnv::new();
    env.data(["config", "set", "prune.threshold", "30"]);
    env.data(["config", "set", "prune.keep", "10"]);
    let lines: Vec<_> = (1..=31).map(|n| user(&format!("We decided on number {n}."))).collect();
    let id = env.record::<&str>([], &lines);
    assert_eq!(env.json(["show", &id])["conversations"][0]["summarised_upto"], 21);
    assert_eq!(env.messages(&id).len(), 31);
}

#[test]
fn programs_are_told_how_many() {
    let env = TestEnv::new();
    let id = env.basket();
    insta::assert_snapshot!(env.settle(&format!("{:#}", env.json(["prune", &id, "--keep", "0"]))), @r#"
    {
      "session_id": "[ID1]",
      "summarised_messages": 5,
      "conversations": 1
    }
    "#);
}

#[test]
fn less_than_none_cannot_be_kept() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["prune", &id, "--keep", "-1"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: --keep cannot be -1
    hint: give 0 or more
    ");
}
