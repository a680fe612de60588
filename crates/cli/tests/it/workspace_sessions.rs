//! Conversations that live with the code: the scenarios SESS-001 to SESS-006, with the real program and a real git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::chat::{Chat, Terminal};
use crate::env::TestEnv;
use crate::reference::history;

const TELL: &str = "say: we decided to use REST for the passkey PASSKEY-heron-42";

/// A workspace in a repository of its own, and an agent that forgets.
pub(crate) fn workspace() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    git(&env, &["init", "--quiet", "--initial-branch=main"]);
    for (name, value) in [("user.name", "Anna"), ("user.email", "anna@example.org")] {
        git(&env, &["config", name, value]);
    }
    env.run(["init"]).succeeded();
    env
}

/// What git says in the project.
pub(crate) fn git(env: &TestEnv, args: &[&str]) -> String {
    git_in(env, &env.path("project"), args)
}

pub(crate) fn git_in(env: &TestEnv, folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", env.path("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folders of sessions, oldest first.
pub(crate) fn folders(env: &TestEnv) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(env.path("project/conversations"))
        .unwrap()
        .flat_map(|day| fs::read_dir(day.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

pub(crate) fn only_folder(env: &TestEnv) -> PathBuf {
    let found = folders(env);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

pub(crate) fn card(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join(".session/session.json")).unwrap()).unwrap()
}

/// The lines of a folder's log.
pub(crate) fn lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A brainstorm in which something was said.
fn brainstorm() -> TestEnv {
    let env = workspace();
    env.run(["run", "ref", "--kind", "brainstorm", "--topic", "API design", TELL]).succeeded();
    env
}

#[test]
fn sess_001_session_state_saved_when_conversation_ends() {
    let env = workspace();
    let mut chat = Chat::start(&env, &["run", "ref", "--kind", "brainstorm", "--topic", "A topic"]);
    chat.say("say: hello");
    let folder = only_folder(&env);
    assert_eq!((card(&folder)["status"].as_str(), lines(&folder).len()), (Some("active"), 2));
    let (status, _, _) = chat.end();
    assert!(status.success());
    assert_eq!(card(&folder)["status"], "paused");
    assert_eq!(lines(&folder).len(), 2);
    env.run(["complete", &env.only()]).succeeded();
    assert_eq!(card(&folder)["status"], "completed");
}

#[test]
fn sess_001_session_includes_agent_configuration() {
    let env = workspace();
    env.set("tools.files", "command = [\"mcp-files\"]");
    env.run(["run", "ref", "--kind", "brainstorm", "--model", "large", TELL]).succeeded();
    let card = card(&only_folder(&env));
    let prompt = fs::read(env.path("project/.rethread/kinds/brainstorm.md")).unwrap();
    assert_eq!(card["command"], "/workspace.brainstorm");
    let hash = card["prompt_hash"].as_str().unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    assert_eq!(card["model"], "large");
    assert_eq!(card["agent"], "ref");
    assert_eq!(card["tools"], serde_json::json!(["files"]));
    let opened = env.received("ref");
    let opened = opened.iter().find(|frame| frame["method"] == "session/new").unwrap();
    assert_eq!(opened["params"]["mcpServers"][0]["name"], "files", "{opened}");
    // The agent had the prompt, and before the message.
    let told = env.prompts("ref").pop().unwrap();
    assert_eq!(told[0].1.as_bytes(), prompt);
    assert_eq!(told.last().unwrap().1, TELL);
}

#[test]
fn sess_001_message_history_format() {
    let env = brainstorm();
    env.run(["continue", "say: and more"]).succeeded();
    let folder = only_folder(&env);
    let name = folder.file_name().unwrap().to_str().unwrap();
    let short = name.strip_prefix("001-brainstorm-api-design-").unwrap();
    assert_eq!(short, &env.only()[24..32], "{name}");
    let lines = lines(&folder);
    let said: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (line["role"].as_str().unwrap(), line["content"].as_str().unwrap()))
        .collect();
    assert_eq!(said.len(), 4);
    assert_eq!(said[0], ("user", TELL));
    assert_eq!(said[3], ("assistant", "and more"));
    let times: Vec<jiff::Timestamp> =
        lines.iter().map(|line| line["timestamp"].as_str().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    for line in &lines {
        for field in ["id", "conversation", "kind", "v"] {
            assert!(!line[field].is_null(), "{field}: {line}");
        }
    }
    let page = fs::read_to_string(folder.join("brainstorm.md")).unwrap();
    assert!(page.contains("# API design") && page.contains("decided to use REST"), "{page}");
}

#[test]
fn sess_002_explicit_stop_command() {
    let env = workspace();
    let mut chat = Chat::start(&env, &["run", "ref", "--kind", "debug", "--topic", "Login"]);
    chat.say("say: the cookie is rotated");
    chat.type_line("/workspace.stop-conversation");
    let (status, _, told) = chat.wait();
    assert!(status.success());
    assert!(told.contains("Paused") && told.contains("(Login)"), "{told}");
    assert!(told.contains("/workspace.resume") && told.contains("rethread resume"), "{told}");
    assert_eq!(card(&only_folder(&env))["status"], "paused");
}

#[test]
fn a_command_of_the_workspace_that_is_mistyped_is_not_sent() {
    let env = workspace();
    let mut chat = Chat::start(&env, &["run", "ref"]);
    for typed in [
        "/workspace.debgu x",
        "/worksapce.debug x",
        "/workspace.stop",
        "/workspace.nosuch x",
        "/workspace.../debug x",
        " /workspace.nosuch x",
    ] {
        chat.type_line(typed);
    }
    chat.say("say: done");
    chat.type_line("/stop");
    let (status, _, told) = chat.wait();
    assert!(status.success());
    for (typed, why) in [
        ("debgu", "Did you mean /workspace.debug?"),
        ("stop", "Did you mean /workspace.stop-conversation?"),
        ("nosuch", "this workspace has no kind \"nosuch\": there are /workspace."),
        ("../debug", "this workspace has no kind \"../debug\""),
    ] {
        let notice = format!("/workspace.{typed} was not sent. {why}");
        assert!(told.contains(&notice), "{notice}: {told}");
    }
    assert!(
        told.contains("/worksapce.debug was not sent. Did you mean /workspace.debug?"),
        "{told}"
    );
    let prompts: Vec<String> =
        env.prompts("ref").iter().map(|told| told.last().unwrap().1.clone()).collect();
    assert_eq!(prompts, ["/workspace.nosuch x", "say: done"]);
}

#[test]
fn a_command_of_workspaces_is_not_sent_where_there_is_none() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.type_line("/workspace.debug x");
    chat.type_line("/stop");
    let (_, _, told) = chat.wait();
    assert!(told.contains("was not sent. this folder is in no workspace"), "{told}");
    assert!(env.prompts("ref").is_empty());
}

#[test]
fn sess_002_stop_command_feedback() {
    let env = brainstorm();
    env.only();
    let told = env.run(["stop"]).succeeded();
    assert_output!(told, @r"
    exit: 0
    --- stdout
    --- stderr
    Paused [SHORT1] (API design).
    To go on: rethread resume [SHORT1], or /workspace.resume inside a conversation
    It stopped at message 2, assistant: we decided to use REST for the passkey PASSKEY-heron-42
    ");
}

#[test]
fn sess_003_list_resumable_conversations() {
    let env = workspace();
    for (kind, topic) in [("brainstorm", "API design"), ("debug", "Token expiry")] {
        env.run(["run", "ref", "--kind", kind, "--topic", topic, "say: x"]).succeeded();
        env.run(["stop"]).succeeded();
    }
    let listed = env.data(["resume", "--list"]);
    let rows: Vec<&str> = listed.lines().collect();
    assert!(rows[0].contains("KIND") && rows[0].contains("LAST ACTIVE"), "{listed}");
    assert!(rows[1].starts_with("1  ") && rows[1].contains("Token expiry"), "{listed}");
    assert!(rows[2].contains("API design") && rows[2].contains("paused"), "{listed}");
    let only = env.data(["resume", "--list", "--kind", "brainstorm", "--status", "paused"]);
    assert!(only.contains("API design") && !only.contains("Token expiry"), "{only}");
}

#[test]
fn sess_003_resume_by_selection() {
    let env = workspace();
    for topic in ["First one", "Second one"] {
        let said = format!("say: {topic} was PASSKEY-{}", topic.len());
        env.run(["run", "ref", "--kind", "plan", "--topic", topic, &said]).succeeded();
        env.run(["stop"]).succeeded();
    }
    // By its number in the list, and by a word.
    for chosen in ["2", "First"] {
        env.run(["resume", chosen, "told?"]).succeeded();
        let told = env.prompts("ref").pop().unwrap();
        let told = &told[told.len() - 2].1;
        assert!(told.contains("First one") && !told.contains("Second one"), "{chosen}: {told}");
        env.run(["stop"]).succeeded();
        // It is the most recent one now: the other is the second.
        env.run(["resume", "Second", "say: x"]).succeeded();
        env.run(["stop"]).succeeded();
    }
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("/workspace.resume");
    terminal.wait_for("First one");
    terminal.press("First\r");
    terminal.wait_for("told the story so far");
    terminal.press(Terminal::CTRL_D);
    terminal.wait_for("Commit its folder to git? [y/N]");
    terminal.press("n\r");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn sess_003_command_loading_and_context_injection_on_resume() {
    let env = brainstorm();
    env.run(["stop"]).succeeded();
    let resumed = env.run(["resume", "API design", "what was the passkey"]).succeeded();
    assert_eq!(resumed.text().trim(), "The passkey is PASSKEY-heron-42");
    let told = env.prompts("ref").pop().unwrap();
    let kinds = env.path("project/.rethread/kinds/brainstorm.md");
    assert_eq!(told[0].1, fs::read_to_string(kinds).unwrap());
    let context = &told[1].1;
    for part in ["Title: API design", "Kind: brainstorm", "Session summary", "decided to use REST"]
    {
        assert!(context.contains(part), "{part}: {context}");
    }
    assert_eq!(history(context).len(), 2);
    assert_eq!(told[2].1, "what was the passkey");
}

#[test]
fn sess_003_command_prompt_changes_since_original_conversation() {
    let env = workspace();
    env.agent("ref", &["--resume"]);
    env.run(["run", "ref", "--kind", "brainstorm", "--topic", "API design", TELL]).succeeded();
    let file = env.path("project/.rethread/kinds/brainstorm.md");
    fs::write(&file, "# Brainstorm\n\nBe brief from now on.\n").unwrap();
    let resumed = env.run(["continue", "say: y"]).succeeded();
    let warning = "the prompt of /workspace.brainstorm has changed since";
    assert!(resumed.stderr.contains(warning), "{resumed}");
    // The agent's own session is resumed: it is told the new version all the same, once.
    let told = env.prompts("ref").pop().unwrap();
    assert_eq!(told[0].1, "# Brainstorm\n\nBe brief from now on.\n");
    let again = env.run(["continue", "say: z"]).succeeded();
    assert!(!again.stderr.contains(warning), "{again}");
    assert_eq!(env.prompts("ref").pop().unwrap().len(), 1);
    fs::remove_file(&file).unwrap();
    let gone = env.run(["continue", "say: w"]).succeeded();
    assert!(gone.stderr.contains("/workspace.brainstorm is not there any more"), "{gone}");
}

#[test]
fn sess_003_no_resumable_conversations() {
    let env = workspace();
    let told = env.run(["resume", "--list"]).succeeded();
    assert!(told.stderr.contains("rethread run AGENT"), "{told}");
    env.fails(&["resume"], "session_not_found");
}

#[test]
fn sess_004_resume_by_conversation_id() {
    let env = brainstorm();
    env.run(["stop"]).succeeded();
    let folder = only_folder(&env);
    let day = folder.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let below = folder.strip_prefix(env.path("project")).unwrap().display().to_string();
    let dated = format!("{day}/{name}");
    let whole = folder.display().to_string();
    for given in [name, dated.as_str(), below.as_str(), whole.as_str(), "001-brainstorm-api-design"]
    {
        let answer = env.run(["resume", given, "what was the passkey"]).succeeded();
        assert_eq!(answer.text().trim(), "The passkey is PASSKEY-heron-42", "{given}");
    }
}

#[test]
fn sess_004_resume_by_search() {
    let env = brainstorm();
    env.run(["run", "ref", "--kind", "plan", "--topic", "API rollout", "say: x"]).succeeded();
    let one = env.run(["resume", "api design", "what was the passkey"]).succeeded();
    assert_eq!(one.text().trim(), "The passkey is PASSKEY-heron-42");
    let several = env.run(["resume", "api", "--json", "x"]);
    several.assert_error(1, "ambiguous");
    env.fails(&["resume", "no such words", "x"], "session_not_found");
}

#[test]
fn sess_005_status_transitions() {
    let env = brainstorm();
    let (id, folder) = (env.only(), only_folder(&env));
    let status = || card(&folder)["status"].as_str().unwrap().to_owned();
    assert_eq!(status(), "active");
    env.run(["pause", &id]).succeeded();
    assert_eq!(status(), "paused");
    env.run(["activate", &id]).succeeded();
    assert_eq!(status(), "active");
    env.run(["complete", &id]).succeeded();
    assert_eq!(status(), "completed");
    env.fails(&["pause", &id], "session_completed");
    assert_eq!(status(), "completed");
}

#[test]
fn sess_005_auto_pause_on_inactivity() {
    let env = workspace();
    env.set("talk", "idle_seconds = 1");
    let mut chat = Chat::start(&env, &["run", "ref", "--kind", "chat", "--topic", "Quiet"]);
    chat.say("say: hello");
    let (status, _, told) = chat.wait();
    assert!(status.success());
    assert!(told.contains("Nothing was said for 1 second") && told.contains("Paused"), "{told}");
    assert_eq!(card(&only_folder(&env))["status"], "paused");
}

#[test]
fn sess_005_completed_conversations() {
    let env = brainstorm();
    env.run(["stop", "--complete"]).succeeded();
    env.fails(&["resume", "api design", "x"], "session_completed");
    let answer = env.run(["resume", "api design", "--yes", "what was the passkey"]).succeeded();
    assert_eq!(answer.text().trim(), "The passkey is PASSKEY-heron-42");
    assert_eq!(card(&only_folder(&env))["status"], "active");
}

#[test]
fn sess_006_session_committed_with_conversation() {
    let env = brainstorm();
    fs::write(env.path("project/mine.txt"), "staged by me").unwrap();
    fs::write(env.path("project/dirty.txt"), "not for git").unwrap();
    git(&env, &["add", "mine.txt"]);
    let told = env.run(["stop", "--commit"]).succeeded();
    assert!(told.stderr.contains("session saved: API design"), "{told}");
    let committed = git(&env, &["show", "--name-only", "--format=%s"]);
    assert!(committed.starts_with("session saved: API design"), "{committed}");
    for file in [".session/session.json", ".session/messages.jsonl", "brainstorm.md"] {
        assert!(committed.contains(file), "{committed}");
    }
    assert!(!committed.contains("mine.txt") && !committed.contains("dirty.txt"), "{committed}");
    assert_eq!(git(&env, &["status", "--short"]), "A  mine.txt\n?? dirty.txt\n");
}

#[test]
fn sess_006_session_only_updates() {
    let env = brainstorm();
    env.run(["stop", "--commit"]).succeeded();
    let before = fs::read_to_string(only_folder(&env).join("brainstorm.md")).unwrap();
    env.run(["continue", "say: ok"]).succeeded();
    env.run(["stop", "--commit"]).succeeded();
    assert_eq!(fs::read_to_string(only_folder(&env).join("brainstorm.md")).unwrap(), before);
    assert_eq!(git(&env, &["log", "-1", "--format=%s"]), "session update: API design\n");
    env.run(["stop", &env.only(), "--commit"]).succeeded();
    assert_eq!(git(&env, &["rev-list", "--count", "HEAD"]), "2\n");
}

#[test]
fn sess_006_a_commit_happens_only_by_the_users_setting_or_word() {
    let env = brainstorm();
    // The workspace says so, but it may have come from anybody.
    let settings = env.path("project/.rethread/workspace.toml");
    fs::write(&settings, "commit = \"auto\"\n").unwrap();
    let told = env.run(["stop"]).succeeded();
    assert!(told.stderr.contains("you have not agreed"), "{told}");
    assert!(
        Command::new("git")
            .args(["-C"])
            .arg(env.path("project"))
            .args(["log"])
            .output()
            .is_ok_and(|log| !log.status.success())
    );
    env.run(["init", "--commit", "auto"]).succeeded();
    env.run(["continue", "say: ok"]).succeeded();
    let told = env.run(["stop"]).succeeded();
    assert!(told.stderr.contains("session saved: API design"), "{told}");
    env.run(["init", "--commit", "never"]).succeeded();
    env.run(["continue", "say: ok"]).succeeded();
    env.run(["stop"]).succeeded();
    assert_eq!(git(&env, &["rev-list", "--count", "HEAD"]), "1\n");
}
