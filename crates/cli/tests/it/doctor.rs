//! `rethread doctor`

use crate::env::{TestEnv, user};
use crate::live::Live;

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
    Store       sqlite:[ROOT]/store/sessions.db (schema 15, SQLite [VERSION])
    Sessions    2, and 1 deleted
    Messages    6
    Long texts  0 B
    Index       1 message behind; the next search catches up
    Check       everything is in order
    ");
}

#[test]
fn programs_get_every_figure() {
    let env = TestEnv::new();
    env.basket();
    let told = env.json(["doctor"]);
    let fields: Vec<&String> = told.as_object().unwrap().keys().collect();
    insta::assert_snapshot!(format!("{fields:?}"), @r#"["store", "sqlite", "schema", "sessions", "deleted_sessions", "messages", "file_bytes", "wal_bytes", "free_bytes", "blob_bytes", "unindexed_messages", "damage", "records", "drift", "damaged_logs", "openings", "folders", "repaired", "ok"]"#);
    assert_eq!(told["ok"], true);
    assert_eq!(told["messages"], 5);
    // A few messages are left to the next search.
    assert_eq!(told["unindexed_messages"], 5);
    env.data(["search", "basket"]);
    assert_eq!(env.json(["doctor"])["unindexed_messages"], 0);
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

#[test]
fn a_log_file_that_was_damaged_after_a_kill_is_told_at_once_and_by_doctor() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &["--title", "T"]);
    for n in 0..8 {
        live.say(&user(&format!("message {n}")));
    }
    live.kill();
    let log = format!("{}-wal", env.store().display());
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0x35);
    std::fs::write(&log, &bytes).unwrap();
    let listed = env.run(["list"]).succeeded();
    assert!(
        listed.stderr.contains("warning: the log file that a crash left was damaged"),
        "{listed}"
    );
    assert!(!env.run(["list"]).succeeded().stderr.contains("warning"), "it is said once");
    let doctor = env.run(["doctor", "--json"]);
    assert_eq!(doctor.code, Some(1), "{doctor}");
    let told: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(
        (&told["ok"], told["damaged_logs"].as_array().map(Vec::len)),
        (&false.into(), Some(1))
    );
    let kept = std::fs::read_dir(env.store().parent().unwrap()).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    let kept = kept.filter(|path| path.to_string_lossy().contains("-wal.damaged-"));
    let kept: Vec<_> = kept.collect();
    assert_eq!(kept.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>(), [bytes]);
    std::fs::remove_file(&kept[0]).unwrap();
    env.assert_sound();
}
