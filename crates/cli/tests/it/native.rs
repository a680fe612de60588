//! `rethread resume --native` and `rethread doctor SESSION`, with small scripts in the place of the agents' own programs

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::env::{Output, PROGRAM, TestEnv};
use crate::workspace_secrets::TOKEN;

const NATIVE: &str = "11111111-1111-4111-8111-111111111111";

/// Says where it runs and with what, one word on each line.
const SCRIPT: &str = "#!/bin/sh\necho \"in $(pwd)\"\nfor word; do echo \"<$word>\"; done\necho \"parent=$RETHREAD_PARENT_SESSION\"\n";

fn script(env: &TestEnv, name: &str, text: &str) -> PathBuf {
    let folder = env.path("programs");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A program of that name is the agent's own.
fn own_program(env: &TestEnv, agent: &str, text: &str) {
    let path = script(env, agent, text);
    env.set(&format!("agents.{agent}.native"), format!("command = [{:?}]", path.to_str().unwrap()));
}

/// A project, with a real path.
fn project(env: &TestEnv, name: &str) -> PathBuf {
    let folder = env.path(name);
    fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

fn slug(folder: &Path) -> String {
    let text = folder.to_str().unwrap();
    text.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect()
}

fn line(folder: &Path, number: usize, role: &str, content: Value) -> String {
    let parent = if number == 1 { Value::Null } else { format!("u{}", number - 1).into() };
    let message = match role {
        "assistant" => json!({
            "id": format!("m{number}"), "type": "message", "role": role, "model": "claude-x", "content": content,
            "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        }),
        _ => json!({"role": role, "content": content}),
    };
    let record = json!({
        "parentUuid": parent, "isSidechain": false, "type": role, "message": message, "uuid": format!("u{number}"),
        "timestamp": format!("2026-11-17T10:00:0{number}.000Z"), "cwd": folder, "sessionId": NATIVE, "version": "2.1.325",
        "gitBranch": "till",
    });
    format!("{record}\n")
}

fn claude_file(env: &TestEnv, folder: &Path) -> PathBuf {
    let place = env.path("home/.claude/projects").join(slug(folder));
    fs::create_dir_all(&place).unwrap();
    place.join(format!("{NATIVE}.jsonl"))
}

/// A session of Claude Code in a folder, imported; gives its id here.
fn imported(env: &TestEnv, folder: &Path) -> String {
    let text = [
        line(folder, 1, "user", "Why is the till slow?".into()),
        line(folder, 2, "assistant", json!([{"type": "text", "text": "It prints."}])),
        line(folder, 3, "user", "What is the key?".into()),
        line(
            folder,
            4,
            "assistant",
            json!([{"type": "text", "text": format!("The key is {TOKEN}.")}]),
        ),
    ];
    fs::write(claude_file(env, folder), text.concat()).unwrap();
    env.run(["import"]).succeeded();
    env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned()
}

fn printed(env: &TestEnv, args: &[&str]) -> Value {
    env.json([&["resume"], args, &["--native", "--print"]].concat())
}

fn rollouts(env: &TestEnv) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![env.path("home/.codex/sessions")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}

fn notes(output: &Output) -> &str {
    &output.stderr
}

#[test]
fn the_agents_own_program_takes_our_place_in_the_sessions_folder() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    own_program(&env, "claude", SCRIPT);
    let before = fs::read(claude_file(&env, &folder)).unwrap();
    let output = env.run(["resume", &id, "--native", "--", "--model", "opus"]).succeeded();
    let expected =
        format!("in {}\n<--resume={NATIVE}>\n<--model>\n<opus>\nparent=\n", folder.display());
    assert_eq!(output.text(), expected, "{output}");
    assert_eq!(fs::read(claude_file(&env, &folder)).unwrap(), before);
    // With a prompt.
    let output = env.run(["resume", &id, "Go on", "--native"]).succeeded();
    assert!(output.text().contains(&format!("<--resume={NATIVE}>\n<Go on>")), "{output}");
    // Its exit code is ours.
    own_program(&env, "claude", "#!/bin/sh\nexit 7\n");
    assert_eq!(env.run(["resume", &id, "--native"]).code, Some(7));
    env.assert_sound();
}

#[test]
fn the_command_is_printed_instead() {
    let env = TestEnv::new();
    let folder = project(&env, "my shop");
    let id = imported(&env, &folder);
    own_program(&env, "claude", "#!/bin/sh\necho it ran\n");
    let text = env.run(["resume", &id, "--native", "--print"]).succeeded();
    assert!(text.text().starts_with("cd '") && text.text().contains(NATIVE), "{text}");
    assert!(!text.text().contains("it ran"));
    let shown = printed(&env, &[&id]);
    assert_eq!(shown["folder"], folder.to_str().unwrap());
    assert_eq!(shown["command"][1], format!("--resume={NATIVE}"));
    env.run(["resume", &id, "--print", "--json"]).assert_error(2, "usage");
}

#[test]
fn another_agent_gets_a_session_of_its_own_once_and_without_secrets() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    own_program(&env, "codex", SCRIPT);
    own_program(&env, "claude", SCRIPT);
    let output = env.run(["resume", &id, "--with", "codex", "--native"]).succeeded();
    assert!(notes(&output).contains("written for codex as"), "{output}");
    let files = rollouts(&env);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("Why is the till slow?") && text.contains("The key is "));
    assert!(!text.contains(TOKEN), "secrets are masked");
    let native = text.split("\"id\":\"").nth(1).unwrap()[..36].to_owned();
    assert!(output.text().contains(&format!("<resume>\n<{native}>")), "{output}");
    // The second time it is there already.
    let again = printed(&env, &[&id, "--with", "codex"]);
    assert_eq!(again["command"][2], native.as_str(), "{again}");
    assert_eq!(again["written"], Value::Null);
    assert_eq!(rollouts(&env).len(), 1);
    // What is said there comes back, into the same session.
    let said = |kind: &str, role: &str, text: &str| {
        json!({"timestamp": "2026-11-18T10:00:00.000Z", "type": "response_item", "payload": {
            "type": "message", "role": role, "content": [{"type": kind, "text": text}],
        }})
    };
    let more = format!(
        "{}\n{}\n",
        said("input_text", "user", "Asked in codex"),
        said("output_text", "assistant", "Answered in codex")
    );
    fs::write(file, text + &more).unwrap();
    let claude = printed(&env, &[&id, "--with", "claude"]);
    let messages = env.messages(&id);
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[4]["content"], "Asked in codex");
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
    // Claude's own session lacks it now: another one is written, and the first is left.
    assert!(
        claude["notes"].to_string().contains("2 messages of this conversation never reached"),
        "{claude}"
    );
    assert_ne!(claude["command"][1], format!("--resume={NATIVE}"));
    env.assert_sound();
}

