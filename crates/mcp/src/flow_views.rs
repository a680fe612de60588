//! Workflows and their snapshots as clients see them.

use rethread_domain::SessionId;
use rethread_domain::quote::{cut_line, safe};
use rethread_domain::workflow::{
    Decision, ErrorRecord, Feedback, GitState, Measure, Question, Snapshot, Source, Status, Task,
    TaskState, TestState, Used, Workflow,
};
use serde::Serialize;

/// How much is told of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What is needed to follow it.
    Compact,
    /// Each task with its sessions and usage, the plan, the tests.
    Detail,
}

/// What is shown of a title or a note in a list.
const SHOWN: usize = 200;

/// A workflow.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowView {
    /// The one id of the workflow
    workflow_id: String,
    title: String,
    /// pending, `in_progress`, pausing, blocked, paused, completed, failed or cancelled
    status: String,
    /// Whether a process works on it now
    is_running: bool,
    worktree: String,
    agent_name: String,
    /// Which run of it this is, from 1
    session_number: u32,
    tasks_completed: u32,
    tasks_total: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_task: Option<String>,
    tasks: Tasks,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_reason: Option<String>,
    /// When the usage limit it waits for is lifted
    #[serde(skip_serializing_if = "Option::is_none")]
    resumes_at: Option<String>,
    /// The latest snapshot
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<String>,
    /// What it waits for; only a person can answer
    waits_for: Vec<QuestionView>,
    updated_at: String,
    /// What can be done next
    next: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    detail: Option<Detail>,
}

/// What is told of a workflow only when it is asked for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    issue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<TestsView>,
    usage: UsageView,
    created_at: String,
}

impl Detail {
    fn of(workflow: &Workflow) -> Self {
        let charter = &workflow.charter;
        Self {
            plan: charter.plan.as_ref().map(|path| path.to_string_lossy().into_owned()),
            issue: charter.issue.title.clone(),
            tests: workflow.tests.as_ref().map(TestsView::from),
            usage: UsageView::from(&workflow.total),
            created_at: workflow.created_at.to_string(),
        }
    }
}

/// The tasks of a workflow, in short or in full: what is in both has the same name.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Tasks {
    Compact(Vec<TaskRow>),
    Detail(Vec<TaskView>),
}

impl WorkflowView {
    pub(crate) fn of(workflow: &Workflow, is_running: bool, depth: Depth) -> Self {
        let charter = &workflow.charter;
        let short = workflow.id.short();
        let is_detailed = depth == Depth::Detail;
        Self {
            workflow_id: workflow.id.to_string(),
            title: charter.title.clone(),
            status: status(workflow).to_owned(),
            is_running,
            worktree: charter.worktree.clone(),
            agent_name: charter.agent.clone(),
            session_number: workflow.sessions,
            tasks_completed: workflow.count(TaskState::Completed),
            tasks_total: u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX),
            next_task: workflow.next_task().map(|task| task.spec.id.clone()),
            tasks: if is_detailed {
                Tasks::Detail(workflow.tasks.iter().map(TaskView::from).collect())
            } else {
                Tasks::Compact(workflow.tasks.iter().map(TaskRow::from).collect())
            },
            paused_at: workflow.pause().map(|pause| pause.at.to_string()),
            pause_reason: workflow.pause().map(|pause| pause.reason.clone()),
            resumes_at: workflow.pause().and_then(|pause| pause.until).map(|at| at.to_string()),
            snapshot_id: workflow.mark.as_ref().map(|mark| mark.id.to_string()),
            waits_for: workflow.questions.iter().map(|one| QuestionView::of(one, &short)).collect(),
            updated_at: workflow.updated_at.to_string(),
            next: next(workflow, is_running),
            detail: is_detailed.then(|| Detail::of(workflow)),
        }
    }
}

fn status(workflow: &Workflow) -> &'static str {
    match workflow.status() {
        Status::InProgress if workflow.pausing().is_some() => "pausing",
        status => status.as_str(),
    }
}

