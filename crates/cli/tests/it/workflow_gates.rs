//! What is known before anything begins, and what waits for a person: `check`, gates, and the commands of a plan.

use serde_json::{Value, json};

use crate::env::TestEnv;

const PLAN: &str = "# Release it

## Task build: Build it
- verify: `test -e built || touch built`

do: say: built

## Task notes: Write the notes

do: say: notes

## Task publish: Put it out
- depends on: build
- approve: is the build good to go out?
- verify: `touch published`

do: exec: echo x >> out.txt
do: say: out
";

fn checked(env: &TestEnv, args: &[&str]) -> Value {
    let own = ["workflow", "check", "plan.md", "--json"];
    let run = env.run(own.iter().chain(args));
    serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

#[test]
fn check_says_what_a_plan_leads_to_and_begins_nothing() {
    let env = TestEnv::with_flows();
    env.plan(PLAN);
    let seen = checked(&env, &["--jobs", "2"]);
    assert_eq!(seen["is_good"], true, "{seen:#}");
    assert_eq!(seen["steps"], json!([["build", "notes"], ["publish"]]));
    let command = json!({
        "command": "touch published", "name": null, "tasks": ["publish"], "is_approved": false,
    });
    assert_eq!(seen["commands"][1], command);
    assert_eq!(seen["estimate"], Value::Null, "nothing was done here before");
    let told = env.flow(&["check", "plan.md"]).succeeded();
    for part in ["touch published", "2 commands to be approved", "your approval before publish"] {
        assert!(told.text().contains(part), "{part}: {told}");
    }
    let dry = env.flow(&["start", "plan.md", "--jobs", "2", "--dry-run", "--json"]).succeeded();
    assert_eq!(serde_json::from_slice::<Value>(&dry.stdout).unwrap(), seen);
    assert_eq!(env.flow_json(&["list"]), json!([]), "nothing began");

    // What was done here tells what it takes the next time.
    env.start(&[]);
    let used = env.state()["tasks"][0]["usage"]["tokens"].as_u64().unwrap();
    let estimate = checked(&env, &[])["estimate"].clone();
    assert_eq!(estimate["judged_by"], 2, "{estimate:#}");
    assert!(estimate["tokens"].as_u64().unwrap() > used / 2, "{estimate:#}");
}

#[test]
fn check_says_all_that_is_wrong_at_once() {
    let env = TestEnv::with_flows();
    env.plan("# P\n\n## Task a: x\n- depends on: ghost\n- retries: many\n");
    let run = env.flow(&["check", "plan.md"]);
    assert_eq!(run.code, Some(1), "{run}");
    for part in ["line 3: task a depends on ghost", "line 5: task a: retries \"many\""] {
        assert!(run.text().contains(part), "{part}: {run}");
    }
    env.plan("# P\n\n## Task a: x\n- agent: nobody\n- verify: nothing\n");
    let problems = checked(&env, &[])["problems"].to_string();
    for part in ["nobody", "the plan's check \\\"nothing\\\" is not in your settings"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
}

#[test]
fn a_task_waits_for_a_person_and_who_approved_is_kept() {
    let env = TestEnv::with_flows();
    env.plan(PLAN);
    let run = env.start(&[]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.text().contains("is the build good to go out?"), "{run}");
    // What does not depend on it went on.
    assert_eq!(env.tasks(), "build completed, notes completed, publish pending");
    let asked = env.state()["questions"][0].clone();
    assert_eq!((&asked["about"], &asked["task"]), (&json!("gate"), &json!("publish")));
    env.flow(&["approve", "--task", "publish", "--reason", "tried on three machines"]).succeeded();
    let task = env.state()["tasks"][2].clone();
    assert_eq!((env.status().as_str(), &task["state"]), ("completed", &json!("completed")));
    assert_eq!(task["approval"]["why"], "tried on three machines");
    let by = task["approval"]["by"].as_str().unwrap().to_owned();
    assert!(!by.is_empty());
    let log = env.flow(&["logs"]).succeeded();
    let told = format!("task publish: approved by {by}: tried on three machines");
    assert!(log.text().contains(&told), "{log}");
}

#[test]
fn a_task_that_is_not_approved_ends_the_workflow_or_is_left_out() {
    for (then, status, state) in [("stop", "failed", "failed"), ("continue", "completed", "failed")]
    {
        let env = TestEnv::with_flows();
        env.plan(&PLAN.replace("- approve", &format!("- on failure: {then}\n- approve")));
        env.start(&[]);
        env.flow(&["reject", "--task", "publish", "--reason", "not today"]);
        assert_eq!(env.status(), status);
        assert_eq!(env.state()["tasks"][2]["state"], state);
        assert!(!env.has("out.txt"), "it did not begin");
    }
}

#[test]
fn a_task_is_approved_ahead_of_time() {
    let env = TestEnv::with_flows();
    env.plan(PLAN);
    env.start(&["--pause-after", "1"]).succeeded();
    assert_eq!(env.status(), "paused");
    env.flow(&["approve", "--task", "publish"]).succeeded();
    assert_eq!(env.flow(&["reject", "--task", "notes"]).code, Some(1), "nothing is asked of it");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.tasks(), "build completed, notes completed, publish pending");
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert_eq!(env.said_in("out.txt"), "x\n");
}

#[test]
fn another_question_is_another_approval() {
    let env = TestEnv::with_flows();
    env.plan(PLAN);
    env.start(&["--pause-after", "1"]).succeeded();
    env.flow(&["approve", "--task", "publish"]).succeeded();
    env.plan(&env.plan_text().replace("good to go out", "good enough for everybody"));
    assert_eq!(env.flow(&["resume"]).code, Some(1));
    let told = env.state()["questions"][0]["question"].as_str().unwrap().to_owned();
    assert!(told.contains("good enough for everybody"), "{told}");
}

#[test]
fn a_task_is_done_with_the_model_that_the_plan_names() {
    let env = TestEnv::with_flows();
    env.plan("# P\n- model: large\n\n## Task a: x\n\ndo: say: a\n\n## Task b: y\n- model: huge\n\ndo: say: b\n");
    assert_eq!(env.start(&[]).code, Some(1), "there is no such model");
    assert_eq!(env.tasks(), "a completed, b failed");
    let state = env.state();
    assert_eq!(state["tasks"][0]["model"], "large");
    let told = state["questions"][0]["question"].as_str().unwrap();
    assert!(told.contains("model") && told.contains("huge"), "{told}");
}

#[test]
fn a_new_workflow_is_told_what_earlier_ones_here_learnt() {
    let env = TestEnv::with_flows();
    env.plan("# First\n\n## Task a: x\n\ndo: say: Decided: use the heron library for parsing because it is small.\n");
    env.start(&[]).succeeded();
    let first = env.id();
    let short = first.get(..8).unwrap().to_owned();
    env.plan("# Second\n\n## Task a: parsing\n\ndo: say: done\n");
    env.start(&[]).succeeded();
    let brief = env.briefs("ref").pop().unwrap();
    for part in ["### From workflow ", "(First)", "> Decided (", "heron library"] {
        assert!(brief.contains(part), "{part} of {short}: {brief}");
    }
    // Nothing is told where nothing is wanted.
    env.set("workflow", "agent = \"ref\"\nlesson_tokens = 0");
    env.plan("# Third\n\n## Task a: parsing\n\ndo: say: done\n");
    env.start(&[]).succeeded();
    assert!(!env.briefs("ref").pop().unwrap().contains("heron"));
}

#[test]
fn the_commands_of_a_plan_are_approved_together_before_or_while_it_runs() {
    let env = TestEnv::with_flows();
    env.plan(&PLAN.replace("- approve: is the build good to go out?\n", ""));
    // Before it is started, and without a terminal.
    let told = env.flow(&["approve", "--all", "--plan", "plan.md"]).succeeded();
    for command in ["test -e built || touch built", "touch published"] {
        assert!(told.stderr.contains(command), "{told}");
    }
    let commands = checked(&env, &[])["commands"].clone();
    assert!(commands.as_array().unwrap().iter().all(|one| one["is_approved"] == true));
    env.flow(&["start", "plan.md", "--pause-after", "2"]).succeeded();
    assert_eq!(env.tasks(), "build completed, notes completed, publish pending");

    // A command that is changed needs another approval.
    env.plan(&env.plan_text().replace("`touch published`", "`touch published elsewhere`"));
    assert_eq!(env.flow(&["resume"]).code, Some(1));
    let asked = env.state()["questions"][0].clone();
    assert_eq!(asked["about"], "command");
    assert!(asked["question"].as_str().unwrap().contains("touch published elsewhere"), "{asked}");
    let told = env.flow(&["approve", "--all"]).succeeded();
    assert!(told.stderr.contains("touch published elsewhere"), "{told}");
    assert!(!told.stderr.contains("touch built"), "that was approved: {told}");
    assert_eq!(env.status(), "completed");
    assert!(env.has("elsewhere"));
}
