//! How much the redactor finds, how little else it takes, and what it promises about any text.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.
#![allow(clippy::print_stdout)] // What was measured is shown.

mod begun;
mod carriers;
mod dice;
mod lines;
mod precision;
mod properties;
mod recall;
mod samples;
