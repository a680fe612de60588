//! Limits of workflows: what pauses them, when, and what they go on with.

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::reference::until;

const TWO: &str = "# Two

## Task T1: First

do: say: one

## Task T2: Second

do: say: two
";

/// A task that waits for a file that does not come by itself.
const SLOW: &str = "# Slow

## Task T1: Waits

do: exec: echo T1 >> ran.txt
do: wait for: go

## Task T2: Next

do: say: two
";

/// The same, with what the agent says of its context after each task.
fn with_context(context: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(&TWO.replace("\ndo: say", &format!("\ndo: context: {context}\ndo: say")));
    env
}

#[test]
fn a_workflow_pauses_after_so_many_tasks() {
    let env = TestEnv::with_flows();
    env.plan(TWO);
    env.start(&["--pause-after", "1"]).succeeded();
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(
        (&snapshot["trigger"], &snapshot["reason"]),
        (&json!("task_complete"), &json!("1 task done, as asked"))
    );
    assert_eq!(env.tasks(), "T1 completed, T2 pending");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed", "what is complete does not pause");
}

#[test]
fn a_time_limit_pauses_at_the_end_of_the_task() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let mut run = env.start_aside(&["--max-minutes", "0.01"]);
    env.until_has("ran.txt");
    until("the time is up", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    assert!(!run.is_over(), "the task may end");
    env.touch("go");
    run.end(&env).succeeded();
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "timeout");
    let reason = snapshot["reason"].as_str().unwrap();
    assert!(reason.starts_with("the time limit of 1 seconds in total is reached"), "{reason}");
    assert_eq!(env.tasks(), "T1 completed, T2 pending");
}

#[test]
fn limits_that_limit_nothing_are_refused() {
    let env = TestEnv::with_flows();
    env.plan(TWO);
    for limit in [["--max-minutes", "0"], ["--max-cost", "NaN"], ["--max-cost", "0"]] {
        let mut command = env.command(["workflow", "start", "plan.md", "--json"]);
        command.args(limit);
        env.finish(command, b"").assert_error(2, "bad_input");
    }
    assert_eq!(env.flow_json(&["list"]), json!([]), "nothing began");
}

#[test]
fn a_task_that_would_pass_the_limit_of_tokens_is_not_begun() {
    let env = TestEnv::with_flows();
    env.plan(TWO);
    env.start(&[]).succeeded();
    let first = env.state()["tasks"][0]["usage"]["tokens"].as_u64().unwrap();
    assert!(first > 50, "the agent says what it took: {first}");
    let most = (first * 3 / 2).to_string();

    let env = TestEnv::with_flows();
    env.plan(TWO);
    env.start(&["--max-tokens", &most]).succeeded();
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "exhaustion");
    let reason = snapshot["reason"].as_str().unwrap();
    let expected = format!("the next task would pass the limit of {most} tokens in total:");
    assert!(reason.starts_with(&expected), "{reason}");
    assert_eq!(env.tasks(), "T1 completed, T2 pending");
    assert_eq!(env.briefs("ref").len(), 1, "the second was not begun");
    env.flow(&["resume", "--max-tokens", &(first * 4).to_string()]).succeeded();
    assert_eq!(env.status(), "completed", "a resume may raise it");

    let env = TestEnv::with_flows();
    env.plan(TWO);
    env.start(&["--max-tokens", &(first * 4).to_string()]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_task_that_would_pass_the_limit_of_cost_is_not_begun() {
    let env = with_context("1000 200000 1.00");
    env.start(&["--max-cost", "1.5"]).succeeded();
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "exhaustion");
    assert_eq!(
        snapshot["reason"],
        "the next task would pass the limit of USD 1.50 in total: 1.00 spent, a task takes about 1.00"
    );
    assert_eq!(env.tasks(), "T1 completed, T2 pending");

    let env = with_context("1000 200000 1.00");
    env.start(&["--max-cost", "2"]).succeeded();
    assert_eq!(env.status(), "completed", "what just fits is done");
    assert_eq!(env.state()["usage"]["cost_usd"], 2.0);
}

/// An agent whose first answers stand in a file.
fn scripted(answers: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    std::fs::write(env.path("answers"), answers).unwrap();
    let answers = env.path("answers").display().to_string();
    env.agent("ref", &["--script", &answers]);
    env.plan(&TWO.replace("# Two\n", "# Two\n- retries: 0\n"));
    env
}

#[test]
fn a_usage_limit_parks_the_workflow_until_it_is_lifted() {
    let env = scripted("do: refuse: Usage limit reached. Resets in 1h 30m.");
    let run = env.start(&[]).succeeded();
    assert!(run.text().contains("The limit is lifted at "), "{run}");
    let state = env.state();
    assert_eq!(state["status"], "paused");
    assert!(state["resumes_at"].is_string(), "{state:#}");
    assert_eq!(state["next_task"], "T1", "it is still to be done");
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "exhaustion");
    assert!(snapshot["reason"].as_str().unwrap().contains("Usage limit reached"), "{snapshot:#}");
    assert_eq!(snapshot["current_task"], "T1");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert_eq!(env.state()["tasks"][0]["attempts"], 2);
}

#[test]
fn a_usage_limit_is_waited_for_where_that_is_asked() {
    let env = scripted("do: refuse: 429 Too Many Requests, try again in 1 second");
    let run = env.start(&["--wait"]).succeeded();
    assert!(run.stderr.contains("Waiting until "), "{run}");
    let state = env.state();
    assert_eq!((&state["status"], &state["session_count"]), (&json!("completed"), &json!(2)));
    let [paused, resumed] = ["paused", "resumed"].map(|what| env.events_of(what)[0].clone());
    let until = paused["with"]["until"].as_str().unwrap().to_owned();
    assert!(resumed["at"].as_str().unwrap() >= until.as_str(), "{paused:#} {resumed:#}");
}

