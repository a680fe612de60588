//! Workflows as they were last seen, so that an append need not read the whole log again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread_workflow::Workflow;

use super::rows::Found;
use crate::workflows::WorkflowRow;

/// How many are kept.
const MOST: usize = 32;

/// Only what was committed is in it. What another process has added since shows in the row.
#[derive(Debug, Default)]
pub(in super::super) struct Cache(Mutex<HashMap<i64, Workflow>>);

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Workflow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workflow, if it is as the row says.
    pub(super) fn take(&self, row: &Found) -> Option<Workflow> {
        let found = self.lock().remove(&row.no);
        found.filter(|workflow| is_as(workflow, row))
    }

    /// A copy of it, as it is or was: others may have added to it since.
    pub(super) fn get(&self, row: &Found) -> Option<Workflow> {
        self.lock().get(&row.no).filter(|known| known.events <= row.sum.events).cloned()
    }

    /// Keeps it, unless more is known of it.
    pub(super) fn keep(&self, no: i64, workflow: Workflow) {
        let mut all = self.lock();
        if all.get(&no).is_some_and(|known| known.events > workflow.events) {
            return;
        }
        if all.len() >= MOST
            && !all.contains_key(&no)
            && let Some(other) = all.keys().next().copied()
        {
            all.remove(&other);
        }
        all.insert(no, workflow);
    }

    pub(super) fn forget(&self, no: i64) {
        self.lock().remove(&no);
    }

    pub(in super::super) fn clear(&self) {
        self.lock().clear();
    }
}

/// Whether it is as the row says.
pub(super) fn is_as(workflow: &Workflow, row: &Found) -> bool {
    workflow.events == row.sum.events && WorkflowRow::of(workflow) == row.sum
}
