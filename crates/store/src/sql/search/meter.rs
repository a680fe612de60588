//! How much work a search was, and where it has to end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::sql::Connection;
use crate::error::{Error, Result};
use crate::search::{Search, Stop};

/// SQLite says so often how far it is, in steps of its machine.
const TICK: i32 = 64;
/// While the index prepares an answer, few steps stand for much: each is about a page that is read and merged.
const OPENING: u64 = 64;
/// The part of the work that is left which the index may take to prepare one answer.
const SHARE: u64 = 3;
/// So many bytes of text that are read and compared cost a step.
const BYTES: u64 = 4;

/// What a block of the index costs, about.
const BLOCK: u64 = 100;

/// Counts work, by what SQLite does and by what is done with its rows. Once it is too much, SQLite is interrupted.
#[derive(Clone)]
pub(in super::super) struct Meter(Arc<Shared>);

struct Shared {
    used: AtomicU64,
    /// What may be used now.
    most: AtomicU64,
    /// What may be used in all.
    all: u64,
    weight: AtomicU64,
    is_off: AtomicBool,
    /// Messages that could not be read, each once however often it was looked at.
    damaged: Mutex<BTreeSet<i64>>,
    stop: Stop,
}

impl Meter {
    pub(super) fn new(search: &Search) -> Self {
        Self(Arc::new(Shared {
            used: AtomicU64::new(0),
            most: AtomicU64::new(search.work),
            all: search.work,
            weight: AtomicU64::new(1),
            is_off: AtomicBool::new(false),
            damaged: Mutex::default(),
            stop: search.stop.clone(),
        }))
    }

    /// Notes a message that is damaged.
    pub(super) fn damaged(&self, key: i64) {
        self.0.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// How many messages were noted.
    pub(super) fn damaged_count(&self) -> u32 {
        let count = self.0.damaged.lock().unwrap_or_else(PoisonError::into_inner).len();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Counts what a connection does meanwhile.
    pub(super) fn on<T>(
        &self,
        connection: &mut Connection,
        job: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let meter = self.clone();
        let ticked = move || {
            let step = u64::from(TICK.unsigned_abs()) * meter.0.weight.load(Ordering::Relaxed);
            meter.0.used.fetch_add(step, Ordering::Relaxed);
            meter.is_over()
        };
        connection.progress_handler(TICK, Some(ticked))?;
        let answer = job(connection);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        answer
    }

    pub(super) fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// So many bytes of text were read and compared.
    pub(super) fn read(&self, bytes: usize) {
        self.0.used.fetch_add(1 + bytes as u64 / BYTES, Ordering::Relaxed);
    }

    /// A block of the index was read and gone through; gives whether it has to end.
    pub(super) fn look(&self) -> bool {
        self.0.used.fetch_add(BLOCK, Ordering::Relaxed);
        self.is_over()
    }

    /// Whether it has to end, or what goes on now has.
    pub(super) fn is_over(&self) -> bool {
        !self.0.is_off.load(Ordering::Relaxed)
            && (self.0.stop.is_stopped() || self.used() >= self.0.most.load(Ordering::Relaxed))
    }

    /// Whether nothing more may be done at all.
    pub(super) fn is_spent(&self) -> bool {
        self.0.stop.is_stopped() || self.used() >= self.0.all
    }

    /// Lets the index prepare an answer with a part of what is left; `None` where that was not enough.
    pub(in super::super) fn opening<T>(
        &self,
        job: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let share = self.0.all.saturating_sub(self.used()) / SHARE;
        self.0.most.store(self.used() + share, Ordering::Relaxed);
        self.0.weight.store(OPENING, Ordering::Relaxed);
        let answer = job();
        self.0.weight.store(1, Ordering::Relaxed);
        self.0.most.store(self.0.all, Ordering::Relaxed);
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_interrupted(&error) && !self.is_spent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What comes now is little, and has to be done.
    pub(super) fn turn_off(&self) {
        self.0.is_off.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stop.is_stopped()
    }
}

/// Whether SQLite was interrupted by the meter.
pub(super) fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Interrupted)
}
