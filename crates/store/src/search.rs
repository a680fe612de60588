//! What is looked for, and how much work that may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_domain::search::{Cursor, Filter, Query};
use rethread_redact::Redactor;

/// What one search may cost, in steps of about a tenth of a microsecond.
const MOST_WORK: u64 = 6_000_000;

/// A search.
#[derive(Debug, Clone)]
pub struct Search {
    pub query: Query,
    pub filter: Filter,
    /// At most so many finds.
    pub limit: u32,
    /// Where it goes on; without it, at the beginning.
    pub after: Option<Cursor>,
    /// Values that it knows are not found either, like all that rules recognise.
    pub redactor: Redactor,
    /// How much work it may be; then it ends, and says so.
    pub work: u64,
    /// Ends it early.
    pub stop: Stop,
}

impl Search {
    pub fn new(words: &str, filter: Filter, limit: u32) -> Self {
        Self {
            query: Query::parse(words),
            filter,
            limit,
            after: None,
            redactor: Redactor::new([]),
            work: MOST_WORK,
            stop: Stop::default(),
        }
    }
}

/// Tells work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops when it is dropped.
    pub fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }
}

/// Held by whoever waits.
#[derive(Debug)]
pub struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
