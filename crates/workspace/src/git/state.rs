//! Where a repository stands and what is different from a commit, for somebody who comes back to it later.
//!
//! Names and ids only, as everywhere here: the bytes on the disk are compared by us, trees and index by git.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Hurdle;
use super::head::is_commit;
use super::inventory::{Found, Indexed, Inventory};
use super::place::{Place, path_of, refusal};
use super::program::{Answer, ask, reading};
use super::survey::Survey;

/// More names than these are only counted.
const MOST_NAMES: usize = 500;
const CONVERSATIONS: &str = "conversations";
const SESSION: &str = ".session";

/// A repository as it is now. Files of sessions are left out everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// `None` where HEAD is detached.
    pub branch: Option<String>,
    /// `None` before the first commit.
    pub commit: Option<String>,
    /// What differs from the commit that was asked about, be it committed or not.
    pub modified_since: Names,
    /// The commit that was asked about is not there any more; `modified_since` tells of the uncommitted files only.
    pub since_is_lost: bool,
    /// What the index has otherwise than the last commit.
    pub staged: Names,
    /// What the disk has otherwise than the last commit, new files included, but none that are ignored.
    pub uncommitted: Names,
    /// How many files are uncommitted, by kind; `None` where none are.
    pub summary: Option<String>,
}

/// Names of files from the top of the repository, in order, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub names: Vec<String>,
    pub more: usize,
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn count(&self) -> usize {
        self.names.len() + self.more
    }

    pub(super) fn of(paths: &BTreeSet<Vec<u8>>) -> Self {
        let shown = paths.iter().take(MOST_NAMES);
        let names = shown.map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        Self { names, more: paths.len().saturating_sub(MOST_NAMES) }
    }
}

/// How the repository of `project` stands, and what changed since a commit; `None` without one that can be read.
/// Executes nothing of it.
pub fn state(project: &Path, since: Option<&str>) -> Option<State> {
    let place = Place::find(project).ok()?.whole();
    let commit = place.commit().ok()?;
    let uncommitted = Uncommitted::of(&place).ok()?;
    let mut modified = uncommitted.all();
    let mut since_is_lost = false;
    if let Some(since) = since {
        match between(&place, since, commit.as_deref()) {
            Some(paths) => modified.extend(paths),
            None => since_is_lost = true,
        }
    }
    Some(State {
        branch: branch(&place).ok()?,
        modified_since: Names::of(&modified),
        since_is_lost,
        staged: Names::of(&staged(&place, commit.as_deref()).ok()?),
        summary: uncommitted.summary(),
        uncommitted: Names::of(&uncommitted.all()),
        commit,
    })
}

/// Paths that differ from the last commit, by kind.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    new: BTreeSet<Vec<u8>>,
    changed: BTreeSet<Vec<u8>>,
    gone: BTreeSet<Vec<u8>>,
}

impl Uncommitted {
    pub(super) fn of(place: &Place) -> Result<Self, Hurdle> {
        let inventory = listed(place)?;
        let survey = Survey::from(place, &inventory)?;
        let mut kinds = Self::default();
        for path in survey.changed.iter().filter(|path| !is_of_session(path)) {
            let kind = if survey.new.contains(path) {
                &mut kinds.new
            } else if inventory.found.contains_key(path) {
                &mut kinds.changed
            } else {
                &mut kinds.gone
            };
            kind.insert(path.clone());
        }
        Ok(kinds)
    }

    pub(super) fn all(&self) -> BTreeSet<Vec<u8>> {
        self.new.iter().chain(&self.changed).chain(&self.gone).cloned().collect()
    }

    fn summary(&self) -> Option<String> {
        let kinds = [(&self.new, "new"), (&self.changed, "changed"), (&self.gone, "deleted")];
        let told = kinds.iter().filter(|(paths, _)| !paths.is_empty());
        let told: Vec<String> =
            told.map(|(paths, kind)| format!("{} {kind}", paths.len())).collect();
        let all: usize = kinds.iter().map(|(paths, _)| paths.len()).sum();
        let files = if all == 1 { "file" } else { "files" };
        (all > 0).then(|| format!("{all} uncommitted {files}: {}", told.join(", ")))
    }
}

