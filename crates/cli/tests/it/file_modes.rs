//! Whatever the umask is, only the owner can read what is made (PROMISES S10).

use crate::env::{TestEnv, user};
use crate::live::Live;

/// Starts a program under a umask that takes nothing away.
const OPEN: &[&str] = &["sh", "-c", r#"umask 000; exec "$@""#, "sh"];

#[track_caller]
fn assert_private(env: &TestEnv, before: &[(std::path::PathBuf, u32)]) {
    let mut made = 0;
    for (path, mode) in env.tree() {
        if before.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let expected = if env.root().join(&path).is_dir() { 0o700 } else { 0o600 };
        assert_eq!(format!("{mode:o}"), format!("{expected:o}"), "{}", path.display());
        made += 1;
    }
    assert!(made > 0);
}

#[test]
fn everything_that_is_made_is_private() {
    let env = TestEnv::with_store(&std::env::temp_dir().join("unused"));
    let store = env.path("deep/er/sessions.db");
    let url = format!("sqlite:{}", store.display());
    let before = env.tree();
    let run = |args: &[&str]| {
        let mut command = env.command_by(OPEN, args);
        command.env("RETHREAD_STORE", &url);
        env.finish(command, b"").succeeded();
    };
    let mut command = env.command_by(OPEN, ["record", "--ack"]);
    command.env("RETHREAD_STORE", &url);
    let mut live = Live::spawn(command);
    live.say(&user("secret"));
    live.say(&user(&"long ".repeat(100_000)));
    let names: Vec<String> =
        env.tree().iter().map(|(path, _)| path.display().to_string()).collect();
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db-locks/1.lock"] {
        assert!(names.contains(&format!("deep/er/{name}")), "{name}: {names:?}");
    }
    assert_private(&env, &before);
    let copy = env.path("new/copy.db");
    run(&["backup", copy.to_str().unwrap()]);
    run(&["export", "--all", "-o", env.path("all.jsonl").to_str().unwrap()]);
    run(&["config", "set", "context.tokens", "500"]);
    run(&["search", "secret"]);
    assert_private(&env, &before);
    live.finish();
    run(&["restore", copy.to_str().unwrap()]);
    run(&["tour", "--keep"]);
    assert_private(&env, &before);
}