#[test]
fn an_id_that_looks_like_a_flag_is_not_passed_on() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    own_program(&env, "codex", SCRIPT);
    let native = "--dangerously-bypass-approvals-and-sandbox";
    let day = env.path("home/.codex/sessions/2026/11/17");
    fs::create_dir_all(&day).unwrap();
    let at = "2026-11-17T10:00:00.000Z";
    let said = |role: &str, kind: &str, text: &str| {
        json!({"timestamp": at, "type": "response_item", "payload": {
            "type": "message", "role": role, "content": [{"type": kind, "text": text}],
        }})
    };
    let lines = [
        json!({"timestamp": at, "type": "session_meta", "payload": {
            "id": native, "timestamp": at, "cwd": folder, "originator": "codex", "cli_version": "0.58.0",
        }}),
        said("user", "input_text", "Why is the till slow?"),
        said("assistant", "output_text", "It prints."),
    ];
    let mut text = String::new();
    for line in lines {
        text += &format!("{line}\n");
    }
    fs::write(day.join(format!("rollout-2026-11-17T10-00-00-{native}.jsonl")), text).unwrap();
    env.run(["import"]).succeeded();
    let id = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    let printed = printed(&env, &[&id, "--with", "codex"]);
    assert!(!printed["command"].to_string().contains(native), "{printed}");
    assert!(printed["written"].is_string(), "a sound copy is written instead: {printed}");
}

