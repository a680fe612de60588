//! What we send out, against real servers on this machine that answer by script.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod model;
mod webhook;
