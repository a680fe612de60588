//! Where a repository stands, read from its files: no process is started.

use std::fs;
use std::path::{Path, PathBuf};

/// A branch, unless detached, and the commit that is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub branch: Option<String>,
    pub commit: String,
}

/// Files of a repository that are read are small; a larger one is not what it seems.
const LARGEST: u64 = 8 << 20;

/// Where the repository that holds `project` stands; `None` without one.
pub fn head(project: &Path) -> Option<Head> {
    let git = git_dir(project)?;
    let text = read(&git.join("HEAD"))?;
    let text = text.trim();
    let Some(reference) = text.strip_prefix("ref: ") else {
        return is_commit(text).then(|| Head { branch: None, commit: text.to_owned() });
    };
    if !is_reference(reference) {
        return None;
    }
    let common = common_dir(&git);
    let loose = [&git, &common].into_iter().find_map(|dir| read(&dir.join(reference)));
    let commit = match loose {
        Some(commit) => commit.trim().to_owned(),
        None => packed(&common, reference)?,
    };
    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned();
    is_commit(&commit).then_some(Head { branch: Some(branch), commit })
}

fn git_dir(project: &Path) -> Option<PathBuf> {
    top_and_git(project).map(|(_, git)| git)
}

/// The top of the working tree that holds `project`, and the repository's own files for it.
pub(super) fn top_and_git(project: &Path) -> Option<(PathBuf, PathBuf)> {
    let top = project.ancestors().find(|folder| folder.join(".git").exists())?;
    let dot_git = top.join(".git");
    if dot_git.is_dir() {
        return Some((top.to_owned(), dot_git));
    }
    let text = read(&dot_git)?;
    let path = text.trim().strip_prefix("gitdir: ")?;
    Some((top.to_owned(), top.join(path)))
}

/// What all working trees of a repository share.
pub(super) fn common_dir(git: &Path) -> PathBuf {
    match read(&git.join("commondir")) {
        Some(path) => git.join(path.trim()),
        None => git.to_owned(),
    }
}

fn packed(common: &Path, reference: &str) -> Option<String> {
    let text = read(&common.join("packed-refs"))?;
    text.lines().find_map(|line| match line.split_once(' ') {
        Some((commit, name)) if name == reference => Some(commit.to_owned()),
        _ => None,
    })
}

/// Reads a small plain file; a pipe or a device in its place is not opened.
pub(super) fn read(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > LARGEST {
        return None;
    }
    fs::read_to_string(path).ok()
}

pub(crate) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_reference(text: &str) -> bool {
    text.starts_with("refs/") && !text.contains("..") && !text.contains(['\0', '\n', '\\'])
}
