//! Who runs a workflow: one process at a time, nobody after its death, and the next one soon (PROMISES W2, W3, W7, W8,
//! W9).

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::env::TestEnv;
use crate::mcp_client::Mcp;
use crate::reference::{is_gone, until};

/// How long a process of an agent or of a check may outlive us.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How long it may take until somebody else runs what a dead process ran.
const TAKEN_WITHIN: Duration = Duration::from_secs(15);
const START: [&str; 7] =
    ["workflow", "start", "plan.md", "--agent", "ref", "--permissions", "allow"];
/// A task that says which process does it, and goes on when it may.
const WAITS: &str = "do: exec: echo $PPID > agent; echo $PPID >> agents\ndo: wait for: go\n";

/// A project with a plan of these tasks.
fn with_plan(tasks: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let tasks = (1..).zip(tasks).map(|(n, steps)| format!("\n## Task T{n}: one\n{steps}\n"));
    let plan: String = tasks.collect();
    std::fs::write(env.path("project/plan.md"), format!("# A plan\n{plan}")).unwrap();
    env
}

fn spawn(env: &TestEnv, args: &[&str]) -> Child {
    let mut command = env.command(args);
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts it, and waits until its first agent is at work.
fn started(env: &TestEnv, more: &[&str]) -> Child {
    let child = spawn(env, &[&START[..], more].concat());
    until("an agent is at work", || lines(env, "agents").first().map(drop));
    child
}

fn lines(env: &TestEnv, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(env.path("project").join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn allow(env: &TestEnv) {
    std::fs::write(env.path("project/go"), "").unwrap();
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn events(env: &TestEnv) -> Vec<Value> {
    let log = env.data(["workflow", "logs", "--json", "--events"]);
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(events: &[Value], what: &str) -> usize {
    events.iter().filter(|event| event["what"] == what).count()
}

/// How often each task was completed.
fn completed(events: &[Value], task: &str) -> usize {
    let ended = events.iter().filter(|event| event["what"] == "task_ended");
    ended
        .filter(|event| event["with"]["task"] == task)
        .filter(|event| event["with"]["outcome"]["how"] == "completed")
        .count()
}

fn status(env: &TestEnv) -> Value {
    env.json(["workflow", "list"])[0].take()
}

/// Waits for its end; gives whether it went well, and the code of its error.
fn ended(child: Child) -> (bool, String, String) {
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let error: Value =
        serde_json::from_str(told.lines().last().unwrap_or_default()).unwrap_or_default();
    let code = error["error"]["code"].as_str().unwrap_or_default().to_owned();
    (output.status.success(), code, told)
}

fn assert_gone(file: &Path, since: Instant) {
    until("it is gone", || is_gone(file).then_some(()));
    assert!(since.elapsed() < GONE_WITHIN, "{} after {:?}", file.display(), since.elapsed());
}

#[test]
fn of_two_that_resume_a_workflow_one_runs_it_and_the_other_says_so() {
    let env = with_plan(&["do: say: one", WAITS, "do: say: three"]);
    env.run([&START[..], &["--pause-after", "1"]].concat()).succeeded();
    let id = status(&env)["id"].as_str().unwrap().to_owned();
    let mut both = [0; 2].map(|_| Some(spawn(&env, &["workflow", "resume"])));
    let late = until("one gives up", || {
        both.iter_mut().find_map(|one| {
            let is_over = one.as_mut()?.try_wait().unwrap().is_some();
            is_over.then(|| one.take()).flatten()
        })
    });
    let (is_well, code, told) = ended(late);
    assert!(!is_well && ["workflow_busy", "refused"].contains(&code.as_str()), "{told}");
    assert!(told.contains(&id), "{told}");
    allow(&env);
    // It pauses after one task again.
    let (is_well, _, told) = ended(both.iter_mut().find_map(Option::take).unwrap());
    assert!(is_well, "{told}");
    env.run(["workflow", "resume"]).succeeded();
    let events = events(&env);
    assert_eq!(lines(&env, "agents").len(), 1);
    assert_eq!((count(&events, "resumed"), completed(&events, "T2")), (2, 1), "{events:#?}");
    assert_eq!(status(&env)["status"], "completed");
    env.assert_nothing_runs();
}

#[test]
fn a_stalled_owner_is_replaced_and_writes_nothing_when_it_wakes_up() {
    let env = with_plan(&[WAITS, "do: exec: echo two >> done"]);
    let owner = started(&env, &[]);
    signal(&owner, "-STOP");
    let stalled = Instant::now();
    std::fs::rename(env.path("project/agent"), env.path("first")).unwrap();
    let refused = env.fails(&["workflow", "resume"], "refused");
    assert!(refused["message"].as_str().unwrap().contains("is already running"), "{refused}");
    until("its lease is over", || {
        let found = env.json(["workflow", "recover"]);
        (!found.as_array().unwrap().is_empty()).then_some(())
    });
    assert!(stalled.elapsed() < TAKEN_WITHIN, "{:?}", stalled.elapsed());
    let next = spawn(&env, &["workflow", "resume"]);
    until("the next one is at work", || (lines(&env, "agents").len() == 2).then_some(()));
    let before = events(&env);
    let woken = Instant::now();
    signal(&owner, "-CONT");
    let (is_well, code, told) = ended(owner);
    assert!(!is_well && code == "lease_lost", "{told}");
    assert_gone(&env.path("first"), woken);
    assert_eq!(events(&env), before);
    allow(&env);
    let (is_well, _, told) = ended(next);
    assert!(is_well, "{told}");
    let events = events(&env);
    assert_eq!((completed(&events, "T1"), completed(&events, "T2")), (1, 1), "{events:#?}");
    assert_eq!(lines(&env, "done"), ["two"]);
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_killed_owner_leaves_no_agent_and_is_replaced_at_once() {
    let steps =
        "do: exec: setsid sleep 1000 > /dev/null 2>&1 & echo $! > below\n".to_owned() + WAITS;
    let env = with_plan(&[&steps, "do: say: two"]);
    let owner = started(&env, &[]);
    let killed = Instant::now();
    kill(owner);
    assert_gone(&env.path("project/agent"), killed);
    assert_gone(&env.path("project/below"), killed);
    allow(&env);
    env.run(["workflow", "recover", "--resume"]).succeeded();
    assert!(killed.elapsed() < TAKEN_WITHIN, "{:?}", killed.elapsed());
    let events = events(&env);
    assert_eq!((completed(&events, "T1"), completed(&events, "T2")), (1, 1), "{events:#?}");
    assert_eq!(status(&env)["session_count"], 2);
    env.assert_nothing_runs();
}

#[test]
fn a_server_that_starts_takes_up_what_crashed() {
    let env = with_plan(&[WAITS, "do: say: two"]);
    kill(started(&env, &[]));
    let mcp = Mcp::start(&env);
    until("it is paused", || (status(&env)["status"] == "paused").then_some(()));
    assert_eq!(env.json(["workflow", "snapshots"])[0]["trigger"], "crash");
    drop(mcp);
    allow(&env);
    env.run(["workflow", "resume"]).succeeded();
    env.assert_nothing_runs();
}

#[test]
fn a_server_that_starts_goes_on_with_what_crashed_where_that_is_set() {
    let env = with_plan(&[WAITS, "do: say: two"]);
    kill(started(&env, &[]));
    allow(&env);
    env.set("workflow", "after_crash = \"resume\"");
    let mcp = Mcp::start(&env);
    until("it is completed", || (status(&env)["status"] == "completed").then_some(()));
    drop(mcp);
    env.assert_nothing_runs();
}

#[test]
fn what_was_to_pause_is_paused_after_a_crash_and_begins_nothing() {
    let env = with_plan(&[WAITS, "do: say: two"]);
    let owner = started(&env, &[]);
    env.run(["workflow", "pause", "--reason", "lunch", "--no-wait"]).succeeded();
    kill(owner);
    for _ in 0..2 {
        env.run(["workflow", "recover", "--resume"]).succeeded();
        let now = status(&env);
        assert_eq!((&now["status"], &now["pause_reason"]), (&"paused".into(), &"lunch".into()));
        let events = events(&env);
        assert_eq!((count(&events, "task_began"), count(&events, "paused")), (1, 1), "{events:#?}");
    }
    assert_eq!(env.json(["workflow", "snapshots"])[0]["trigger"], "pause");
    allow(&env);
    env.run(["workflow", "resume"]).succeeded();
    assert_eq!(status(&env)["status"], "completed");
    assert_eq!(completed(&events(&env), "T1"), 1);
    env.assert_nothing_runs();
}

#[test]
fn a_check_dies_with_whoever_runs_it() {
    let check =
        "- verify: `setsid sleep 1000 & echo $! > below; echo $$ > check; wait`\n\ndo: say: one";
    let env = with_plan(&[check]);
    let owner = spawn(&env, &[&START[..], &["--approve-commands"]].concat());
    until("the check runs", || lines(&env, "check").first().map(drop));
    let killed = Instant::now();
    kill(owner);
    assert_gone(&env.path("project/check"), killed);
    assert_gone(&env.path("project/below"), killed);
    env.assert_nothing_runs();
}

#[test]
fn a_workflow_that_was_never_begun_is_begun_by_the_next() {
    for next in [&["workflow", "resume"][..], &["workflow", "recover", "--resume"]] {
        let env = with_plan(&["do: say: one"]);
        let mut start = env.command(START);
        start.env("CRASH_AT", "workflow.inserted:1");
        assert_eq!(env.finish(start, b"").code, None);
        assert_eq!(status(&env)["status"], "pending");
        env.run(next).succeeded();
        assert_eq!(status(&env)["status"], "completed");
    }
}

/// Runs three tasks with a limit; gives how many were done before it rested.
fn done_with(limit: &[&str]) -> (TestEnv, u64) {
    let env = with_plan(&["do: context: 100 200000 1.0\ndo: exec: echo done >> done"; 3]);
    env.run([&START[..], limit].concat()).succeeded();
    let done = status(&env)["tasks_completed"].as_u64().unwrap();
    assert_eq!(lines(&env, "done").len() as u64, done);
    (env, done)
}

/// What is left is done after a resume, and nothing of the rest again.
fn assert_nothing_lost(env: &TestEnv, done: u64) {
    let now = status(env);
    if done < 3 {
        assert_eq!(now["status"], "paused", "{now:#}");
        assert!(!now["pause_reason"].as_str().unwrap().is_empty(), "{now:#}");
    }
    for _ in done..3 {
        if status(env)["status"] == "paused" {
            // Budgets hold over all runs; a resume may raise them.
            let raised = ["--max-cost", "100", "--max-tokens", "1000000000"];
            env.run(["workflow", "resume"].iter().chain(&raised)).succeeded();
        }
    }
    assert_eq!(status(env)["status"], "completed");
    assert_eq!(lines(env, "done").len(), 3);
    let events = events(env);
    for task in ["T1", "T2", "T3"] {
        assert_eq!(completed(&events, task), 1, "{events:#?}");
    }
}

#[test]
fn a_limit_pauses_at_its_very_number_and_loses_nothing() {
    for (most, expected) in [("1", 1), ("2", 2), ("3", 3), ("4", 3)] {
        let (env, done) = done_with(&["--pause-after", most]);
        assert_eq!(done, expected, "--pause-after {most}");
        assert_nothing_lost(&env, done);
    }
    // A dollar for each task: before the third, two are spent and one is expected.
    for (most, expected) in [("2.99", 2), ("3.00", 3), ("3.01", 3)] {
        let (env, done) = done_with(&["--max-cost", most]);
        assert_eq!(done, expected, "--max-cost {most}");
        assert_nothing_lost(&env, done);
    }
    let (env, _) = done_with(&[]);
    let used = |event: &Value| event["with"]["used"]["tokens"].as_u64();
    let used: Vec<u64> = events(&env).iter().filter_map(used).collect();
    let two = used[0] + used[1];
    let enough = two + two / 2;
    for (most, expected) in [(enough - 1, 2), (enough, 3), (enough + 1, 3)] {
        let (env, done) = done_with(&["--max-tokens", &most.to_string()]);
        assert_eq!(done, expected, "--max-tokens {most} of {used:?}");
        assert_nothing_lost(&env, done);
    }
}
