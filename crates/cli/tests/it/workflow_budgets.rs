//! Budgets of a workflow hold in total: over resumes, planning, reviews, and whatever was killed or cancelled.

use serde_json::json;

use crate::env::TestEnv;
use crate::reference::until;

/// A task that waits for a file that does not come by itself, when it has told what it cost.
const COSTLY: &str = "# Costly

## Task T1: Waits

do: spent: 1000 200000 1.00
do: say: one two three
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

impl TestEnv {
    /// Waits until the store has something of the turn that is under way: what is said reaches it a moment later.
    fn until_written_down(&self) {
        let count = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('select count(*) from stream').fetchone()[0])";
        until("something is written down", || {
            let mut command = std::process::Command::new("python3");
            let output = command.args(["-c", count]).arg(self.store()).output().unwrap();
            (String::from_utf8(output.stdout).unwrap().trim() != "0").then_some(())
        });
    }
}

/// With an agent whose answers stand in a file, one after the other.
fn scripted(name: &str, answers: &[&str]) -> TestEnv {
    let env = TestEnv::with_flows();
    let file = env.path(&format!("{name}.answers"));
    std::fs::write(&file, answers.join("\n---\n")).unwrap();
    env.agent(name, &["--script", &file.display().to_string()]);
    env
}

#[test]
fn time_counts_in_total_over_a_kill_and_a_resume() {
    let env = with(COSTLY);
    let run = env.start_aside(&["--max-minutes", "0.01"]);
    env.until_has("ran.txt");
    until("the time is up", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    drop(run);
    env.flow(&["recover"]).succeeded();
    assert_eq!(env.state()["pause_reason"], env.flow_json(&["show"])["reason"]);
    let error = env.fails(&["workflow", "resume"], "refused");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the time limit of 1 seconds in total is reached"), "{message}");
    assert!(error["hint"].as_str().unwrap().contains("--max-minutes"), "{error}");
    assert_eq!(env.events_of("resumed").len(), 0, "nothing began");

    env.touch("go");
    env.flow(&["resume", "--max-minutes", "60"]).succeeded();
    assert_eq!(env.status(), "completed", "a resume may raise it");
}

#[test]
fn a_resume_in_the_background_is_given_its_budgets_too() {
    let env = with(COSTLY);
    let run = env.start_aside(&["--max-minutes", "0.01"]);
    env.until_has("ran.txt");
    until("the time is up", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    env.touch("go");
    run.end(&env).succeeded();
    assert_eq!(env.flow_json(&["show"])["trigger"], "timeout");
    env.fails(&["workflow", "resume", "--detach"], "refused");
    env.flow(&["resume", "--detach", "--max-minutes", "7.35"]).succeeded();
    until("it is done", || (env.status() == "completed").then_some(()));
    let budgets = &env.events_of("resumed")[0]["with"]["budgets"];
    assert_eq!(budgets, &json!({ "seconds": 441 }));
}

#[test]
fn what_a_killed_turn_cost_counts() {
    let env = with(COSTLY);
    let run = env.start_aside(&["--max-cost", "0.5"]);
    env.until_has("ran.txt");
    env.until_written_down();
    drop(run);
    env.flow(&["recover"]).succeeded();
    assert_eq!(env.state()["usage"]["cost_usd"], 1.0, "{:#}", env.state()["usage"]);
    let error = env.fails(&["workflow", "resume"], "refused");
    assert!(error["message"].as_str().unwrap().contains("1.00 spent"), "{error}");
    // What it had cost before is not counted once more.
    env.touch("go");
    env.flow(&["resume", "--max-cost", "9"]).succeeded();
    let spent = env.state()["usage"]["cost_usd"].as_f64().unwrap();
    assert!((1.0..1.5).contains(&spent), "{spent}");
}

#[test]
fn what_a_killed_planning_took_counts() {
    let env = scripted(
        "ref",
        &["do: spent: 1000 200000 2.00\ndo: say: one\ndo: exec: touch began\ndo: wait for: go"],
    );
    let run = env.flow_aside(&["start", "--issue", "Mend it", "--max-cost", "1"]);
    env.until_has("began");
    env.until_written_down();
    drop(run);
    env.flow(&["recover"]).succeeded();
    let used = &env.state()["usage"];
    assert_eq!(used["cost_usd"], 2.0, "{used:#}");
    assert!(used["tokens"].as_u64().unwrap() > 10, "{used:#}");
    env.fails(&["workflow", "resume"], "refused");
    assert_eq!(env.flow_json(&["show"])["total"], env.state()["usage"]);
}

#[test]
fn what_a_killed_review_took_counts() {
    let env = scripted(
        "critic",
        &["do: spent: 1000 200000 3.00\ndo: exec: touch began\ndo: wait for: go"],
    );
    env.plan("# P\n\n## Task T1: A\n- review: critic\n\ndo: say: done\n");
    let run = env.start_aside(&[]);
    env.until_has("began");
    env.until_written_down();
    drop(run);
    env.flow(&["recover"]).succeeded();
    let spent = env.state()["usage"]["cost_usd"].as_f64().unwrap();
    assert!((3.0..3.5).contains(&spent), "{spent}");
}

#[test]
fn time_is_up_while_an_agent_plans() {
    let env = scripted("ref", &["do: exec: touch began\ndo: wait for: go"]);
    let run = env.flow_aside(&["start", "--issue", "Mend it", "--max-minutes", "0.01"]);
    env.until_has("began");
    run.end(&env).succeeded();
    assert_eq!(env.flow_json(&["show"])["trigger"], "timeout");
    env.assert_nothing_runs();
}

#[test]
fn budgets_that_are_no_limit_are_refused_wherever_they_are_given() {
    let env = with(COSTLY);
    env.touch("go");
    env.start(&["--pause-after", "1"]).succeeded();
    for budget in [
        ["--max-cost", "NaN"],
        ["--max-cost", "0"],
        ["--max-minutes", "0"],
        ["--max-minutes", "inf"],
        ["--max-tokens", "0"],
    ] {
        let mut command = env.command(["workflow", "resume", "--json"]);
        command.args(budget);
        env.finish(command, b"").assert_error(2, "bad_input");
    }
    assert_eq!(env.status(), "paused");
}