fn next(workflow: &Workflow, is_running: bool) -> String {
    let text = match workflow.status() {
        Status::Pending => "it is about to begin: workflow_status shows when",
        Status::InProgress if !is_running => {
            "whoever ran it is gone: resume_workflow takes a snapshot and goes on"
        }
        Status::InProgress if workflow.pausing().is_some() => {
            "it pauses when the running task is done: workflow_status shows when"
        }
        Status::InProgress => {
            "it works: workflow_status shows how far it is, pause_workflow stops it"
        }
        Status::Blocked => "a person has to answer what it waits for",
        Status::Paused => "resume_workflow goes on with it",
        Status::Completed | Status::Failed | Status::Cancelled => {
            "nothing: it is over, and its snapshots can be read"
        }
    };
    text.to_owned()
}

/// A task of a plan, in short.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskRow {
    task_id: String,
    title: String,
    /// pending, `in_progress`, blocked, completed, failed or skipped
    state: String,
    /// Why it failed or is blocked
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<&Task> for TaskRow {
    fn from(task: &Task) -> Self {
        let state = task.state();
        let is_stuck = matches!(state, TaskState::Failed | TaskState::Blocked);
        Self {
            task_id: task.spec.id.clone(),
            title: cut_line(&task.spec.title, SHOWN),
            state: state.as_str().to_owned(),
            note: task.note.as_deref().filter(|_| is_stuck).map(|note| cut_line(note, SHOWN)),
        }
    }
}

/// A task of a plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView {
    task_id: String,
    title: String,
    /// pending, `in_progress`, blocked, completed, failed or skipped
    state: String,
    depends_on: Vec<String>,
    attempts: u32,
    /// Where it was worked on, the latest last: `get_session` shows them
    session_ids: Vec<String>,
    was_interrupted: bool,
    /// Why it failed, or what was left of it
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    tokens: u64,
}

impl From<&Task> for TaskView {
    fn from(task: &Task) -> Self {
        Self {
            task_id: task.spec.id.clone(),
            title: task.spec.title.clone(),
            state: task.state().as_str().to_owned(),
            depends_on: task.spec.depends_on.clone(),
            attempts: task.attempts,
            session_ids: task.sessions.iter().map(SessionId::to_string).collect(),
            was_interrupted: task.was_interrupted,
            note: task.note.clone(),
            tokens: task.used.tokens,
        }
    }
}

/// What a person is waited for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuestionView {
    /// plan, `task_failed`, `task_refused`, `task_removed` or command
    about: String,
    question: String,
    /// How a person answers
    answered_by: String,
}

impl QuestionView {
    fn of(question: &Question, short: &str) -> Self {
        let yes_or_no =
            || format!("`rethread workflow approve {short}` or `rethread workflow reject {short}`");
        let (about, by) = match question {
            Question::Plan => ("plan", yes_or_no()),
            Question::TaskFailed { task, .. } => (
                "task_failed",
                format!(
                    "`rethread workflow retry {task} {short}`, `rethread workflow skip {task} {short}` or `rethread workflow reject {short}`"
                ),
            ),
            Question::TaskRefused { task, .. } => (
                "task_refused",
                format!(
                    "`rethread workflow retry {task} {short} --permissions allow` lets it do this, `rethread workflow approve {short}` counts it as done, `rethread workflow skip {task} {short}` leaves it out"
                ),
            ),
            Question::TaskRemoved { .. } => ("task_removed", yes_or_no()),
            Question::Command { .. } => ("command", yes_or_no()),
        };
        Self { about: about.to_owned(), question: question.told(), answered_by: by }
    }
}

/// What the last check gave.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestsView {
    /// red, green, refactor or unknown
    phase: String,
    failing: Vec<String>,
    /// Those of them that a task left failing on purpose
    expected: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The end of what it printed
    output: String,
}

impl From<&TestState> for TestsView {
    fn from(tests: &TestState) -> Self {
        Self {
            phase: tests.phase.as_str().to_owned(),
            failing: tests.failing.clone(),
            expected: tests.expected.clone(),
            command: tests.command.as_deref().map(safe),
            output: tests.output.clone(),
        }
    }
}

