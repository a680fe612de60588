//! Sessions of other agents: each format, and what is damaged.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod archives;
mod common;
mod damaged;
mod folders;
mod formats;
mod gigantic;
mod sub_agents;
mod written;