#[test]
fn an_import_at_the_same_time_does_not_take_the_copy_for_another_session() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    // The agent is asked for its list while the copy is new: a long time, in which others import.
    let own = format!("#!/bin/sh\n{PROGRAM} import >&2\n");
    own_program(&env, "gemini", &own);
    let printed = printed(&env, &[&id, "--with", "gemini"]);
    assert!(printed["written"].is_string(), "{printed}");
    env.run(["import"]).succeeded();
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
    assert_eq!(env.messages(&id).len(), 4);
}

#[test]
fn programs_that_are_missing_are_clear_errors() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    env.set("agents.mine", "command = [\"my-agent\"]");
    env.run(["resume", &id, "--with", "mine", "--native", "--json"])
        .assert_error(1, "no_native_program");
    env.set("agents.codex.native", "command = [\"/nowhere/codex\"]");
    env.run(["resume", &id, "--with", "codex", "--native", "--json"])
        .assert_error(1, "not_installed");
    env.run(["resume", &id, "--with", "nobody", "--native", "--json"])
        .assert_error(1, "unknown_agent");
    env.run(["resume", &id, "--native", "--mode", "plan", "--json"]).assert_error(2, "bad_input");
    assert!(rollouts(&env).is_empty());
}

#[test]
fn an_agent_whose_format_cannot_be_written_is_told_the_story() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    own_program(&env, "vibe", SCRIPT);
    let output = env.run(["resume", &id, "Go on", "--with", "vibe", "--native"]).succeeded();
    assert!(output.text().contains("Why is the till slow?"), "{output}");
    assert!(output.text().contains("Go on"), "{output}");
    assert!(!output.text().contains(TOKEN), "secrets are masked");
    assert!(notes(&output).contains("told the story so far"), "{output}");
    // One that takes no first prompt at all.
    own_program(&env, "kimi", SCRIPT);
    env.run(["resume", &id, "--with", "kimi", "--native", "--json"])
        .assert_error(1, "no_native_program");
}

