//! A workspace: a folder with `.rethread/workspace.toml`, whose sessions live in `conversations/`.

mod init;
mod kind;
mod remove;
mod restore;
mod scan;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use toml_edit::DocumentMut;

use crate::beneath::Directory;
use crate::error::{Doing, Error};
use crate::folder::{CONVERSATIONS, Folder, FolderPath, is_date, is_kind_name, read_whole};

pub use init::Made;
pub use kind::Kind;
pub use scan::{Odd, Seen};

/// What makes a folder a workspace.
const OURS: &str = ".rethread";
const SETTINGS: &str = "workspace.toml";
const LARGEST_SETTINGS: u64 = 1 << 20;

/// The last number that a day can give.
const LAST_NUMBER: u32 = 999_999;

/// What the people of a workspace want to happen with a session's folder when the session stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// They are asked whether to commit it.
    #[default]
    Ask,
    /// It is committed.
    Auto,
    /// Git is left alone.
    Never,
}

impl CommitPolicy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for CommitPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for CommitPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [Self::Ask, Self::Auto, Self::Never];
        let what = r#"one of "ask", "auto" and "never""#;
        let wrong = || Error::BadName { what, given: text.chars().take(100).collect() };
        all.into_iter().find(|wish| wish.as_str() == text).ok_or_else(wrong)
    }
}

/// A workspace, held open: everything is looked up beneath its root, and no symbolic link is followed.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    place: Directory,
    wish: CommitPolicy,
}

impl Workspace {
    /// The workspace that `from` is in: the nearest folder above, or `from` itself, that is one.
    pub fn find(from: &Path) -> Result<Option<Self>, Error> {
        let from = canonical(from)?;
        for folder in from.ancestors() {
            match Self::at(folder) {
                Ok(Some(workspace)) => return Ok(Some(workspace)),
                // Where we may not look, or what is a file, is no workspace; one of the folders above may be.
                Ok(None) => (),
                Err(Error::Denied(path) | Error::NotPlain { path, .. }) if path == folder => (),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Opens the workspace whose root this is.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let root = canonical(root)?;
        Self::at(&root)?.ok_or(Error::NotAWorkspace(root))
    }

    fn at(root: &Path) -> Result<Option<Self>, Error> {
        let place = Directory::top(root)?;
        let Some(ours) = place.directory(OURS)? else { return Ok(None) };
        let Some(bytes) = read_whole(&ours, SETTINGS, LARGEST_SETTINGS)? else { return Ok(None) };
        let wish = wish(&settings(&bytes, &ours.shown(SETTINGS))?, &ours.shown(SETTINGS))?;
        Ok(Some(Self { root: root.to_owned(), place, wish }))
    }

    /// Makes a folder a workspace. What is there already stays as it is, so that this can be done again.
    ///
    /// With `commit` the setting is changed too.
    pub fn init(root: &Path, commit: Option<CommitPolicy>) -> Result<Made, Error> {
        let root = canonical(root)?;
        let created = init::init(&Directory::top(&root)?, commit)?;
        Ok(Made { workspace: Self::open(&root)?, created })
    }

    /// Its folder, by a path without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether sessions are committed when they stop, as the settings said when the workspace was opened.
    pub fn commit_policy(&self) -> CommitPolicy {
        self.wish
    }

    /// The kinds of sessions there are, by name: each is a file in `.rethread/kinds`. [`Workspace::odd`] tells about
    /// files that are none.
    pub fn kinds(&self) -> Result<Vec<Kind>, Error> {
        Ok(kind::all(&self.place)?.0)
    }

    /// The kind of this name; `None` where there is none.
    pub fn kind(&self, name: &str) -> Result<Option<Kind>, Error> {
        kind::one(&self.place, name)
    }

    /// What is in the way of being a kind or a session: links, pipes, names that are none.
    pub fn odd(&self) -> Result<Vec<Odd>, Error> {
        let mut found = kind::all(&self.place)?.1;
        found.extend(scan::odd(&self.place)?);
        Ok(found)
    }

    /// Every session folder, by path, with what shows whether it changed. Nothing is read.
    pub fn scan(&self) -> Result<Vec<Seen>, Error> {
        scan::scan(&self.place)
    }

    /// Makes a session's folder, with the next number of that day. Any text can be the topic.
    pub fn create(&self, date: &str, kind: &str, topic: &str) -> Result<FolderPath, Error> {
        if !is_date(date) {
            return Err(Error::BadName { what: "a date (2026-11-16)", given: date.to_owned() });
        }
        if !is_kind_name(kind) {
            return Err(Error::BadName { what: "a kind", given: kind.to_owned() });
        }
        let conversations = self.place.make(CONVERSATIONS)?;
        let day = conversations.make(date)?;
        // Two folders with different topics could otherwise get one number.
        lock(&day)?;
        let mut number = scan::last_number(&day)? + 1;
        loop {
            if number > LAST_NUMBER {
                return Err(Error::Full(conversations.shown(date)));
            }
            let path = FolderPath::compose(date, number, kind, topic)?;
            if day.make_new(path.name())? {
                Folder::prepare(&day, path.name())?;
                for changed in [&day, &conversations, &self.place] {
                    changed.sync()?;
                }
                return Ok(path);
            }
            number += 1;
        }
    }

    /// Opens a session's folder; `None` where there is none.
    pub fn folder(&self, path: &FolderPath) -> Result<Option<Folder>, Error> {
        Folder::open(&self.place, path)
    }
}

/// Waits until no other process works on this folder as a whole. That takes moments, unless one is stopped.
fn lock(place: &Directory) -> Result<(), Error> {
    loop {
        match flock(place, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => (),
            outcome => return outcome.map_err(|errno| place.failed("", Doing::Write, errno)),
        }
    }
}

fn canonical(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|error| Error::from_io(path, Doing::Read, error))
}

fn settings(bytes: &[u8], path: &Path) -> Result<DocumentMut, Error> {
    let bad = |why: String| Error::BadSetting { path: path.to_owned(), why };
    let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    text.parse().map_err(|error: toml_edit::TomlError| bad(error.message().to_owned()))
}

fn wish(settings: &DocumentMut, path: &Path) -> Result<CommitPolicy, Error> {
    let Some(commit) = settings.get("commit") else { return Ok(CommitPolicy::default()) };
    commit.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| Error::BadSetting {
        path: path.to_owned(),
        why: r#"commit has to be "ask", "auto" or "never""#.to_owned(),
    })
}
