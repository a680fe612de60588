//! Views of snapshots and their parts, and the difference of two snapshots.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rethread_workflow::{
    Decision, ErrorRecord, Feedback, GitState, Snapshot, SnapshotSum, Source, Task,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{IssueView, TaskView, TestsView, UsageView};

/// A snapshot in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SnapshotRowView {
    pub id: String,
    /// The run that ended with it
    pub session_number: u32,
    /// `pause`, `task_complete`, `exhaustion`, `timeout` or `crash`
    pub trigger: String,
    pub reason: String,
    pub created_at: Timestamp,
    pub tasks_completed: u32,
    pub tasks_remaining: u32,
}

impl From<&SnapshotSum> for SnapshotRowView {
    fn from(snapshot: &SnapshotSum) -> Self {
        Self {
            id: snapshot.id.to_string(),
            session_number: snapshot.session_number,
            trigger: snapshot.trigger.as_str().to_owned(),
            reason: snapshot.reason.clone(),
            created_at: snapshot.created_at,
            tasks_completed: snapshot.tasks_completed,
            tasks_remaining: snapshot.tasks_remaining,
        }
    }
}

/// A snapshot: everything that is needed to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SnapshotView {
    pub id: String,
    pub workflow_id: String,
    pub title: String,
    pub issue: IssueView,
    /// The run that ended with it
    pub session_number: u32,
    pub created_at: Timestamp,
    /// `pause`, `task_complete`, `exhaustion`, `timeout` or `crash`
    pub trigger: String,
    pub reason: String,
    /// A task did not end in time and was interrupted
    pub forced: bool,
    pub tasks: Vec<TaskView>,
    /// The task that was interrupted
    pub current_task: Option<String>,
    pub next_task: Option<String>,
    pub tasks_completed: u32,
    pub tasks_remaining: u32,
    pub git: GitView,
    pub decisions: Vec<DecisionView>,
    pub errors: Vec<ErrorView>,
    pub feedback: Vec<FeedbackView>,
    pub tests: Option<TestsView>,
    /// Usage of the run that ended with it
    pub usage: UsageView,
    /// Usage of the workflow so far
    pub total: UsageView,
}

impl From<&Snapshot> for SnapshotView {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            id: snapshot.id.to_string(),
            workflow_id: snapshot.workflow_id.to_string(),
            title: snapshot.title.clone(),
            issue: IssueView::from(&snapshot.issue),
            session_number: snapshot.session_number,
            created_at: snapshot.created_at,
            trigger: snapshot.trigger.as_str().to_owned(),
            reason: snapshot.reason.clone(),
            forced: snapshot.forced,
            tasks: snapshot.tasks.iter().map(TaskView::from).collect(),
            current_task: snapshot.current_task.clone(),
            next_task: snapshot.next_task.clone(),
            tasks_completed: snapshot.tasks_completed,
            tasks_remaining: snapshot.tasks_remaining,
            git: GitView::from(&snapshot.git),
            decisions: snapshot.decisions.iter().map(DecisionView::from).collect(),
            errors: snapshot.errors.iter().map(ErrorView::from).collect(),
            feedback: snapshot.feedback.iter().map(FeedbackView::from).collect(),
            tests: snapshot.tests.as_ref().map(TestsView::from),
            usage: UsageView::from(&snapshot.usage),
            total: UsageView::from(&snapshot.total),
        }
    }
}

/// The source of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SourceView {
    /// `model` or `rules`
    pub by: String,
    pub session_id: Option<String>,
    /// The numbers of the messages that it is based on
    pub messages: Vec<u32>,
}

impl From<&Source> for SourceView {
    fn from(source: &Source) -> Self {
        Self {
            by: source.by.clone(),
            session_id: source.session.map(|session| session.to_string()),
            messages: source.messages.clone(),
        }
    }
}

/// A decision about how the work is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct DecisionView {
    pub id: String,
    pub at: Timestamp,
    pub task: Option<String>,
    /// `approach`, `library`, `architecture`, `workaround`, `skip` or `clarification`
    #[serde(rename = "type")]
    pub kind: String,
    pub what: String,
    /// Empty if nobody gave a reason
    pub why: String,
    pub alternatives: Vec<String>,
    pub source: SourceView,
}

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> Self {
        Self {
            id: decision.id.clone(),
            at: decision.at,
            task: decision.task.clone(),
            kind: decision.kind.as_str().to_owned(),
            what: decision.what.clone(),
            why: decision.why.clone(),
            alternatives: decision.alternatives.clone(),
            source: SourceView::from(&decision.source),
        }
    }
}

/// An error, and how it was resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ErrorView {
    pub id: String,
    pub at: Timestamp,
    pub task: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    /// What was being done
    pub context: Option<String>,
    /// `fixed`, `workaround`, `deferred` or `unresolved`
    pub resolution: String,
    pub notes: Option<String>,
    pub source: SourceView,
}

impl From<&ErrorRecord> for ErrorView {
    fn from(error: &ErrorRecord) -> Self {
        Self {
            id: error.id.clone(),
            at: error.at,
            task: error.task.clone(),
            kind: error.kind.clone(),
            message: error.message.clone(),
            context: error.context.clone(),
            resolution: error.resolution.as_str().to_owned(),
            notes: error.notes.clone(),
            source: SourceView::from(&error.source),
        }
    }
}

