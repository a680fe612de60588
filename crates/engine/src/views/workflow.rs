//! Views of workflows, tasks and events.

use jiff::Timestamp;
use rethread_domain::quote::safe;
use rethread_redact::Redactor;
use rethread_workflow::{
    Approval, Event, EventRecord, Issue, Measure, Question, Status, Task, TestState, Used, Verify,
    Workflow,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::workflows::WorkflowRow;
use crate::{Engine, Result};

/// A workflow in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WorkflowRowView {
    pub id: String,
    pub title: String,
    /// `pending`, `in_progress`, `blocked`, `paused`, `completed`, `failed` or `cancelled`
    pub status: String,
    pub user: String,
    pub worktree: String,
    pub agent: String,
    /// The number of the current run: 1, and one more with each resume. The sessions of agents are those of the tasks
    pub session_count: u32,
    /// Without skipped tasks
    pub tasks_completed: u32,
    pub tasks_total: u32,
    /// The task that is running, or comes next
    pub next_task: Option<String>,
    pub paused_at: Option<Timestamp>,
    pub pause_reason: Option<String>,
    /// When the usage limit that it waits for ends
    pub resumes_at: Option<Timestamp>,
    pub tokens: u64,
    pub cost_usd: Option<f64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<&WorkflowRow> for WorkflowRowView {
    fn from(row: &WorkflowRow) -> Self {
        Self {
            id: row.id.to_string(),
            title: row.title.clone(),
            status: row.status.as_str().to_owned(),
            user: row.user.clone(),
            worktree: row.worktree.clone(),
            agent: row.agent.clone(),
            session_count: row.sessions,
            tasks_completed: row.tasks_done,
            tasks_total: row.tasks,
            next_task: row.task.clone(),
            paused_at: row.pause.as_ref().map(|pause| pause.at),
            pause_reason: row.pause.as_ref().map(|pause| pause.reason.clone()),
            resumes_at: row.pause.as_ref().and_then(|pause| pause.until),
            tokens: row.tokens,
            cost_usd: row.cost_usd,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// A workflow with its tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WorkflowView {
    pub id: String,
    pub title: String,
    /// `pending`, `in_progress`, `blocked`, `paused`, `completed`, `failed` or `cancelled`
    pub status: String,
    /// A pause was requested, and waits for the task boundary
    pub is_pausing: bool,
    /// Whether a process runs it now
    pub is_running: bool,
    pub user: String,
    pub worktree: String,
    pub plan: Option<String>,
    pub agent: String,
    pub issue: IssueView,
    /// The number of the current run: 1, and one more with each resume. The sessions of agents are those of the tasks
    pub session_count: u32,
    pub tasks_completed: u32,
    pub tasks_total: u32,
    /// The task that is running, or comes next
    pub next_task: Option<String>,
    pub tasks: Vec<TaskView>,
    pub paused_at: Option<Timestamp>,
    pub pause_reason: Option<String>,
    /// When the usage limit that it waits for ends
    pub resumes_at: Option<Timestamp>,
    /// The latest snapshot
    pub snapshot_id: Option<String>,
    /// How the repository differed from the snapshot that this run was resumed from, one line each
    pub diverged: Vec<String>,
    /// Questions that wait for a person; they are answered in this order
    pub questions: Vec<QuestionView>,
    pub tests: Option<TestsView>,
    pub usage: UsageView,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The number of the last event
    pub events: u32,
    /// After a start: what will be refused, as nobody can be asked
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl WorkflowView {
    fn of(workflow: &Workflow, is_running: bool) -> Self {
        let charter = &workflow.charter;
        Self {
            id: workflow.id.to_string(),
            title: charter.title.clone(),
            status: workflow.status().as_str().to_owned(),
            is_pausing: workflow.status() == Status::InProgress && workflow.pausing().is_some(),
            is_running,
            user: charter.user.clone(),
            worktree: charter.worktree.clone(),
            plan: charter.plan.as_ref().map(|path| path.to_string_lossy().into_owned()),
            agent: charter.agent.clone(),
            issue: IssueView::from(&charter.issue),
            session_count: workflow.sessions,
            tasks_completed: workflow.completed(),
            tasks_total: u32::try_from(workflow.tasks.len()).unwrap_or(u32::MAX),
            next_task: workflow.next_task().map(|task| task.spec.id.clone()),
            tasks: workflow.tasks.iter().map(TaskView::from).collect(),
            paused_at: workflow.pause().map(|pause| pause.at),
            pause_reason: workflow.pause().map(|pause| pause.reason.clone()),
            resumes_at: workflow.pause().and_then(|pause| pause.until),
            snapshot_id: workflow.mark.as_ref().map(|mark| mark.id.to_string()),
            diverged: workflow.run.diverged.clone(),
            questions: workflow.questions.iter().map(QuestionView::from).collect(),
            tests: workflow.tests.as_ref().map(TestsView::from),
            usage: UsageView::from(&workflow.total),
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            events: workflow.events,
            warning: None,
        }
    }
}

impl Engine {
    /// The view of a workflow, with what its agents are saying.
    pub async fn workflow_view(&self, workflow: &Workflow) -> Result<WorkflowView> {
        let is_running = self.is_workflow_driven(workflow.id).await?;
        let mut view = WorkflowView::of(workflow, is_running);
        for saying in self.live_texts(workflow).await? {
            // During a review, the reviewer is speaking.
            if let Some(task) = view.tasks.iter_mut().find(|task| task.id == saying.on) {
                task.saying = Some(saying.text);
            }
        }
        Ok(view)
    }

    /// The same for others: masked, and a command of which a part is masked cannot be approved.
    pub async fn masked_workflow_view(&self, workflow: &Workflow) -> Result<WorkflowView> {
        let mut view = self.masked(&self.workflow_view(workflow).await?)?;
        let asked = workflow.questions.iter();
        view.questions = asked.map(|one| QuestionView::masked(one, &self.redactor)).collect();
        Ok(view)
    }
}

/// The issue, in its author's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct IssueView {
    pub id: Option<String>,
    pub title: String,
    pub text: String,
}

impl From<&Issue> for IssueView {
    fn from(issue: &Issue) -> Self {
        Self { id: issue.id.clone(), title: issue.title.clone(), text: issue.text.clone() }
    }
}

/// A task of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TaskView {
    pub id: String,
    pub title: String,
    /// What is to be done, in the plan's words
    pub body: String,
    /// `pending`, `in_progress`, `blocked`, `completed`, `failed` or `skipped`
    pub state: String,
    pub depends_on: Vec<String>,
    /// The agent that works on it, if the plan names one
    pub agent: Option<String>,
    /// The model that it is done with, if the plan names one
    pub model: Option<String>,
    /// How hard the model is to think, if the plan says
    pub effort: Option<String>,
    /// The command that checks it, or its name in the settings
    pub verify: Option<String>,
    /// The agent that reviews it
    pub review: Option<String>,
    /// What a person is asked before it begins
    pub approve: Option<String>,
    /// Who approved that it begins
    pub approval: Option<ApprovalView>,
    /// What follows if it fails, if the plan says: `stop`, `ask` or `continue`
    pub on_failure: Option<String>,
    /// How often it is tried again by itself after trouble that passes, if the plan says
    pub retries: Option<u32>,
    /// How long an attempt may take, in seconds, if the plan says
    pub time_limit: Option<u64>,
    pub attempts: u32,
    /// The sessions in which it was worked on, latest last
    pub session_ids: Vec<String>,
    pub was_interrupted: bool,
    /// It was put off because of trouble that passes, and goes on by itself then
    pub not_before: Option<Timestamp>,
    /// Why it failed, or what was left of it
    pub note: Option<String>,
    /// What its agent has said so far in the current turn
    pub saying: Option<String>,
    pub usage: UsageView,
    pub tests: Option<TestsView>,
}

impl From<&Task> for TaskView {
    fn from(task: &Task) -> Self {
        let spec = &task.spec;
        let verify = spec.verify.as_ref().map(|verify| match verify {
            Verify::Named(text) | Verify::Text(text) => safe(text),
        });
        Self {
            id: spec.id.clone(),
            title: spec.title.clone(),
            body: spec.body.clone(),
            state: task.state().as_str().to_owned(),
            depends_on: spec.depends_on.clone(),
            agent: spec.agent.clone(),
            model: spec.model.clone(),
            effort: spec.effort.clone(),
            verify,
            review: spec.review.clone(),
            approve: spec.approve.clone(),
            approval: task.approval.as_ref().map(ApprovalView::from),
            on_failure: spec.policy.on_failure.map(|then| then.as_str().to_owned()),
            retries: spec.policy.retries,
            time_limit: spec.policy.seconds,
            attempts: task.attempts,
            session_ids: task.sessions.iter().map(ToString::to_string).collect(),
            was_interrupted: task.was_interrupted,
            not_before: task.not_before,
            note: task.note.clone(),
            saying: None,
            usage: UsageView::from(&task.used),
            tests: task.tests.as_ref().map(TestsView::from),
        }
    }
}

/// A person's yes to what a task waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ApprovalView {
    pub by: Option<String>,
    pub why: Option<String>,
    pub at: Timestamp,
}

impl From<&Approval> for ApprovalView {
    fn from(approval: &Approval) -> Self {
        Self { by: approval.by.clone(), why: approval.why.clone(), at: approval.at }
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct QuestionView {
    /// `plan`, `task_failed`, `task_refused`, `task_removed`, `command` or `gate`
    pub about: String,
    pub task: Option<String>,
    /// The question; unsafe characters are spelled out
    pub question: String,
    /// Whether nothing of it is masked: only then can a command be approved
    pub is_whole: bool,
    /// The possible answers: `approve`, `reject`, `retry`, `skip`
    pub answers: Vec<String>,
}

impl QuestionView {
    /// Masked for others.
    pub fn masked(question: &Question, redactor: &Redactor) -> Self {
        let mut view = Self::from(question);
        let clean = |text: &str| redactor.redact(text).text.into_owned();
        view.task = view.task.as_deref().map(clean);
        let whole = std::mem::take(&mut view.question);
        view.question = clean(&whole);
        view.is_whole = view.question == whole;
        if matches!(question, Question::Command { .. }) && !view.is_whole {
            view.answers.retain(|answer| answer != "approve");
        }
        view
    }
}

impl From<&Question> for QuestionView {
    fn from(question: &Question) -> Self {
        let (about, task) = match question {
            Question::Plan => ("plan", None),
            Question::TaskFailed { task, .. } => ("task_failed", Some(task.clone())),
            Question::TaskRefused { task, .. } => ("task_refused", Some(task.clone())),
            Question::TaskRemoved { task } => ("task_removed", Some(task.clone())),
            Question::Command { .. } => ("command", None),
            Question::Gate { task, .. } => ("gate", Some(task.clone())),
        };
        let answers: &[&str] = match question {
            Question::TaskFailed { .. } => &["retry", "skip", "reject"],
            Question::Gate { .. } => &["approve", "skip", "reject"],
            Question::TaskRefused { .. } => &["approve", "retry", "skip", "reject"],
            _ => &["approve", "reject"],
        };
        Self {
            about: about.to_owned(),
            task,
            question: question.describe(),
            is_whole: true,
            answers: answers.iter().map(|&answer| answer.to_owned()).collect(),
        }
    }
}

/// The result of the last check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TestsView {
    /// `red`, `green`, `refactor` or `unknown`
    pub phase: String,
    pub failing: Vec<String>,
    /// Those that a task left failing on purpose
    pub expected: Vec<String>,
    pub command: Option<String>,
    pub at: Option<Timestamp>,
    /// The end of its output
    pub output: String,
}

impl From<&TestState> for TestsView {
    fn from(tests: &TestState) -> Self {
        Self {
            phase: tests.phase.as_str().to_owned(),
            failing: tests.failing.clone(),
            expected: tests.expected.clone(),
            command: tests.command.as_deref().map(safe),
            at: tests.at,
            output: tests.output.clone(),
        }
    }
}

/// Usage of resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct UsageView {
    pub tokens: u64,
    /// How the tokens are known: `exact`, `counted` or `estimated`
    pub measure: String,
    /// How full the fullest context was, from 0 to 1
    pub context_use: Option<f64>,
    /// What is left of that context, in tokens
    pub remaining: Option<u64>,
    pub model_calls: u32,
    pub tool_calls: u32,
    pub turns: u32,
    pub cost_usd: Option<f64>,
    pub seconds: u64,
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
            remaining: used.remaining(),
            model_calls: used.model_calls,
            tool_calls: used.tool_calls,
            turns: used.turns,
            cost_usd: used.cost_usd,
            seconds: used.seconds,
        }
    }
}

