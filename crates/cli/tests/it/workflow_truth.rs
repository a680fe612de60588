//! Workflows tell the truth: what was refused is not done, what is resumed is as it is now, budgets hold in total.

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::reference::until;
use crate::workspace_sessions::git;

/// A task that needs permission, and one after it.
const ASKS: &str = "# Asks

## Task T1: Needs permission

do: exec: echo T1 >> ran.txt
do: ask: rm -rf build

## Task T2: Next
- depends on: T1

do: exec: echo T2 >> ran.txt
";

const THREE: &str = "# Three

## Task T1: First

do: exec: echo T1 >> ran.txt
do: say: Decided: plain text because everybody can read it.

## Task T2: Second
- depends on: T1

do: exec: echo T2 >> ran.txt

## Task T3: Third
- depends on: T2

do: exec: echo T3 >> ran.txt
";

/// A task that says something and then waits until it is let go on.
const WAITS: &str = "# Waits

## Task T1: Waits

do: say: one two three four five six seven eight nine ten
do: exec: echo T1 >> ran.txt
do: wait for: go

## Task T2: Next

do: say: two
";

fn with(plan: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(plan);
    env
}

fn tokens(env: &TestEnv) -> u64 {
    env.state()["usage"]["tokens"].as_u64().unwrap()
}

