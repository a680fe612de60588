//! Talking to agents, through the use cases, a real store and an agent that does what a script says.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod histories;
mod idle;
mod natively;
mod opening;
mod purging;
mod runner;
mod scripted;
mod summaries;
mod telling;
mod transcripts;
mod turns;
mod watched;
mod watermarks;
mod world;
