//! Plans, folders and requests that workflows cannot use: a refusal that says why, and nothing is lost.

use serde_json::json;

use crate::env::TestEnv;
use crate::reference::until;
use crate::workspace_sessions::git;

/// A task that waits for `go`, and one after it.
const SLOW: &str = "# Slow

## Task T1: Waits

do: exec: echo T1 >> ran.txt
do: wait for: go

## Task T2: Next

do: exec: echo T2 >> ran.txt
";

fn paused() -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    env.touch("go");
    env.start(&["--pause-after", "1"]).succeeded();
    env
}

#[test]
fn what_agents_may_do_can_change_when_a_workflow_goes_on() {
    let env = paused();
    env.run(["workflow", "resume", "--permissions", "maybe", "--json"])
        .assert_error(2, "bad_input");
    assert_eq!(env.status(), "paused");
    env.flow(&["resume", "--permissions", "deny"]).succeeded();
    let resumed = env.events_of("resumed");
    assert_eq!(resumed.len(), 1, "{resumed:?}");
    assert_eq!(env.status(), "completed");
}

#[test]
fn all_that_is_wrong_with_a_plan_is_told_with_its_lines() {
    let env = TestEnv::with_flows();
    env.plan(
        "# Bad\n\n## Task T1: A\n- depends on: T2\n\n## Task T2: B\n- depends on: T1\n\n## Task T3: C\n- depends on: T9\n\n## Task T3: D\n\n## Task T4: E\n- depends on: T4\n",
    );
    let error = env.fails(&["workflow", "start", "plan.md"], "bad_plan");
    let message = error["message"].as_str().unwrap();
    for expected in [
        "line 3: tasks depend on each other in a circle: T1 → T2 → T1",
        "line 9: task T3 depends on T9, which is no task of this plan",
        "line 12: the id T3 is taken by the task of line 9",
        "line 14: task T4 depends on itself",
    ] {
        assert!(message.contains(expected), "{expected:?} is missing: {message}");
    }
    assert_eq!(env.flow_json(&["list"]), json!([]), "nothing began");
}

#[test]
fn a_plan_without_tasks_or_without_a_file_is_refused() {
    let env = TestEnv::with_flows();
    env.plan("# Nothing\n\nOnly words.\n");
    let error = env.fails(&["workflow", "start", "plan.md"], "bad_plan");
    assert!(error["message"].as_str().unwrap().contains("no task"), "{error}");
    let error = env.fails(&["workflow", "start", "nowhere.md"], "bad_plan");
    assert!(error["message"].as_str().unwrap().contains("cannot be read"), "{error}");
    std::fs::write(env.path("project/plan.md"), [0xff, 0xfe, 0x00]).unwrap();
    let error = env.fails(&["workflow", "start", "plan.md"], "bad_plan");
    assert!(error["message"].as_str().unwrap().contains("UTF-8"), "{error}");
}

#[test]
fn a_task_that_is_added_by_hand_while_it_runs_is_done_too() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let text = env.plan_text();
    env.plan(&format!("{text}\n## Task T3: Added\n\ndo: exec: echo T3 >> ran.txt\n"));
    until("the plan is read again", || env.tasks().contains("T3").then_some(()));
    env.touch("go");
    run.end(&env).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\nT3\n");
}

/// Takes the task that runs out of the plan.
fn with_its_task_removed() -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let text = env.plan_text();
    let (first, second) =
        (text.find("## Task T1").unwrap(), text.find("## Task T2").expect("a second task"));
    env.plan(&format!("{}{}", &text[..first], &text[second..]));
    until("the question is there", || {
        env.state()["questions"].as_array().filter(|all| !all.is_empty()).map(drop)
    });
    env.touch("go");
    let run = run.end(&env);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.text().contains("task T1 was taken out of the plan while it ran"), "{run}");
    assert_eq!(env.status(), "blocked");
    env
}

