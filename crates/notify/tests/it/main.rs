//! Webhooks, against a real server on this machine that answers by script.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod setup;

mod delivery;
mod forms;
mod secrets;
mod trouble;