#[test]
fn an_import_that_the_agent_refuses_falls_back_to_the_story() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    own_program(
        &env,
        "goose",
        "#!/bin/sh\nif [ \"$2\" = import ]; then echo no such format >&2; exit 3; fi\nfor word; do echo \"<$word>\"; done\n",
    );
    let output = env.run(["resume", &id, "--with", "goose", "--native"]).succeeded();
    assert!(notes(&output).contains("no such format"), "{output}");
    assert!(
        output.text().contains("<--text>") && output.text().contains("Why is the till slow?"),
        "{output}"
    );
    // What was made for the import is gone again.
    let aside = env.path("home/.local/share/rethread/handover");
    let left: Vec<_> = fs::read_dir(aside).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn doctor_says_what_is_wrong_and_a_resume_mends_it_in_a_copy() {
    let env = TestEnv::new();
    let folder = project(&env, "shop");
    let id = imported(&env, &folder);
    own_program(&env, "claude", SCRIPT);
    let unknown = env.run(["--json", "doctor", &id, "--with", "nonsuch"]);
    assert!(unknown.stderr.contains("unknown_agent"), "{unknown}");
    let well = env.json(["doctor", &id]);
    assert_eq!((&well["ok"], &well["way"]), (&true.into(), &"resume".into()), "{well}");

    // A call that nothing answered, and a torn line.
    let file = claude_file(&env, &folder);
    let call =
        json!([{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}]);
    let torn = fs::read_to_string(&file).unwrap()
        + &line(&folder, 5, "assistant", call)
        + "{\"type\":\"us";
    fs::write(&file, &torn).unwrap();
    let output = env.run(["--json", "doctor", &id]);
    assert_eq!(output.code, Some(1), "{output}");
    let ill: Value = serde_json::from_str(output.text()).unwrap();
    let problems = ill["problems"].to_string();
    assert!(problems.contains("1 tool call that nothing answered"), "{problems}");
    assert_eq!(ill["way"], "write", "{ill}");
    assert!(env.run(["doctor", &id]).text().contains("a new session would be written for claude"));

    let output = env.run(["resume", &id, "--native"]).succeeded();
    assert!(!output.text().contains(NATIVE) && output.text().contains("<--resume="), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), torn, "theirs is left as it is");
    let healed = env.json(["doctor", &id]);
    assert_eq!(healed["ok"], true, "{healed}");
    assert_ne!(healed["native"], NATIVE);

    // It is gone altogether.
    fs::remove_dir_all(env.path("home/.claude/projects")).unwrap();
    let output = env.run(["--json", "doctor", &id]);
    assert!(output.text().contains("is not there any more"), "{output}");
    env.run(["resume", &id, "--native"]).succeeded();
    assert_eq!(env.json(["doctor", &id])["ok"], true);
    env.assert_sound();
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_folder_that_was_moved_is_found_by_its_remote() {
    let env = TestEnv::new();
    let folder = project(&env, "code/shop");
    git(&folder, &["init", "-q"]);
    git(&folder, &["remote", "add", "origin", "https://user:pass@example.com/ann/shop.git"]);
    let id = imported(&env, &folder);
    own_program(&env, "claude", SCRIPT);
    let moved = folder.with_file_name("shop-2");
    fs::rename(&folder, &moved).unwrap();
    let output = env.run(["--json", "doctor", &id]);
    assert!(output.text().contains("would be re-homed to"), "{output}");
    let output = env.run(["resume", &id, "--native"]).succeeded();
    assert!(output.text().contains(&format!("in {}\n", moved.display())), "{output}");
    // Claude Code looks for sessions by folder: the old one is not found there.
    assert!(!output.text().contains(NATIVE), "{output}");
    assert!(env.path("home/.claude/projects").join(slug(&moved)).is_dir());
    assert_eq!(env.json(["list"])[0]["project_id"], moved.to_str().unwrap());
    let facts = fs::read(env.store()).unwrap();
    assert!(
        !facts.windows(9).any(|bytes| bytes == b"user:pass"),
        "no credentials of a remote are kept"
    );

    // Two clones: somebody has to say which one is meant.
    let other = project(&env, "code/clone");
    git(&other, &["init", "-q"]);
    git(&other, &["remote", "add", "origin", "git@example.com:ann/shop.git"]);
    let again = folder.with_file_name("shop-3");
    fs::rename(&moved, &again).unwrap();
    let output = env.run(["resume", &id, "--native", "--json"]);
    output.assert_error(1, "folder_gone");
    assert!(output.stderr.contains("several places"), "{output}");
    // Without any trace of it.
    fs::remove_dir_all(env.path("code")).unwrap();
    env.run(["resume", &id, "--native", "--json"]).assert_error(1, "folder_gone");
}

#[test]
fn a_hint_can_be_pasted_whatever_a_folder_is_called() {
    let env = TestEnv::new();
    let folder = project(&env, "code/$(touch pasted);'x");
    let id = imported(&env, &folder);
    own_program(&env, "claude", SCRIPT);
    fs::remove_dir(&folder).unwrap();
    let output = env.run(["resume", &id, "--native"]);
    let hint = output.stderr.split('`').nth(1).unwrap_or_else(|| panic!("{output}"));
    let words = hint.strip_prefix("rethread rehome ").unwrap().strip_suffix(" NEW").unwrap();
    let read = Command::new("sh").args(["-c", &format!("printf %s {words}")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), folder.to_str().unwrap());
}