#[test]
fn what_was_refused_is_not_done() {
    let env = with(ASKS);
    let run = env.start(&[]);
    assert_eq!(run.code, Some(1), "{run}");
    let beforehand = "no terminal: permission requests from ref will be refused";
    assert!(run.stderr.contains(beforehand), "{run}");
    assert_eq!(
        (env.status().as_str(), env.tasks().as_str()),
        ("blocked", "T1 blocked, T2 pending")
    );
    let question = &env.state()["questions"][0];
    assert_eq!((&question["about"], &question["task"]), (&json!("task_refused"), &json!("T1")));
    assert!(run.text().contains("its agent was not allowed to do this: "), "{run}");
    assert!(run.text().contains("rm -rf build"), "{run}");
    assert!(run.text().contains("retry T1"), "{run}");

    env.flow(&["retry", "T1", "--permissions", "allow"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT1\nT2\n");
}

#[test]
fn refused_work_waits_for_a_person_after_a_kill_too() {
    let env =
        with(&ASKS.replace("do: ask: rm -rf build", "do: ask: rm -rf build\ndo: wait for: go"));
    let run = env.start_aside(&[]);
    env.until_has("ran.txt");
    // Killed in the middle of the attempt that was refused something.
    drop(run);
    env.touch("go");
    env.flow(&["recover"]).succeeded();
    assert_eq!(env.flow(&["resume"]).code, Some(1));
    assert_eq!(
        (env.status().as_str(), env.tasks().as_str()),
        ("blocked", "T1 blocked, T2 pending")
    );
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT1\nT2\n", "what counts as done is not done again");
}

#[test]
fn a_check_that_passes_shows_that_refused_work_is_done_all_the_same() {
    let env = with(&ASKS.replace("permission\n", "permission\n- verify: `test -e ran.txt`\n"));
    env.start(&[]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_resume_tells_agent_and_terminal_what_is_so_now() {
    let env = with(THREE);
    env.start(&["--pause-after", "1"]).succeeded();
    env.flow(&["skip", "T2"]).succeeded();
    git(&env, &["checkout", "--quiet", "-b", "other"]);
    git(&env, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let commit = git(&env, &["rev-parse", "HEAD"])[..12].to_owned();
    let run = env.flow(&["resume"]).succeeded();
    for told in [
        "then: 1 done, 2 left; main at ".to_owned(),
        format!("now: 1 done, 1 left; other at {commit}"),
        "since then, the branch is other, it was main".to_owned(),
        format!("since then, the commit is {commit}, it was "),
        "since then, task T2 is skipped, it was pending".to_owned(),
    ] {
        assert!(run.stderr.contains(&told), "{told:?} is missing: {run}");
    }
    let brief = env.briefs("ref").pop().unwrap();
    for told in [
        "> task T2 is skipped, it was pending\n".to_owned(),
        "- [-] T2: Second (skipped)".to_owned(),
        "> the branch is other, it was main\n".to_owned(),
        format!("> Branch: other\n> Commit: {commit}"),
        "Go on with task T3: Third.".to_owned(),
    ] {
        assert!(brief.contains(&told), "{told:?} is missing: {brief}");
    }
    assert_eq!(env.status(), "completed");
}

#[test]
fn going_back_to_a_snapshot_has_tasks_done_again_once_somebody_agrees() {
    let env = with(THREE);
    env.start(&["--pause-after", "1"]).succeeded();
    let first = env.flow_json(&["show"])["id"].as_str().unwrap().to_owned();
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 pending");
    let head = git(&env, &["rev-parse", "HEAD"]);

    let error = env.fails(&["workflow", "resume", "--from", &first], "refused");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("done again: T2. Files and commits stay as they are"), "{message}");
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 pending", "nothing happened");

    let run = env.flow(&["resume", "--from", &first, "--yes"]).succeeded();
    assert!(run.stderr.contains("now: 1 done, 2 left"), "{run}");
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 pending");
    assert_eq!(env.said_in("ran.txt"), "T1\nT2\nT2\n");
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), head);
    let brief = env.briefs("ref").pop().unwrap();
    assert!(brief.contains("task T2 is to be done again"), "{brief}");
}

#[test]
fn what_was_gone_back_to_outlives_a_kill() {
    let env = with(&THREE.replace("echo T2 >> ran.txt", "echo T2 >> ran.txt\ndo: wait for: go"));
    env.touch("go");
    env.start(&["--pause-after", "1"]).succeeded();
    let first = env.flow_json(&["show"])["id"].as_str().unwrap().to_owned();
    env.flow(&["resume"]).succeeded();
    std::fs::remove_file(env.path("project/go")).unwrap();
    let run = env.flow_aside(&["resume", "--from", &first, "--yes"]);
    until("T2 runs again", || (env.said_in("ran.txt") == "T1\nT2\nT2\n").then_some(()));
    drop(run);
    env.flow(&["recover"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 pending, T3 pending");
}

#[test]
fn a_budget_holds_over_resumes_until_it_is_raised() {
    let env = with(WAITS);
    env.touch("go");
    env.start(&["--max-tokens", "1"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 pending");
    let error = env.fails(&["workflow", "resume"], "refused");
    assert!(error["message"].as_str().unwrap().contains("limit of 1 tokens in total"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--max-tokens"), "{error}");
    assert_eq!(env.tasks(), "T1 completed, T2 pending");
    env.flow(&["resume", "--max-tokens", "1000000"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn what_a_killed_and_a_cancelled_task_took_counts() {
    let env = with(WAITS);
    let run = env.start_aside(&["--max-tokens", "1"]);
    env.until_has("ran.txt");
    drop(run);
    env.flow(&["recover"]).succeeded();
    assert!(tokens(&env) > 1, "{:#}", env.state());
    env.fails(&["workflow", "resume"], "refused");

    let run = env.flow_aside(&["resume", "--max-tokens", "1000000"]);
    until("it runs again", || (env.said_in("ran.txt") == "T1\nT1\n").then_some(()));
    let before = tokens(&env);
    env.flow(&["cancel"]).succeeded();
    run.end(&env);
    assert!(tokens(&env) > before, "{:#}", env.state());
    let last = env.flow_json(&["show"]);
    assert_eq!((&last["trigger"], &last["total"]["tokens"]), (&json!("end"), &json!(tokens(&env))));
}

#[test]
fn a_finished_workflow_has_a_last_snapshot_with_all_that_was_found() {
    let env = with(THREE);
    env.start(&[]).succeeded();
    let last = env.flow_json(&["show"]);
    assert_eq!((&last["trigger"], &last["reason"]), (&json!("end"), &json!("completed")));
    let what: Vec<&Value> = last["decisions"].as_array().unwrap().iter().collect();
    assert!(
        what.iter().any(|one| one["what"].as_str().unwrap().contains("plain text")),
        "{last:#}"
    );
    assert_eq!(last["total"], env.state()["usage"]);
    assert_eq!(last["tasks_remaining"], 0);
    assert!(last["git"]["files_modified"].as_array().unwrap().contains(&json!("ran.txt")));
}

#[test]
fn states_that_are_written_into_the_plan_while_it_is_paused_count() {
    let env = with(THREE);
    env.start(&["--pause-after", "1"]).succeeded();
    let text =
        env.plan_text().replace("## Task T2: Second\n", "## Task T2: Second\n- state: done\n");
    assert!(env.plan_text().matches("state:").count() == 1, "{}", env.plan_text());
    env.plan(&text);
    env.flow(&["resume"]).succeeded();
    assert_eq!(env.tasks(), "T1 completed, T2 completed, T3 completed");
    assert_eq!(env.said_in("ran.txt"), "T1\nT3\n");
}

#[test]
fn a_misspelt_field_of_a_plan_is_an_error() {
    let env = with("# P\n\n## Task T1: A\n- verfy: `true`\n");
    let error = env.fails(&["workflow", "start", "plan.md"], "bad_plan");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("line 4: task T1: there is no field \"verfy\": did you mean `verify`?")
    );
}

#[test]
fn a_log_that_is_followed_shows_what_agents_say_while_they_say_it() {
    let words = "word ".repeat(40);
    let env = with(&format!(
        "# Talks\n\n## Task T1: Talk\n- review: critic\n\ndo: part: {words}\ndo: wait for: go1\n"
    ));
    let file = env.path("critic.answers");
    let review = "do: say: I look at it.\ndo: wait for: go2";
    std::fs::write(&file, format!("{review}\n---\n{{\"approved\": true}}")).unwrap();
    env.agent("critic", &["--script", &file.display().to_string()]);
    let run = env.start_aside(&[]);
    until("it began", || (env.flow(&["status"]).code == Some(0)).then_some(()));
    let shown = env.path("shown");
    let mut logs = env.command(["workflow", "logs", "-f"]);
    logs.stdout(std::fs::File::create(&shown).unwrap());
    let mut logs = logs.spawn().unwrap();
    let says = |what: &str| {
        until(what, || std::fs::read_to_string(&shown).unwrap().contains(what).then_some(()));
    };
    // No line of it has ended.
    says("T1 … word word");
    env.touch("go1");
    says("T1 … I look at it.");
    env.touch("go2");
    run.end(&env).succeeded();
    until("it ends with the workflow", || logs.try_wait().unwrap());
    let shown = std::fs::read_to_string(&shown).unwrap();
    assert!(shown.contains("completed"), "{shown}");
}
