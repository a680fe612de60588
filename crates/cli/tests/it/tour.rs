//! `rethread tour`

use crate::env::TestEnv;

#[test]
fn the_tour_runs_and_leaves_nothing() {
    let env = TestEnv::new();
    let before = env.tree();
    let told = env.data(["tour"]);
    for part in [
        "<- kill -9, in the middle of the answer",
        "[resumer: resumed in its own session]",
        "[loader: loaded from its own session]",
        "[forgetful: told the story so far in a new session, because it can neither resume nor load]",
        "Three passkeys survived",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(env.tree(), before);
}

#[test]
fn its_store_can_be_kept() {
    let env = TestEnv::new();
    let told = env.data(["tour", "--keep"]);
    let store = told.split("--store ").nth(1).unwrap().split(' ').next().unwrap();
    let rows = env.json(["list", "--store", store]);
    assert_eq!(rows.as_array().unwrap().len(), 3);
    assert_eq!(rows[0]["message_count"], 8);
}

#[test]
fn it_takes_no_other_store() {
    let env = TestEnv::new();
    assert_output!(env.run(["tour", "--keep", "--store", "sqlite:other.db"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the tour has a store of its own
    hint: leave --store away; --keep keeps the store and says where it is
    ");
}
