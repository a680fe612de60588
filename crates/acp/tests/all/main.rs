//! Agents as they are: good ones, bad ones, dying ones. All of them are processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // Tests may panic and talk.

mod faults;
mod files;
mod malformed;
mod orphans;
mod proxy;
mod shell;
mod turns;
mod world;