/// Feedback of a reviewer on a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct FeedbackView {
    pub id: String,
    pub at: Timestamp,
    pub task: String,
    pub reviewer: String,
    pub approved: bool,
    /// `none`, `minor`, `major` or `critical`
    pub severity: String,
    pub comments: Vec<String>,
    /// Whether it has been addressed
    pub addressed: bool,
    pub session_id: Option<String>,
}

impl From<&Feedback> for FeedbackView {
    fn from(feedback: &Feedback) -> Self {
        Self {
            id: feedback.id.clone(),
            at: feedback.at,
            task: feedback.task.clone(),
            reviewer: feedback.reviewer.clone(),
            approved: feedback.approved,
            severity: feedback.severity.as_str().to_owned(),
            comments: feedback.comments.clone(),
            addressed: feedback.addressed,
            session_id: feedback.session.map(|session| session.to_string()),
        }
    }
}

/// The state of the repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct GitView {
    pub branch: Option<String>,
    /// The commit at which the workflow began
    pub commit_at_start: Option<String>,
    pub commit: Option<String>,
    /// Changed since the workflow began, committed or not
    pub files_modified: Vec<String>,
    pub files_staged: Vec<String>,
    /// Changed but not committed, staged or not
    pub files_uncommitted: Vec<String>,
    pub uncommitted_summary: Option<String>,
}

impl From<&GitState> for GitView {
    fn from(git: &GitState) -> Self {
        Self {
            branch: git.branch.clone(),
            commit_at_start: git.commit_at_start.clone(),
            commit: git.commit.clone(),
            files_modified: git.files_modified.clone(),
            files_staged: git.files_staged.clone(),
            files_uncommitted: git.files_uncommitted.clone(),
            uncommitted_summary: git.uncommitted_summary.clone(),
        }
    }
}

/// The difference of two snapshots of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Comparison {
    pub from: String,
    pub to: String,
    /// Tasks whose state differs
    pub tasks: Vec<TaskChange>,
    /// Decisions that only the second has
    pub decisions: Vec<String>,
    /// Errors that only the second has
    pub errors: Vec<String>,
    /// Reviews that only the second has
    pub feedback: Vec<String>,
    /// Files that are changed in only one of them: `+` in the second, `-` in the first
    pub files: Vec<String>,
    #[schema(inline)]
    pub commit: Pair<Option<String>>,
    #[schema(inline)]
    pub tests: Pair<Option<TestsView>>,
    #[schema(inline)]
    pub tokens: Pair<u64>,
    #[schema(inline)]
    pub cost_usd: Pair<Option<f64>>,
}

/// A changed state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TaskChange {
    pub id: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// In the first and in the second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Pair<T> {
    pub before: T,
    pub after: T,
}

impl Comparison {
    pub fn of(from: &Snapshot, to: &Snapshot) -> Self {
        let state = |snapshot: &Snapshot, id: &str| {
            let task = snapshot.tasks.iter().find(|task| task.spec.id == id);
            task.map(|task| task.state().as_str().to_owned())
        };
        let mut known = BTreeSet::new();
        let ids = from.tasks.iter().chain(&to.tasks).map(|task: &Task| &task.spec.id);
        let changes = ids.filter(|id| known.insert(*id)).map(|id| TaskChange {
            id: id.clone(),
            before: state(from, id),
            after: state(to, id),
        });
        let files = |mark: &str, of: &Snapshot, but: &Snapshot| -> Vec<String> {
            let only = |file: &&String| !but.git.files_modified.contains(file);
            of.git.files_modified.iter().filter(only).map(|file| format!("{mark} {file}")).collect()
        };
        Self {
            from: from.id.to_string(),
            to: to.id.to_string(),
            tasks: changes.filter(|change| change.before != change.after).collect(),
            decisions: new(&from.decisions, &to.decisions, |one| (&one.id, one.what.clone())),
            errors: new(&from.errors, &to.errors, |one| (&one.id, one.message.clone())),
            feedback: new(&from.feedback, &to.feedback, |one| (&one.id, one.comments.join("; "))),
            files: [files("+", to, from), files("-", from, to)].concat(),
            commit: Pair { before: from.git.commit.clone(), after: to.git.commit.clone() },
            tests: Pair {
                before: from.tests.as_ref().map(TestsView::from),
                after: to.tests.as_ref().map(TestsView::from),
            },
            tokens: Pair { before: from.total.tokens, after: to.total.tokens },
            cost_usd: Pair { before: from.total.cost_usd, after: to.total.cost_usd },
        }
    }
}

/// What only the second has, by their ids.
fn new<T>(before: &[T], after: &[T], id_and_text: impl Fn(&T) -> (&String, String)) -> Vec<String> {
    let known: Vec<&String> = before.iter().map(|one| id_and_text(one).0).collect();
    let all = after.iter().map(&id_and_text);
    all.filter(|(id, _)| !known.contains(id)).map(|(_, text)| text).collect()
}
