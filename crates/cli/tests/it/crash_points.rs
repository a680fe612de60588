//! The program dies at every point there is for it, and leaves the old state or the new one (PROMISES D2).

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
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

/// One store, on which every command dies at a point.
struct Day<'a> {
    env: TestEnv,
    point: &'a str,
    any_died: bool,
}

/// A working day, with every command dying at `point`; gives whether any died.
fn script(guest: &Guest, point: &str) -> bool {
    let mut day = Day { env: TestEnv::new(), point, any_died: false };
    if point.starts_with("workflow.") {
        day.workflow();
        day.env.assert_sound();
        return day.any_died;
    }
    let sessions = [day.record("a"), day.record("b")];
    day.env.assert_sound();
    day.change(&sessions[0]);
    day.purge(&sessions[0]);
    day.import(guest);
    day.erase(&sessions[1]);
    day.restore();

    let env = &day.env;
    env.assert_sound();
    assert!(!env.json(["search", "guest", "-n", "100"]).as_array().unwrap().is_empty(), "{point}");
    let other = TestEnv::new();
    other.feed(["import", "-"], env.data(["export", "--all"])).succeeded();
    other.assert_sound();
    day.any_died
}

impl Day<'_> {
    /// Runs a command that may die on the way; gives whether it did, and what it printed.
    fn attempt(&mut self, args: &[&str], input: &str) -> (bool, String) {
        use std::io::Write;
        let mut command = self.env.command(args);
        command.env("CRASH_AT", self.point);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let died = output.status.signal().is_some();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(died || output.status.success(), "{}: {args:?}: {told}", self.point);
        self.any_died |= died;
        (died, String::from_utf8(output.stdout).unwrap())
    }

    fn record(&mut self, part: &str) -> String {
        let point = self.point;
        let line = |n: u32| json!({"role": "user", "content": format!("{part}{n}"), "id": format!("{part}{n}")});
        let lines: Vec<Value> = (0..12).map(line).collect();
        let (died, out) = self.attempt(&["record", "--ack"], &jsonl(&lines));
        let acked = out.lines().skip(1).count();
        assert!(died || acked == 12, "{point}: {out}");
        let id = match out.lines().next() {
            Some(id) => {
                let stored = self.env.messages(id);
                assert!(stored.len() >= acked, "{point}: {acked} acknowledged, {stored:?}");
                for (n, message) in stored.iter().enumerate() {
                    assert_eq!(message["content"], format!("{part}{n}"), "{point}");
                }
                // Said again, with ids, it is one message all the same.
                self.env.record(["--session", id], &lines)
            }
            None => self.env.record::<&str>([], &lines),
        };
        let more = jsonl(&[user("one more")]);
        let (_, out) = self.attempt(&["record", "--ack", "--session", &id], &more);
        let acked = out.lines().skip(1).count();
        let count = self.env.messages(&id).len();
        assert!(count == 13 || count == 12 && acked == 0, "{point}: {count}");
        id
    }

    fn change(&mut self, id: &str) {
        let count = self.env.messages(id).len();
        self.attempt(&["prune", id, "--keep", "2"], "");
        self.attempt(&["pause", id], "");
        self.attempt(&["rename", id, "A title"], "");
        self.attempt(&["fork", id], "");
        self.attempt(&["search", "a3"], "");
        assert_eq!(self.env.messages(id).len(), count, "{}", self.point);
        self.env.assert_sound();
    }

    fn purge(&mut self, id: &str) {
        let point = self.point;
        let (died, _) = self.attempt(&["purge", id, "4"], "");
        let purged = &self.env.messages(id)[3];
        assert!(died || purged["purged_at"].is_string(), "{point}");
        assert!(purged["content"] == "a3" || purged["purged_at"].is_string(), "{point}: {purged}");
        self.env.data(["purge", id, "4"]);
        assert_eq!(self.env.messages(id)[3]["content"], "", "{point}");
    }

    /// The whole session comes in, or nothing of it.
    fn import(&mut self, guest: &Guest) {
        let (died, _) = self.attempt(&["import", "-"], &guest.export);
        let is_there = self.env.run(["show", &guest.id]).code == Some(0);
        assert!(died || is_there, "{}", self.point);
        if !is_there {
            self.env.feed(["import", "-"], &guest.export).succeeded();
        }
        assert_eq!(self.env.data(["export", &guest.id]), guest.export, "{}", self.point);
    }

    fn erase(&mut self, id: &str) {
        let count = self.env.messages(id).len();
        let (died, _) = self.attempt(&["delete", "--permanently", id], "");
        let is_there = self.env.run(["show", id]).code == Some(0);
        assert!(died || !is_there, "{}", self.point);
        assert!(!is_there || self.env.messages(id).len() == count, "{}", self.point);
    }

    /// The store is there as it was, or as the backup is: which is the same. One that cannot be read gives way to the backup.
    fn restore(&mut self) {
        let before = self.env.data(["export", "--all"]);
        let backup = self.env.path("copy.db");
        let backup = backup.to_str().unwrap();
        let (died, _) = self.attempt(&["backup", backup], "");
        if died {
            self.env.run(["backup", "--force", backup]).succeeded();
        }
        self.attempt(&["restore", backup], "");
        assert_eq!(self.env.data(["export", "--all"]), before, "{}", self.point);
        self.env.fold_log();
        std::fs::write(self.env.store(), "not a store").unwrap();
        let (died, _) = self.attempt(&["restore", backup], "");
        if died {
            self.env.run(["restore", backup]).succeeded();
        }
        assert_eq!(self.env.data(["export", "--all"]), before, "{}", self.point);
    }

    /// Every task is done in the end, and recorded once.
    fn workflow(&mut self) {
        self.env.agent("ref", &[]);
        let plan = self.env.path("project/plan.md");
        let task = |n: u32| format!("## Task T{n}: one\n\ndo: exec: echo T{n} >> done\n\n");
        std::fs::write(&plan, (1..=2).map(task).collect::<String>()).unwrap();
        let start = ["workflow", "start", "plan.md", "--agent", "ref", "--permissions", "allow"];
        self.attempt(&start, "");
        if self.env.json(["workflow", "list"]).as_array().unwrap().is_empty() {
            self.env.run(start).succeeded();
        }
        self.attempt(&["workflow", "recover", "--resume"], "");
        self.env.run(["workflow", "recover", "--resume"]).succeeded();
        let log = self.env.data(["workflow", "logs", "--json", "--events"]);
        let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_done = |event: &&Value| event["with"]["outcome"]["how"] == "completed";
        assert_eq!(log.iter().filter(is_done).count(), 2, "{}: {log:#?}", self.point);
        let ends: Vec<&Value> = log
            .iter()
            .map(|event| &event["what"])
            .skip_while(|what| *what != "completed")
            .collect();
        // Its last snapshot comes after its end, and once.
        assert_eq!(ends, ["completed", "closed"], "{}: {log:#?}", self.point);
        let done = std::fs::read_to_string(self.env.path("project/done")).unwrap();
        for task in ["T1", "T2"] {
            assert!(done.contains(task), "{}: {done}", self.point);
        }
        self.env.assert_nothing_runs();
    }
}
