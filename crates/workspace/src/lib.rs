//! The project that a session is about. The only room that knows git and session folders.
//!
//! Reading a repository executes nothing of it: where it stands is read from its files; what changed is asked of
//! `git log` with everything switched off that could start a program.
//!
//! A [`Workspace`] is a folder that keeps its sessions as files: `folder` knows what they say, `beneath` how they are
//! opened without leaving the workspace.

mod beneath;
mod digest;
mod error;
mod folder;
mod git;
pub mod text;
mod workspace;

pub use digest::digest;
pub use error::Error;
pub use folder::{
    Appended, Card, End, Entry, Folder, FolderPath, Item, LONGEST_LINE, Line, Locked, Loose, Page,
    Stamp, Torn, Tried, is_kind_name, read_log, topic,
};
pub use git::{
    Changed, Changes, Committed, Head, Hurdle, Names, Remote, State, address, changed, changes,
    commit, diff, has_commit, head, hurdle, is_same_repository, is_tracked, remote, state,
};
pub use workspace::{CommitPolicy, Kind, Made, Odd, Seen, Workspace};
