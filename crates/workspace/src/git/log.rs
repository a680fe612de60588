//! What was committed between two states of a repository.

use std::path::Path;

use super::head::{Head, is_commit};
use super::program::{Answer, ask, reading};

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
    let mut git = reading(project);
    // What the user has set for their own reading would change the form of the answer.
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.args(["log", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--name-only"])
        .args(["--format=%x01%h %s", &format!("--max-count={}", MOST_COMMITS + 1)])
        .arg(format!("{}..{}", before.commit, now.commit))
        .arg("--");
    let answer = ask(&mut git).ok().filter(Answer::success)?;
    let text = String::from_utf8_lossy(&answer.out);
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
