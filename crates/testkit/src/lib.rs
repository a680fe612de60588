//! What tests need: throwaway stores, messages, a server that answers by script, and texts that are the same every time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

pub mod http;
mod messages;
pub mod postgres;
mod program;
mod seed;
mod store;
mod texts;
mod until;

pub use messages::{assistant, at, beginning, message, tool, user};
pub use program::TestProgram;
pub use seed::seed;
pub use store::{TestStore, context, try_context};
pub use texts::Texts;
pub use until::until;
