//! What is said of workflows beside the domain's own types.

use std::fmt;

use jiff::Timestamp;
use rethread_workflow::{Pause, Status, Workflow, WorkflowId};
use serde::Serialize;

use crate::types::Epoch;

/// Which workflows are listed, the newest first.
#[derive(Debug, Clone, Default)]
pub struct WorkflowFilter {
    pub user: Option<String>,
    pub worktree: Option<String>,
    /// Without any: all.
    pub statuses: Vec<Status>,
    /// Only what comes after this place in the order: when it was made, and its id.
    pub before: Option<(Timestamp, WorkflowId)>,
    pub limit: u32,
}

/// What a list says of a workflow. It changes with the log, in the same transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkflowRow {
    pub id: WorkflowId,
    pub user: String,
    pub worktree: String,
    pub title: String,
    pub agent: String,
    pub status: Status,
    /// Completed, without those that were skipped.
    #[serde(rename = "tasks_completed")]
    pub tasks_done: u32,
    #[serde(rename = "tasks_total")]
    pub tasks: u32,
    /// Runs so far.
    #[serde(rename = "session_count")]
    pub sessions: u32,
    /// The task that is worked on, or comes next.
    #[serde(rename = "next_task")]
    pub task: Option<String>,
    #[serde(flatten)]
    pub pause: Option<Pause>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub cost_usd: Option<f64>,
    pub tokens: u64,
    pub events: u32,
}

impl WorkflowRow {
    /// A row of which only the id is known.
    pub(crate) fn unknown(id: WorkflowId) -> Self {
        let text = String::new;
        Self {
            id,
            user: text(),
            worktree: text(),
            title: text(),
            agent: text(),
            status: Status::Pending,
            tasks_done: 0,
            tasks: 0,
            sessions: 0,
            task: None,
            pause: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            cost_usd: None,
            tokens: 0,
            events: 0,
        }
    }

    pub(crate) fn of(workflow: &Workflow) -> Self {
        let tasks = u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX);
        Self {
            id: workflow.id,
            user: workflow.charter.user.clone(),
            worktree: workflow.charter.worktree.clone(),
            title: workflow.charter.title.clone(),
            agent: workflow.charter.agent.clone(),
            status: workflow.status(),
            tasks_done: workflow.completed(),
            tasks,
            sessions: workflow.sessions,
            task: workflow.next_task().map(|task| task.spec.id.clone()),
            pause: workflow.pause().map(|pause| Pause {
                at: whole(pause.at),
                reason: pause.reason.clone(),
                until: pause.until.map(whole),
            }),
            created_at: whole(workflow.created_at),
            updated_at: whole(workflow.updated_at),
            cost_usd: workflow.total.cost_usd,
            tokens: workflow.total.tokens,
            events: workflow.events,
        }
    }
}

/// As the store keeps times.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// Whoever runs a workflow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub epoch: Epoch,
    pub lease_until: Timestamp,
    /// Alive, but the lease has run out: anybody may take over.
    pub is_late: bool,
}

/// Held by whoever runs a workflow, until it is dropped or the process ends.
pub struct WorkflowClaim {
    /// Every write of the owner says it: refused once somebody else has taken over.
    pub epoch: Epoch,
    /// Until when whoever held it before had it, and perhaps did not live to say that it is done.
    pub lease_before: Option<Timestamp>,
    pub(crate) _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for WorkflowClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowClaim").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
