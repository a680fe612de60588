//! What can be done with sessions. The only room that reads the clock.
//!
//! [`Engine`] is the list of use cases; every door (the program, agents, editors, the server) calls these.

pub mod agents;
mod clock;
pub mod entry;
mod error;
pub mod exchange;
mod idle;
mod pruning;
mod recorder;
mod repository;
mod resume;
mod sessions;
mod summaries;

use std::sync::Arc;

use rethread_store::Store;

pub use clock::Clock;
pub use error::{Error, Result};
pub use idle::Tidied;
pub use pruning::{Pruned, Pruning};
pub use recorder::{Recorder, Saved};
pub use resume::{Context, ContextOptions, Preview};
pub use sessions::Checked;
pub use summaries::Summariser;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) summariser: Option<Arc<dyn Summariser>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, summariser: None }
    }

    /// The same, with somebody who writes better summaries than the rules do.
    #[must_use]
    pub fn with_summariser(self, summariser: Option<Arc<dyn Summariser>>) -> Self {
        Self { summariser, ..self }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }
}