#[test]
fn a_task_that_is_removed_while_it_runs_is_a_question() {
    let env = with_its_task_removed();
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.status(), "completed");
    let state = env.state();
    let of = |id: &str| {
        let tasks = state["tasks"].as_array().unwrap().iter();
        tasks.clone().find(|task| task["id"] == id).map(|task| task["state"].clone())
    };
    assert_eq!((of("T1"), of("T2")), (Some(json!("completed")), Some(json!("completed"))));
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\n");

    let env = with_its_task_removed();
    env.flow(&["reject"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert!(env.tasks().contains("T1 skipped"), "{}", env.tasks());
}

#[test]
fn an_interrupted_task_that_is_taken_out_is_not_done() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    env.flow(&["pause", "--now"]).succeeded();
    run.end(&env).succeeded();
    let text = env.plan_text();
    let (first, second) = (text.find("## Task T1").unwrap(), text.find("## Task T2").unwrap());
    env.plan(&format!("{}{}", &text[..first], &text[second..]));
    env.flow_aside(&["resume"]).end(&env).succeeded();
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\n", "it was begun once and not again");
    assert!(env.tasks().contains("T1 skipped"), "{}", env.tasks());
}

#[test]
fn a_plan_that_is_broken_by_hand_is_told_of_and_the_work_goes_on() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    env.plan("# Slow\n\nOops.\n");
    env.touch("go");
    let run = run.end(&env).succeeded();
    assert_eq!(run.stderr.matches("the plan cannot be used now").count(), 1, "{run}");
    assert_eq!(env.tasks(), "T1 completed, T2 completed");
    assert_eq!(env.plan_text(), "# Slow\n\nOops.\n", "it is not written over");
}

#[test]
fn a_worktree_that_is_gone_is_told_of_and_the_workflow_stays_resumable() {
    let env = paused();
    let id = env.state()["id"].as_str().unwrap().to_owned();
    let (project, aside) = (env.path("project"), env.path("aside"));
    std::fs::rename(&project, &aside).unwrap();
    let mut command = env.command(["workflow", "resume", &id]);
    command.current_dir(env.root());
    let resumed = env.finish(command, b"");
    assert_ne!(resumed.code, Some(0), "{resumed}");
    assert!(resumed.stderr.contains("project"), "it says what is missing: {resumed}");
    std::fs::rename(&aside, &project).unwrap();
    if env.status() == "blocked" {
        env.flow(&["retry", "T2"]).succeeded();
    } else {
        env.flow(&["resume"]).succeeded();
    }
    assert_eq!(env.status(), "completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\n");
}

