//! Workflows as people and programs see them: lists, snapshots, logs, notices, and work in the background.

use hmac::{Hmac, KeyInit, Mac};
use rethread_testkit::http::{Received, Reply, Server};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::env::TestEnv;
use crate::reference::until;

const TWO: &str = "# Two things

Do both.

## Task T1: First

do: say: Decided: plain text because everybody can read it.

## Task T2: Second

do: exec: echo x > file.txt
";

fn paused_twice() -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(&format!("{TWO}\n## Task T3: Third\n\ndo: say: c\n"));
    env.start(&["--pause-after", "1"]).succeeded();
    env.flow(&["resume"]).succeeded();
    env
}

#[test]
fn workflows_are_listed_with_how_far_they_are() {
    let env = TestEnv::with_flows();
    let none = env.flow(&["list"]).succeeded();
    assert!(none.stderr.contains("No workflows."), "{none}");
    let env = paused_twice();
    let listed = env.flow(&["list"]).succeeded();
    for expected in ["Two things", "paused", "2/3", "ref"] {
        assert!(listed.text().contains(expected), "{expected}: {listed}");
    }
    let rows = env.flow_json(&["list", "--status", "paused"]);
    assert_eq!((&rows[0]["tasks_completed"], &rows[0]["tasks_total"]), (&json!(2), &json!(3)));
    assert_eq!(env.flow_json(&["list", "--status", "completed"]), json!([]));
    assert_eq!(env.flow(&["list", "--status", "odd"]).code, Some(2));
}

#[test]
fn status_shows_tasks_snapshots_and_what_can_be_done() {
    let env = paused_twice();
    let shown = env.flow(&["status"]).succeeded();
    for expected in [
        "status: paused",
        "run: 2",
        "T1    First   completed",
        "T3    Third   pending",
        "Snapshots",
        "task_complete",
        "Resume with: rethread workflow resume ",
    ] {
        assert!(shown.text().contains(expected), "{expected:?}: {shown}");
    }
    let state = env.state();
    assert_eq!(state["is_running"], false);
    assert_eq!(state["snapshots"].as_array().unwrap().len(), 2);
    // From a folder below, it is the same workflow.
    std::fs::create_dir(env.path("project/src")).unwrap();
    let mut command = env.command(["workflow", "status", "--json"]);
    command.current_dir(env.path("project/src"));
    let below = env.finish(command, b"").succeeded();
    let below: Value = serde_json::from_slice(&below.stdout).unwrap();
    assert_eq!(below["id"], state["id"]);
}

#[test]
fn show_gives_a_snapshot_whole_in_parts_and_as_an_agent_is_told_it() {
    let env = paused_twice();
    let snapshots = env.flow_json(&["snapshots"]);
    let first = snapshots[0]["id"].as_str().unwrap().to_owned();
    let shown = env.flow(&["show"]).succeeded();
    for expected in ["Git: branch main", "Usage: ", "Decisions", "plain text", "(rules)"] {
        assert!(shown.text().contains(expected), "{expected:?}: {shown}");
    }
    let whole = env.flow_json(&["show"]);
    let chosen = env.flow_json(&["show", "--snapshot", &first]);
    assert_eq!((&whole["session_number"], &chosen["session_number"]), (&json!(2), &json!(1)));
    for part in ["decisions", "errors", "feedback", "git", "tests", "tasks", "usage"] {
        let shown = env.data(["workflow", "show", "--part", part]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown, whole[part], "{part}");
    }
    let context = env.data(["workflow", "show", "--context", "--snapshot", &first]);
    assert!(context.contains("run 1 of 2"), "{context}");
    assert!(context.contains("- Completed: 1\n"), "{context}");
    assert_eq!(env.flow(&["show", "--part", "odd"]).code, Some(2));
}

#[test]
fn two_snapshots_are_compared() {
    let env = paused_twice();
    let snapshots = env.flow_json(&["snapshots"]);
    let ids = [0, 1].map(|at| snapshots[at]["id"].as_str().unwrap()[24..32].to_owned());
    let told = env.flow(&["diff", &ids[0], &ids[1]]).succeeded();
    for expected in ["(run 1) → ", "task T2: pending → completed", "file: ", "file.txt"] {
        assert!(told.text().contains(expected), "{expected:?}: {told}");
    }
    let compared = env.flow_json(&["diff", &ids[0], &ids[1]]);
    assert_eq!(compared["from"], snapshots[0]["id"]);
    env.fails(&["workflow", "diff", &ids[0], "ffffffff"], "snapshot_not_found");
    let same = env.flow(&["diff", &ids[0], &ids[0]]).succeeded();
    assert!(same.text().is_empty() && same.stderr.contains("No differences"), "{same}");
}

