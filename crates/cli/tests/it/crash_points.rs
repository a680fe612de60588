//! The program dies at every point there is for it, and leaves the old state or the new one (PROMISES D2).

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::env::{TestEnv, jsonl, user};

const TIMES: u32 = 5;
const AT_ONCE: usize = 2;

/// The points, read from where they are listed: a new one is covered by itself.
fn points() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/src/crash.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let list = source.split("POINTS: &[&str] = &[").nth(1).unwrap().split("];").next().unwrap();
    let points: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(points.len() >= 9, "{points:?}");
    points
}

/// A session that is brought from another store.
struct Guest {
    id: String,
    export: String,
}

impl Guest {
    fn new() -> Self {
        let env = TestEnv::new();
        let lines: Vec<_> = (0..30).map(|n| user(&format!("guest {n}"))).collect();
        let id = env.record::<&str>([], &lines);
        env.data(["purge", &id, "7"]);
        Self { export: env.data(["export", &id]), id }
    }
}

/// Runs a command that may die on the way; gives whether it did, and what it printed.
fn run(mut command: Command, input: &str) -> (bool, String) {
    use std::io::Write;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let died = output.status.signal().is_some();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(died || output.status.success(), "{command:?}: {told}");
    (died, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_crash_at_any_point_leaves_the_old_state_or_the_new_one() {
    let guest = Guest::new();
    let waiting = Mutex::new(points());
    let never: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(point) = waiting.lock().unwrap().pop() else { break };
                    let died = |time: &u32| script(&guest, &format!("{point}:{time}"));
                    // A time that never comes is the last one that is tried.
                    if (1..=TIMES).take_while(died).count() == 0 {
                        never.lock().unwrap().push(point);
                    }
                }
            });
        }
    });
    let never = never.into_inner().unwrap();
    assert!(never.is_empty(), "no command comes to {never:?}");
}

/// A working day, with every command dying at `point` and then said again; gives whether any died.
fn script(guest: &Guest, point: &str) -> bool {
    let env = TestEnv::new();
    let mut any = false;
    let mut attempt = |args: &[&str], input: &str| {
        let mut command = env.command(args);
        command.env("CRASH_AT", point);
        let (died, out) = run(command, input);
        any |= died;
        (died, out)
    };
    let mut sessions = Vec::new();
    for part in ["a", "b"] {
        let lines: Vec<Value> =
            (0..12).map(|n| json!({"role": "user", "content": format!("{part}{n}"), "id": format!("{part}{n}")})).collect();
        let (died, out) = attempt(&["record", "--ack"], &jsonl(&lines));
        let id = out.lines().next().map(str::to_owned);
        let acked = out.lines().skip(1).count();
        let id = match id {
            Some(id) => {
                let stored = env.messages(&id);
                assert!(stored.len() >= acked, "{point}: {acked} acknowledged, {stored:?}");
                for (n, message) in stored.iter().enumerate() {
                    assert_eq!(message["content"], format!("{part}{n}"), "{point}");
                }
                // Said again, with ids, it is one message all the same.
                env.record(["--session", &id], &lines)
            }
            None => env.record::<&str>([], &lines),
        };
        assert!(died || acked == 12, "{point}: {out}");
        let (_, out) = attempt(&["record", "--ack", "--session", &id], &jsonl(&[user("one more")]));
        let acked = out.lines().skip(1).count();
        let count = env.messages(&id).len();
        assert!(count == 13 || count == 12 && acked == 0, "{point}: {count}");
        sessions.push(id);
    }
    let id = sessions[0].as_str();
    env.assert_sound();

    let count = env.messages(id).len();
    attempt(&["prune", id, "--keep", "2"], "");
    attempt(&["pause", id], "");
    attempt(&["rename", id, "A title"], "");
    attempt(&["fork", id], "");
    attempt(&["search", "a3"], "");
    assert_eq!(env.messages(id).len(), count, "{point}");
    env.assert_sound();

    let (died, _) = attempt(&["purge", id, "4"], "");
    let purged = &env.messages(id)[3];
    assert!(died || purged["purged_at"].is_string(), "{point}");
    assert!(purged["content"] == "a3" || purged["purged_at"].is_string(), "{point}: {purged}");
    env.data(["purge", id, "4"]);
    assert_eq!(env.messages(id)[3]["content"], "", "{point}");

    let (died, _) = attempt(&["import"], &guest.export);
    let there = env.run(["show", &guest.id]).code == Some(0);
    assert!(died || there, "{point}");
    if !there {
        env.feed(["import"], &guest.export).succeeded();
    }
    assert_eq!(env.data(["export", &guest.id]), guest.export, "{point}");

    let gone = sessions[1].as_str();
    let (died, _) = attempt(&["delete", "--permanently", gone], "");
    let told = env.run(["show", gone, "--all"]);
    assert!(told.code == Some(1) || died, "{point}: {told}");

    env.assert_sound();
    assert!(!env.json(["search", "guest", "-n", "100"]).as_array().unwrap().is_empty(), "{point}");
    let other = TestEnv::new();
    other.feed(["import"], env.data(["export", "--all"])).succeeded();
    other.assert_sound();
    any
}
