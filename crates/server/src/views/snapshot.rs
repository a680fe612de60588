//! Snapshots and their parts, as programs see them.

use jiff::Timestamp;
use rethread_engine::workflows::Comparison;
use rethread_workflow::{
    Decision, ErrorRecord, Feedback, GitState, Snapshot, SnapshotSum, Source, TaskState, TestState,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::workflow::{IssueView, TaskView, TestsView, UsageView};

/// A snapshot in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct SnapshotRowView {
    pub(crate) id: String,
    /// Which run ended with it
    pub(crate) session_number: u32,
    /// `pause`, `task_complete`, `exhaustion`, `timeout` or `crash`
    pub(crate) trigger: String,
    pub(crate) reason: String,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    pub(crate) tasks_completed: u32,
    pub(crate) tasks_remaining: u32,
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

/// A snapshot: all that is needed to go on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct SnapshotView {
    pub(crate) id: String,
    pub(crate) workflow_id: String,
    pub(crate) title: String,
    pub(crate) issue: IssueView,
    /// Which run ended with it
    pub(crate) session_number: u32,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    /// `pause`, `task_complete`, `exhaustion`, `timeout` or `crash`
    pub(crate) trigger: String,
    pub(crate) reason: String,
    /// A task did not end in time and was interrupted
    pub(crate) forced: bool,
    pub(crate) tasks: Vec<TaskView>,
    /// The task that was interrupted
    pub(crate) current_task: Option<String>,
    pub(crate) next_task: Option<String>,
    pub(crate) tasks_completed: u32,
    pub(crate) tasks_remaining: u32,
    pub(crate) git: GitView,
    pub(crate) decisions: Vec<DecisionView>,
    pub(crate) errors: Vec<ErrorView>,
    pub(crate) feedback: Vec<FeedbackView>,
    pub(crate) tests: Option<TestsView>,
    /// Of the run that ended with it
    pub(crate) usage: UsageView,
    /// Of the workflow until then
    pub(crate) total: UsageView,
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

/// Who found something, and where it stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct SourceView {
    /// `model` or `rules`
    pub(crate) by: String,
    pub(crate) session: Option<String>,
    /// The numbers of the messages that it rests on
    pub(crate) messages: Vec<u32>,
}

impl From<&Source> for SourceView {
    fn from(source: &Source) -> Self {
        Self {
            by: source.by.clone(),
            session: source.session.map(|session| session.to_string()),
            messages: source.messages.clone(),
        }
    }
}

/// A choice that affects how the work is done.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct DecisionView {
    pub(crate) id: String,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    pub(crate) task: Option<String>,
    /// `approach`, `library`, `architecture`, `workaround`, `skip` or `clarification`
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) what: String,
    /// Empty where nobody said
    pub(crate) why: String,
    pub(crate) alternatives: Vec<String>,
    pub(crate) source: SourceView,
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

/// Something that went wrong, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorView {
    pub(crate) id: String,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    pub(crate) task: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) message: String,
    /// What was being done
    pub(crate) context: Option<String>,
    /// `fixed`, `workaround`, `deferred` or `unresolved`
    pub(crate) resolution: String,
    pub(crate) notes: Option<String>,
    pub(crate) source: SourceView,
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

/// What a reviewer said of a task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedbackView {
    pub(crate) id: String,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    pub(crate) task: String,
    pub(crate) reviewer: String,
    pub(crate) approved: bool,
    /// `none`, `minor`, `major` or `critical`
    pub(crate) severity: String,
    pub(crate) comments: Vec<String>,
    /// Whether what was wanted is done
    pub(crate) addressed: bool,
    pub(crate) session: Option<String>,
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
            session: feedback.session.map(|session| session.to_string()),
        }
    }
}

