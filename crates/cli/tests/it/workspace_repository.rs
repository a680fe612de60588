//! A repository that came from anybody, and a workspace that cannot be written to (PROMISES S6).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::env::{TestEnv, jsonl, user};
use crate::workspace_hostile::{feed, run, small};
use crate::workspace_sessions::{card, git, only_folder, workspace};

#[test]
#[expect(clippy::too_many_lines, reason = "one repository with everything that could be executed")]
fn a_hostile_repository_that_is_only_read_executes_nothing() {
    let env = workspace();
    let id = env.record(["--title", "T"], &["one", "two"].map(user));
    git(&env, &["add", "--all"]);
    git(&env, &["commit", "--quiet", "-m", "all"]);
    let canary = env.path("canary");
    let script = env.path("evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", canary.display()))
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let evil = script.to_str().unwrap();
    let hooks = env.path("project/.git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
    ] {
        drop(fs::remove_file(hooks.join(hook)));
        fs::copy(&script, hooks.join(hook)).unwrap();
    }
    for (name, value) in [
        ("core.fsmonitor", evil),
        ("core.pager", evil),
        ("core.editor", evil),
        ("diff.external", evil),
        ("core.sshCommand", evil),
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.process", evil),
        ("diff.evil.textconv", evil),
        ("credential.helper", evil),
        ("gpg.program", evil),
        ("core.askPass", evil),
        ("alias.status", evil),
        ("alias.log", evil),
    ] {
        git(&env, &["config", name, value]);
    }
    fs::write(env.path("project/.gitattributes"), "* filter=evil diff=evil\n").unwrap();
    fs::write(env.path("project/-rf"), "x").unwrap();
    fs::write(env.path("project/--output=canary"), "x").unwrap();
    fs::write(env.path("project/.env"), "x").unwrap();
    let log = only_folder(&env).join(".session/messages.jsonl");
    fs::File::options()
        .append(true)
        .open(log)
        .unwrap()
        .set_modified(std::time::SystemTime::now())
        .unwrap();
    for args in [
        &["list"][..],
        &["show", &id],
        &["resume", "--list"],
        &["search", "one"],
        &["context", &id],
        &["doctor", "--repair"],
        &["scan"],
        &["run", "ref", "say: hello"],
        &["resume", &id, "say: x", "--with", "ref"],
        &["stop", &id, "--no-commit"],
        &["export", &id],
    ] {
        run(&env, args);
    }
    feed(&env, &["record", "--session", &id], &jsonl(&[user("more")]));
    let told = fs::read_to_string(&canary).unwrap_or_default();
    assert_eq!(told, "", "executed");
    // The trap works: git itself falls into it.
    let status = Command::new("git").args(["status"]).current_dir(env.path("project")).status();
    assert!(status.is_ok() && canary.exists(), "the canary sings for nobody");
}

/// Starts a program where a folder cannot be written to.
const READ_ONLY: &str =
    r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && cd . && exec "$@""#;

#[test]
#[expect(clippy::print_stderr, reason = "why it was left out is told")]
fn a_folder_that_cannot_be_written_to_is_read_and_the_session_is_saved_all_the_same() {
    let (env, id) = small();
    let project = env.path("project");
    let root = project.to_str().unwrap();
    let probe =
        Command::new("unshare").args(["-m", "sh", "-c", READ_ONLY, "sh", root, "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("left out: no rights to mount a folder read-only");
        return;
    }
    let script = format!("cd {root} && {}", READ_ONLY.replace("cd .", &format!("cd {root}")));
    let starter =
        ["timeout", "--signal=KILL", "30", "unshare", "-m", "sh", "-c", &script, "sh", root];
    let inside = |env: &TestEnv, args: &[&str], input: &str| {
        let output = env.finish(env.command_by(&starter, args), input.as_bytes());
        assert!(!output.stderr.contains("panicked"), "{output}");
        output
    };
    let told = inside(&env, &["record", "--session", &id], &jsonl(&[user("more")])).succeeded();
    assert!(told.stderr.contains("the session is saved, its folder could not follow"), "{told}");
    inside(&env, &["list"], "").succeeded();
    inside(&env, &["resume", &id, "say: hello", "--with", "ref"], "").succeeded();
    inside(&env, &["stop", &id, "--commit"], "").succeeded();
    assert_eq!(env.messages(&id).len(), 6);
    // Somebody who does not know it yet can take it up.
    let other = TestEnv::with_store(&env.path("other.db"));
    let mut command = other.command_by(&starter, ["list", "--json"]);
    command.current_dir(&project);
    let listed = other.finish(command, b"");
    assert!(listed.text().contains(&id), "{listed}");
    // And when it can be written to again, it follows.
    run(&env, &["list"]);
    let text = fs::read_to_string(only_folder(&env).join(".session/messages.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 6);
    assert_eq!(card(&only_folder(&env))["status"], "paused");
    env.assert_sound();
}
