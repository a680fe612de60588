//! Plans that agents write and people approve, and reviews by other agents.

use serde_json::json;

use crate::env::TestEnv;

/// With an agent whose answers stand in a file, one after the other.
fn scripted(name: &str, answers: &[&str]) -> TestEnv {
    let env = TestEnv::with_flows();
    let file = env.path(&format!("{name}.answers"));
    std::fs::write(&file, answers.join("\n---\n")).unwrap();
    env.agent(name, &["--script", &file.display().to_string()]);
    env
}

const FIRST: &str = "Here is the plan:

```markdown
# Anything

## Task A: Look
do: exec: touch looked

## Task B: Leap
- depends on: A
do: exec: touch leapt
```
";

const SECOND: &str = "# Better

## Task ONLY: Leap

do: exec: touch leapt
";

const ISSUE: &str = "The basket gets lost\n\nWhen somebody logs in.";

#[test]
fn a_goal_without_a_plan_is_planned_first_and_waits_for_approval() {
    let env = scripted("ref", &[FIRST]);
    let planned = env.flow(&["start", "--issue", ISSUE]);
    assert_eq!(planned.code, Some(1), "{planned}");
    assert!(planned.text().contains("PLAN.md: read it, change it, then"), "{planned}");
    assert_eq!(env.status(), "blocked");
    assert_eq!(env.state()["questions"][0]["about"], "plan");
    assert_eq!(env.tasks(), "A pending, B pending");
    assert!(env.said_in("PLAN.md").contains("## Task B: Leap"), "{}", env.said_in("PLAN.md"));
    assert!(!env.has("looked"), "nothing is done before it is approved");
    let asked = &env.briefs("ref")[0];
    assert!(asked.contains("> The basket gets lost"), "{asked}");
    assert!(asked.contains("> When somebody logs in."), "{asked}");

    env.flow(&["approve"]).succeeded();
    assert_eq!(env.tasks(), "A completed, B completed");
    assert!(env.has("looked") && env.has("leapt"));
    assert_eq!(env.state()["title"], "The basket gets lost");
}

#[test]
fn a_plan_can_be_changed_by_hand_before_it_is_approved() {
    let env = scripted("ref", &[FIRST]);
    env.flow(&["start", "--issue", ISSUE]);
    let text = env.said_in("PLAN.md");
    let kept = text.split("## Task B").next().unwrap().to_owned();
    let changed = format!("{kept}## Task C: Count\n- depends on: A\n\ndo: exec: touch counted\n");
    std::fs::write(env.path("project/PLAN.md"), changed).unwrap();
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.tasks(), "A completed, C completed");
    assert!(env.has("counted") && !env.has("leapt"));
}

#[test]
fn a_plan_that_is_rejected_is_written_anew() {
    let env = scripted("ref", &[FIRST, SECOND]);
    env.flow(&["start", "--issue", ISSUE]);
    let rejected = env.flow(&["reject", "--reason", "do not look, leap"]);
    assert_eq!(rejected.code, Some(1), "{rejected}");
    assert_eq!(env.status(), "blocked", "{rejected}");
    assert_eq!(env.tasks(), "ONLY pending");
    assert!(env.said_in("PLAN.md").contains("## Task ONLY: Leap"), "{}", env.said_in("PLAN.md"));
    let asked = &env.briefs("ref")[1];
    assert!(asked.contains("> do not look, leap"), "{asked}");
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.status(), "completed");
    assert!(env.has("leapt") && !env.has("looked"));
}

