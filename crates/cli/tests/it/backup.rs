//! `rethread backup`, `restore`

use crate::env::{TestEnv, user};
use crate::live::Live;

#[test]
fn a_backup_is_made_and_put_back() {
    let env = TestEnv::new();
    let id = env.basket();
    let backup = env.path("copy.db");
    let backup = backup.to_str().unwrap();
    assert_output!(env.run(["backup", backup]), @"
    exit: 0
    --- stdout
    --- stderr
    Backed up to [ROOT]/copy.db.
    ");
    env.record(["--session", &id], &[user("after the backup")]);
    let first = kept(&env, backup);
    for suffix in ["-wal", "-shm"] {
        assert!(!env.path(&format!("copy.db{suffix}")).exists(), "{suffix} is left");
    }
    assert_eq!(env.messages(&id).len(), 5);
    env.assert_sound();
    assert_eq!(TestEnv::with_store(&first).messages(&id).len(), 6);

    // A second time keeps a copy of its own, and the way back is shown.
    let second = kept(&env, backup);
    assert_ne!(second, first);
    let told = env.run(["restore", first.to_str().unwrap()]).stderr;
    assert!(told.contains("The store as it was is kept in "), "{told}");
    assert!(told.contains("To go back: rethread --store sqlite:"), "{told}");
    assert_eq!(env.messages(&id).len(), 6);
    env.data(["restore", second.to_str().unwrap()]);
    assert_eq!(env.messages(&id).len(), 5);
}

/// Restores a backup; gives the file that keeps what was there.
fn kept(env: &TestEnv, backup: &str) -> std::path::PathBuf {
    env.json(["restore", backup])["kept"].as_str().unwrap().into()
}

#[test]
fn a_recorder_whose_log_file_is_deleted_says_so_and_loses_nothing() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    assert_eq!(live.say(&user("before")), 1);
    let mut log = env.store().as_os_str().to_owned();
    log.push("-wal");
    std::fs::remove_file(&log).unwrap();
    let id = live.id.clone();
    let (acknowledged, told) = live.say_until_it_ends(&user("after"));
    assert_eq!(acknowledged, 0, "{told}");
    assert!(told.contains("-wal: it was deleted or replaced while the store was in use"), "{told}");
    assert_eq!(env.messages(&id).len(), 1);
    env.assert_sound();
}

#[test]
fn a_backup_while_somebody_writes_has_all_that_was_acknowledged() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    for n in 1..=5 {
        assert_eq!(live.say(&user("before")), n);
    }
    let copy = env.path("copy.db");
    env.data(["backup", copy.to_str().unwrap()]);
    for n in 6..=10 {
        assert_eq!(live.say(&user("meanwhile")), n);
    }
    let id = live.id.clone();
    live.finish();
    let copy = TestEnv::with_store(&copy);
    assert_eq!(copy.messages(&id).len(), 5);
    copy.assert_sound();
    assert_eq!(env.messages(&id).len(), 10);
}

#[test]
fn a_store_is_moved_by_backing_up_and_restoring_elsewhere() {
    let env = TestEnv::new();
    let id = env.basket();
    let backup = env.path("copy.db");
    env.data(["backup", backup.to_str().unwrap()]);
    let elsewhere = TestEnv::new();
    elsewhere.data(["restore", backup.to_str().unwrap()]);
    assert_eq!(elsewhere.data(["export", &id]), env.data(["export", &id]));
}

