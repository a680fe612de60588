//! Where a folder lies in a repository, and whether that repository is in a state to commit.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Hurdle;
use super::program::{Answer, ask, reading};

/// A folder in the working tree of a repository.
#[derive(Debug)]
pub(super) struct Place {
    /// The top of the working tree.
    pub(super) top: PathBuf,
    /// The repository's own files, those of this working tree where it has several.
    git: PathBuf,
    /// The way from the top to the folder, as git writes it: empty, or with a slash at the end.
    pub(super) prefix: Vec<u8>,
}

impl Place {
    pub(super) fn find(folder: &Path) -> Result<Self, Hurdle> {
        let asked = ["rev-parse", "--is-inside-work-tree", "--is-bare-repository"];
        let flags = ask(reading(folder).args(asked))?;
        if !flags.success() {
            return Err(refusal(&flags));
        }
        if !flags.out.starts_with(b"true") {
            // In a bare repository, or among the files of one that is none.
            return Err(Hurdle::Bare);
        }
        // One by one: a name may contain the line end that would separate them.
        let top = path_of(&line(folder, "--show-toplevel")?);
        let git = path_of(&line(folder, "--absolute-git-dir")?);
        Ok(Self { top, git, prefix: line(folder, "--show-prefix")? })
    }

    /// The whole working tree in place of the folder.
    pub(super) fn whole(self) -> Self {
        Self { prefix: Vec::new(), ..self }
    }

    /// Whether a commit can be made at all: nothing is under way, and the user has a name.
    pub(super) fn ready(&self) -> Result<(), Hurdle> {
        if let Some(hurdle) = self.unfinished() {
            return Err(hurdle);
        }
        if !ask(reading(&self.top).args(["symbolic-ref", "--quiet", "HEAD"]))?.success() {
            return Err(Hurdle::Detached);
        }
        if ["index.lock", "HEAD.lock"].iter().any(|lock| self.has(lock)) {
            return Err(Hurdle::Locked);
        }
        // A stash can leave conflicts without a merge.
        let conflicts = ask(reading(&self.top).args(["ls-files", "-z", "--unmerged"]))?;
        if !conflicts.success() {
            return Err(refusal(&conflicts));
        }
        if !conflicts.out.is_empty() {
            return Err(Hurdle::Other("a conflict".to_owned()));
        }
        for name in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            if !ask(reading(&self.top).args(["var", name]))?.success() {
                return Err(Hurdle::NoIdentity);
            }
        }
        Ok(())
    }

    fn unfinished(&self) -> Option<Hurdle> {
        let other = |what: &str| Some(Hurdle::Other(what.to_owned()));
        if self.has("rebase-apply/applying") {
            return other("applying patches (git am)");
        }
        if self.has("rebase-merge") || self.has("rebase-apply") {
            return Some(Hurdle::Rebasing);
        }
        for (file, what) in [
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
            ("sequencer", "a series of cherry-picks or reverts"),
            ("BISECT_LOG", "a bisection"),
        ] {
            if self.has(file) {
                return other(what);
            }
        }
        // Any commit, of any files, removes the message that a merge or a squash has prepared.
        let merging = ["MERGE_HEAD", "MERGE_MSG", "SQUASH_MSG"].iter().any(|file| self.has(file));
        merging.then_some(Hurdle::Merging)
    }

    fn has(&self, file: &str) -> bool {
        fs::symlink_metadata(self.git.join(file)).is_ok()
    }

    /// Keeps other sessions from committing here at the same time, until it is dropped. Git reads the index before it
    /// locks it: of two that commit paths at once, one can lose what the other has just added.
    pub(super) fn hold(&self) -> Result<Option<File>, Hurdle> {
        // Where a folder cannot be locked, git's own locks must do.
        let Ok(folder) = File::open(&self.git) else { return Ok(None) };
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Hurdle::Locked),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(folder)),
        }
    }

    /// The file in which git keeps the message of a commit that is being made.
    pub(super) fn draft(&self) -> PathBuf {
        self.git.join("COMMIT_EDITMSG")
    }

    /// The last commit; `None` before the first.
    pub(super) fn commit(&self) -> Result<Option<String>, Hurdle> {
        let asked = ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"];
        let answer = ask(reading(&self.top).args(asked))?;
        Ok(answer.success().then(|| String::from_utf8_lossy(&answer.out).trim().to_owned()))
    }

    /// The folder and all that is below it, as git is told of it at the top.
    pub(super) fn scope(&self) -> OsString {
        literal(self.prefix.strip_suffix(b"/").unwrap_or(b"."))
    }

    /// A file as a path from the top; `None` if it is in another repository or in none.
    pub(super) fn inside(&self, file: &Path) -> Option<Vec<u8>> {
        let folder = fs::canonicalize(file.parent()?).ok()?;
        let top = fs::canonicalize(&self.top).ok()?;
        let path = folder.strip_prefix(top).ok()?.join(file.file_name()?);
        let nested = |between: &Path| fs::symlink_metadata(between.join(".git")).is_ok();
        let mut above = path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
        (!above.any(|between| nested(&self.top.join(between))))
            .then(|| path.as_os_str().as_bytes().to_vec())
    }
}

/// A path as git writes it.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// A path as git is told of it, whatever characters are in it. An option of git for all paths exists, but the hooks
/// would inherit it.
pub(super) fn literal(path: &[u8]) -> OsString {
    OsString::from_vec([b":(literal)", path].concat())
}

fn line(folder: &Path, what: &str) -> Result<Vec<u8>, Hurdle> {
    let answer = ask(reading(folder).args(["rev-parse", what]))?;
    if !answer.success() {
        return Err(refusal(&answer));
    }
    let mut line = answer.out;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

/// Why git would not even look.
pub(super) fn refusal(answer: &Answer) -> Hurdle {
    if answer.complains_of("not a git repository") {
        return Hurdle::NoRepository;
    }
    if answer.complains_of("cannot use bare repository") {
        return Hurdle::Bare;
    }
    if answer.complains_of("dubious ownership") {
        return Hurdle::Failed(
            "the repository belongs to another user; if you trust it, \
             `git config --global --add safe.directory` with its path says so"
                .to_owned(),
        );
    }
    Hurdle::Failed(answer.last_words())
}