/// What the index and git's own list of unknown files have: ignored folders are not even looked into.
fn listed(place: &Place) -> Result<Inventory, Hurdle> {
    let indexed: BTreeMap<Vec<u8>, Indexed> = Inventory::index(place)?;
    let unknown = paths(place, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    let mut parents = BTreeMap::new();
    let mut found = BTreeMap::new();
    // A repository in the repository ends with a slash: git does not look into it, nor do we.
    for path in indexed.keys().chain(unknown.iter().filter(|path| !path.ends_with(b"/"))) {
        if let Some(kind) = kind(place, path, &mut parents) {
            found.insert(path.clone(), kind);
        }
    }
    found.retain(|path, kind| *kind != Found::Odd || indexed.contains_key(path));
    Ok(Inventory { also: BTreeSet::new(), found, indexed })
}

/// What is at a path; nothing where a link leads there.
fn kind(place: &Place, path: &[u8], parents: &mut BTreeMap<Vec<u8>, bool>) -> Option<Found> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends {
        let parent = &path[..end];
        let is_folder = parents.get(parent).copied().unwrap_or_else(|| {
            let found = fs::symlink_metadata(place.top.join(path_of(parent)));
            let is_folder = found.is_ok_and(|found| found.is_dir());
            parents.insert(parent.to_vec(), is_folder);
            is_folder
        });
        if !is_folder {
            return None;
        }
    }
    let full = place.top.join(path_of(path));
    let metadata = fs::symlink_metadata(&full).ok()?;
    if metadata.is_dir() {
        return fs::symlink_metadata(full.join(".git")).is_ok().then_some(Found::Repository);
    }
    Some(Found::of(&metadata))
}

/// What trees of two commits have differently; `None` if one of them is not there.
fn between(place: &Place, since: &str, now: Option<&str>) -> Option<BTreeSet<Vec<u8>>> {
    let now = now.filter(|_| is_commit(since))?;
    let asked = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", since, now, "--"];
    let mut found = paths(place, &asked).ok()?;
    found.retain(|path| !is_of_session(path));
    Some(found)
}

/// What the index has otherwise than the last commit.
fn staged(place: &Place, commit: Option<&str>) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
    let mut found = match commit {
        Some(commit) => {
            let asked =
                ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit, "--"];
            paths(place, &asked)?
        }
        None => paths(place, &["ls-files", "-z", "--cached"])?,
    };
    found.retain(|path| !is_of_session(path));
    Ok(found)
}

fn branch(place: &Place) -> Result<Option<String>, Hurdle> {
    let answer = ask(reading(&place.top).args(["symbolic-ref", "--quiet", "HEAD"]))?;
    let name = String::from_utf8_lossy(&answer.out).trim_end_matches('\n').to_owned();
    let short = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
    Ok(answer.success().then_some(short))
}

/// Asks for names, each ended by a zero.
fn paths(place: &Place, asked: &[&str]) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
    let answer: Answer = ask(reading(&place.top).args(asked))?;
    if !answer.success() {
        return Err(refusal(&answer));
    }
    let names = answer.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Whether a path is what we write of a session: its state, or its pages.
fn is_of_session(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    names.windows(4).enumerate().any(|(at, window)| {
        let is_page = at + 4 == names.len() && window[3].ends_with(b".md") && is_date(window[1]);
        window[0] == CONVERSATIONS.as_bytes() && (window[3] == SESSION.as_bytes() || is_page)
    })
}

fn is_date(name: &[u8]) -> bool {
    name.len() == 10 && name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_sessions_are_known_by_their_place() {
        for path in [
            "conversations/2026-11-16/001-chat-x/.session/session.json",
            "conversations/2026-11-16/001-chat-x/chat.md",
            "sub/conversations/2026-11-16/001-chat-x/.session/a/b",
        ] {
            assert!(is_of_session(path.as_bytes()), "{path}");
        }
        for path in [
            "conversations/2026-11-16/001-chat-x/main.rs",
            "conversations/2026-11-16/001-chat-x/src/notes.md",
            "conversations/docs/a/b.md",
            "conversations/a.md",
            ".session/x",
        ] {
            assert!(!is_of_session(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn names_are_bounded() {
        let paths = (0..MOST_NAMES + 7).map(|n| format!("{n:06}").into_bytes()).collect();
        let names = Names::of(&paths);
        assert_eq!((names.names.len(), names.more, names.count()), (500, 7, 507));
    }
}
