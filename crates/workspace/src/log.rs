//! What was committed between two states of a repository.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::head::{Head, is_commit};

/// Commits that are told one by one.
const MOST_COMMITS: usize = 50;
const MOST_FILES: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Newest first: short id and subject.
    pub commits: Vec<String>,
    /// There are more commits than were read.
    pub more: bool,
    pub files: Vec<String>,
}

/// What happened between `before` and `now`; `None` where the repository cannot tell.
pub fn changes(project: &Path, before: &Head, now: &Head) -> Option<Changes> {
    let mut changes = Changes::default();
    if before.commit == now.commit || !is_commit(&before.commit) || !is_commit(&now.commit) {
        return Some(changes);
    }
    let output = git(project)
        .args(["log", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--name-only"])
        .args(["--format=%x01%h %s", &format!("--max-count={}", MOST_COMMITS + 1)])
        .arg(format!("{}..{}", before.commit, now.commit))
        .arg("--")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('\u{1}') {
            Some(subject) => changes.commits.push(subject.to_owned()),
            None if changes.files.len() < MOST_FILES
                && !changes.files.iter().any(|file| file == line) =>
            {
                changes.files.push(line.to_owned());
            }
            None => (),
        }
    }
    changes.more = changes.commits.len() > MOST_COMMITS;
    changes.commits.truncate(MOST_COMMITS);
    Some(changes)
}

/// `git` that obeys nothing in the repository's own configuration that could start a program.
fn git(project: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(project).arg("--no-pager");
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "log.showSignature=false",
        "gpg.program=false",
        "protocol.allow=never",
        "core.sshCommand=false",
        "diff.external=",
    ] {
        git.args(["-c", setting]);
    }
    for inherited in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"]
    {
        git.env_remove(inherited);
    }
    git.env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    git
}
