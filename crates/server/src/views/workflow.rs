//! Workflows and their tasks, as programs see them.

use jiff::Timestamp;
use rethread_domain::feed::Kind;
use rethread_domain::quote::safe;
use rethread_domain::redact::Redactor;
use rethread_domain::workflow::{
    Event, EventRecord, Issue, Measure, Question, Status, Task, TaskState, TestState, Used, Verify,
    Workflow,
};
use rethread_engine::workflows::WorkflowRow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::masked;
use crate::problem::Problem;

/// A workflow, as a list shows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkflowRowView {
    pub(crate) id: String,
    pub(crate) title: String,
    /// `pending`, `in_progress`, `blocked`, `paused`, `completed`, `failed` or `cancelled`
    pub(crate) status: String,
    pub(crate) user: String,
    pub(crate) worktree: String,
    pub(crate) agent: String,
    /// Which run of it this is, from 1
    pub(crate) session_count: u32,
    /// Completed or skipped
    pub(crate) tasks_completed: u32,
    pub(crate) tasks_total: u32,
    /// The task that is worked on, or comes next
    pub(crate) next_task: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) pause_reason: Option<String>,
    /// When the limit it waits for is lifted
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) resumes_at: Option<Timestamp>,
    pub(crate) tokens: u64,
    pub(crate) cost_usd: Option<f64>,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) updated_at: Timestamp,
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkflowView {
    pub(crate) id: String,
    pub(crate) title: String,
    /// `pending`, `in_progress`, `blocked`, `paused`, `completed`, `failed` or `cancelled`
    pub(crate) status: String,
    /// A pause was asked for, and waits for the boundary
    pub(crate) is_pausing: bool,
    /// Whether a process works on it now
    pub(crate) is_running: bool,
    pub(crate) user: String,
    pub(crate) worktree: String,
    pub(crate) plan: Option<String>,
    pub(crate) agent: String,
    pub(crate) issue: IssueView,
    /// Which run of it this is, from 1
    pub(crate) session_count: u32,
    pub(crate) tasks_completed: u32,
    pub(crate) tasks_total: u32,
    /// The task that is worked on, or comes next
    pub(crate) next_task: Option<String>,
    pub(crate) tasks: Vec<TaskView>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) pause_reason: Option<String>,
    /// When the limit it waits for is lifted
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) resumes_at: Option<Timestamp>,
    /// The latest snapshot
    pub(crate) snapshot_id: Option<String>,
    /// How the repository differed from the snapshot that this run went on from, a line each
    pub(crate) diverged: Vec<String>,
    /// What a person is waited for; the first is answered first
    pub(crate) questions: Vec<QuestionView>,
    pub(crate) tests: Option<TestsView>,
    pub(crate) usage: UsageView,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) updated_at: Timestamp,
    /// The number of the last event
    pub(crate) events: u32,
    /// When it was just started: what will be refused, as nobody can be asked
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

impl WorkflowView {
    pub(crate) fn of(workflow: &Workflow, is_running: bool) -> Self {
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
            tasks_completed: workflow.count(TaskState::Completed),
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

/// What is to be done, in its author's words.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct IssueView {
    pub(crate) id: Option<String>,
    pub(crate) title: String,
    pub(crate) text: String,
}

impl From<&Issue> for IssueView {
    fn from(issue: &Issue) -> Self {
        Self { id: issue.id.clone(), title: issue.title.clone(), text: issue.text.clone() }
    }
}

/// A task of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct TaskView {
    pub(crate) id: String,
    pub(crate) title: String,
    /// What is to be done, in the plan's words
    pub(crate) body: String,
    /// `pending`, `in_progress`, `blocked`, `completed`, `failed` or `skipped`
    pub(crate) state: String,
    pub(crate) depends_on: Vec<String>,
    /// Who works on it, where the plan says so
    pub(crate) agent: Option<String>,
    /// The command that checks it, or its name in the settings
    pub(crate) verify: Option<String>,
    /// The agent that reviews it
    pub(crate) review: Option<String>,
    pub(crate) attempts: u32,
    /// Where it was worked on, the latest last
    pub(crate) sessions: Vec<String>,
    pub(crate) was_interrupted: bool,
    /// Why it failed, or what was left of it
    pub(crate) note: Option<String>,
    /// What its agent has said so far in the turn that is under way
    pub(crate) saying: Option<String>,
    pub(crate) used: UsageView,
    pub(crate) tests: Option<TestsView>,
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
            verify,
            review: spec.review.clone(),
            attempts: task.attempts,
            sessions: task.sessions.iter().map(ToString::to_string).collect(),
            was_interrupted: task.was_interrupted,
            note: task.note.clone(),
            saying: None,
            used: UsageView::from(&task.used),
            tests: task.tests.as_ref().map(TestsView::from),
        }
    }
}

/// What a person is waited for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct QuestionView {
    /// `plan`, `task_failed`, `task_refused`, `task_removed` or `command`
    pub(crate) about: String,
    pub(crate) task: Option<String>,
    /// What it asks, in words; unsafe characters are spelled out
    pub(crate) question: String,
    /// Whether nothing of it is masked: a command is approved only by who was shown all of it
    pub(crate) is_whole: bool,
    /// How it can be answered here: `approve`, `reject`, `retry`, `skip`
    pub(crate) answers: Vec<String>,
}