#[test]
fn a_limit_without_a_time_is_not_waited_for() {
    let env = scripted("do: refuse: You've hit your limit");
    env.start(&["--wait"]).succeeded();
    assert_eq!(env.status(), "paused");
}

#[test]
fn a_pause_at_once_interrupts_the_task_which_is_the_next_one_then() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let paused = env.flow(&["pause", "--now"]).succeeded();
    assert!(paused.text().contains("is paused: 0 of 2 tasks done"), "{paused}");
    run.end(&env).succeeded();
    let snapshot = env.flow_json(&["show"]);
    let found = ["trigger", "forced", "current_task", "next_task", "tasks_completed"]
        .map(|field| snapshot[field].clone());
    assert_eq!(json!(found), json!(["pause", true, "T1", "T1", 0]));

    env.touch("go");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT1\n");
    let briefs = env.briefs("ref");
    assert!(briefs[1].contains("This task was begun before and was interrupted"), "{}", briefs[1]);
    env.assert_nothing_runs();
}

#[test]
fn a_boundary_that_does_not_come_is_forced_with_a_warning() {
    let env = TestEnv::with_flows();
    env.set("workflow", "agent = \"ref\"\nboundary_seconds = 1");
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    env.flow(&["pause"]).succeeded();
    let run = run.end(&env).succeeded();
    assert!(
        run.stderr.contains("note: the task did not end within 1 seconds: it is interrupted"),
        "{run}"
    );
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["forced"], true);
    assert_eq!(snapshot["next_task"], "T1");
    let asked: Vec<Value> =
        env.events_of("pause_asked").iter().map(|event| event["with"]["now"].clone()).collect();
    assert_eq!(json!(asked), json!([false, true]));
}

#[test]
fn a_full_context_goes_on_in_a_fresh_session_that_is_told_the_story() {
    let env = TestEnv::with_flows();
    env.set("workflow", "agent = \"ref\"\non_full = \"continue\"");
    env.plan(
        "# Full\n\n## Task T1: Two rounds\n- verify: `test -e mended || { touch mended; false; }`\n\ndo: context: 190000 200000\ndo: say: the heron is in the cellar\n",
    );
    env.start(&[]).succeeded();
    let state = env.state();
    assert_eq!(state["status"], "completed");
    assert_eq!(state["tasks"][0]["attempts"], 1, "it is one attempt");
    assert_eq!(state["tasks"][0]["session_ids"].as_array().unwrap().len(), 2);
    assert_eq!(env.events_of("task_moved").len(), 1);
    let briefs = env.briefs("ref");
    assert_eq!(briefs.len(), 2);
    assert!(briefs[1].contains("the heron is in the cellar"), "{}", briefs[1]);
    assert!(briefs[1].contains("The check of task"), "{}", briefs[1]);
}

#[test]
fn an_agent_that_ends_because_its_context_is_full_pauses_the_workflow() {
    let env = scripted("do: stop: max_tokens");
    env.start(&[]).succeeded();
    let snapshot = env.flow_json(&["show"]);
    assert_eq!(snapshot["trigger"], "exhaustion");
    assert_eq!(snapshot["next_task"], "T1");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn an_agent_that_ends_because_its_context_is_full_goes_on_in_a_fresh_session() {
    let env = scripted("do: say: the heron is in the cellar\ndo: stop: max_tokens");
    env.set("workflow", "agent = \"ref\"\non_full = \"continue\"");
    env.start(&[]).succeeded();
    let state = env.state();
    assert_eq!(state["status"], "completed", "{state:#}");
    assert_eq!(state["tasks"][0]["session_ids"].as_array().unwrap().len(), 2);
    assert_eq!(state["tasks"][0]["attempts"], 1);
    let told = &env.briefs("ref")[1];
    assert!(told.contains("the heron is in the cellar"), "{told}");
    assert!(told.contains("was full before the task was done"), "{told}");
}

#[test]
fn an_estimate_from_cost_warns_and_does_not_pause() {
    let env = with_context("0 0 5.00");
    env.start(&[]).succeeded();
    let state = env.state();
    assert_eq!(state["status"], "completed");
    assert_eq!(state["usage"]["measure"], "estimated");
    assert_eq!(state["usage"]["context_use"], 1.0, "never over the window");
    assert_eq!(state["usage"]["remaining"], 0);
    let warned = env.events_of("warned");
    assert_eq!(warned.len(), 1);
    assert_eq!(warned[0]["with"]["context_use"], 1.0);
}

#[test]
fn usage_is_marked_by_how_it_is_known() {
    for (steps, measure) in [
        ("do: say: x", "exact"),
        ("do: no usage", "counted"),
        ("do: context: 0 0 0.1", "estimated"),
    ] {
        let env = TestEnv::with_flows();
        env.plan(&format!("# One\n\n## Task T1: Only\n\n{steps}\ndo: say: well\n"));
        env.start(&[]).succeeded();
        let used = env.state()["usage"].clone();
        assert_eq!(used["measure"], measure, "{used:#}");
        assert!(used["tokens"].as_u64().unwrap() > 20, "{used:#}");
        assert_eq!((&used["turns"], &used["model_calls"]), (&json!(1), &json!(1)), "{used:#}");
    }
}
