//! Workflows that pause and go on: what stays, what is told, and that nothing is done twice.

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::reference::until;
use crate::workspace_sessions::git;

/// Three tasks that note that they ran; the first waits for a file.
const THREE: &str = "# Greeting

Greet people.

## Task T1: First

do: exec: echo T1 >> ran.txt
do: wait for: go1
do: say: Decided: plain text because everybody can read it.

## Task T2: Second
- depends on: T1

do: exec: echo T2 >> ran.txt

## Task T3: Third
- depends on: T2

do: exec: echo T3 >> ran.txt
";

/// Three tasks, of which the first is done, and somebody paused the workflow.
fn paused_after_one() -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(THREE);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    env.flow(&["pause", "--no-wait", "--reason", "lunch"]).succeeded();
    env.touch("go1");
    run.end(&env).succeeded();
    env
}

#[test]
fn pause_workflow_creates_snapshot() {
    let env = TestEnv::with_flows();
    env.plan(THREE);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let pause = env.flow_aside(&["pause", "--reason", "lunch", "--json"]);
    until("the pause is asked for", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    env.touch("go1");
    run.end(&env).succeeded();
    let told: Value = serde_json::from_str(pause.end(&env).succeeded().text()).unwrap();

    let snapshot = env.flow_json(&["show"]);
    assert_eq!(told["status"], "paused");
    assert_eq!(told["snapshot_id"], snapshot["id"]);
    assert_eq!(told["workflow_id"], snapshot["workflow_id"]);
    let found = [
        "session_number",
        "trigger",
        "reason",
        "current_task",
        "next_task",
        "tasks_completed",
        "tasks_remaining",
        "forced",
    ]
    .map(|field| snapshot[field].clone());
    let expected = json!([1, "pause", "lunch", null, "T2", 1, 2, false]);
    assert_eq!(json!(found), expected);
    let states: Vec<&Value> =
        snapshot["tasks"].as_array().unwrap().iter().map(|task| &task["state"]).collect();
    assert_eq!(json!(states), json!(["completed", "pending", "pending"]));
    assert_eq!(snapshot["git"]["branch"], "main");
    assert_eq!(
        snapshot["git"]["commit"].as_str().unwrap(),
        git(&env, &["rev-parse", "HEAD"]).trim()
    );
    assert_eq!(snapshot["git"]["commit_at_start"], snapshot["git"]["commit"]);
    assert_eq!(snapshot["git"]["files_uncommitted"], json!(["go1", "plan.md", "ran.txt"]));
    assert_eq!(snapshot["decisions"][0]["task"], "T1", "{snapshot:#}");
    assert_eq!(snapshot["usage"]["turns"], 1);
    assert_eq!(env.state()["pause_reason"], "lunch");
    assert!(env.state()["paused_at"].is_string());
}

#[test]
fn pause_waits_for_task_boundary() {
    let env = TestEnv::with_flows();
    env.plan(THREE);
    let mut run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let asked = env.flow(&["pause", "--no-wait"]).succeeded();
    assert!(asked.text().contains("pauses when its running task is done"), "{asked}");

    let state = env.state();
    assert_eq!(state["status"], "in_progress");
    assert_eq!(state["is_pausing"], true);
    assert_eq!(env.tasks(), "T1 in_progress, T2 pending, T3 pending");
    assert_eq!(env.flow_json(&["snapshots"]), json!([]), "nothing is taken before the boundary");
    assert!(!run.is_over());

    env.touch("go1");
    run.end(&env).succeeded();
    assert_eq!(env.status(), "paused");
    assert_eq!(env.tasks(), "T1 completed, T2 pending, T3 pending");
    assert_eq!(env.said_in("ran.txt"), "T1\n");
    assert!(env.plan_text().contains("## Task T1: First"), "{}", env.plan_text());
}

#[test]
fn resume_workflow_restores_state() {
    let env = paused_after_one();
    let before = env.flow_json(&["show"]);
    env.flow(&["resume"]).succeeded();
    let state = env.state();
    assert_eq!((&state["status"], &state["session_count"]), (&json!("completed"), &json!(2)));
    let first = &state["tasks"][0];
    assert_eq!(first["attempts"], 1, "what was done is not done again");
    assert_eq!(first["session_ids"], before["tasks"][0]["session_ids"]);
    assert_eq!(state["paused_at"], Value::Null);
    let resumed = &env.events_of("resumed")[0];
    assert_eq!(resumed["with"]["from"], before["id"]);
    // The old native session is not taken up: each task has its own.
    let received = env.received("ref");
    let opened = |method: &str| received.iter().filter(|frame| frame["method"] == method).count();
    assert_eq!((opened("session/new"), opened("session/load")), (3, 0));
    assert_eq!(opened("session/resume"), 0);
}

#[test]
fn resume_continues_from_next_task() {
    let env = paused_after_one();
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\nT3\n");
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 completed");
    let briefs = env.briefs("ref");
    assert_eq!(briefs.len(), 3);
    assert!(briefs[1].contains("## Task T2"), "{}", briefs[1]);
    assert!(briefs[1].contains("run 1 of 2"), "{}", briefs[1]);
    let began: Vec<Value> =
        env.events_of("task_began").iter().map(|event| event["with"]["task"].clone()).collect();
    assert_eq!(json!(began), json!(["T1", "T2", "T3"]));
}

#[test]
fn multiple_pause_resume_cycles() {
    let env = TestEnv::with_flows();
    env.plan(THREE);
    env.touch("go1");
    env.start(&["--pause-after", "1"]).succeeded();
    for session in 2..=3 {
        env.flow(&["resume"]).succeeded();
        assert_eq!(env.state()["session_count"], session);
    }
    assert_eq!(env.status(), "completed");
    let snapshots = env.flow_json(&["snapshots"]);
    let numbers: Vec<&Value> =
        snapshots.as_array().unwrap().iter().map(|one| &one["session_number"]).collect();
    assert_eq!(json!(numbers), json!([1, 2, 3]), "the last one is that of the end");
    assert_eq!(snapshots[0]["trigger"], "task_complete");
    let [a, b] = [0, 1].map(|at| snapshots[at]["id"].as_str().unwrap().to_owned());
    let compared = env.flow_json(&["diff", &a, &b]);
    assert_eq!(compared["tasks"], json!([{"id": "T2", "before": "pending", "after": "completed"}]));
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\nT3\n");
    env.assert_sound();
}

#[test]
fn auto_pause_on_exhaustion() {
    let env = TestEnv::with_flows();
    env.plan(
        "# Full\n\n## Task T1: Fills\n\ndo: context: 180000 200000\ndo: say: done\n\n## Task T2: Next\n\ndo: say: done\n",
    );
    let run = env.start(&[]).succeeded();
    assert!(run.text().contains("is paused: 1 of 2 tasks done"), "{run}");
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "exhaustion");
    assert_eq!(snapshot["reason"], "the context of task T1 was 90 % full");
    let usage = &snapshot["usage"];
    assert_eq!((&usage["context_use"], &usage["remaining"]), (&json!(0.9), &json!(20_000)));
    assert_eq!(env.tasks(), "T1 completed, T2 pending", "the task ended first");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_context_just_at_the_limit_does_not_pause() {
    let env = TestEnv::with_flows();
    env.plan("# Full\n\n## Task T1: Fills\n\ndo: context: 170000 200000\ndo: say: done\n");
    env.start(&[]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn capacity_warning_event() {
    let env = TestEnv::with_flows();
    env.plan(
        "# Full\n\n## Task T1: Some\n\ndo: context: 150000 200000\ndo: say: a\n\n## Task T2: More\n\ndo: context: 160000 200000\ndo: say: b\n\n## Task T3: Less\n\ndo: context: 150000 200000\ndo: say: c\n",
    );
    let run = env.start(&["--pause-after", "2"]).succeeded();
    assert!(run.stderr.contains("warning: the context of task T1 is 75 % full"), "{run}");
    let warned = env.events_of("warned");
    assert_eq!(warned.len(), 1, "once in a run: {warned:#?}");
    assert_eq!(warned[0]["with"], json!({"task": "T1", "context_use": 0.75}));
    assert_eq!(env.flow_json(&["show"])["trigger"], "task_complete", "a warning does not pause");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.events_of("warned").len(), 2, "once in the next one");
}

#[test]
fn cli_pause_resume_flow() {
    let env = TestEnv::with_flows();
    env.plan(THREE);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let id = env.state()["id"].as_str().unwrap().to_owned();
    // Known as the first: what is printed later knows it by its place.
    env.settle(&id);
    let pause = env.flow_aside(&["pause", "-r", "time for lunch"]);
    until("the pause is asked for", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    env.touch("go1");
    run.end(&env).succeeded();
    assert_output!(pause.end(&env), @r"
    exit: 0
    --- stdout
    Workflow [SHORT1] is paused: 1 of 3 tasks done.
      Why: time for lunch
      Snapshot: [ID3]
      Resume with: rethread workflow resume [SHORT1]
    --- stderr
    Pausing workflow [SHORT1] …
    ");

    let snapshot = env.state()["snapshot_id"].as_str().unwrap().to_owned();
    let resumed = env.flow(&["resume", &id[24..32]]).succeeded();
    let lines: Vec<&str> = resumed.stderr.lines().collect();
    let title = format!("Resuming Greeting from run 1, snapshot {}:", &snapshot[24..32]);
    assert_eq!(lines[0], title, "{resumed}");
    let when = lines[1].strip_prefix("  paused ").and_then(|rest| rest.split_once(" ("));
    assert_eq!(when.map(|(_, why)| why), Some("pause): time for lunch"), "{resumed}");
    assert!(lines[2].starts_with("  then: 1 done, 2 left; main at "), "{resumed}");
    assert_eq!(lines[3].strip_prefix("  now: "), lines[2].strip_prefix("  then: "), "{resumed}");
    assert_eq!(lines[4], "  next: T2", "{resumed}");
    assert!(lines[5..].iter().any(|line| line.starts_with("task T2: ref starts")), "{resumed}");
    let done = format!("Workflow {} is completed: 3 of 3 tasks done.\n", &id[24..32]);
    assert_eq!(resumed.text(), done);
}

#[test]
fn resume_context_includes_decisions() {
    let env = paused_after_one();
    env.flow(&["resume"]).succeeded();
    let told = &env.briefs("ref")[1];
    for expected in [
        "You resume workflow",
        "run 1 of 2 ended with snapshot ",
        "What follows is how it stands now.",
        "> Greet people.",
        "- Total tasks: 3\n- Completed: 1\n- Remaining: 2\n- Current task: none",
        "### Done\n\n- [x] T1: First",
        "### Pending\n\n- [ ] T2: Second\n- [ ] T3: Third",
        "plain text",
        "everybody can read it",
        "### Errors\n\n(no errors encountered)",
        "main",
        "lunch",
        "get_decisions",
        "## Task T2: Second",
    ] {
        assert!(told.contains(expected), "{expected:?} is missing in:\n{told}");
    }
    // What a person sees of it beforehand is the same.
    let shown = env.data(["workflow", "show", "--context"]);
    assert!(shown.contains("everybody can read it"), "{shown}");
}

const TDD: &str = "# Add up

## Task T1: Tests first
- verify: tests
- expect: red

do: exec: echo red > phase

## Task T2: Something between
- depends on: T1
- verify: tests
- expect: red

do: exec: echo between >> ran.txt

## Task T3: Make them pass
- depends on: T2
- verify: tests

do: exec: echo green > phase
";

/// What pytest prints while the phase is red, and when it is green.
const CHECK: &str = r#"if grep -q red phase; then
  echo "===== short test summary info ====="
  echo "FAILED tests/test_add.py::test_sum - assert 3 == 4"
  echo "FAILED tests/test_add.py::test_zero - assert 0 == 1"
  echo "===== 2 failed, 1 passed in 0.01s ====="
  exit 1
fi
echo "===== 3 passed in 0.01s ====="
"#;

#[test]
fn tdd_state_preserved_across_sessions() {
    let env = TestEnv::with_flows();
    env.set("workflow.commands", "tests = \"sh check.sh\"");
    std::fs::write(env.path("project/check.sh"), CHECK).unwrap();
    env.plan(TDD);
    env.start(&["--pause-after", "1"]).succeeded();

    let failing = json!(["tests/test_add.py::test_sum", "tests/test_add.py::test_zero"]);
    let red = env.flow_json(&["show", "--part", "tests"]);
    assert_eq!((&red["phase"], &red["failing"]), (&json!("red"), &failing), "{red:#}");
    assert_eq!(red["expected"], failing);
    assert_eq!(red["command"], "sh check.sh");
    assert!(red["output"].as_str().unwrap().contains("2 failed, 1 passed"), "{red:#}");

    env.flow(&["resume"]).succeeded();
    let told = &env.briefs("ref")[1];
    assert!(told.contains("tests/test_add.py::test_zero"), "{told}");
    assert!(told.to_lowercase().contains("red"), "{told}");
    assert!(told.to_lowercase().contains("expected"), "{told}");
    let still = env.flow_json(&["show", "--part", "tests"]);
    assert_eq!((&still["phase"], &still["expected"]), (&json!("red"), &failing), "{still:#}");

    env.flow(&["resume"]).succeeded();
    let state = env.state();
    assert_eq!(state["status"], "completed");
    assert_eq!(state["tests"]["phase"], "green");
    assert_eq!(state["tests"]["failing"], json!([]));
    assert_eq!(state["tests"]["expected"], json!([]), "nothing is expected to fail any more");
}
