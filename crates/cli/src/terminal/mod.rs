//! Talking with a person at a terminal: choosing a session, and typing lines.
//!
//! Whatever these parts change about the terminal is undone when they are dropped, and before a panic is
//! reported.

pub(crate) mod editor;
pub(crate) mod leave;
pub(crate) mod picker;
mod restore;
pub(crate) mod text;

#[cfg(test)]
mod pty;
