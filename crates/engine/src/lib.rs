//! What can be done with sessions. The only room that reads the clock.
//!
//! [`Engine`] is the list of use cases; every door (the program, agents, editors, the server) calls these.

mod clock;
pub mod entry;
mod error;
pub mod exchange;
mod pruning;
mod recorder;
mod repository;
mod resume;
mod sessions;

use std::sync::Arc;

use rethread_store::Store;

pub use clock::Clock;
pub use error::{Error, Result};
pub use pruning::{Pruned, Pruning};
pub use recorder::{Recorder, Saved};
pub use resume::{Context, ContextOptions, Preview};
pub use sessions::Checked;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }
}
