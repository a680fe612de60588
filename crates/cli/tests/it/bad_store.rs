//! Stores that cannot be used, or not for everything.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::env::{Output, TestEnv, jsonl, user};
use crate::live::Live;

#[track_caller]
fn assert_refused(env: &TestEnv, code: &str) {
    let before = std::fs::read(env.store()).ok();
    for args in [&["list"][..], &["show", "0000"], &["search", "x"], &["doctor"], &["record"]] {
        let refused = env.feed([args, &["--json"]].concat(), jsonl(&[user("x")]));
        refused.assert_error(1, code);
        assert_eq!(refused.text(), "", "{refused}");
    }
    assert!(std::fs::read(env.store()).ok() == before, "the file was touched");
}

#[test]
fn a_folder_is_no_store() {
    let env = TestEnv::new();
    std::fs::create_dir(env.store()).unwrap();
    assert_output!(env.run(["list"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: [ROOT]/store/sessions.db is not a Rethread store: it is a folder
    hint: give another file with `--store sqlite:PATH`
    ");
    assert_refused(&env, "not_a_store");
    assert_eq!(std::fs::read_dir(env.store()).unwrap().count(), 0);
}

#[test]
fn a_device_or_a_pipe_is_no_store() {
    let env = TestEnv::with_store(Path::new("/dev/null"));
    assert_output!(env.run(["list"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: /dev/null is not a Rethread store: it is not a plain file
    hint: give another file with `--store sqlite:PATH`
    ");
}

#[test]
fn a_file_of_something_else_is_no_store() {
    let env = TestEnv::new();
    std::fs::write(env.store(), "These are my notes.\n".repeat(1000)).unwrap();
    assert_output!(env.run(["list"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: [ROOT]/store/sessions.db is not a Rethread store: file is not a database
    hint: give another file with `--store sqlite:PATH`
    ");
    assert_refused(&env, "not_a_store");
}

#[test]
fn a_database_of_another_program_is_no_store() {
    let env = TestEnv::new();
    env.basket();
    env.fold_log();
    // The application id of the header.
    overwrite(env.store(), 68, &0x1234_5678_u32.to_be_bytes());
    assert_output!(env.run(["list"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: [ROOT]/store/sessions.db is not a Rethread store: it is a database of another program
    hint: give another file with `--store sqlite:PATH`
    ");
    assert_refused(&env, "not_a_store");
}

#[test]
fn a_newer_store_is_refused_untouched() {
    let env = TestEnv::new();
    env.basket();
    env.fold_log();
    // The version of the schema.
    overwrite(env.store(), 60, &99_u32.to_be_bytes());
    assert_output!(env.run(["list"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: the store [ROOT]/store/sessions.db is of version 99; this program knows versions up to 15
    hint: upgrade rethread; the store was not touched
    ");
    assert_refused(&env, "store_newer");
}

#[test]
fn a_damaged_store_is_told_as_such() {
    let env = TestEnv::new();
    let lines: Vec<_> =
        (0..300).map(|n| user(&format!("heron {n} {}", "word ".repeat(40)))).collect();
    let id = env.record::<&str>([], &lines);
    env.fold_log();
    let length = std::fs::metadata(env.store()).unwrap().len();
    for page in 3..length / 4096 {
        overwrite(env.store(), page * 4096, &[0xaa; 64]);
    }
    let before = std::fs::read(env.store()).unwrap();
    for args in [&["show", &id, "--all"][..], &["export", &id], &["context", &id], &["list"]] {
        let told = env.run([args, &["--json"]].concat());
        assert_ne!(told.code, Some(70), "{args:?} {told}");
        if told.code != Some(0) {
            told.assert_error(1, "store_damaged");
        }
    }
    let told = env.run(["doctor"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert_eq!(env.feed(["record", "--session", &id], jsonl(&[user("x")])).code, Some(1));
    assert!(std::fs::read(env.store()).unwrap() == before, "the file was touched");
}

#[test]
fn a_truncated_store_is_told_as_such() {
    let env = TestEnv::new();
    env.basket();
    env.fold_log();
    let file = std::fs::OpenOptions::new().write(true).open(env.store()).unwrap();
    file.set_len(5000).unwrap();
    for args in [&["list"][..], &["doctor"], &["search", "x"]] {
        let told = env.run(args);
        assert_eq!(told.code, Some(1), "{args:?} {told}");
        assert!(told.stderr.contains("damaged") || told.text().contains("Problem"), "{told}");
    }
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Another program that holds the lock for writing until it is told to let go.
pub(crate) struct LongWriter {
    child: Child,
}

impl LongWriter {
    pub(crate) fn of(store: &Path) -> Self {
        let script = "import sqlite3, sys\n\
            store = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
            store.execute('begin immediate')\n\
            print('locked', flush=True)\n\
            sys.stdin.read()\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test needs python3");
        let mut told = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut told).unwrap();
        assert_eq!(told, "locked\n");
        Self { child }
    }

    pub(crate) fn let_go(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn a_store_locked_by_a_long_writer_can_be_read_and_says_so_to_who_writes() {
    let env = TestEnv::new();
    let id = env.basket();
    let mut live = Live::start(&env, &[]);
    live.say(&user("a heron before"));
    let writer = LongWriter::of(env.store());
    env.data(["list"]);
    env.data(["show", &id]);
    assert_eq!(env.json(["search", "heron"]).as_array().unwrap().len(), 3);
    env.data(["context", &id, "--prompt", "heron"]);
    env.data(["export", &id]);
    assert_output!(env.feed(["record", "--session", &id], jsonl(&[user("x")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: the store is locked by another process
    hint: try again when the other process has finished
    ");
    writer.let_go();
    assert_eq!(live.say(&user("after")), 2);
    let other = live.id.clone();
    live.finish();
    assert_eq!(env.messages(&other).len(), 2);
    assert_eq!(env.messages(&id).len(), 5);
    env.record(["--session", &id], &[user("x")]);
    env.assert_sound();
}

/// Runs as somebody who may read the store and write nothing.
fn as_reader(env: &TestEnv, args: &[&str], input: &str) -> Output {
    let command = if rustix::process::getuid().is_root() {
        env.command_by(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], args)
    } else {
        env.command(args)
    };
    env.finish(command, input.as_bytes())
}

/// Everything can be read, and nothing can be written but by root.
fn seal(env: &TestEnv) {
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, _) in env.tree() {
        let path = env.root().join(path);
        open(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
    open(env.root(), 0o555);
}

fn unseal(env: &TestEnv) {
    for (path, _) in env.tree() {
        let path = env.root().join(path);
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(env.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The program, where somebody else may run it.
fn check_read_only(env: &TestEnv, id: &str, finds: usize) {
    seal(env);
    let json = |args: &[&str]| -> serde_json::Value {
        let told = as_reader(env, &[args, &["--json"]].concat(), "").succeeded();
        serde_json::from_slice(&told.stdout).unwrap()
    };
    assert_eq!(json(&["list"])[0]["session_id"], id);
    assert_eq!(json(&["show", id])["messages"].as_array().unwrap().len(), 5);
    assert_eq!(json(&["search", "heron"]).as_array().unwrap().len(), finds);
    let context = json(&["context", id, "--prompt", "passkey"]);
    assert!(context["context"].as_str().unwrap().contains("heron-42"));
    assert_eq!(json(&["doctor"])["ok"], true);
    as_reader(env, &["export", id], "").succeeded();
    let one = jsonl(&[user("x")]);
    for args in [
        &["record"][..],
        &["record", "--session", id],
        &["pause", id],
        &["rename", id, "x"],
        &["fork", id],
        &["delete", id],
        &["purge", id, "1"],
    ] {
        as_reader(env, &[args, &["--json"]].concat(), &one).assert_error(1, "store_read_only");
    }
    unseal(env);
    assert_eq!(env.messages(id).len(), 5);
}

#[test]
fn a_read_only_store_can_be_read_and_says_so_to_who_writes() {
    let env = TestEnv::new();
    let id = env.basket();
    check_read_only(&env, &id, 1);
    seal(&env);
    assert_output!(as_reader(&env, &["record"], &jsonl(&[user("x")])), @"
    exit: 1
    --- stdout
    --- stderr
    error: the store is read-only: attempt to write a readonly database
    hint: reading and searching work; to write, make the file and its folder writable
    ");
    unseal(&env);
}

#[test]
fn a_read_only_store_whose_recorder_was_killed_can_be_read_too() {
    let env = TestEnv::new();
    let mut live = Live::start(&env, &[]);
    for line in crate::env::basket() {
        live.say(&line);
    }
    let id = live.id.clone();
    live.kill();
    check_read_only(&env, &id, 1);
}

#[test]
fn a_store_in_a_folder_that_cannot_be_made_is_refused() {
    let env = TestEnv::new();
    let file = env.path("file");
    std::fs::File::create(&file).unwrap().write_all(b"x").unwrap();
    let store = format!("sqlite:{}/below/sessions.db", file.display());
    assert_output!(env.run(["list", "--store", &store]), @"
    exit: 1
    --- stdout
    --- stderr
    error: there is no store at sqlite:[ROOT]/file/below/sessions.db: the folder [ROOT]/file/below does not exist
    hint: check the path; `rethread record` makes a new store
    ");
    assert_output!(env.feed(["record", "--store", &store], "{}"), @"
    exit: 1
    --- stdout
    --- stderr
    error: the store could not be opened: [ROOT]/file/below/sessions.db: Not a directory (os error 20)
    hint: check that the folder exists and that you may read and write it
    ");
    assert_output!(env.run(["list", "--store", "boat:here"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a store address: "boat:here" (expected sqlite:PATH or postgres://USER@HOST/DATABASE)
    hint: for instance `--store sqlite:/home/me/sessions.db` or `--store postgres://me@db.example/sessions`
    "#);
    assert_output!(env.run(["backup", &format!("{}/x.db", file.display())]), @"
    exit: 1
    --- stdout
    --- stderr
    error: the store could not be opened: [ROOT]/file/x.db.part: File exists (os error 17)
    hint: check that the folder exists and that you may read and write it
    ");
}
