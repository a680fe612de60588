//! Secrets (PROMISES S9, SPEC FILE-11): values that we know never reach the disk; what rules recognise leaves by no
//! exit, and is shown to its owner. And only the owner can read what lies in a workspace (S10).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::env::{Output, TestEnv, jsonl, user};
use crate::reference::running;
use crate::workspace_sessions::{folders, git, only_folder, workspace};

/// A value of the environment that has the form of nothing.
pub(crate) const KNOWN: &str = "zebra-crossing-at-noon-77";
/// One that a rule recognises.
pub(crate) const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// Runs with a secret in the environment.
#[track_caller]
fn knowing(env: &TestEnv, args: &[&str], input: &str) -> Output {
    let mut command = env.command(args);
    command.env("FOO_API_KEY", KNOWN);
    env.finish(command, input.as_bytes()).succeeded()
}

/// The files below a folder in which something stands, in whatever case; also those whose name has it.
pub(crate) fn with(folder: &Path, what: &str) -> Vec<String> {
    let what = what.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let bytes = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if about.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let name = path.file_name().unwrap().to_string_lossy().to_ascii_lowercase();
        let inside = bytes.to_ascii_lowercase();
        if name.contains(&what) || inside.windows(what.len()).any(|part| part == what.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[track_caller]
pub(crate) fn assert_nowhere(env: &TestEnv, what: &str) {
    for place in ["store", "project", "home"] {
        assert_eq!(with(&env.path(place), what), [] as [String; 0], "{what}");
    }
}

#[test]
fn an_id_that_looks_like_a_secret_is_in_no_folder_and_still_counts_once() {
    let env = workspace();
    let said = json!({"role": "user", "content": "once", "id": format!("id-{TOKEN}")});
    let told = env.feed(["record"], jsonl(&[said.clone(), user("then")])).succeeded();
    let id = told.text().trim().to_owned();
    env.feed(["record", "--session", id.as_str()], jsonl(&[said])).succeeded();
    assert_eq!(with(&env.path("project"), TOKEN), [] as [String; 0]);
    assert_eq!(env.messages(&id).len(), 2);
}

#[test]
fn a_value_that_we_know_is_nowhere_on_the_disk() {
    let env = workspace();
    env.agent("ref", &["--chunk-delay-ms", "1"]);
    for ask in [
        "say: it is",
        "tool: run",
        "think: of",
        "title: about",
        "ask: for",
        "plan: with",
        "write: f=",
    ] {
        let prompt = format!("{ask} {KNOWN}");
        let told = knowing(&env, &["run", "ref", &prompt, "--topic", &format!("on {KNOWN}")], "");
        assert!(!told.to_string().contains(KNOWN), "{told}");
    }
    // The agent has the variable too, and says it.
    knowing(&env, &["run", "ref", "env: FOO_API_KEY"], "");
    let lines = [
        json!({"role": "user", "content": format!("a {KNOWN}"), "tool_calls": [{"x": KNOWN}], "y": {"z": [KNOWN]}}),
        json!({"role": "tool", "content": KNOWN.repeat(20_000)}),
        user(&format!("{}{KNOWN}", "long ".repeat(30_000))),
    ];
    let told = knowing(&env, &["record", "--title", &format!("t {KNOWN}")], &jsonl(&lines));
    let id = told.text().lines().next().unwrap().to_owned();
    knowing(&env, &["rename", &id, &format!("renamed {KNOWN}")], "");
    knowing(&env, &["resume", &id, &format!("say: {KNOWN}"), "--with", "ref"], "");
    knowing(&env, &["stop", &id, "--commit"], "");
    knowing(&env, &["search", "zebra"], "");
    assert_nowhere(&env, KNOWN);
    let shown = env.data(["show", &id, "--all"]);
    assert!(shown.contains("[redacted: value of FOO_API_KEY]"), "{}", &shown[..400]);
    assert!(env.json(["list", "-n", "100"]).as_array().unwrap().len() > 8);
}

#[test]
fn a_value_that_comes_in_pieces_is_nowhere_either_not_even_while_it_comes() {
    let env = workspace();
    // Each word is a piece of its own.
    env.agent("ref", &["--chunk-delay-ms", "20"]);
    let secret = "word7 word8 word9 word10";
    let mut command = env.command(["run", "ref", "stream: 40"]);
    command.env("FOO_API_KEY", secret);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut heard = Vec::new();
    std::io::Read::read_to_end(
        &mut std::io::Read::take(child.stdout.take().unwrap(), 150),
        &mut heard,
    )
    .unwrap();
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.contains("word6 [redacted: value of FOO_API_KEY] word11"), "{heard}");
    assert_nowhere(&env, secret);
    child.kill().unwrap();
    child.wait().unwrap();
    crate::reference::until("the agent ends", || {
        running(env.root().to_str().unwrap()).is_empty().then_some(())
    });
    env.run(["list"]).succeeded();
    assert_nowhere(&env, secret);
    // The words around it are all there.
    let said = env.messages(&env.only());
    let answer = said.last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("word1 word2") && answer.contains("word6 [redacted"), "{answer}");
}