#[test]
fn logs_follow_a_workflow_until_it_rests() {
    let env = TestEnv::with_flows();
    env.plan(&TWO.replace("do: exec", "do: exec: touch begun\ndo: wait for: go\ndo: exec"));
    let run = env.start_aside(&[]);
    env.until_has("begun");
    for command in ["list", "status"] {
        let shown = env.flow(&[command]).succeeded();
        assert!(shown.text().contains("in progress"), "{shown}");
    }
    let mut logs = env.flow_aside(&["logs", "-f"]);
    let mut other = env.flow_aside(&["logs", "--follow", "--json"]);
    assert!(!logs.is_over() && !other.is_over(), "it still runs");
    env.touch("go");
    run.end(&env).succeeded();
    let told = logs.end(&env).succeeded();
    let lines: Vec<&str> = told.text().lines().collect();
    assert!(lines.last().unwrap().ends_with(" completed"), "{told}");
    let at = |what: &str| lines.iter().position(|line| line.contains(what));
    let said = at("T1 assistant: Decided: plain text");
    assert!(said.is_some() && said < at("task T1: done"), "said before it is done: {told}");
    let told = other.end(&env).succeeded();
    let records: Vec<Value> =
        told.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["what"], "created");
    // Its last snapshot is taken after its end, and may come too late for whoever follows.
    let last = records.iter().rfind(|record| record["what"] != "closed").unwrap();
    assert_eq!(last["what"], "completed");
    let events = records.iter().filter(|record| record["what"] != "said");
    let numbers: Vec<u64> = events.map(|record| record["no"].as_u64().unwrap()).collect();
    let all: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, all, "each event once, in order");
}

#[test]
fn independent_tasks_run_side_by_side() {
    let env = TestEnv::with_flows();
    // Each waits for the other: one after the other, they would wait for ever.
    env.plan(
        "# Both\n\n## Task A: One\n\ndo: exec: touch a\ndo: wait for: b\n\n## Task B: Two\n\ndo: exec: touch b\ndo: wait for: a\n\n## Task C: After\n- depends on: A, B\n\ndo: exec: touch c\n",
    );
    env.start_aside(&["--jobs", "2"]).end(&env).succeeded();
    assert_eq!(env.tasks(), "A completed, B completed, C completed");
    let began: Vec<Value> =
        env.events_of("task_began").iter().map(|event| event["with"]["task"].clone()).collect();
    assert_eq!(began[2], "C");
    env.assert_sound();
}

#[test]
fn a_task_that_fails_beside_another_lets_that_one_end() {
    let env = TestEnv::with_flows();
    env.plan(
        "# Both\n\n## Task A: Fails\n\ndo: wait for: b\ndo: say: no\ndo: stop: refusal\n\n## Task B: Goes on\n\ndo: exec: touch b\ndo: wait for: go\n\n## Task C: Later\n\ndo: exec: touch c\n",
    );
    let run = env.start_aside(&["--jobs", "2"]);
    env.until_has("b");
    until("A failed", || env.tasks().contains("A failed").then_some(()));
    env.touch("go");
    assert_eq!(run.end(&env).code, Some(1));
    assert_eq!(env.tasks(), "A failed, B completed, C pending");
    assert!(!env.has("c"), "nothing new begins while a person is waited for");
    env.flow(&["skip", "A"]).succeeded();
    assert_eq!(env.tasks(), "A skipped, B completed, C completed");
}

#[test]
fn work_goes_on_in_the_background() {
    let env = TestEnv::with_flows();
    env.plan(&TWO.replace("do: say", "do: wait for: go\ndo: say"));
    let begun = env.start(&["--detach"]).succeeded();
    assert!(begun.stderr.contains("goes on in the background"), "{begun}");
    until("it runs", || (env.tasks() == "T1 in_progress, T2 pending").then_some(()));
    let paused = env.flow_aside(&["pause"]);
    until("it pauses", || env.state()["is_pausing"].as_bool().filter(|is| *is));
    env.touch("go");
    paused.end(&env).succeeded();
    let resumed = env.flow(&["resume", "--detach"]).succeeded();
    assert!(resumed.stderr.contains("goes on in the background"), "{resumed}");
    until("it is done", || (env.status() == "completed").then_some(()));
    assert_eq!(env.state()["session_count"], 2);
    env.assert_nothing_runs();
}

#[test]
fn an_answer_goes_on_in_the_background_too() {
    let env = TestEnv::with_flows();
    env.plan("# One\n\n## Task T1: Only\n- verify: `touch ok`\n\ndo: say: a\n");
    assert_eq!(env.flow(&["start", "plan.md"]).code, Some(1));
    env.flow(&["approve", "--detach"]).succeeded();
    until("it is done", || (env.status() == "completed").then_some(()));
    assert!(env.has("ok"));
}

fn signature(key: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{timestamp}.{body}").as_bytes());
    let digest = mac.finalize().into_bytes();
    let hex: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={}", hex.concat())
}

