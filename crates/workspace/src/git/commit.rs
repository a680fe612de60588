//! A commit of a session's folder, and of nothing else.
//!
//! `git commit --only` takes the given paths from the disk and leaves the rest of the index alone. It wants to know the
//! paths, so new ones are announced first, and forgotten again when the commit does not come about.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Hurdle;
use super::announced::endangered;
use super::draft::Draft;
use super::message::message;
use super::place::{Place, literal, path_of, refusal};
use super::program::{Answer, ask, committing, reading, run};
use super::survey::{Changed, Survey, kind_of};

/// Hooks run tests, and signing asks for a finger on a key.
const COMMITTING: Duration = Duration::from_mins(2);
/// Editors and prompts ask git for its state all the time and hold the lock for a moment.
const PATIENCE: Duration = Duration::from_secs(1);
/// What we announced is forgotten again, even if another git is at work just then.
const FORGETTING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

const ANNOUNCE: [&str; 5] =
    ["add", "--intent-to-add", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"];
const FORGET: [&str; 4] = ["update-index", "-z", "--force-remove", "--stdin"];
/// Whatever the user has set as the mark of a comment, our line is none: only white space is cleaned up.
const COMMIT: [&str; 6] = [
    "commit",
    "--quiet",
    "--only",
    "--cleanup=whitespace",
    "--pathspec-from-file=-",
    "--pathspec-file-nul",
];

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub id: String,
    pub message: String,
}

/// Commits `folder` (all that is below it) and `also` (single files; those that exist and changed) and nothing else.
/// `None` when nothing changed.
///
/// Left out are files that an ignore rule hides, repositories inside the folder, and those of `also` that are in
/// another repository or of which the user has staged another version.
pub fn commit(folder: &Path, also: &[PathBuf], title: &str) -> Result<Option<Committed>, Hurdle> {
    commit_within(COMMITTING, folder, also, title)
}

fn commit_within(
    limit: Duration,
    folder: &Path,
    also: &[PathBuf],
    title: &str,
) -> Result<Option<Committed>, Hurdle> {
    patiently(PATIENCE, || {
        let place = Place::find(folder)?;
        let _held = place.hold()?;
        place.ready()?;
        let survey = Survey::of(&place, also)?;
        if survey.changed.is_empty() {
            return Ok(None);
        }
        let attempt = Attempt { limit, before: place.commit()?, place, survey };
        attempt.announce()?;
        let outcome = attempt.record(title);
        if !matches!(outcome, Ok(Some(_))) {
            attempt.forget()?;
        }
        outcome
    })
}

/// Tries again while another git holds the lock.
fn patiently<T>(patience: Duration, attempt: impl Fn() -> Result<T, Hurdle>) -> Result<T, Hurdle> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(Hurdle::Locked) if started.elapsed() < patience => thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

struct Attempt {
    limit: Duration,
    place: Place,
    survey: Survey,
    /// The last commit before ours.
    before: Option<String>,
}

impl Attempt {
    fn announce(&self) -> Result<(), Hurdle> {
        if self.survey.unknown.is_empty() {
            return Ok(());
        }
        let answer = self.tell(&ANNOUNCE, literals(&self.survey.unknown))?;
        if answer.success() { Ok(()) } else { Err(failure(&answer)) }
    }

    fn forget(&self) -> Result<(), Hurdle> {
        if self.survey.unknown.is_empty() {
            return Ok(());
        }
        patiently(FORGETTING, || {
            let paths = self.survey.unknown.iter().map(|path| path_of(path).into_os_string());
            let answer = self.tell(&FORGET, paths.collect())?;
            if answer.success() { Ok(()) } else { Err(failure(&answer)) }
        })
    }

