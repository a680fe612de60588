//! Keeps up with changes of the workspace, for long-running doors.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Engine;
use crate::program::Program;

/// When the workspace was last scanned, and what was reported about it.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    at: Mutex<Option<Instant>>,
    said: Mutex<BTreeSet<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gathered {
    fn is_due(&self, pace: Duration) -> bool {
        let mut at = locked(&self.at);
        let is_due = at.is_none_or(|last| last.elapsed() >= pace);
        if is_due {
            *at = Some(Instant::now());
        }
        is_due
    }
}

impl Engine {
    /// Imports changes of the workspace, such as those that came by git, unless that was done within `pace`. Problems are
    /// reported to the user once.
    pub async fn keep_up(&self, program: &dyn Program, pace: Duration) {
        if !self.gathered.is_due(pace) {
            return;
        }
        let gathered = match program.user() {
            Ok(user) => self.gather(&user).await.map_err(|error| error.to_string()),
            Err(fault) => Err(fault.to_string()),
        };
        let mut troubles = gathered.map_or_else(|why| vec![why], |followed| followed.troubles);
        troubles.extend(self.take_notes().troubles);
        for trouble in troubles {
            let trouble = self.redactor.redact(&trouble).text.into_owned();
            if locked(&self.gathered.said).insert(trouble.clone()) {
                program.note(&trouble);
            }
        }
    }
}
