//! What tests need: throwaway stores, messages, and texts that are the same every time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod messages;
mod store;
mod texts;

pub use messages::{assistant, at, beginning, message, tool, user};
pub use store::{TestStore, context};
pub use texts::Texts;
