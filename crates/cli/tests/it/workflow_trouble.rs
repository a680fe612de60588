//! Agents, checks and models that do not do as they should: the task fails and says why, and the workflow stays
//! resumable.

use rethread_testkit::http::{Reply, Server};
use serde_json::json;

use crate::env::TestEnv;
use crate::workspace_secrets::{KNOWN, with};

/// One task with these lines, and one after it.
fn with_task(lines: &str) -> TestEnv {
    let env = TestEnv::with_flows();
    env.plan(&format!("# Trouble\n\n## Task T1: Odd\n{lines}\n\n## Task T2: Next\n\ndo: say: b\n"));
    env
}

/// The task failed for this reason, and waits for a person.
#[track_caller]
fn assert_blocked(env: &TestEnv, why: &str) {
    let state = env.state();
    assert_eq!(state["status"], "blocked", "{state:#}");
    assert_eq!(state["questions"][0]["about"], "task_failed", "{state:#}");
    let told = state["questions"][0]["question"].as_str().unwrap();
    assert!(told.contains(why), "{why:?} is not said: {told}");
    assert_eq!(env.tasks(), "T1 failed, T2 pending");
}

#[test]
fn an_agent_that_fails_blocks_the_workflow_until_somebody_decides() {
    let env =
        with_task("- retries: 0\n\ndo: exec: touch tried\ndo: refuse: the model is overloaded");
    let run = env.start(&[]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.text().contains("task T1 failed: "), "{run}");
    assert!(run.text().contains("rethread workflow retry T1 "), "{run}");
    assert_blocked(&env, "the model is overloaded");

    // It fails again, is left out, and the rest is done.
    assert_eq!(env.flow(&["retry", "T1"]).code, Some(1));
    assert_eq!(env.state()["tasks"][0]["attempts"], 2);
    env.flow(&["skip", "T1"]).succeeded();
    assert_eq!(env.tasks(), "T1 skipped, T2 completed");
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_failed_task_can_be_given_up() {
    let env = with_task("\ndo: say: no\ndo: stop: refusal");
    env.start(&[]);
    assert_blocked(&env, "ended its turn with refusal");
    let told = env.flow(&["reject", "--reason", "hopeless"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert_eq!(env.status(), "failed");
    assert_eq!(env.events_of("failed")[0]["with"]["why"], "hopeless");
}

#[test]
fn an_agent_that_hangs_is_stopped_when_its_time_is_up() {
    let env = with_task("\ndo: hang");
    env.set("workflow", "agent = \"ref\"\ntask_seconds = 1");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_blocked(&env, "it took longer than 1 seconds");
    env.assert_nothing_runs();
}

#[test]
fn an_agent_that_dies_fails_its_task() {
    let env = with_task("\ndo: say: so far\ndo: die");
    assert_eq!(env.start(&[]).code, Some(1));
    let state = env.state();
    assert_eq!(state["questions"][0]["about"], "task_failed", "{state:#}");
    // What it said until then can be read.
    let session = state["tasks"][0]["session_ids"][0].as_str().unwrap().to_owned();
    let said = env.data(["show", &session, "--all"]);
    assert!(said.contains("half of an answer"), "{said}");
    env.assert_nothing_runs();
}

#[test]
fn an_agent_that_cannot_be_started_fails_its_task() {
    let env = with_task("\ndo: say: a");
    env.set("agents.ref", "command = [\"/bin/false\"]");
    assert_ne!(env.start(&[]).code, Some(0));
    assert_blocked(&env, "ref");
    env.agent("ref", &[]);
    env.flow(&["retry", "T1"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn an_agent_that_is_not_installed_is_refused_before_anything_begins() {
    let env = with_task("\ndo: say: a");
    env.set("agents.absent", "command = [\"/nowhere/agent\"]");
    let start = ["workflow", "start", "plan.md", "--agent", "absent"];
    let error = env.fails(&start, "not_installed");
    assert!(error["message"].as_str().unwrap().contains("absent is not installed"), "{error}");
    assert_eq!(env.flow_json(&["list"]), json!([]), "nothing began");
}

#[test]
fn a_blocked_workflow_goes_on_with_another_agent() {
    let env = with_task("\ndo: say: a");
    env.agent("second", &[]);
    env.set("agents.ref", "command = [\"/bin/false\"]");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_blocked(&env, "ref");
    // The refusal names what works here.
    let refused = env.flow(&["resume", "--with", "second"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("rethread workflow retry T1 "), "{refused}");
    assert!(refused.stderr.contains("--with AGENT"), "{refused}");
    assert!(!refused.stderr.contains("approve"), "{refused}");
    env.fails(&["workflow", "retry", "T1", "--with", "nobody"], "unknown_agent");
    env.set("agents.absent", "command = [\"/nowhere/agent\"]");
    env.fails(&["workflow", "retry", "T1", "--with", "absent"], "not_installed");

    env.flow(&["retry", "T1", "--with", "second", "--permissions", "deny"]).succeeded();
    assert_eq!((env.status().as_str(), &env.state()["agent"]), ("completed", &json!("second")));
    assert_eq!(env.tasks(), "T1 completed, T2 completed");
}

#[test]
fn a_check_that_never_ends_is_ended() {
    let env = with_task("- verify: `sleep 300`\n\ndo: say: a");
    env.set("workflow", "agent = \"ref\"\ntask_seconds = 1\nrounds = 0");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_blocked(&env, "`sleep 300` did not end in time");
    env.assert_nothing_runs();
}

#[test]
fn a_check_that_fails_is_shown_to_the_agent_and_then_fails_the_task() {
    let env = with_task("- verify: `echo '--- FAIL: TestB (0.00s)'; exit 1`\n\ndo: say: a");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_blocked(&env, "fails: TestB");
    let briefs = env.briefs("ref");
    assert_eq!(briefs.len(), 2, "one more round");
    assert!(briefs[1].contains("> TestB"), "{}", briefs[1]);
}

#[test]
fn a_pause_at_once_ends_a_check_that_runs() {
    let env = with_task("- verify: `touch checking; sleep 300`\n\ndo: say: a");
    let run = env.start_aside(&[]);
    env.until_has("checking");
    env.flow(&["pause", "--now"]).succeeded();
    run.end(&env).succeeded();
    assert_eq!(env.tasks(), "T1 pending, T2 pending");
    assert_eq!(env.state()["next_task"], "T1");
}

#[test]
fn a_command_of_the_plan_runs_only_once_it_is_approved() {
    let env = with_task("- verify: `touch checked`\n\ndo: say: a");
    let run = env.flow(&["start", "plan.md"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.text().contains("Allow this command of the plan to run?\n    touch checked"),
        "{run}"
    );
    assert_eq!(env.status(), "blocked");
    assert!(!env.has("checked") && env.briefs("ref").is_empty(), "nothing ran");
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert!(env.has("checked"));

    // This very text may run from now on; another one is asked for.
    env.plan("# Again\n\n## Task T1: Same\n- verify: `touch checked`\n\ndo: say: a\n");
    env.flow(&["start", "plan.md"]).succeeded();
    env.plan("# Other\n\n## Task T1: Other\n- verify: `touch  checked`\n\ndo: say: a\n");
    assert_eq!(env.flow(&["start", "plan.md"]).code, Some(1));
    assert_eq!(
        env.state()["questions"][0]["question"],
        "allow this command of the plan to run? touch  checked"
    );
    assert_eq!(env.flow(&["reject"]).code, Some(1));
    assert_eq!(env.status(), "failed");
}

#[test]
fn a_command_that_is_changed_by_hand_while_it_runs_is_asked_for_again() {
    let env = with_task("\ndo: exec: touch begun\ndo: wait for: go");
    let run = env.start_aside(&[]);
    env.until_has("begun");
    let text = env.plan_text();
    env.plan(&text.replace("## Task T2: Next", "## Task T2: Next\n- verify: `touch sneaky`"));
    crate::reference::until("the plan is read again", || {
        env.state()["tasks"][1].get("verify").map(drop)
    });
    env.touch("go");
    assert_eq!(run.end(&env).code, Some(1));
    assert_eq!(
        env.state()["questions"][0]["question"],
        "allow this command of the plan to run? touch sneaky"
    );
    assert!(!env.has("sneaky"));
}

#[test]
fn a_check_whose_name_nobody_knows_is_refused_before_anything_runs() {
    let env = with_task("- verify: tests\n\ndo: say: a");
    let mut command = env.command(["workflow", "start", "plan.md", "--json"]);
    command.arg("--approve-commands");
    let refused = env.finish(command, b"");
    refused.assert_error(2, "bad_input");
    assert!(refused.error().1["message"].as_str().unwrap().contains("\"tests\""), "{refused}");
    assert_eq!(env.flow_json(&["list"]), json!([]));
    env.set("workflow.commands", "tests = \"touch checked\"");
    env.flow(&["start", "plan.md"]).succeeded();
    assert!(env.has("checked"), "the user's own command needs no approval");
}

const DECIDES: &str = "\ndo: say: Decided: plain text because everybody can read it.";

fn with_model(url: &str) -> TestEnv {
    let env = with_task(DECIDES);
    env.set(
        "model",
        format!("url = \"{url}\"\nname = \"tiny\"\ntimeout_seconds = 1\nattempts = 1"),
    );
    env
}

fn answer(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    Reply::ok(body.to_string())
}

/// The workflow is done, and the rules found the decision.
#[track_caller]
fn assert_by_rules(env: &TestEnv, why: &str) {
    let run = env.start(&[]).succeeded();
    assert!(run.stderr.contains("decisions and errors are found by the rules"), "{run}");
    assert!(run.stderr.contains(why), "{why:?}: {run}");
    assert_eq!(env.status(), "completed");
    let decided = env.events_of("decided");
    assert_eq!(decided.len(), 1, "{decided:#?}");
    assert_eq!(decided[0]["with"]["source"]["by"], "rules");
}

#[test]
fn decisions_are_found_by_the_model_with_the_messages_they_rest_on() {
    let found = json!({
        "decisions": [{"type": "library", "what": "use plain text", "why": "everybody reads it",
                       "alternatives": ["XML"], "entries": [2]}],
        "errors": [],
    });
    let server = Server::always(answer(&found.to_string()));
    let env = with_model(&server.url());
    env.start(&["--pause-after", "1"]).succeeded();
    let decisions = env.flow_json(&["show", "--part", "decisions"]);
    assert_eq!(decisions.as_array().map(Vec::len), Some(1), "{decisions:#}");
    let decision = &decisions[0];
    assert_eq!((&decision["type"], &decision["task"]), (&json!("library"), &json!("T1")));
    assert_eq!(decision["alternatives"], json!(["XML"]));
    assert_eq!(decision["source"]["by"], "model");
    assert_eq!(decision["source"]["messages"], json!([2]));
    let asked = extractions(&server);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("everybody can read it"), "{asked:#?}");
}

/// What the model was asked with a schema, and not for summaries.
fn extractions(server: &Server) -> Vec<String> {
    let all = server.so_far().into_iter().map(|one| one.text().to_owned());
    all.filter(|body| body.contains("extract the decisions")).collect()
}

#[test]
fn a_model_that_answers_nonsense_is_asked_once_more_then_the_rules_do_it() {
    let server = Server::always(answer("I would say: blue."));
    let env = with_model(&server.url());
    assert_by_rules(&env, "the model's answer was of no use");
    assert_eq!(extractions(&server).len(), 4, "twice for each of two tasks");
}

#[test]
fn a_model_that_is_down_or_slow_does_not_hold_up_the_work() {
    assert_by_rules(&with_model("http://127.0.0.1:9/v1"), "the model did not answer");
    let server = Server::always(Reply::Hang(Vec::new()));
    assert_by_rules(&with_model(&server.url()), "the model did not answer");
}

#[test]
fn a_secret_that_is_known_reaches_neither_the_store_nor_those_who_are_told() {
    let server = Server::always(Reply::ok("{}"));
    let env = with_task(&format!(
        "\ndo: say: Decided: the key {KNOWN} stays because it is good.\ndo: refuse: bad key {KNOWN}"
    ));
    env.set("notify.all", format!("url = \"{}\"", server.url()));
    let issue = format!("Use {KNOWN}");
    let mut command = env.command(["workflow", "start", "plan.md", "--issue", &issue]);
    command.env("FOO_API_KEY", KNOWN);
    let run = env.finish(command, b"");
    assert_eq!(run.code, Some(1), "{run}");
    for told in server.received(2) {
        assert!(!told.text().contains(KNOWN), "{}", told.text());
    }
    assert!(!run.to_string().contains(KNOWN), "{run}");
    assert_eq!(with(&env.path("store"), KNOWN), [] as [String; 0]);
    assert!(env.plan_text().contains(KNOWN), "what the user wrote is the user's");
}

#[test]
fn a_command_is_shown_whole_before_it_is_approved() {
    let command = format!("true {} ; touch pwned", "x".repeat(420));
    let env = with_task(&format!("- verify: `{command}`\n\ndo: say: a"));
    let asked = env.flow(&["start", "plan.md"]);
    assert_eq!(asked.code, Some(1), "{asked}");
    assert!(asked.text().contains(&command), "{asked}");
    assert!(env.flow(&["status"]).text().contains(&command));
    assert!(!env.has("pwned"));
    let approved = env.flow(&["approve"]);
    assert!(approved.to_string().contains(&format!("Approved: {command}")), "{approved}");
    assert!(env.has("pwned"));
}

#[test]
fn a_check_that_cannot_run_shows_no_failing_tests() {
    let env = with_task("- verify: `no-such-program`\n- expect: red\n\ndo: say: a");
    assert_eq!(env.start(&[]).code, Some(1));
    assert_blocked(&env, "`no-such-program` cannot be run");
}