/// An event of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WorkflowEventView {
    /// Its number in the workflow's own log, from 1
    pub no: u32,
    pub at: Timestamp,
    /// The name of the event, such as `TASK_STARTED` or `WORKFLOW_PAUSED`
    #[serde(rename = "type")]
    pub kind: String,
    /// In words; absent for events that are of no interest by themselves
    pub text: Option<String>,
    pub task: Option<String>,
    pub session_id: Option<String>,
}

impl From<&EventRecord> for WorkflowEventView {
    fn from(record: &EventRecord) -> Self {
        let (task, session) = match &record.event {
            Event::TaskBegan { task, session, .. } | Event::TaskMoved { task, session, .. } => {
                (Some(task), Some(session))
            }
            Event::TaskEnded(ended) => (Some(&ended.task), None),
            Event::TaskSkipped { task }
            | Event::TaskRetried { task, .. }
            | Event::TaskMarked { task, .. }
            | Event::Warned { task, .. } => (Some(task), None),
            Event::Reviewed(feedback) => (Some(&feedback.task), feedback.session.as_ref()),
            _ => (None, None),
        };
        Self {
            no: record.no,
            at: record.at,
            kind: record.event.feed_kind().as_str().to_owned(),
            text: record.event.describe(),
            task: task.cloned(),
            session_id: session.map(ToString::to_string),
        }
    }
}

/// The result of a requested change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct MoveView {
    /// `paused`, `pausing`, `resumed`, or the status of the workflow
    pub status: String,
    pub workflow_id: String,
    /// The latest snapshot, or the one that it was resumed from
    pub snapshot_id: Option<String>,
    /// How the repository differs from that snapshot, one line each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diverged: Vec<String>,
}

impl MoveView {
    /// The status of a workflow, in one word.
    pub fn of(workflow: &Workflow) -> Self {
        let is_pausing = workflow.status() == Status::InProgress && workflow.pausing().is_some();
        Self {
            status: if is_pausing { "pausing" } else { workflow.status().as_str() }.to_owned(),
            workflow_id: workflow.id.to_string(),
            snapshot_id: workflow.mark.as_ref().map(|mark| mark.id.to_string()),
            diverged: Vec::new(),
        }
    }
}