/// What work took.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageView {
    tokens: u64,
    /// How tokens are known: exact, counted or estimated
    measure: String,
    /// How full the fullest context was, from 0 to 1
    #[serde(skip_serializing_if = "Option::is_none")]
    context_use: Option<f64>,
    model_calls: u32,
    tool_calls: u32,
    turns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    seconds: u64,
}

impl From<&Used> for UsageView {
    fn from(used: &Used) -> Self {
        let measure = match used.measure {
            Measure::Exact => "exact",
            Measure::Counted => "counted",
            Measure::Estimated => "estimated",
        };
        Self {
            tokens: used.tokens,
            measure: measure.to_owned(),
            context_use: used.context_use(),
            model_calls: used.model_calls,
            tool_calls: used.tool_calls,
            turns: used.turns,
            cost_usd: used.cost_usd,
            seconds: used.seconds,
        }
    }
}

/// A snapshot in a list.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotRow {
    pub(crate) snapshot_id: String,
    /// Which run ended with it
    session_number: u32,
    /// pause, `task_complete`, exhaustion, timeout or crash
    trigger: String,
    reason: String,
    created_at: String,
    tasks_completed: u32,
    tasks_remaining: u32,
}

impl From<&Snapshot> for SnapshotRow {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            snapshot_id: snapshot.id.to_string(),
            session_number: snapshot.session_number,
            trigger: snapshot.trigger.as_str().to_owned(),
            reason: snapshot.reason.clone(),
            created_at: snapshot.created_at.to_string(),
            tasks_completed: snapshot.tasks_completed,
            tasks_remaining: snapshot.tasks_remaining,
        }
    }
}

/// Who found something, and where it stands.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceView {
    /// model or rules
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// The numbers of the messages that it rests on
    messages: Vec<u32>,
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

/// A choice that affects how the work is done.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionView {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    /// approach, library, architecture, workaround, skip or clarification
    r#type: String,
    what: String,
    /// Empty where nobody said
    why: String,
    alternatives: Vec<String>,
    at: String,
    source: SourceView,
}

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> Self {
        Self {
            task_id: decision.task.clone(),
            r#type: decision.kind.as_str().to_owned(),
            what: decision.what.clone(),
            why: decision.why.clone(),
            alternatives: decision.alternatives.clone(),
            at: decision.at.to_string(),
            source: SourceView::from(&decision.source),
        }
    }
}

/// Something that went wrong, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorView {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    r#type: String,
    message: String,
    /// What was being done
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// fixed, workaround, deferred or unresolved
    resolution: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<String>,
    at: String,
    source: SourceView,
}

impl From<&ErrorRecord> for ErrorView {
    fn from(error: &ErrorRecord) -> Self {
        Self {
            task_id: error.task.clone(),
            r#type: error.kind.clone(),
            message: error.message.clone(),
            context: error.context.clone(),
            resolution: error.resolution.as_str().to_owned(),
            notes: error.notes.clone(),
            at: error.at.to_string(),
            source: SourceView::from(&error.source),
        }
    }
}

/// What a reviewer said of a task.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeedbackView {
    task_id: String,
    reviewer: String,
    is_approved: bool,
    /// none, minor, major or critical
    severity: String,
    comments: Vec<String>,
    /// Whether what was wanted is done
    is_addressed: bool,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
}

impl From<&Feedback> for FeedbackView {
    fn from(feedback: &Feedback) -> Self {
        Self {
            task_id: feedback.task.clone(),
            reviewer: feedback.reviewer.clone(),
            is_approved: feedback.approved,
            severity: feedback.severity.as_str().to_owned(),
            comments: feedback.comments.clone(),
            is_addressed: feedback.addressed,
            at: feedback.at.to_string(),
            session_id: feedback.session.map(|session| session.to_string()),
        }
    }
}

/// Where the repository stood.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GitView {
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// Where the workflow began
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_at_start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Changed since the workflow began, committed or not
    files_modified: Vec<String>,
    files_staged: Vec<String>,
    /// Changed and not committed
    files_uncommitted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncommitted_summary: Option<String>,
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