#[test]
fn a_repository_that_moved_on_is_warned_of_and_not_refused() {
    let env = paused();
    git(&env, &["switch", "--quiet", "-c", "elsewhere"]);
    git(&env, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    env.touch("by-hand.txt");
    let resumed = env.flow(&["resume"]).succeeded();
    for expected in [
        "warning: since then, the branch is elsewhere, it was main",
        "warning: since then, the commit is ",
        "warning: since then, changed since: by-hand.txt",
    ] {
        assert!(resumed.stderr.contains(expected), "{expected:?} is missing: {resumed}");
    }
    let warned = resumed.stderr.find("warning: since").unwrap();
    assert!(warned < resumed.stderr.find("task T2").unwrap(), "before anything runs: {resumed}");
    assert_eq!(env.events_of("resumed")[0]["with"]["diverged"].as_array().unwrap().len(), 3);
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_repository_as_it_was_left_is_not_warned_of() {
    let env = paused();
    let resumed = env.flow(&["resume"]).succeeded();
    assert!(!resumed.stderr.contains("warning"), "{resumed}");
}

#[test]
fn a_worktree_has_one_workflow_at_a_time() {
    let env = paused();
    let id = env.state()["id"].as_str().unwrap().to_owned();
    std::fs::write(env.path("project/other.md"), "# O\n\n## Task X: Y\n\ndo: say: z\n").unwrap();
    let error = env.fails(&["workflow", "start", "other.md"], "worktree_taken");
    assert!(error["hint"].as_str().unwrap().contains(&id[24..32]), "{error}");
    env.flow(&["cancel"]).succeeded();
    env.flow(&["start", "other.md"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_pause_while_pausing_is_the_same_pause() {
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    env.flow(&["pause", "--no-wait", "--reason", "first"]).succeeded();
    env.flow(&["pause", "--no-wait", "--reason", "second"]).succeeded();
    assert_eq!(env.events_of("pause_asked").len(), 1);
    // A resume of what still runs is refused.
    let error = env.fails(&["workflow", "resume"], "refused");
    assert!(error["message"].as_str().unwrap().contains("already running"), "{error}");
    env.touch("go");
    run.end(&env).succeeded();
    assert_eq!(env.state()["pause_reason"], "first");
    let error = env.fails(&["workflow", "pause", &env.id()], "refused");
    assert!(error["message"].as_str().unwrap().contains("already paused"), "{error}");
}

#[test]
fn a_workflow_that_runs_is_not_resumed() {
    let env = paused();
    std::fs::remove_file(env.path("project/go")).unwrap();
    let text = env.plan_text().replace("echo T2 >> ran.txt", "touch begun\ndo: wait for: go");
    env.plan(&text);
    let run = env.flow_aside(&["resume"]);
    env.until_has("begun");
    let error = env.fails(&["workflow", "resume"], "refused");
    assert!(error["message"].as_str().unwrap().contains("already running"), "{error}");
    env.touch("go");
    run.end(&env).succeeded();
    assert_eq!(env.state()["session_count"], 2);
    let error = env.fails(&["workflow", "resume", &env.id()], "refused");
    assert!(error["message"].as_str().unwrap().contains("is completed"), "{error}");
}

#[test]
fn a_workflow_can_be_cancelled_at_any_moment() {
    // While a task runs.
    let env = TestEnv::with_flows();
    env.plan(SLOW);
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    let cancelled = env.flow(&["cancel", "--reason", "not wanted"]).succeeded();
    assert!(cancelled.text().contains("is cancelled"), "{cancelled}");
    let run = run.end(&env);
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(env.tasks(), "T1 pending, T2 pending");
    env.assert_nothing_runs();
    let error = env.fails(&["workflow", "cancel", &env.id()], "refused");
    assert!(error["message"].as_str().unwrap().contains("already cancelled"), "{error}");

    // While it is paused, and while it waits for a person.
    let env = paused();
    env.flow(&["cancel"]).succeeded();
    assert_eq!(env.status(), "cancelled");
    env.plan("# Fails\n\n## Task T1: No\n\ndo: say: no\ndo: stop: refusal\n");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(env.status(), "blocked");
    env.flow(&["cancel"]).succeeded();
    assert_eq!(env.status(), "cancelled");
}

#[test]
fn what_does_not_fit_is_refused_and_says_why() {
    let env = paused();
    let id = env.id();
    let told = |args: &[&str], code: &str, part: &str| {
        let error = env.fails(&[&["workflow"], args].concat(), code);
        assert!(error["message"].as_str().unwrap().contains(part), "{args:?}: {error}");
    };
    told(&["retry", "T1"], "refused", "task T1 is completed: it cannot be retried");
    told(&["skip", "T1"], "refused", "task T1 is completed: it cannot be skipped");
    told(&["retry", "T7"], "refused", "has no task \"T7\"");
    told(&["approve", &id], "refused", "is not waiting for an answer");
    told(&["resume", "--from", "ffffffff"], "snapshot_not_found", "ffffffff");
    told(&["status", "ffffffff"], "workflow_not_found", "ffffffff");
    told(&["resume", "--with", "nobody"], "unknown_agent", "nobody");
    assert_eq!(env.status(), "paused", "and it stays resumable");
}

#[test]
fn a_snapshot_of_another_workflow_is_not_taken() {
    let env = paused();
    let foreign = env.state()["snapshot_id"].as_str().unwrap().to_owned();
    env.flow(&["cancel"]).succeeded();
    env.plan(SLOW);
    env.start(&["--pause-after", "1"]).succeeded();
    env.fails(&["workflow", "resume", "--from", &foreign], "snapshot_not_found");
    assert_eq!(env.status(), "paused");
    env.flow(&["resume"]).succeeded();
}

#[test]
fn a_folder_without_a_workflow_says_so() {
    let env = TestEnv::with_flows();
    for command in ["status", "pause", "resume", "show", "snapshots", "logs", "cancel", "approve"] {
        let error = env.fails(&["workflow", command], "workflow_not_found");
        assert!(error["message"].as_str().unwrap().contains("workflow in "), "{error}");
    }
}
