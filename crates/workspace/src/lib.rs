//! The project that a session is about. The only room that knows git.
//!
//! Reading a repository executes nothing of it: where it stands is read from its files; what changed is asked of
//! `git log` with everything switched off that could start a program.

mod head;
mod log;

pub use head::{Head, head};
pub use log::{Changes, changes};
