//! Whether two folders belong to one project.

use std::collections::BTreeSet;
use std::path::Path;

use super::place::Place;
use super::program::{Answer, ask, reading};

/// Whether two folders lie at the same place in clones, or in working trees, of one repository: one has the commit that
/// the other stands at, or both go back to the same first commit. What has no repository, or no commit yet, is of the
/// same repository as nothing else.
pub fn is_same_repository(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (Place::find(one), Place::find(other)) else { return false };
    // Two places in one repository are two projects.
    if one.prefix != other.prefix {
        return false;
    }
    let (Ok(Some(own)), Ok(Some(others))) = (one.commit(), other.commit()) else { return false };
    has(&one, &others)
        || has(&other, &own)
        || !firsts(&one, &own).is_disjoint(&firsts(&other, &others))
}

/// Whether the repository of a folder has a commit.
pub fn has_commit(folder: &Path, commit: &str) -> bool {
    super::head::is_commit(commit) && Place::find(folder).is_ok_and(|place| has(&place, commit))
}

/// Whether a repository has a commit.
fn has(place: &Place, commit: &str) -> bool {
    let asked = ["cat-file", "-e", &format!("{commit}^{{commit}}")];
    ask(reading(&place.top).args(asked)).is_ok_and(|answer| answer.success())
}

/// The commits that a history begins with. One that was fetched only in part begins elsewhere.
fn firsts(place: &Place, commit: &str) -> BTreeSet<String> {
    let mut git = reading(&place.top);
    git.env("GIT_NO_REPLACE_OBJECTS", "1");
    let answer = ask(git.args(["rev-list", "--max-parents=0", commit, "--"]));
    let told = answer.ok().filter(Answer::success).map(|answer| answer.out).unwrap_or_default();
    String::from_utf8_lossy(&told).lines().map(ToOwned::to_owned).collect()
}