#[test]
fn a_plan_that_cannot_be_used_is_asked_for_once_more() {
    let env = scripted("ref", &["I have no idea.", SECOND]);
    env.flow(&["start", "--issue", ISSUE]);
    assert_eq!(env.status(), "blocked");
    assert!(env.briefs("ref")[1].contains("This plan cannot be used: "), "{:?}", env.briefs("ref"));

    // Twice is once too often; it can be resumed, and is planned then.
    let env = scripted("ref", &["I have no idea.", "Still none.", SECOND]);
    let paused = env.flow(&["start", "--issue", ISSUE]).succeeded();
    assert!(paused.text().contains("there is no plan yet: "), "{paused}");
    assert_eq!(env.status(), "paused");
    assert!(!env.has("PLAN.md"));
    env.flow(&["resume"]);
    assert_eq!(env.status(), "blocked");
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn planning_can_be_cancelled_and_paused() {
    let env = scripted("ref", &["do: exec: touch planning\ndo: hang", SECOND]);
    let run = env.flow_aside(&["start", "--issue", ISSUE]);
    env.until_has("planning");
    env.flow(&["pause", "--now"]).succeeded();
    run.end(&env).succeeded();
    assert_eq!(env.status(), "paused");
    env.flow(&["resume"]);
    assert_eq!(env.status(), "blocked", "it is planned then");
    env.flow(&["cancel"]).succeeded();

    let env = scripted("ref", &["do: exec: touch planning\ndo: hang"]);
    let run = env.flow_aside(&["start", "--issue", ISSUE]);
    env.until_has("planning");
    env.flow(&["cancel"]).succeeded();
    assert_eq!(run.end(&env).code, Some(1));
    assert_eq!(env.status(), "cancelled");
    env.assert_nothing_runs();
}

#[test]
fn a_plan_that_is_there_already_is_not_written_over() {
    let env = scripted("ref", &[FIRST]);
    std::fs::write(env.path("project/PLAN.md"), "mine").unwrap();
    let refused = env.run(["workflow", "start", "--issue", ISSUE, "--json"]);
    refused.assert_error(2, "bad_input");
    assert_eq!(env.said_in("PLAN.md"), "mine");
}

/// A task that the agent `critic` reviews, with what it answers.
fn reviewed(answers: &[&str]) -> TestEnv {
    let env = scripted("critic", answers);
    env.plan("# Judged\n\n## Task T1: Write\n- review: critic\n\ndo: exec: echo x > file.txt\n");
    env
}

const YES: &str = r#"{"approved": true, "severity": "none", "comments": []}"#;
const NO: &str =
    r#"It lacks. {"approved": false, "severity": "major", "comments": ["name the file better"]}"#;

#[test]
fn a_task_that_its_reviewer_approves_is_done() {
    let env = reviewed(&[YES]);
    env.start(&[]).succeeded();
    assert_eq!(env.status(), "completed");
    let review = &env.events_of("reviewed")[0]["with"];
    assert_eq!((&review["approved"], &review["reviewer"]), (&json!(true), &json!("critic")));
    assert!(review["session"].is_string(), "the review can be read: {review:#}");
    let asked = &env.briefs("critic")[0];
    assert!(asked.contains("Change nothing."), "{asked}");
    assert!(asked.contains("file.txt"), "it is shown what was changed: {asked}");
}

#[test]
fn what_a_reviewer_wants_changed_is_changed_and_counts_as_addressed() {
    let env = reviewed(&[NO, YES]);
    let run = env.start(&["--pause-after", "1"]).succeeded();
    assert!(run.stderr.contains("critic does not approve (major) name the file better"), "{run}");
    assert_eq!(env.status(), "completed");
    let asked = &env.briefs("ref")[1];
    assert!(asked.contains("was reviewed and not approved (major)"), "{asked}");
    assert!(asked.contains("> name the file better"), "{asked}");
    let reviews = env.events_of("reviewed");
    assert_eq!(reviews.len(), 2);
    assert_eq!(env.events_of("addressed")[0]["with"]["feedback"], reviews[0]["with"]["id"]);
}

#[test]
fn a_task_that_is_never_approved_fails_and_its_feedback_is_kept() {
    let env = reviewed(&[NO, NO, YES]);
    assert_eq!(env.start(&[]).code, Some(1));
    assert_eq!(env.status(), "blocked");
    let question = env.state()["questions"][0]["question"].clone();
    assert_eq!(
        question,
        "task T1 failed: critic does not approve it (major): name the file better"
    );
    env.flow(&["retry", "T1"]).succeeded();
    assert_eq!(env.status(), "completed");
}

#[test]
fn unaddressed_feedback_is_told_to_whoever_resumes() {
    let env = reviewed(&[NO, "do: refuse: Usage limit reached, resets in 2h", YES]);
    env.plan(&env.plan_text().replace("# Judged\n", "# Judged\n- retries: 0\n"));
    env.start(&[]).succeeded();
    assert_eq!(env.status(), "paused");
    let feedback = env.flow_json(&["show", "--part", "feedback"]);
    assert_eq!(feedback[0]["addressed"], false);
    env.flow(&["resume"]).succeeded();
    let told = env.briefs("ref").pop().unwrap();
    assert!(told.contains("name the file better"), "{told}");
    assert_eq!(env.status(), "completed");
}

#[test]
fn a_review_that_cannot_be_read_is_asked_for_once_more() {
    let env = reviewed(&["Looks fine to me.", YES]);
    env.start(&[]).succeeded();
    assert_eq!(env.status(), "completed");
    assert!(env.briefs("critic")[1].contains("Your answer could not be read"));

    let env = reviewed(&["Looks fine to me.", "Really."]);
    assert_eq!(env.start(&[]).code, Some(1));
    let why = env.state()["questions"][0]["question"].clone();
    assert!(why.as_str().unwrap().contains("the review cannot be understood"), "{why}");
}

#[test]
fn what_a_review_takes_is_counted_beside_the_work() {
    let env = reviewed(&["do: context: 190000 200000 2.00\ndo: say: {\"approved\": true}"]);
    env.plan(&env.plan_text().replace("do: exec", "do: context: 1000 200000 0.50\ndo: exec"));
    env.start(&[]).succeeded();
    let state = env.state();
    assert_eq!(state["status"], "completed", "{state:#}");
    assert_eq!(state["usage"]["cost_usd"], 2.5, "both cost: {:#}", state["usage"]);
    assert_eq!(state["usage"]["turns"], 2);
    assert_eq!(
        (&state["usage"]["context_use"], &state["usage"]["remaining"]),
        (&json!(0.005), &json!(199_000)),
        "the reviewer's context is not that of the task"
    );
}

#[test]
fn a_plan_that_was_changed_wrongly_is_refused_and_the_old_one_is_not_run() {
    let env = scripted("ref", &[FIRST]);
    env.flow(&["start", "--issue", ISSUE]);
    let text = env.said_in("PLAN.md");
    std::fs::write(env.path("project/PLAN.md"), text.replace("## Task B:", "## Task A:")).unwrap();
    let refused = env.flow(&["approve"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.to_string().contains("the plan cannot be used: line "), "{refused}");
    assert_eq!(env.tasks(), "A pending, B pending");
    std::fs::write(env.path("project/PLAN.md"), text).unwrap();
    env.flow(&["approve"]).succeeded();
    assert_eq!(env.tasks(), "A completed, B completed");
}

#[test]
fn a_cancel_is_heard_while_the_planning_agent_starts() {
    let env = TestEnv::with_flows();
    env.agent("slow", &["--start-delay-ms", "3000"]);
    let running = env.flow_aside(&["start", "--issue", ISSUE, "--agent", "slow"]);
    crate::reference::until("it begins", || (env.flow(&["status"]).code == Some(0)).then_some(()));
    env.flow(&["cancel"]).succeeded();
    running.end(&env);
    assert_eq!(env.status(), "cancelled");
    assert!(env.briefs("slow").is_empty(), "it was asked nothing");
    assert!(!env.has("PLAN.md"));
}

#[test]
fn a_task_is_told_what_was_said_in_those_that_it_depends_on() {
    let env = TestEnv::with_flows();
    let found = "The clock is wrong because the runner is set to Asia/Kolkata.";
    env.plan(&format!(
        "# Clock\n\n## Task T1: Find out why the clock is wrong\n\ndo: say: {found}\n\n\
         ## Task T2: Mend the clock\n- depends on: T1\n\ndo: say: mended\n\n\
         ## Task T3: Paint the fence\n\ndo: say: painted\n"
    ));
    env.start(&[]).succeeded();
    let briefs = env.briefs("ref");
    let told = briefs.iter().find(|brief| brief.contains("## Task T2")).unwrap();
    assert!(told.contains("### From task T1, which this one depends on\n"), "{told}");
    assert!(told.contains(&format!("\n> {found}\n")), "{told}");
    // What was said, not what was asked.
    assert_eq!(told.matches("## Your answer").count(), 1, "{told}");
    let other = briefs.iter().find(|brief| brief.contains("## Task T3")).unwrap();
    assert!(!other.contains("Asia/Kolkata"), "{other}");
}
