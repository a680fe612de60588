//! Talking with a person at a terminal: choosing a session, and the window of a conversation.
//!
//! Whatever these parts change about the terminal is undone when they are dropped, and before a panic is
//! reported.

mod history;
mod keys;
pub(crate) mod leave;
mod line_editor;
mod live;
pub(crate) mod markdown;
pub(crate) mod picker;
pub(crate) mod plain;
mod restore;
pub(crate) mod styled;
pub(crate) mod text;
mod typing;
pub(crate) mod window;

#[cfg(test)]
mod pty;