impl QuestionView {
    /// As it may be shown, which may be less than it asks.
    pub(crate) fn shown(question: &Question, redactor: &Redactor) -> Result<Self, Problem> {
        let asked = Self::from(question);
        let mut shown = masked(redactor, &asked)?;
        shown.is_whole = shown.question == asked.question;
        if matches!(question, Question::Command { .. }) && !shown.is_whole {
            shown.answers.retain(|answer| answer != "approve");
        }
        Ok(shown)
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
        };
        let answers: &[&str] = match question {
            Question::TaskFailed { .. } => &["retry", "skip", "reject"],
            Question::TaskRefused { .. } => &["approve", "retry", "skip", "reject"],
            _ => &["approve", "reject"],
        };
        Self {
            about: about.to_owned(),
            task,
            question: question.told(),
            is_whole: true,
            answers: answers.iter().map(|&answer| answer.to_owned()).collect(),
        }
    }
}

/// What the last check gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TestsView {
    /// `red`, `green`, `refactor` or `unknown`
    pub(crate) phase: String,
    pub(crate) failing: Vec<String>,
    /// Those of them that a task left failing on purpose
    pub(crate) expected: Vec<String>,
    pub(crate) command: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) at: Option<Timestamp>,
    /// The end of what it printed
    pub(crate) output: String,
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

/// What work took.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct UsageView {
    pub(crate) tokens: u64,
    /// How tokens are known: `exact`, `counted` or `estimated`
    pub(crate) measure: String,
    /// How full the fullest context was, from 0 to 1
    pub(crate) context_use: Option<f64>,
    /// What is left of that context, in tokens
    pub(crate) remaining: Option<u64>,
    pub(crate) model_calls: u32,
    pub(crate) tool_calls: u32,
    pub(crate) turns: u32,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) seconds: u64,
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

/// Something that happened to a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LogLine {
    /// Its place in the workflow's own log, from 1
    pub(crate) no: u32,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: Timestamp,
    /// As the events name it, such as `TASK_STARTED` or `WORKFLOW_PAUSED`
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// In words; not there for what is of no interest by itself
    pub(crate) text: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) session_id: Option<String>,
}

impl From<&EventRecord> for LogLine {
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
            kind: Kind::of_event(&record.event).as_str().to_owned(),
            text: record.event.told(),
            task: task.cloned(),
            session_id: session.map(ToString::to_string),
        }
    }
}

/// What became of a wish.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct Moved {
    /// `paused`, `pausing`, `resumed`, or how the workflow stands
    pub(crate) status: String,
    pub(crate) workflow_id: String,
    /// The latest snapshot, or the one that it was resumed from
    pub(crate) snapshot_id: Option<String>,
    /// How the repository differs from that snapshot, a line each
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) diverged: Vec<String>,
}

impl Moved {
    /// How a workflow stands, in one word.
    pub(crate) fn of(workflow: &Workflow) -> Self {
        let is_pausing = workflow.status() == Status::InProgress && workflow.pausing().is_some();
        Self {
            status: if is_pausing { "pausing" } else { workflow.status().as_str() }.to_owned(),
            workflow_id: workflow.id.to_string(),
            snapshot_id: workflow.mark.as_ref().map(|mark| mark.id.to_string()),
            diverged: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_is_tried_again_left_out_or_given_up() {
        let question = Question::TaskFailed { task: "T1".into(), why: "no disk".into() };
        let view = QuestionView::from(&question);
        assert_eq!(view.about, "task_failed");
        assert_eq!(view.task.as_deref(), Some("T1"));
        assert_eq!(view.answers, ["retry", "skip", "reject"]);
        assert_eq!(view.question, "task T1 failed: no disk");
    }

    #[test]
    fn only_a_command_that_is_shown_whole_can_be_approved() {
        let redactor = Redactor::new([]);
        let shown = |command: &str| {
            let question = Question::Command { command: command.to_owned() };
            QuestionView::shown(&question, &redactor).unwrap()
        };
        let whole = shown("cargo test");
        assert!(whole.is_whole && whole.answers == ["approve", "reject"], "{whole:?}");
        let mark = |which: &str| format!("-----{which} PRIVATE KEY-----");
        let key = format!("{} ; touch x ; {}", mark("BEGIN"), mark("END"));
        let hidden = shown(&format!("true {key}"));
        assert!(!hidden.is_whole && hidden.answers == ["reject"], "{hidden:?}");
        // What is not run may be hidden.
        let (task, why) = ("T1".to_owned(), key);
        let failed = QuestionView::shown(&Question::TaskFailed { task, why }, &redactor).unwrap();
        assert!(!failed.is_whole && failed.answers == ["retry", "skip", "reject"], "{failed:?}");
    }

    #[test]
    fn a_line_of_the_log_says_where_the_work_is() {
        let session = rethread_domain::SessionId::generate();
        let (task, agent) = ("T1".to_owned(), "ref".to_owned());
        let event = Event::TaskBegan { task, attempt: 1, session, agent };
        let at = Timestamp::UNIX_EPOCH;
        let expected = LogLine {
            no: 3,
            at,
            kind: "TASK_STARTED".into(),
            text: Some(format!("task T1: ref begins in session {}", session.short())),
            task: Some("T1".into()),
            session_id: Some(session.to_string()),
        };
        assert_eq!(LogLine::from(&EventRecord { no: 3, at, event }), expected);
    }
}
