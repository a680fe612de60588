//! `rethread doctor`

use crate::env::{TestEnv, user};

#[test]
fn a_store_in_order_is_told_so() {
    let env = TestEnv::new();
    let id = env.basket();
    let gone = env.record::<&str>([], &[user("gone")]);
    env.data(["delete", &gone]);
    env.data(["fork", &id]);
    let told = env.data(["doctor"]);
    let told: Vec<&str> = told.lines().filter(|line| !line.starts_with("Disk")).collect();
    let told = env.settle(&told.join("\n"));
    let version = told.split("SQLite ").nth(1).unwrap().split(')').next().unwrap().to_owned();
    insta::assert_snapshot!(told.replace(&version, "[VERSION]"), @"
    Store       sqlite:[ROOT]/store/sessions.db (schema 9, SQLite [VERSION])
    Sessions    2, and 1 deleted
    Messages    6
    Long texts  0 B
    Index       up to date
    Check       everything is in order
    ");
}

#[test]
fn programs_get_every_figure() {
    let env = TestEnv::new();
    env.basket();
    let told = env.json(["doctor"]);
    let fields: Vec<&String> = told.as_object().unwrap().keys().collect();
    insta::assert_snapshot!(format!("{fields:?}"), @r#"["store", "schema", "sqlite", "sessions", "deleted_sessions", "messages", "file_bytes", "wal_bytes", "free_bytes", "blob_bytes", "unindexed_messages", "openings", "damage", "records", "drift", "ok", "folders", "repaired"]"#);
    assert_eq!(told["ok"], true);
    assert_eq!(told["messages"], 5);
    assert_eq!(told["unindexed_messages"], 0);
}

#[test]
fn rebuilding_and_compacting_change_nothing_that_is_told() {
    let env = TestEnv::new();
    let id = env.basket();
    let fork = env.data(["fork", &id, "--at", "3"]).trim().to_owned();
    env.record(["--session", &fork], &[user("another way")]);
    env.data(["prune", &id, "--keep", "1"]);
    env.data(["purge", &id, "2"]);
    let told = || {
        let contexts = [&id, &fork].map(|id| env.data(["context", id]));
        (env.data(["export", "--all"]), contexts, env.json(["search", "basket"]))
    };
    let before = told();
    env.data(["doctor", "--rebuild", "--compact"]);
    let after = told();
    assert_eq!(before.0, after.0);
    assert_eq!(before.1, after.1);
    assert_eq!(before.2.as_array().unwrap().len(), after.2.as_array().unwrap().len());
    env.assert_sound();
}
