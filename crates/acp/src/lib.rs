//! The Agent Client Protocol, from the client's side: starts an agent as a child process and speaks with it.
//!
//! [`AcpLauncher`] implements the engine's port. The way of an update: `process` (the agent's output) → `lines` →
//! `frame` → `connection` → `session` → `translate` → the engine's channel. When that channel is full, the way is
//! blocked back to the agent. [`Shell`] runs commands that the user has approved. The program that embeds this has to offer [`guard()`] as a subcommand.

mod act;
mod calls;
mod classify;
mod client;
mod connection;
mod files;
mod frame;
mod guard;
mod hold;
mod latch;
mod launch;
mod lines;
mod permission;
mod presets;
mod probe;
mod process;
mod restrict;
mod serve;
mod session;
mod settings;
mod shell;
mod terminals;
mod translate;
mod ward;

pub use guard::guard;
pub use hold::{Hold, HoldTable, Kept};
pub use launch::{AcpLauncher, Limits};
pub use presets::{Entry, EntryError, Load, Quirks, ToolServer, entries};
pub use probe::probe;
pub use restrict::Restrict;
pub use shell::Shell;