/// Where the repository stood.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct GitView {
    pub(crate) branch: Option<String>,
    /// Where the workflow began
    pub(crate) commit_at_start: Option<String>,
    pub(crate) commit: Option<String>,
    /// Changed since the workflow began, committed or not
    pub(crate) files_modified: Vec<String>,
    pub(crate) files_staged: Vec<String>,
    /// Changed and not committed, staged or not
    pub(crate) files_uncommitted: Vec<String>,
    pub(crate) uncommitted_summary: Option<String>,
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

/// How two snapshots differ.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct ComparisonView {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Tasks whose state differs
    pub(crate) tasks: Vec<TaskChange>,
    /// Decisions that only the second has
    pub(crate) decisions: Vec<String>,
    /// Errors that only the second has
    pub(crate) errors: Vec<String>,
    /// Reviews that only the second has
    pub(crate) feedback: Vec<String>,
    /// Files that are changed in one of them only: `+` in the second, `-` in the first
    pub(crate) files: Vec<String>,
    pub(crate) commit: Texts,
    pub(crate) tests: BothTests,
    pub(crate) tokens: Counts,
    pub(crate) cost_usd: Costs,
}

/// How the state of a task differs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct TaskChange {
    pub(crate) id: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

macro_rules! pairs {
    ($($name:ident: $of:ty;)*) => {
        $(
            /// In the first and in the second.
            #[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
            pub(crate) struct $name {
                pub(crate) before: $of,
                pub(crate) after: $of,
            }

            impl From<($of, $of)> for $name {
                fn from((before, after): ($of, $of)) -> Self {
                    Self { before, after }
                }
            }
        )*
    };
}

pairs! {
    Texts: Option<String>;
    BothTests: Option<TestsView>;
    Counts: u64;
    Costs: Option<f64>;
}

impl From<Comparison> for ComparisonView {
    fn from(compared: Comparison) -> Self {
        let state = |state: Option<TaskState>| state.map(|state| state.as_str().to_owned());
        let change =
            |(id, before, after)| TaskChange { id, before: state(before), after: state(after) };
        let tests = |tests: Option<TestState>| tests.as_ref().map(TestsView::from);
        Self {
            from: compared.from.to_string(),
            to: compared.to.to_string(),
            tasks: compared.tasks.into_iter().map(change).collect(),
            decisions: compared.decisions,
            errors: compared.errors,
            feedback: compared.feedback,
            files: compared.files,
            commit: compared.commit.into(),
            tests: (tests(compared.tests.0), tests(compared.tests.1)).into(),
            tokens: compared.tokens.into(),
            cost_usd: compared.cost_usd.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rethread_domain::SessionId;
    use rethread_redact::Redactor;
    use rethread_workflow::{SnapshotId, Source};

    use super::*;
    use crate::views::masked;

    #[test]
    fn ids_and_commits_stay_readable_and_secrets_do_not() {
        let commit = "3f786850e387550fdab836ed7e6dc881de23001b".to_owned();
        let git = GitState { commit: Some(commit.clone()), ..GitState::default() };
        let session = SessionId::generate();
        let source = Source { by: "rules".into(), session: Some(session), messages: vec![4] };
        let secret = format!("AKIA{}", "Z7Q4M2X5K3P6W3TN");
        let row = SnapshotRowView {
            id: SnapshotId::generate().to_string(),
            session_number: 2,
            trigger: "pause".into(),
            reason: format!("the key {secret} is wrong"),
            created_at: Timestamp::UNIX_EPOCH,
            tasks_completed: 1,
            tasks_remaining: 2,
        };
        let redactor = Redactor::new([]);
        assert_eq!(masked(&redactor, &GitView::from(&git)).unwrap().commit, Some(commit));
        let shown = masked(&redactor, &SourceView::from(&source)).unwrap();
        assert_eq!(shown.session, Some(session.to_string()));
        let shown = masked(&redactor, &row).unwrap();
        assert_eq!(shown.id, row.id);
        assert!(!shown.reason.contains(&secret), "{}", shown.reason);
    }
}
