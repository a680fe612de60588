//! What follows when tasks fail, as the plan says: trouble that passes, time limits, and the tasks that go on.

use serde_json::json;

use crate::env::TestEnv;
use crate::reference::until;

/// An agent whose first answers stand in a file, and a plan.
fn scripted(answers: &str, plan: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    env.set("workflow", "agent = \"ref\"\nretry_seconds = 1");
    std::fs::write(env.path("answers"), answers).unwrap();
    let answers = env.path("answers").display().to_string();
    env.agent("ref", &["--script", &answers]);
    env.plan(plan);
    env
}

/// Until a workflow was begun, and waits for a limit to be lifted.
fn until_it_waits(env: &TestEnv) {
    until("it waits", || {
        let told = env.flow(&["status", "--json"]);
        told.code.filter(|code| *code == 0)?;
        let state: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        state["resumes_at"].is_string().then_some(())
    });
}

const TWO: &str =
    "# Two\n\n## Task T1: First\n\ndo: say: one\n\n## Task T2: Second\n\ndo: say: two\n";

#[test]
fn a_task_goes_on_by_itself_after_an_overload_and_after_a_limit() {
    for trouble in ["the model is overloaded", "429 Too Many Requests, try again in 1 second"] {
        let env = scripted(&format!("do: refuse: {trouble}"), TWO);
        let run = env.start(&[]).succeeded();
        assert!(run.stderr.contains("task T1: put off until "), "{run}");
        let state = env.state();
        assert_eq!((&state["status"], &state["session_count"]), (&json!("completed"), &json!(1)));
        assert_eq!(state["tasks"][0]["attempts"], 2);
        let [ended, again] = ["task_ended", "task_began"].map(|what| env.events_of(what));
        let until = ended[0]["with"]["outcome"]["until"].as_str().unwrap().to_owned();
        assert!(
            again.last().unwrap()["at"].as_str().unwrap() >= until.as_str(),
            "{ended:#?} {again:#?}"
        );
    }
}

#[test]
fn trouble_that_does_not_pass_fails_the_task_once_its_retries_are_used_up() {
    let plan = TWO
        .replace("First\n", "First\n- retries: 1\n")
        .replace("Second\n", "Second\n- depends on: T1\n");
    let env = scripted("do: refuse: overloaded\n---\ndo: refuse: overloaded", &plan);
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(env.tasks(), "T1 failed, T2 pending");
    assert_eq!(env.state()["tasks"][0]["attempts"], 2);
    assert_eq!(env.state()["tasks"][0]["retries"], 1);
}

#[test]
fn a_long_limit_is_waited_for_in_a_pause_that_a_person_can_end() {
    let env = scripted("do: refuse: Usage limit reached. Resets in 1h 30m.", TWO);
    let run = env.start_aside(&[]);
    until_it_waits(&env);
    let state = env.state();
    assert_eq!((&state["status"], &state["next_task"]), (&json!("paused"), &json!("T1")));
    assert!(state["tasks"][0]["not_before"].is_string(), "{state:#}");
    // Resumed by hand, it does not wait; whoever waited leaves.
    env.flow(&["resume"]).succeeded();
    assert_eq!(
        (env.status().as_str(), env.tasks().as_str()),
        ("completed", "T1 completed, T2 completed")
    );
    run.end(&env).succeeded();
}

#[test]
fn a_wait_that_a_person_pauses_is_over() {
    let env = scripted("do: refuse: Usage limit reached. Resets in 1h 30m.", TWO);
    let run = env.start_aside(&[]);
    until_it_waits(&env);
    env.flow(&["pause", "--reason", "tomorrow"]).succeeded();
    run.end(&env).succeeded();
    let state = env.state();
    assert_eq!((&state["status"], &state["pause_reason"]), (&json!("paused"), &json!("tomorrow")));
    assert!(state["resumes_at"].is_null(), "{state:#}");
}

#[test]
fn whoever_died_while_it_waited_is_replaced() {
    let env = scripted("do: refuse: Usage limit reached. Resets in 61 seconds.", TWO);
    env.set("workflow", "agent = \"ref\"");
    let run = env.start_aside(&[]);
    until_it_waits(&env);
    drop(run);
    // Not before its time.
    env.flow(&["recover", "--resume"]).succeeded();
    assert_eq!(env.status(), "paused");
}

#[test]
fn a_task_has_a_time_limit_of_its_own() {
    let env = TestEnv::with_flows();
    env.plan("# P\n\n## Task T1: Hangs\n- time limit: 1s\n\ndo: hang\n");
    assert_eq!(env.start(&[]).code, Some(1));
    let state = env.state();
    let told = state["questions"][0]["question"].as_str().unwrap();
    assert!(told.contains("it took longer than 1 seconds"), "{told}");
    assert_eq!(state["tasks"][0]["time_limit"], 1);
    env.assert_nothing_runs();
}

/// T1 fails; T2 depends on it, T3 does not.
fn with_failure(then: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(&format!(
        "# P\n- on failure: {then}\n\n## Task T1: Fails\n- verify: `test -e mended`\n\ndo: say: a\n\n## Task T2: Needs it\n- depends on: T1\n\ndo: say: b\n\n## Task T3: Does not\n\ndo: say: c\n"
    ));
    env
}

#[test]
fn what_does_not_depend_on_a_failed_task_goes_on_while_a_person_is_asked() {
    let env = with_failure("ask");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(
        (env.status().as_str(), env.tasks().as_str()),
        ("blocked", "T1 failed, T2 pending, T3 completed")
    );
    env.touch("mended");
    env.flow(&["retry", "T1"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert_eq!(env.events_of("task_began").len(), 4, "nothing was done twice");
}

#[test]
fn a_failed_task_is_left_out_where_the_plan_says_so() {
    let env = with_failure("continue");
    let run = env.start(&[]).succeeded();
    assert!(run.text().contains("left out: T1"), "{run}");
    assert_eq!(
        (env.status().as_str(), env.tasks().as_str()),
        ("completed", "T1 failed, T2 skipped, T3 completed")
    );
    assert!(env.plan_text().contains("- state: failed"), "{}", env.plan_text());
}

#[test]
fn a_failed_task_stops_everything_where_the_plan_says_so() {
    let env = with_failure("stop");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(env.tasks(), "T1 failed, T2 pending, T3 pending");
}