/// A session with a token in every place where one can be.
fn leaky(env: &TestEnv) -> String {
    let lines = [
        user(&format!("the token is {TOKEN}, do not tell")),
        json!({"role": "assistant", "content": "Decision: keep it", "agent": "claude",
            "tool_calls": [{"name": "sh", "arguments": {"cmd": format!("curl -H 'Authorization: token {TOKEN}'")}}],
            "other": {"nested": [TOKEN]}}),
        json!({"role": "tool", "content": format!("{} {TOKEN}", "x ".repeat(20_000))}),
        json!({"role": "assistant", "content": format!("Decision: rotate {TOKEN} today"), "agent": "claude"}),
    ];
    env.record(["--title", &format!("about {TOKEN}"), "--kind", "debug"], &lines)
}

#[test]
fn what_a_rule_recognises_leaves_by_no_exit_and_is_shown_to_its_owner() {
    let env = workspace();
    env.agent("two", &[]);
    let id = leaky(&env);
    let part = &TOKEN[4..];
    let stopped = env.run(["stop", &id, "--commit"]).succeeded();
    assert!(stopped.stderr.contains("Committed"), "{stopped}");
    assert_eq!(with(&env.path("project"), part), [] as [String; 0]);
    let page = fs::read_to_string(only_folder(&env).join("debug.md")).unwrap();
    assert!(page.contains("Decision: rotate [redacted: github token] today"), "{page}");
    let history = git(&env, &["log", "-p", "--all"]);
    assert!(history.contains("[redacted: github token]") && !history.contains(part), "{history}");
    for args in [&["export", &id][..], &["export", "--all", "--format", "json"], &["context", &id]]
    {
        let told = env.run(args).succeeded();
        assert!(!told.text().contains(part), "{args:?}: {told}");
        assert!(told.text().contains("[redacted: github token]"), "{args:?}: {told}");
    }
    // Another agent is told the story, without it.
    for prompt in ["told?", "say: rotate it"] {
        env.run(["resume", &id, prompt, "--with", "two"]).succeeded();
    }
    let log = fs::read_to_string(env.path("two.log")).unwrap();
    assert!(log.contains("[redacted: github token]") && !log.contains(part), "{log}");
    // Its owner sees it.
    let shown = env.data(["show", &id, "--all"]);
    assert!(shown.contains(TOKEN));
    let kept = env.data(["export", &id, "--no-redact"]);
    assert!(kept.matches(TOKEN).count() >= 5, "{kept}");
}

#[test]
fn a_clone_gets_no_secret_and_goes_on_without_it() {
    let env = workspace();
    let id = leaky(&env);
    let other = TestEnv::new();
    let copied = std::process::Command::new("cp")
        .args(["-a".as_ref(), env.path("project").as_os_str(), other.root().as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    other.run(["list"]).succeeded();
    assert_eq!(other.messages(&id).len(), 4);
    assert_nowhere(&other, &TOKEN[4..]);
}

#[test]
fn at_rest_it_is_kept_out_of_the_store_where_that_is_set() {
    let env = workspace();
    env.agent("ref", &["--chunk-delay-ms", "1"]);
    env.run(["config", "set", "redact.at_rest", "true"]).succeeded();
    let id = leaky(&env);
    for ask in ["say:", "tool:", "title:", "think:"] {
        env.run(["run", "ref", &format!("{ask} {TOKEN}"), "--topic", &format!("t {TOKEN}")])
            .succeeded();
    }
    env.run(["rename", &id, &format!("renamed {TOKEN}")]).succeeded();
    for place in ["store", "project"] {
        assert_eq!(with(&env.path(place), &TOKEN[4..]), [] as [String; 0]);
    }
    assert!(env.data(["show", &id, "--all"]).contains("[redacted: github token]"));
    assert_eq!(env.run(["scan", "--recorded"]).code, Some(0));
}

/// Where a title is cut, what is left of a secret could not be recognised any more.
#[test]
fn a_title_that_is_cut_from_a_request_has_no_secret_in_it() {
    let env = workspace();
    let long = "averyveryverylongfollowingwordthatdoesnotfitintothetitle at all";
    for secret in ["DB_PASSWORD=hunter9xyz9", TOKEN] {
        let request = format!("the key is abcdefg hijkl nopqrs and {secret} {long}");
        let id = env.record(Vec::<String>::new(), &[user(&request)]);
        let part = &secret[secret.len() - 8..];
        let title = env.json(["show", &id])["title"].as_str().unwrap().to_owned();
        assert!(title.contains("[redacted") && !title.contains(part), "{title}");
        for args in [&["search", part][..], &["context", &id], &["export", &id]] {
            assert!(!env.run(args).text().contains(part), "{args:?}");
        }
    }
    env.run(["stop", "--commit"]).succeeded();
    assert_eq!(with(&env.path("project"), "hunter9xyz9"), [] as [String; 0]);
    env.assert_sound();
}

#[test]
fn a_scan_finds_what_is_planted_and_never_prints_it() {
    let env = workspace();
    let clean =
        env.record(["--title", "clean"], &["0b5f8a1c9d7e4f3a2b1c0d9e8f7a6b5c4d3e2f1a"].map(user));
    assert_eq!(env.run(["scan"]).code, Some(0));
    assert_eq!(env.run(["scan", "--recorded"]).code, Some(0));
    let leaky = leaky(&env);
    // The folder is clean, the store is not.
    assert_eq!(env.run(["scan"]).code, Some(0));
    for args in [&["scan", "--recorded"][..], &["scan", "--session", &leaky]] {
        let told = env.run(args);
        assert_eq!(told.code, Some(1), "{told}");
        assert!(!told.to_string().contains(&TOKEN[4..]), "{told}");
        for place in [" title", " message 1:", " message 2:", " message 3:", " message 4:"] {
            assert!(told.text().contains(place), "{place}: {told}");
        }
    }
    assert_eq!(env.run(["scan", "--session", &clean]).code, Some(0));
    fs::write(env.path("project/notes.txt"), format!("x\nkey {TOKEN}\n")).unwrap();
    fs::write(env.path("file.txt"), format!("{TOKEN}\n")).unwrap();
    std::os::unix::fs::symlink(env.path("file.txt"), env.path("link")).unwrap();
    let (file, link) = (env.path("file.txt"), env.path("link"));
    for args in
        [&["scan"][..], &["scan", file.to_str().unwrap()], &["scan", link.to_str().unwrap()]]
    {
        let told = env.run(args);
        assert_eq!(told.code, Some(1), "{args:?}: {told}");
        assert!(!told.to_string().contains(&TOKEN[4..]), "{told}");
    }
    let told = env.run(["scan", "--json"]);
    let found: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&found[0]["line"], &found[0]["what"]), (&json!(2), &json!("github token")));
    assert_eq!(env.run(["scan", "nowhere"]).code, Some(1));
}

