//! What can stand in the way of a commit.

use std::path::{Path, PathBuf};

use super::announced::endangered;
use super::inventory::Inventory;
use super::place::{Place, path_of};

/// Why a folder cannot be committed now, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Hurdle {
    #[error("the folder is in no git repository; `git init` makes one")]
    NoRepository,
    #[error("the git repository has no working tree here; commit from a clone or a worktree of it")]
    Bare,
    #[error("HEAD is detached, the commit would be on no branch; `git switch` to a branch first")]
    Detached,
    #[error("a merge is not finished; end it with `git commit` or `git merge --abort`")]
    Merging,
    #[error("a rebase is not finished; end it with `git rebase --continue` or `--abort`")]
    Rebasing,
    /// What is under way: a cherry-pick, a revert, a bisection, patches being applied, a conflict.
    #[error("{0} is not finished; `git status` tells how to end it")]
    Other(String),
    #[error(
        "another git is at work (index.lock); try again when it has ended, remove the file if none is"
    )]
    Locked,
    /// The rule that hides it: file, line and pattern.
    #[error("an ignore rule hides the session from git: {}; change that rule", .0.display())]
    Ignored(PathBuf),
    /// A file outside the folder.
    #[error(
        "git would drop {} from the repository: it is committed, empty, and in the index only announced (`git add -N`); \
         `git add` with its path mends that",
        .0.display()
    )]
    Announced(PathBuf),
    /// Its last words.
    #[error("a hook refused the commit: {0}")]
    Hook(String),
    #[error(
        "git does not know who you are; `git config --global user.name` and `user.email` tell it"
    )]
    NoIdentity,
    #[error("the program `git` was not found; install it or put it in the PATH")]
    GitMissing,
    #[error("git failed: {0}")]
    Failed(String),
}

/// What stands in the way of a commit, found by reading only: nothing of the repository is executed.
pub fn hurdle(folder: &Path) -> Option<Hurdle> {
    let found = Place::find(folder).and_then(|place| {
        place.ready()?;
        Inventory::of(&place, &[])?;
        let lost = endangered(&place)?.into_iter().find(|path| !path.starts_with(&place.prefix));
        lost.map_or(Ok(()), |path| Err(Hurdle::Announced(path_of(&path))))
    });
    found.err()
}
