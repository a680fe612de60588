//! The client side of the Agent Client Protocol: starts an agent as a child process and talks to it.
//!
//! [`AcpLauncher`] implements the engine's port. The path of an update: `process` (the agent's output) → `lines` → `frame` →
//! `connection` → `session` → `translate` → the engine's channel. When that channel is full, the whole path blocks, back to the
//! agent (backpressure). [`Shell`] runs commands that the user has approved. The embedding program has to offer [`guard()`] as a
//! subcommand.

mod abilities;
mod act;
mod blocks;
mod calls;
mod classify;
mod client;
mod connection;
mod diff;
mod files;
mod foreground;
mod frame;
mod guard;
mod hold;
mod latch;
mod launch;
mod lines;
mod native;
mod permission;
mod presets;
mod probe;
mod process;
mod protected_paths;
pub mod proxy;
mod restrict;
mod second;
mod serve;
mod session;
mod settings;
mod shell;
mod terminals;
mod translate;

pub use guard::guard;
pub use hold::{Hold, HoldTable, Kept};
pub use launch::{AcpLauncher, Limits};
pub use native::{Native, NativeProgram};
pub use presets::{Entry, EntryError, Load, Quirks, ToolServer, entries};
pub use probe::probe;
pub use restrict::Restrict;
pub use shell::Shell;