/// Starts a program under a umask that takes nothing away.
const OPEN: &[&str] = &["sh", "-c", r#"umask 000; exec "$@""#, "sh"];

#[test]
fn what_is_made_in_a_workspace_is_private() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let before = env.tree();
    let run = |args: &[&str], input: &str| {
        env.finish(env.command_by(OPEN, args), input.as_bytes()).succeeded()
    };
    run(&["init"], "");
    run(&["record", "--title", "T"], &jsonl(&[user("one")]));
    run(&["run", "ref", "say: Decision: private", "--kind", "debug", "--topic", "modes"], "");
    // What is damaged is kept aside, just as private.
    let log = folders(&env)[0].join(".session/messages.jsonl");
    fs::write(&log, "{\"torn").unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    run(&["list"], "");
    run(&["doctor", "--repair"], "");
    let mut made = 0;
    for (path, mode) in env.tree() {
        let is_ours = path.starts_with("project") || path.starts_with("store");
        if !is_ours || before.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let expected = if env.root().join(&path).is_dir() { 0o700 } else { 0o600 };
        assert_eq!(format!("{mode:o}"), format!("{expected:o}"), "{}", path.display());
        made += 1;
    }
    assert!(made > 15, "{made}");
    assert!(log.with_file_name("damaged").is_dir());
}

#[test]
fn a_name_that_is_a_secret_is_hidden_like_one() {
    let env = workspace();
    let said = |content: &str, agent: &str| json!({"role": "user", "content": content, "conversation": TOKEN, "agent": agent});
    let lines = [said("one", TOKEN), said("two", "codex")];
    let id = env.record(["--agent", TOKEN, "--title", "Keys"], &lines);
    for args in [
        vec!["context", &id],
        vec!["context", &id, "--json"],
        vec!["context", &id, "--prompt", "two"],
    ] {
        let told = env.run(args).succeeded().to_string();
        assert!(told.contains("masked-") && !told.contains(TOKEN), "{told}");
    }
    assert_eq!(with(&env.path("project"), TOKEN), [] as [String; 0]);
    // What is in the folder can be read back, and changes nothing here.
    env.run(["list"]).succeeded();
    assert_eq!(env.messages(&id).len(), 2);
    env.assert_sound();
    let other = workspace();
    fs::remove_dir_all(other.path("project/conversations")).unwrap_or_default();
    copy(&env.path("project/conversations"), &other.path("project/conversations"));
    other.run(["list"]).succeeded();
    assert_eq!(other.messages(&id).len(), 2);
    // Its owner sees it as it is.
    assert!(env.run(["show", &id, "--all", "--json"]).succeeded().to_string().contains("\"one\""));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_value_that_we_know_is_in_no_id_and_no_name() {
    let env = workspace();
    let line = json!({"role": "user", "content": "one", "id": format!("m-{KNOWN}"), "conversation": format!("c-{KNOWN}"), "agent": KNOWN});
    let told = knowing(&env, &["record", "--agent", KNOWN], &jsonl(std::slice::from_ref(&line)));
    let id = told.text().lines().next().unwrap().to_owned();
    // Said again with its id, it is one message all the same.
    knowing(&env, &["record", "--session", &id], &jsonl(&[line]));
    assert_eq!(env.messages(&id).len(), 1);
    assert_nowhere(&env, KNOWN);
    env.assert_sound();
}