#[test]
fn others_are_told_of_pause_resume_and_end_and_can_tell_that_it_is_us() {
    let server = Server::always(Reply::ok("{}"));
    let env = TestEnv::with_flows();
    env.set("notify.team", format!("url = \"{}\"\nsecret_variable = \"HOOK_KEY\"", server.url()));
    env.plan(TWO);
    for args in
        [&["workflow", "start", "plan.md", "--pause-after", "1"][..], &["workflow", "resume"]]
    {
        let mut command = env.command(args);
        command.env("HOOK_KEY", "geheim-und-lang");
        env.finish(command, b"").succeeded();
    }
    let received = server.received(4);
    let told: Vec<Value> = received.iter().map(Received::json).collect();
    let kinds: Vec<&Value> = told.iter().map(|notice| &notice["event"]).collect();
    let expected =
        ["workflow_started", "workflow_paused", "workflow_resumed", "workflow_completed"];
    assert_eq!(json!(kinds), json!(expected));
    assert_eq!(told[1]["snapshot_id"], env.flow_json(&["snapshots"])[0]["id"]);
    assert_eq!(told[1]["reason"], "1 task done, as asked");
    assert_eq!((&told[3]["tasks_completed"], &told[3]["tasks_total"]), (&json!(2), &json!(2)));
    for one in &received {
        let expected =
            signature("geheim-und-lang", &one.headers["x-rethread-timestamp"], one.text());
        assert_eq!(one.headers["x-rethread-signature"], expected);
    }
}

#[test]
fn a_failure_is_told_as_slack_wants_it_and_only_what_is_wanted() {
    let server = Server::always(Reply::ok("ok"));
    let env = TestEnv::with_flows();
    env.set(
        "notify.team",
        format!("url = \"{}\"\nformat = \"slack\"\non = [\"workflow_failed\"]", server.url()),
    );
    env.plan("# Doomed\n\n## Task T1: No\n\ndo: say: no\ndo: stop: refusal\n");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(env.flow(&["reject", "--reason", "hopeless"]).code, Some(1));
    let received = server.received(1);
    let told: Value = received[0].json();
    let text = told.to_string();
    assert!(text.contains("Doomed") && text.contains("hopeless"), "{told:#}");
}

#[test]
fn nobody_to_tell_does_not_hold_up_the_work() {
    let env = TestEnv::with_flows();
    env.set("notify.team", "url = \"http://127.0.0.1:9/x\"\non = [\"workflow_completed\"]");
    env.plan("# One\n\n## Task T1: Only\n\ndo: say: a\n");
    let run = env.start(&[]).succeeded();
    assert_eq!(env.status(), "completed");
    assert!(run.stderr.contains("note: "), "it is said: {run}");
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let env = TestEnv::with_flows();
    env.plan(TWO);
    let run = env.start(&[]).succeeded();
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('█'), "{run}");
    for expected in ["task T1: ref starts in session ", "task T1: done", "completed"] {
        assert!(run.stderr.contains(expected), "{expected:?}: {run}");
    }
    assert!(!run.text().contains("task T1"), "data is apart from talk: {run}");
}

#[test]
fn what_programs_get_is_json_and_nothing_else() {
    let env = TestEnv::with_flows();
    env.plan(TWO);
    let begun = env.json(["workflow", "start", "plan.md", "--pause-after", "1"]);
    assert_eq!(begun["status"], "paused");
    let id = begun["id"].as_str().unwrap().to_owned();
    for args in [&["list"][..], &["status"], &["show"], &["snapshots"]] {
        env.flow_json(args);
    }
    let resumed = env.flow_json(&["resume", &id]);
    assert_eq!((&resumed["status"], &resumed["session_count"]), (&json!("completed"), &json!(2)));
    assert_eq!(env.flow_json(&["recover"]), json!([]));
}

#[test]
fn help_names_every_command() {
    let env = TestEnv::new();
    let help = env.data(["workflow", "--help"]);
    for command in [
        "start",
        "pause",
        "resume",
        "list",
        "status",
        "show",
        "snapshots",
        "diff",
        "logs",
        "approve",
        "reject",
        "retry",
        "skip",
        "cancel",
        "recover",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let own = env.data(["workflow", command, "--help"]);
        assert!(own.contains("Usage: rethread workflow"), "{own}");
    }
    assert!(!help.contains("\n  run "), "what is ours alone is hidden");
}

#[test]
fn a_plan_that_is_not_there_is_told_without_numbers_of_the_system() {
    let env = TestEnv::with_flows();
    let told = env.flow(&["start", "missing.md"]);
    assert!(told.stderr.contains("the plan cannot be read: No such file or directory"), "{told}");
    assert!(!told.stderr.contains("os error"), "{told}");
}

#[test]
fn the_session_of_a_task_keeps_the_title_of_the_task() {
    let env = TestEnv::with_flows();
    env.plan("# Headers\n\n## Task T1: Write tests for headers\n\ndo: title: Something else\n");
    env.start(&[]).succeeded();
    let listed = env.json(["list"]);
    let titles: Vec<&Value> =
        listed.as_array().unwrap().iter().map(|session| &session["title"]).collect();
    assert_eq!(titles, ["T1: Write tests for headers"]);
}
