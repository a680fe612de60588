//! `rethread rename`

use crate::env::{TestEnv, user};

#[test]
fn a_title_of_ones_own_stays() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["rename", &id, "The lost basket"]), @"
    exit: 0
    --- stdout
    --- stderr
    Renamed [SHORT1] (The lost basket).
    ");
    env.record(["--session", &id, "--title", "What the agent says"], &[user("x")]);
    assert_eq!(env.json(["show", &id])["title"], "The lost basket");
    assert_eq!(env.json(["search", "lost basket"])[0]["kind"], "title");
}

#[test]
fn an_empty_title_is_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["rename", &id, " "]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a usable title: " " (allowed: 1 to 500 bytes of text, with a visible character)
    "#);
}
