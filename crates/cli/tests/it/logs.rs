//! What the program notes while nobody watches, and how it is read.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::env::{Output, TestEnv};
use crate::mcp_client::Mcp;
use crate::reference::until;

const FILE: &str = "home/.local/share/rethread/logs/rethread.log";

impl TestEnv {
    /// The lines of the log.
    #[track_caller]
    fn logged(&self, args: &[&str]) -> Vec<Value> {
        let text = self.data(["logs", "--json"].iter().chain(args));
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Fails to show a session, with more in the environment.
    fn fail(&self, id: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(["show", id]);
        command.envs(variables.iter().copied());
        self.finish(command, b"")
    }
}

#[test]
fn what_fails_where_nobody_reads_is_in_the_log() {
    let env = TestEnv::new();
    env.basket();
    assert_eq!(env.logged(&[]), Vec::<Value>::new());
    assert_eq!(env.fail("0198", &[]).code, Some(1));
    let lines = env.logged(&[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for (field, expected) in
        [("level", "warn"), ("event", "the command failed"), ("code", "session_not_found")]
    {
        assert_eq!(lines[0][field], expected, "{lines:?}");
    }
    assert!(lines[0]["error"].as_str().unwrap().contains("0198"), "{lines:?}");
    let mode = std::fs::metadata(env.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // For people, by level, by id, and how many.
    let shown = env.data(["logs"]);
    assert!(shown.contains(" WARN  the command failed  error="), "{shown}");
    assert!(shown.contains("  code=session_not_found\n"), "{shown}");
    assert!(env.logged(&["--level", "error"]).is_empty());
    let pid = lines[0]["pid"].to_string();
    assert_eq!(env.logged(&[&pid]).len(), 1);
    assert!(env.logged(&["nothing"]).is_empty());
    assert_eq!(env.run(["logs", "nothing"]).stderr, "No log lines match.\n");
    env.fail("0199", &[]);
    assert!(env.logged(&["-n", "1"])[0]["error"].as_str().unwrap().contains("0199"));
}

#[test]
fn the_environment_says_how_much_is_noted() {
    let env = TestEnv::new();
    env.basket();
    for filter in ["off", "error", "warn,rethread=error"] {
        env.fail("0198", &[("RETHREAD_LOG", filter)]);
        assert!(env.logged(&[]).is_empty(), "{filter}");
    }
    env.fail("0198", &[("RETHREAD_LOG", "off,rethread=debug")]);
    assert_eq!(env.logged(&[]).len(), 1);
    let refused = env.fail("0198", &[("RETHREAD_LOG", "loud")]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("RETHREAD_LOG is not a filter"), "{refused}");
    assert!(refused.stderr.contains("hint: give error, warn, info"), "{refused}");
}

#[test]
fn the_log_keeps_no_secret_and_no_line_can_be_forged() {
    let env = TestEnv::new();
    env.basket();
    let forged =
        "x\n{\"level\":\"error\",\"event\":\"forged\"}\u{1b}[2J\u{202e}correct-horse-battery";
    let mut command = env.command(["run", forged, "hello"]);
    command.env("BOAT_TOKEN", "correct-horse-battery");
    assert_ne!(env.finish(command, b"").code, Some(0));
    let lines = env.logged(&[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let text = std::fs::read_to_string(env.path(FILE)).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("forged"), "{text}");
    assert!(!text.contains("horse"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let shown = env.data(["logs"]);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
}

/// The process that runs a workflow in the background has no terminal: its turns and tasks are in the log, each line
/// with what it belongs to.
#[test]
fn a_workflow_in_the_background_leaves_its_log() {
    let env = TestEnv::with_flows();
    env.plan("# One thing\n\n## Task T1: First\n\ndo: say: done\n");
    env.start(&["--detach"]).succeeded();
    until("the workflow is over", || (env.status() == "completed").then_some(()));
    let id = env.id();
    let lines = until("the end is noted", || {
        let lines = env.logged(&[&id]);
        lines.iter().any(|line| line["event"] == "workflow rests").then_some(lines)
    });
    let of = |event: &str| {
        let found = lines.iter().find(|line| line["event"] == event);
        found.unwrap_or_else(|| panic!("{event}: {lines:#?}")).clone()
    };
    assert_eq!(of("workflow rests")["status"], "completed");
    for event in ["task begun", "opened", "turn ended", "task ended"] {
        let line = of(event);
        assert_eq!(
            (&line["workflow"], &line["task"]),
            (&id.as_str().into(), &"T1".into()),
            "{line}"
        );
        assert!(line["session"].is_string(), "{line}");
    }
    assert_eq!(
        (&of("opened")["agent"], &of("turn ended")["agent"]),
        (&"ref".into(), &"ref".into())
    );
}

#[test]
fn the_log_can_be_followed() {
    let env = TestEnv::new();
    env.basket();
    env.fail("0198", &[]);
    let mut command = env.command(["logs", "--follow", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains("0198"));
    env.fail("0199", &[]);
    assert!(next().contains("0199"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Neither a log that cannot be written nor one that is in the way stops a command.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let env = TestEnv::new();
    env.basket();
    let folder = env.path("home/.local/share/rethread");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("logs"), "in the way").unwrap();
    let refused = env.fail("0198", &[]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stderr.contains("no session 0198"), "{refused}");
}

/// A fault of ours is in the log with everything that led to it, under the id that the agent was given.
#[test]
fn an_agent_is_told_where_the_cause_of_a_fault_is() {
    let env = TestEnv::new();
    env.basket();
    let mut client = Mcp::start(&env);
    env.change_store("alter table workflow rename to elsewhere");
    let told = client.refused("workflow_status", serde_json::json!({}));
    let id = told.split("`rethread logs ").nth(1).unwrap_or_else(|| panic!("{told}"));
    let id = id.split('`').next().unwrap();
    // The answer does not wait for the disk.
    let lines = until("the cause is in the log", || {
        Some(env.logged(&[id])).filter(|lines| !lines.is_empty())
    });
    assert_eq!((lines.len(), &lines[0]["event"]), (1, &"internal error".into()), "{lines:?}");
    assert!(lines[0]["error"].as_str().unwrap().contains("no such table"), "{lines:?}");
    assert_eq!(lines[0]["tool"], "workflow_status");
}
