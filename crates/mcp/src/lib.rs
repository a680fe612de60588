//! The Model Context Protocol: agents remember, and invoke each other, by themselves.
//!
//! [`Server`] answers one client; [`Office`] is what all clients of a process share: the engine, whoever starts
//! agents (`Program`), and the invocations that run. The way of a call: `stdio` or `http` → `server` → `tools` →
//! the engine. A user's mistake is answered by a tool error that says what to do ([`Failure`]), never by one of the
//! protocol.

mod bounded;
mod error;
mod http;
mod id;
mod invoke;
mod jobs;
mod oversized;
mod place;
mod prompts;
mod resources;
mod restrict;
mod schema;
mod server;
mod stdio;
mod streams;
mod tools;
mod views;
mod watch;
mod workflows;

pub use error::Failure;
pub use http::{HttpOptions, serve_http};
pub use place::{Limits, Place};
pub use server::{Office, Server};
pub use stdio::serve_stdio;
pub use streams::{Streams, Synced};
