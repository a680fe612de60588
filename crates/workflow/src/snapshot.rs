//! A snapshot: all that a fresh agent, or a person, needs to go on.
//!
//! What is stored is a [`Mark`]: why, when, and how the repository changed since the last one. Everything else is what
//! the events before it amount to, so that a snapshot costs the same at the first task and at the last.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::Issue;
use super::record::{Decision, ErrorRecord, Feedback, GitState, TestState, Used};
use super::state::Workflow;
use super::task::Task;
use rethread_domain::id::{SnapshotId, WorkflowId};

/// What led to a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Somebody asked for it.
    Pause,
    /// So many tasks were done.
    TaskComplete,
    /// A context, or another limit, was nearly used up.
    Exhaustion,
    /// The time was up.
    Timeout,
    /// Whoever ran it was gone.
    Crash,
    /// The workflow is over.
    End,
}

rethread_domain::named!(Trigger {
    Pause = "pause",
    TaskComplete = "task_complete",
    Exhaustion = "exhaustion",
    Timeout = "timeout",
    Crash = "crash",
    End = "end",
});

/// How the repository changed since the snapshot before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitDelta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Modified since the workflow began, and not in the snapshot before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
    /// Modified at the snapshot before, and no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub less: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl GitDelta {
    /// What is to be stored of `now`, after `before`.
    pub fn between(before: &GitState, now: &GitState) -> Self {
        let missing = |from: &[String], of: &[String]| -> Vec<String> {
            of.iter().filter(|file| !from.contains(file)).cloned().collect()
        };
        Self {
            branch: now.branch.clone(),
            commit: now.commit.clone(),
            more: missing(&before.files_modified, &now.files_modified),
            less: missing(&now.files_modified, &before.files_modified),
            staged: now.files_staged.clone(),
            uncommitted: now.files_uncommitted.clone(),
            summary: now.uncommitted_summary.clone(),
        }
    }

    /// The state that this leads to.
    pub fn apply(&self, before: &mut GitState) {
        before.branch.clone_from(&self.branch);
        before.commit.clone_from(&self.commit);
        before.files_modified.retain(|file| !self.less.contains(file));
        before.files_modified.extend(self.more.iter().cloned());
        before.files_modified.sort();
        before.files_staged.clone_from(&self.staged);
        before.files_uncommitted.clone_from(&self.uncommitted);
        before.uncommitted_summary.clone_from(&self.summary);
    }
}

/// What is stored of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub id: SnapshotId,
    pub trigger: Trigger,
    pub reason: String,
    pub git: GitDelta,
    /// A task did not end in time and was interrupted.
    #[serde(default)]
    pub forced: bool,
    /// When the limit that was hit is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the plan's file had the states of all tasks: what differs later was changed by hand.
    #[serde(default)]
    pub is_in_plan: bool,
}

/// What a list says of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSum {
    pub id: SnapshotId,
    /// Which run of the workflow ended with it, from 1.
    pub session_number: u32,
    pub created_at: Timestamp,
    pub trigger: Trigger,
    pub reason: String,
    pub tasks: u32,
    pub tasks_completed: u32,
    pub tasks_remaining: u32,
    /// What the run that ended with it took.
    pub tokens: u64,
}

impl SnapshotSum {
    /// What a workflow amounts to, marked so.
    pub(super) fn of(workflow: &Workflow, mark: &Mark, at: Timestamp) -> Self {
        Self {
            id: mark.id,
            session_number: workflow.sessions,
            created_at: at,
            trigger: mark.trigger,
            reason: mark.reason.clone(),
            tasks: u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX),
            tasks_completed: workflow.completed(),
            tasks_remaining: workflow.remaining(),
            tokens: workflow.run.used.tokens,
        }
    }
}

/// A snapshot in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub workflow_id: WorkflowId,
    pub title: String,
    pub issue: Issue,
    /// Which run of the workflow ended with it, from 1.
    pub session_number: u32,
    pub created_at: Timestamp,
    pub trigger: Trigger,
    pub reason: String,
    pub forced: bool,
    pub tasks: Vec<Task>,
    /// The task that was interrupted.
    pub current_task: Option<String>,
    pub next_task: Option<String>,
    pub tasks_completed: u32,
    pub tasks_remaining: u32,
    pub git: GitState,
    pub decisions: Vec<Decision>,
    pub errors: Vec<ErrorRecord>,
    pub feedback: Vec<Feedback>,
    pub tests: Option<TestState>,
    /// Of the run that ended with it.
    pub usage: Used,
    /// Of the workflow so far.
    pub total: Used,
}

impl Snapshot {
    /// The snapshot that is resumed from, with all that can differ since as it is now.
    #[must_use]
    pub fn as_of_now(&self, workflow: &Workflow, git: GitState) -> Self {
        let mark = Mark {
            id: self.id,
            trigger: self.trigger,
            reason: self.reason.clone(),
            git: GitDelta::default(),
            forced: self.forced,
            until: None,
            is_in_plan: false,
        };
        let session_number = self.session_number;
        let now = Self::of(workflow, &mark, self.created_at);
        Self { git, session_number, usage: self.usage, ..now }
    }

    /// The tasks that are done in the workflow and were not in this snapshot.
    pub fn done_since(&self, workflow: &Workflow) -> Vec<String> {
        let was_done =
            |id: &str| self.tasks.iter().any(|task| task.spec.id == id && task.state().is_done());
        let done = workflow.tasks.iter().filter(|task| task.state().is_done());
        done.map(|task| task.spec.id.clone()).filter(|id| !was_done(id)).collect()
    }

    /// What a workflow amounts to, marked so. The workflow is to be the fold of the events up to the mark.
    pub fn of(workflow: &Workflow, mark: &Mark, at: Timestamp) -> Self {
        let current = workflow.tasks.iter().find(|task| task.was_interrupted);
        Self {
            id: mark.id,
            workflow_id: workflow.id,
            title: workflow.charter.title.clone(),
            issue: workflow.charter.issue.clone(),
            session_number: workflow.sessions,
            created_at: at,
            trigger: mark.trigger,
            reason: mark.reason.clone(),
            forced: mark.forced,
            tasks: workflow.tasks.clone(),
            current_task: current.map(|task| task.spec.id.clone()),
            next_task: workflow.next_task().map(|task| task.spec.id.clone()),
            tasks_completed: workflow.completed(),
            tasks_remaining: workflow.remaining(),
            git: workflow.git.clone(),
            decisions: workflow.decisions.clone(),
            errors: workflow.errors.clone(),
            feedback: workflow.feedback.clone(),
            tests: workflow.tests.clone(),
            usage: workflow.run.used,
            total: workflow.total,
        }
    }
}
