//! Reading real repositories, hostile ones among them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rethread_workspace::{Head, changes, head};

/// Runs git with nothing of the machine's own settings.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args([
            "-c",
            "user.name=anna",
            "-c",
            "user.email=anna@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(folder: &Path, file: &str, subject: &str) -> String {
    fs::write(folder.join(file), subject).unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", subject]);
    git(folder, &["rev-parse", "HEAD"])
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    dir
}

fn on(branch: &str, commit: &str) -> Head {
    Head { branch: Some(branch.to_owned()), commit: commit.to_owned() }
}

#[test]
fn a_folder_without_a_repository_stands_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(head(dir.path()), None);
    let empty = repository();
    assert_eq!(head(empty.path()), None, "nothing was committed yet");
}

#[test]
fn a_repository_stands_where_git_says_it_does() {
    let dir = repository();
    let first = commit(dir.path(), "a.rs", "first");
    assert_eq!(head(dir.path()), Some(on("main", &first)));
    let below = dir.path().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    assert_eq!(head(&below), Some(on("main", &first)), "a folder below it belongs to it");

    git(dir.path(), &["checkout", "-q", "-b", "feature/login"]);
    let second = commit(dir.path(), "b.rs", "second");
    assert_eq!(head(dir.path()), Some(on("feature/login", &second)));
    git(dir.path(), &["pack-refs", "--all"]);
    assert_eq!(head(dir.path()), Some(on("feature/login", &second)), "packed");
    git(dir.path(), &["checkout", "-q", "--detach"]);
    assert_eq!(head(dir.path()), Some(Head { branch: None, commit: second.clone() }), "detached");

    let tree = tempfile::tempdir().unwrap();
    let tree = tree.path().join("tree");
    git(dir.path(), &["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
    assert_eq!(head(&tree), Some(on("main", &first)), "a worktree");
}

#[test]
fn commits_and_files_since_then_are_told() {
    let dir = repository();
    let first = commit(dir.path(), "a.rs", "first");
    commit(dir.path(), "b.rs", "second: with a colon");
    let third = commit(dir.path(), "a.rs", "third");
    let told = changes(dir.path(), &on("old", &first), &on("main", &third)).unwrap();
    let subjects: Vec<&str> =
        told.commits.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(subjects, ["third", "second: with a colon"]);
    assert_eq!(told.files, ["a.rs", "b.rs"]);
    assert!(!told.more);
}

#[test]
fn a_commit_that_is_gone_is_said_to_be_unknown() {
    let dir = repository();
    let first = commit(dir.path(), "a.rs", "first");
    assert_eq!(changes(dir.path(), &on("main", &"0".repeat(40)), &on("main", &first)), None);
}

/// Each of these would start a program if git were asked carelessly.
#[test]
fn reading_a_hostile_repository_executes_nothing() {
    let dir = repository();
    let first = commit(dir.path(), "a.rs", "first");
    let second = commit(dir.path(), "-rf.rs", "second");
    let canary = dir.path().join("canary");
    let program = dir.path().join("evil.sh");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\ncat\n", canary.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = program.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.log",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "core.sshCommand",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
    ] {
        git(dir.path(), &["config", key, evil]);
    }
    git(dir.path(), &["config", "log.showSignature", "true"]);
    git(dir.path(), &["config", "alias.log", &format!("!{evil}")]);
    git(dir.path(), &["config", "core.hooksPath", dir.path().to_str().unwrap()]);
    for hook in ["post-index-change", "reference-transaction", "post-checkout"] {
        fs::copy(&program, dir.path().join(hook)).unwrap();
    }
    fs::write(dir.path().join(".git/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    fs::write(dir.path().join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();

    assert_eq!(head(dir.path()), Some(on("main", &second)));
    let told = changes(dir.path(), &on("main", &first), &on("main", &second)).unwrap();
    assert_eq!(told.files, ["-rf.rs"]);
    assert!(!canary.exists(), "a program of the repository was started");
    drop(Command::new("git").arg("-C").arg(dir.path()).arg("status").output().unwrap());
    assert!(canary.exists(), "the traps are not set: a careless git starts nothing either");
}

#[test]
fn a_head_that_points_out_of_the_repository_is_not_followed() {
    let dir = repository();
    commit(dir.path(), "a.rs", "first");
    for hostile in
        ["ref: ../../etc/passwd", "ref: refs/heads/../../../x", "ref: /etc/passwd", "x", ""]
    {
        fs::write(dir.path().join(".git/HEAD"), hostile).unwrap();
        assert_eq!(head(dir.path()), None, "{hostile}");
    }
}