#[test]
fn a_file_is_not_replaced_unasked() {
    let env = TestEnv::new();
    env.basket();
    let backup = env.path("copy.db");
    std::fs::write(&backup, "precious").unwrap();
    let backup = backup.to_str().unwrap();
    assert_output!(env.run(["backup", backup]), @"
    exit: 1
    --- stdout
    --- stderr
    error: [ROOT]/copy.db already exists
    hint: give a new file, or --force to replace it
    ");
    assert_eq!(std::fs::read_to_string(backup).unwrap(), "precious");
    env.data(["backup", "--force", backup]);
    assert_output!(env.run(["backup", "--force", env.store().to_str().unwrap()]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the store cannot be its own backup
    hint: give another file
    ");
}

#[test]
fn what_is_no_backup_is_not_put_back() {
    let env = TestEnv::new();
    let id = env.basket();
    let file = env.path("notes.txt");
    std::fs::write(&file, "not a store\n".repeat(1000)).unwrap();
    assert_output!(env.run(["restore", file.to_str().unwrap()]), @"
    exit: 1
    --- stdout
    --- stderr
    error: [ROOT]/notes.txt is not a Rethread store: file is not a database
    hint: give a file that `rethread backup` made
    ");
    assert_output!(env.run(["restore", "missing.db"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: missing.db: there is no such file
    hint: give a file that `rethread backup` made
    ");
    assert_eq!(env.messages(&id).len(), 5);
}

/// What lies beside the store and the backup.
fn files(env: &TestEnv) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(env.root())
        .unwrap()
        .chain(std::fs::read_dir(env.store().parent().unwrap()).unwrap())
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".db"))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Restores a backup with a program that dies at a point; what is there is the old state or the new one, and nothing lies about.
fn restore_dying_at(point: &str, is_readable: bool) {
    let env = TestEnv::new();
    let id = env.basket();
    let backup = env.path("copy.db");
    let backup = backup.to_str().unwrap();
    env.run(["backup", backup]).succeeded();
    env.record(["--session", &id], &[user("after the backup")]);
    env.fold_log();
    let damaged = if is_readable {
        None
    } else {
        let mut bytes = std::fs::read(env.store()).unwrap();
        bytes[..100].fill(b'x');
        std::fs::write(env.store(), &bytes).unwrap();
        Some(bytes)
    };
    let mut command = env.command(["restore", backup]);
    let ended = command.env("CRASH_AT", format!("{point}:1")).output().unwrap();
    assert_eq!(ended.status.code(), None, "{point}: {ended:?}");
    let next = env.run(["list"]);
    assert!(next.stderr.contains("was cut off before its end"), "{point}: {next}");
    let again = env.run(["list"]);
    assert!(!again.stderr.contains("cut off"), "{point}: told twice: {again}");
    match &damaged {
        Some(bytes) => assert!(std::fs::read(env.store()).unwrap() == *bytes, "{point}"),
        None => {
            let count = env.messages(&id).len();
            let is_replaced = point == "restore.replaced";
            assert_eq!(count, if is_replaced { 5 } else { 6 }, "{point}: {next}");
            let says =
                if is_replaced { "the backup is in place" } else { "the store is as it was" };
            assert!(next.stderr.contains(says), "{point}: {next}");
            env.assert_sound();
        }
    }
    let copies: Vec<String> = files(&env);
    let is_left = |name: &&String| {
        name.contains(".part") || name.contains(".restoring") || name.starts_with("copy.db-")
    };
    assert_eq!(copies.iter().find(is_left), None, "{point}: {copies:?}");
    let kept: Vec<&String> =
        copies.iter().filter(|name| name.contains(".before-restore-")).collect();
    let is_kept = is_readable && ["restore.copied", "restore.replaced"].contains(&point);
    assert_eq!(kept.len(), usize::from(is_kept), "{point}: {copies:?}");
    for name in kept {
        let copy = TestEnv::with_store(&env.store().with_file_name(name));
        assert_eq!(copy.messages(&id).len(), 6, "{point}");
    }
    // And it can be done now.
    env.run(["restore", backup]).succeeded();
    assert_eq!(env.messages(&id).len(), 5, "{point}");
}

#[test]
fn a_restore_that_is_killed_leaves_the_store_as_it_was_or_as_the_backup_is_and_nothing_beside_it() {
    for point in
        ["restore.read", "restore.reserved", "copy.half", "restore.copied", "restore.replaced"]
    {
        restore_dying_at(point, true);
    }
    for point in ["restore.moved", "copy.half"] {
        restore_dying_at(point, false);
    }
}

#[test]
fn a_store_that_is_cut_short_under_a_recorder_is_noticed_before_anything_is_acknowledged() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    assert_eq!(live.say(&user("before")), 1);
    let store = std::fs::OpenOptions::new().write(true).open(env.store()).unwrap();
    let bytes = store.metadata().unwrap().len();
    store.set_len(bytes - 4096).unwrap();
    let (acknowledged, told) = live.say_until_it_ends(&user("after"));
    assert_eq!(acknowledged, 0, "{told}");
    assert!(told.contains("it was cut short while it was in use"), "{told}");
}

#[test]
fn a_store_that_somebody_compacts_is_not_taken_for_one_that_is_cut() {
    let env = TestEnv::new();
    let large = env.record::<&str>([], &[user(&"a long text ".repeat(50_000)), user("end")]);
    let mut live = Live::start(&env, &[]);
    assert_eq!(live.say(&user("before")), 1);
    env.run(["delete", "--permanently", &large]).succeeded();
    env.run(["doctor", "--compact"]).succeeded();
    assert_eq!(live.say(&user("after")), 2);
    live.finish();
    env.assert_sound();
}
