//! What can be done with sessions. The only room that reads the clock.
//!
//! [`Engine`] is the list of use cases; every door (the program, agents, editors, the server) calls these.

mod access;
pub mod agents;
mod changes;
mod clock;
mod code;
pub mod codes;
pub mod cursor;
pub mod editors;
pub mod entry;
mod error;
pub mod exchange;
mod feed;
pub mod folders;
pub mod handover;
mod hints;
mod idempotency;
mod idle;
pub mod imports;
mod logged;
mod prepare;
pub mod program;
mod pruning;
mod purge;
mod recorder;
mod repository;
mod resume;
mod sessions;
mod shutdown;
mod summaries;
pub mod views;
pub mod workflows;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_redact::Redactor;
use rethread_store::Store;
pub use rethread_store::{
    FeedPage, ListFilter, Order, ReservedId, Search, Span, Stop, UsageDay, UsageFilter,
};
use rethread_workspace::Workspace;

pub use access::{NewToken, random_digits};
pub use changes::Changes;
pub use clock::Clock;
pub use error::{Error, Result};
pub use idle::Housekeeping;
pub use logged::Logged;
pub use pruning::{Pruned, Pruning};
pub use purge::Purge;
pub use recorder::{Recorder, Saved};
pub use resume::{Context, ContextOptions, Preview};
pub use sessions::Checked;
pub use shutdown::shutdown_signal;
pub use summaries::Summariser;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) summariser: Option<Arc<dyn Summariser>>,
    pub(crate) redactor: Redactor,
    pub(crate) masks_at_rest: bool,
    pub(crate) workspace: Option<Arc<Workspace>>,
    /// Where sessions are kept as files that agents invoked, a folder for each.
    pub(crate) output_streams: Option<PathBuf>,
    /// What is to be said of folders.
    pub(crate) notes: Arc<Mutex<folders::FolderReport>>,
    pub(crate) gathered: Arc<folders::Gathered>,
    /// Tells all who wait in this process that the store has changed.
    pub(crate) changed: Arc<changes::Signal>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            store,
            clock,
            summariser: None,
            redactor: Redactor::new([]),
            masks_at_rest: false,
            workspace: None,
            output_streams: None,
            notes: Arc::default(),
            gathered: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// The same, with somebody who writes better summaries than the rules do.
    #[must_use]
    pub fn with_summariser(self, summariser: Option<Arc<dyn Summariser>>) -> Self {
        Self { summariser, ..self }
    }

    /// The same, with secrets that it knows. `at_rest`: what rules recognise is not even kept.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor, at_rest: bool) -> Self {
        Self { redactor, masks_at_rest: at_rest, ..self }
    }

    /// The same, in a workspace: sessions of it live in folders.
    #[must_use]
    pub fn with_workspace(self, workspace: Option<Arc<Workspace>>) -> Self {
        Self { workspace, ..self }
    }

    /// The same, where sessions that agents invoke are kept as files in this folder.
    #[must_use]
    pub fn with_output_streams(self, root: PathBuf) -> Self {
        Self { output_streams: Some(root), ..self }
    }

    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_deref()
    }

    /// To be called by a program that ends; gives whether nothing is left to be done when this is dropped.
    pub fn leave(&self) -> bool {
        self.store.leave()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }
}
