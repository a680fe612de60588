//! Real repositories: reading them, hostile ones among them, and committing to them without disturbing anything.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

#[macro_use]
mod ground;
mod committing;
mod concurrent;
mod hostile;
mod hurdles;
mod names;
mod random;
mod reading;
mod refused;
mod state;
mod untouched;
