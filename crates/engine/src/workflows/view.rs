//! A workflow as programs see it: one form for every door.

use jiff::Timestamp;
use rethread_domain::workflow::{
    Issue, Pause, Question, Snapshot, SnapshotId, Status, Task, TaskState, TestState, Trigger,
    Used, Workflow, WorkflowId,
};
use serde::Serialize;

/// A workflow with its tasks.
#[derive(Debug, Clone, Serialize)]
pub struct WorkflowView {
    pub id: WorkflowId,
    pub title: String,
    pub status: Status,
    /// A pause was asked for, and waits for the boundary.
    pub is_pausing: bool,
    pub user: String,
    pub worktree: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    pub agent: String,
    pub issue: Issue,
    pub session_count: u32,
    pub tasks_completed: u32,
    pub tasks_total: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_task: Option<String>,
    pub tasks: Vec<Task>,
    #[serde(flatten)]
    pub pause: Option<Pause>,
    /// The latest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
    pub questions: Vec<Question>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestState>,
    pub usage: Used,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<&Workflow> for WorkflowView {
    fn from(workflow: &Workflow) -> Self {
        let charter = &workflow.charter;
        Self {
            id: workflow.id,
            title: charter.title.clone(),
            status: workflow.status(),
            is_pausing: workflow.pausing().is_some(),
            user: charter.user.clone(),
            worktree: charter.worktree.clone(),
            plan: charter.plan.as_ref().map(|path| path.to_string_lossy().into_owned()),
            agent: charter.agent.clone(),
            issue: charter.issue.clone(),
            session_count: workflow.sessions,
            tasks_completed: workflow.count(TaskState::Completed),
            tasks_total: u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX),
            next_task: workflow.next_task().map(|task| task.spec.id.clone()),
            tasks: workflow.tasks.clone(),
            pause: workflow.pause().cloned(),
            snapshot_id: workflow.mark.as_ref().map(|mark| mark.id),
            questions: workflow.questions.clone(),
            tests: workflow.tests.clone(),
            usage: workflow.total,
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
        }
    }
}

/// A snapshot in a list.
#[derive(Debug, Clone, Serialize)]
pub struct SnapshotRow {
    pub id: SnapshotId,
    pub session_number: u32,
    pub trigger: Trigger,
    pub reason: String,
    pub created_at: Timestamp,
    pub tasks_completed: u32,
    pub tasks_remaining: u32,
}

impl From<&Snapshot> for SnapshotRow {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            id: snapshot.id,
            session_number: snapshot.session_number,
            trigger: snapshot.trigger,
            reason: snapshot.reason.clone(),
            created_at: snapshot.created_at,
            tasks_completed: snapshot.tasks_completed,
            tasks_remaining: snapshot.tasks_remaining,
        }
    }
}

/// How two snapshots of a workflow differ.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub from: SnapshotId,
    pub to: SnapshotId,
    /// Tasks whose state differs: id, before, after.
    pub tasks: Vec<(String, Option<TaskState>, Option<TaskState>)>,
    pub decisions: Vec<String>,
    pub errors: Vec<String>,
    pub feedback: Vec<String>,
    /// Files that are changed in one of them only: `+` in the later, `-` in the earlier.
    pub files: Vec<String>,
    pub commit: (Option<String>, Option<String>),
    pub tests: (Option<TestState>, Option<TestState>),
    pub tokens: (u64, u64),
    pub cost_usd: (Option<f64>, Option<f64>),
}

impl Comparison {
    pub fn of(from: &Snapshot, to: &Snapshot) -> Self {
        let state = |snapshot: &Snapshot, id: &str| {
            snapshot.tasks.iter().find(|task| task.spec.id == id).map(Task::state)
        };
        let mut ids: Vec<&String> =
            from.tasks.iter().chain(&to.tasks).map(|task| &task.spec.id).collect();
        let mut known = std::collections::BTreeSet::new();
        ids.retain(|id| known.insert(*id));
        let tasks = ids
            .into_iter()
            .map(|id| (id.clone(), state(from, id), state(to, id)))
            .filter(|(_, before, after)| before != after)
            .collect();
        let files = |mark: &str, of: &Snapshot, but: &Snapshot| -> Vec<String> {
            let only = |file: &&String| !but.git.files_modified.contains(file);
            of.git.files_modified.iter().filter(only).map(|file| format!("{mark} {file}")).collect()
        };
        let new = |known: Vec<&str>, all: Vec<(&str, String)>| -> Vec<String> {
            all.into_iter().filter(|(id, _)| !known.contains(id)).map(|(_, text)| text).collect()
        };
        Self {
            from: from.id,
            to: to.id,
            tasks,
            decisions: new(
                from.decisions.iter().map(|one| one.id.as_str()).collect(),
                to.decisions.iter().map(|one| (one.id.as_str(), one.what.clone())).collect(),
            ),
            errors: new(
                from.errors.iter().map(|one| one.id.as_str()).collect(),
                to.errors.iter().map(|one| (one.id.as_str(), one.message.clone())).collect(),
            ),
            feedback: new(
                from.feedback.iter().map(|one| one.id.as_str()).collect(),
                to.feedback.iter().map(|one| (one.id.as_str(), one.comments.join("; "))).collect(),
            ),
            files: [files("+", to, from), files("-", from, to)].concat(),
            commit: (from.git.commit.clone(), to.git.commit.clone()),
            tests: (from.tests.clone(), to.tests.clone()),
            tokens: (from.total.tokens, to.total.tokens),
            cost_usd: (from.total.cost_usd, to.total.cost_usd),
        }
    }
}
