//! The Model Context Protocol server: agents use it to remember, and to invoke each other.
//!
//! [`Server`] serves one client; [`ServerState`] is the state that all clients of a process share: the engine, the port that starts
//! agents (`Program`), and the running invocations. A call passes through `stdio` or `http` → `server` → `tools` → the engine.
//! A mistake of the caller becomes a tool error that says what to do ([`Failure`]), never a protocol error.

mod bounded;
mod error;
mod http;
mod id;
mod invoke;
mod jobs;
mod oversized;
mod prompts;
mod resources;
mod restrict;
mod schema;
mod server;
mod settings;
mod stdio;
mod streams;
mod tools;
mod views;
mod watch;
mod workflows;

pub use error::Failure;
pub use http::{HttpOptions, serve_http};
pub use server::{Server, ServerState};
pub use settings::{CallerContext, Limits};
pub use stdio::serve_stdio;
pub use streams::{Streams, Synced};
