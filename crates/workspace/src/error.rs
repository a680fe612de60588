//! What can go wrong with the files of a workspace, sorted by whose move it is.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not a workspace: it has no .rethread/workspace.toml", .0.display())]
    NotAWorkspace(PathBuf),
    #[error(
        "{given:?} is not the path of a session folder: {why} \
         (expected conversations/YYYY-MM-DD/NNN-KIND-TOPIC)"
    )]
    BadPath { given: String, why: &'static str },
    /// A kind or a date that is none.
    #[error("{given:?} is not {what}")]
    BadName { what: &'static str, given: String },
    #[error("{0:?} is not a stamp of a file")]
    BadStamp(String),
    #[error("{} cannot be understood: {why}", path.display())]
    BadSetting { path: PathBuf, why: String },
    #[error("{} is not the prompt of a kind: {why}", path.display())]
    BadKind { path: PathBuf, why: &'static str },
    /// A line that was given to be written.
    #[error("the record {id:?} cannot be written: {why}")]
    BadLine { id: String, why: &'static str },
    #[error(
        "{} cannot be understood: {}{why}",
        path.display(),
        field.as_ref().map(|field| format!("{field} ")).unwrap_or_default()
    )]
    BadCard { path: PathBuf, field: Option<String>, why: String },
    #[error("{} is of version {found}; this program knows versions up to {known}", path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{} is of the session {found}, not of {given}", path.display())]
    OtherSession { path: PathBuf, found: String, given: String },
    /// A link, a pipe, a device … where a plain file or a folder should be. It was not opened.
    #[error("{} is {found}", path.display())]
    NotPlain { path: PathBuf, found: &'static str },
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// Somebody made the log shorter: what was read before has to be read again.
    #[error("{} has {size} bytes, it was read up to {from}", path.display())]
    Cut { path: PathBuf, size: u64, from: u64 },
    #[error("{} is in use by another process", .0.display())]
    Busy(PathBuf),
    #[error("{} cannot be written: it is read-only", .0.display())]
    ReadOnly(PathBuf),
    #[error("{} may not be read", .0.display())]
    Denied(PathBuf),
    #[error("no space left to write {}", .0.display())]
    Full(PathBuf),
    #[error("could not {doing} {}", path.display())]
    Failed { path: PathBuf, doing: &'static str, source: io::Error },
}

/// What was being done when the system refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Doing {
    Read,
    Write,
}

impl Error {
    pub(crate) fn from_system(path: &Path, doing: Doing, errno: Errno) -> Self {
        let path = path.to_owned();
        match (doing, errno) {
            (_, Errno::LOOP) => Self::NotPlain { path, found: "a symbolic link" },
            (_, Errno::NOTDIR) => Self::NotPlain { path, found: "not a folder" },
            (_, Errno::ISDIR) => Self::NotPlain { path, found: "a folder" },
            (_, Errno::NXIO | Errno::NODEV) => Self::NotPlain { path, found: "a pipe or a device" },
            (Doing::Write, Errno::ROFS | Errno::ACCESS | Errno::PERM) => Self::ReadOnly(path),
            (Doing::Read, Errno::ACCESS | Errno::PERM) => Self::Denied(path),
            (_, Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Self::Full(path),
            (Doing::Read, _) => Self::Failed { path, doing: "read", source: errno.into() },
            (Doing::Write, _) => Self::Failed { path, doing: "write", source: errno.into() },
        }
    }

    pub(crate) fn from_io(path: &Path, doing: Doing, error: io::Error) -> Self {
        match (Errno::from_io_error(&error), doing) {
            (Some(errno), _) => Self::from_system(path, doing, errno),
            (None, Doing::Read) => {
                Self::Failed { path: path.to_owned(), doing: "read", source: error }
            }
            (None, Doing::Write) => {
                Self::Failed { path: path.to_owned(), doing: "write", source: error }
            }
        }
    }
}
