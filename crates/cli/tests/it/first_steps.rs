//! What somebody new to it meets: hints that lead on, and JSON wherever it is asked for.

use serde_json::{Value, json};

use crate::env::TestEnv;

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

#[track_caller]
fn told(env: &TestEnv, args: &[&str], exit: i32, parts: &[&str], never: &[&str]) {
    let output = env.run(args);
    assert_eq!(output.code, Some(exit), "{args:?} {output}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    for part in never {
        assert!(!output.stderr.contains(part), "{part}: {output}");
    }
}

#[test]
fn what_was_not_recorded_is_not_said_to_be_kept() {
    let env = world();
    env.ask(&["run", "ref", "say: before"]);
    env.agent("dies", &["--exit-at-once", "7", "--stderr", "cannot find API key"]);
    let lost = ["nothing of this was recorded"];
    let never = ["is kept", "continue"];
    told(&env, &["run", "dies", "an important question"], 1, &lost, &never);
    told(&env, &["run", "dies"], 1, &lost, &never);
    told(&env, &["continue", "--with", "dies", "an important question"], 1, &lost, &never);
    env.only();
    // What was written down is.
    told(&env, &["run", "ref", "exit"], 1, &["what was said is kept", "rethread continue"], &[]);
}

#[test]
fn the_program_alone_says_what_there_is_and_what_to_do() {
    let env = world();
    let none: [&str; 0] = [];
    let first = env.data(none);
    assert!(first.contains("Installed here: ") && first.contains("rethread run "), "{first}");
    assert!(first.contains("rethread tour") && !first.contains("rethread continue"), "{first}");
    env.ask(&["run", "ref", "say: hello", "--title", "The lost basket"]);
    let id = env.only();
    env.run(["fork", &id]).succeeded();
    let shown = env.data(none);
    assert!(shown.starts_with("The last sessions here:"), "{shown}");
    assert!(
        shown.contains("The lost basket (fork)") && shown.contains("rethread continue"),
        "{shown}"
    );
    assert!(shown.contains("rethread run ref"), "{shown}");
    // The number is the one that `resume` takes.
    let line = shown.lines().find(|line| line.contains(&id[24..32])).unwrap();
    let number = line.split_whitespace().next().unwrap();
    assert_eq!(env.json(["resume", number, "say: again"])["session_id"], id.as_str());
}

#[test]
fn an_agent_whose_adapter_is_missing_is_told_apart_from_one_that_is_not_there() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = world();
    let folder = env.path("bin");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("claude"), "#!/bin/sh\n").unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("claude"), mode).unwrap();
    let mut command = env.command(["agents", "claude"]);
    command.env("PATH", &folder);
    let output = env.finish(command, b"").succeeded();
    let expected = "claude is installed, its ACP adapter is not: npm install -g ";
    assert!(output.text().contains(expected), "{output}");
    let mut command = env.command(["agents", "codex"]);
    command.env("PATH", &folder);
    let output = env.finish(command, b"").succeeded();
    assert!(output.text().contains("not installed: npm install -g "), "{output}");
}

/// Each takes a second to start: together they take about one.
#[test]
fn agents_are_asked_at_the_same_time() {
    let env = TestEnv::new();
    // Each waits until the other one has been started too.
    for (own, other) in [("one", "two"), ("two", "one")] {
        let script = "touch \"$1\"; until [ -e \"$2\" ]; do sleep 0.01; done; shift 2; exec \"$@\"";
        let [mine, theirs] = [own, other].map(|name| env.path(name).display().to_string());
        let command =
            ["sh", "-c", script, "sh", &mine, &theirs, crate::env::PROGRAM, "reference-agent"];
        env.set(&format!("agents.{own}"), format!("command = {}", json!(command)));
    }
    let shown = env.json(["agents"]);
    let asked = shown
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["abilities"]["name"] == "Reference agent");
    assert_eq!(asked.count(), 2, "{shown:#}");
}

#[test]
fn hints_name_what_there_is() {
    let env = world();
    env.set("agents.missing", "command = [\"/nope/agent\"]");
    env.set("agents.echo", "command = [\"cat\"]");
    told(&env, &["run", "missing", "x"], 1, &["rethread config show"], &["how to install"]);
    let acp = ["this program does not speak ACP", "--acp"];
    told(&env, &["run", "echo", "x"], 1, &acp, &["has no initialize"]);
    told(&env, &["run", "claud", "x"], 1, &["did you mean `claude`?"], &[]);
    told(&env, &["run", "fast-agent", "x"], 1, &["uv tool install fast-agent-acp"], &[]);
    let gone = env.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let script = ["sh", "-c", "cd ../gone; rmdir ../gone; exec \"$@\"", "sh"];
    let output = env.finish(env.command_by(&script, ["stop"]), b"");
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("change to a folder"), "{output}");
    assert!(!output.stderr.contains("--project"), "{output}");
    let help = env.data(["agents", "--help"]);
    assert!(help.contains("Only whether they are installed"), "{help}");
}

#[test]
fn a_conversation_is_one_answer_a_line_with_json() {
    let env = world();
    let output = env.feed(["run", "ref", "--json"], "say: one\n\nexit\nsay: two\n").succeeded();
    let answers: Vec<Value> =
        output.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&Value> = answers.iter().map(|answer| &answer["answer"]).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(answers[0]["opened"]["how"], "fresh");
    let errors: Vec<Value> =
        output.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(errors.len(), 1, "{output}");
    assert_eq!(errors[0]["error"]["code"], "agent_ended");
}

#[test]
fn json_is_json_everywhere() {
    let env = world();
    env.ask(&["run", "ref", "say: red fence"]);
    env.ask(&["run", "ref", "say: blue fence"]);
    let output = env.run(["resume", "fence", "--json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let error: Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!(error["error"]["code"], "ambiguous");
    assert_eq!(error["error"]["candidates"].as_array().unwrap().len(), 2);
    assert!(error["error"]["candidates"][0]["session_id"].is_string(), "{error}");
    let (exit, error) = env.run(["run", "--json"]).error();
    assert_eq!(exit, 2);
    let message = "the following required arguments were not provided: <AGENT>";
    assert_eq!(error["message"], message);
    let file = env.path("backup.db");
    let made = env.json(["backup", file.to_str().unwrap()]);
    assert_eq!(made["path"], json!(file));
    assert_eq!(made["bytes"], std::fs::metadata(&file).unwrap().len());
    assert_eq!(env.json(["agents", "--forget-permissions"])["forgotten"], 0);
    assert!(env.json(["config", "show", "--defaults"])["talk"]["idle_seconds"].is_number());
    let tour = env.json(["tour"]);
    assert_eq!(tour["agents"][1]["opened"], "loaded", "{tour}");
    assert_eq!(tour["store"], Value::Null);
}

#[test]
fn an_answer_that_did_not_end_by_itself_is_marked() {
    let env = world();
    env.run(["run", "ref", "exit"]);
    let id = env.only();
    let shown = env.data(["show", &id]);
    assert!(shown.contains("[interrupted]\n"), "{shown}");
    let paused = env.run(["stop", &id]).succeeded();
    assert!(paused.stderr.contains("assistant, without a word"), "{paused}");
}