    /// Has the user's git do something with paths, however many there are.
    fn tell(&self, asked: &[&str], paths: Vec<OsString>) -> Result<Answer, Hurdle> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path.as_bytes());
            input.push(0);
        }
        run(committing(&self.place.top).args(asked), input, self.limit)
    }

    fn record(&self, title: &str) -> Result<Option<Committed>, Hurdle> {
        let paths = self.really_changed()?;
        if paths.is_empty() {
            return Ok(None);
        }
        let update = kind_of(&self.place, &paths) == Changed::OnlySession;
        let message = message(title, update);
        let taken = self.with_endangered(&paths)?;
        let draft = Draft::keep(self.place.draft());
        let answer = self.tell(&[&COMMIT[..], &["-m", &message]].concat(), literals(&taken));
        draft.put_back(&message);
        // A hook that runs after the commit may have been ended for taking too long: the commit was made all the same.
        let landed = self.landed(&paths);
        match (landed, answer) {
            (Ok(Some(id)), _) => Ok(Some(Committed { id, message })),
            (_, Err(hurdle)) => Err(hurdle),
            (_, Ok(answer)) if !answer.success() => Err(refused(&answer)),
            // A hook has moved the branch away again, or the commit cannot be read back: made it was.
            (_, Ok(_)) => Ok(Some(Committed { id: self.tip(), message })),
        }
    }

    /// These paths, and those of ours that git would lose without being told of them. It must lose none of the user's.
    fn with_endangered(&self, paths: &BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
        let (ours, others): (BTreeSet<_>, BTreeSet<_>) = endangered(&self.place)?
            .into_iter()
            .filter(|path| !paths.contains(path))
            .partition(|path| self.survey.found.contains(path));
        match others.first() {
            Some(path) => Err(Hurdle::Announced(path_of(path))),
            None => Ok(paths | &ours),
        }
    }

    fn tip(&self) -> String {
        self.place.commit().ok().flatten().unwrap_or_default()
    }

    /// Those paths of which git, with its filters and line endings, says that they differ from the last commit.
    fn really_changed(&self) -> Result<BTreeSet<Vec<u8>>, Hurdle> {
        let before = match &self.before {
            Some(commit) => commit.clone(),
            None => self.empty_tree()?,
        };
        let mut git = committing(&self.place.top);
        git.env("GIT_OPTIONAL_LOCKS", "0");
        git.args(["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"]);
        git.args(["--no-relative", &before, "--"]);
        let answer = run(git.args(self.scope(&self.survey.changed)), Vec::new(), self.limit)?;
        if !answer.success() {
            return Err(failure(&answer));
        }
        let told = answer.out.split(|byte| *byte == 0);
        Ok(told.filter(|path| self.survey.changed.contains(*path)).map(<[u8]>::to_vec).collect())
    }

    fn empty_tree(&self) -> Result<String, Hurdle> {
        let asked = ["hash-object", "-t", "tree", "--stdin"];
        let answer = ask(reading(&self.place.top).args(asked))?;
        Ok(String::from_utf8_lossy(&answer.out).trim().to_owned())
    }

    /// The commit of these paths that was made since we began.
    fn landed(&self, paths: &BTreeSet<Vec<u8>>) -> Result<Option<String>, Hurdle> {
        let Some(now) = self.place.commit()? else { return Ok(None) };
        let mut git = reading(&self.place.top);
        git.args(["rev-list", "--max-count=1", &now]);
        if let Some(before) = &self.before {
            git.arg(format!("^{before}"));
        }
        let answer = ask(git.arg("--").args(self.scope(paths)))?;
        if !answer.success() {
            return Err(refusal(&answer));
        }
        let id = String::from_utf8_lossy(&answer.out).trim().to_owned();
        Ok((!id.is_empty()).then_some(id))
    }

    /// The folder for all that is in it, and the others: few enough to be arguments.
    fn scope(&self, paths: &BTreeSet<Vec<u8>>) -> Vec<OsString> {
        let outside = paths.iter().filter(|path| !path.starts_with(&self.place.prefix));
        let mut scope: Vec<OsString> = outside.map(|path| literal(path)).collect();
        if scope.len() < paths.len() {
            scope.push(self.place.scope());
        }
        scope
    }
}

fn literals(paths: &BTreeSet<Vec<u8>>) -> Vec<OsString> {
    paths.iter().map(|path| literal(path)).collect()
}

/// Why git did not commit.
fn refused(answer: &Answer) -> Hurdle {
    // Another git wrote the index at the same time, without what we had announced to it.
    if answer.complains_of("did not match any file") {
        return Hurdle::Locked;
    }
    // Git's own failures end with 128, a hook's with 1.
    if answer.code == Some(1) || answer.complains_of("aborted by hook") {
        return Hurdle::Hook(answer.last_words());
    }
    failure(answer)
}

/// Why git did not do what it was told.
fn failure(answer: &Answer) -> Hurdle {
    let complains = |words: &[&str]| words.iter().any(|words| answer.complains_of(words));
    // The second: somebody else committed between our look and our commit.
    if complains(&[".lock': File exists", "cannot lock ref"]) {
        return Hurdle::Locked;
    }
    if complains(&["Please tell me who you are", "empty ident name", "no email was given"]) {
        return Hurdle::NoIdentity;
    }
    refusal(answer)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A repository with a hook that takes its time, and how a commit with a limit ends.
    fn commit_with(hook: &str) -> (tempfile::TempDir, Result<Option<Committed>, Hurdle>) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        git(top, &["init", "-q"]);
        git(top, &["config", "user.name", "anna"]);
        git(top, &["config", "user.email", "anna@example.org"]);
        git(top, &["config", "core.hooksPath", "hooks"]);
        for path in ["hooks", "a/.session"] {
            fs::create_dir_all(top.join(path)).unwrap();
        }
        fs::write(top.join("hooks").join(hook), "#!/bin/sh\nexec sleep 60\n").unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(top.join("hooks").join(hook), mode).unwrap();
        fs::write(top.join("a/.session/x"), "x").unwrap();
        let outcome = commit_within(Duration::from_secs(3), &top.join("a"), &[], "x");
        (dir, outcome)
    }

    #[test]
    fn a_commit_that_takes_too_long_is_ended_and_leaves_nothing() {
        let (dir, outcome) = commit_with("pre-commit");
        let Err(Hurdle::Failed(why)) = outcome else { panic!("it was not ended") };
        assert!(why.contains("longer than 3 seconds"), "{why}");
        assert_eq!(git(dir.path(), &["ls-files"]), "", "the path is forgotten again");
        assert!(!dir.path().join(".git/index.lock").exists());
    }

    #[test]
    fn a_commit_that_was_made_counts_although_a_hook_went_on() {
        let (dir, outcome) = commit_with("post-commit");
        let made = outcome.unwrap().unwrap();
        assert_eq!(git(dir.path(), &["rev-parse", "HEAD"]).trim(), made.id);
        assert_eq!(git(dir.path(), &["ls-files"]), "a/.session/x\n");
    }
}
