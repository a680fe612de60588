//! A task of a plan: what the plan says of it, and what became of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::Question;
use super::failure::Policy;
use super::record::{TestState, Used};
use rethread_domain::id::SessionId;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    #[default]
    Pending,
    InProgress,
    Blocked,
    Completed,
    Failed,
    Skipped,
}

rethread_domain::named!(TaskState {
    Pending = "pending",
    InProgress = "in_progress",
    Blocked = "blocked",
    Completed = "completed",
    Failed = "failed",
    Skipped = "skipped",
});

impl TaskState {
    /// Whether what depends on it may begin.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }
}

/// How a task is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// A command of the user's own settings, by its name.
    Named(String),
    /// A command line in the plan itself: it runs only once the user has approved this very text.
    Text(String),
}

/// What the check of a task has to give for the task to count as done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    #[default]
    Green,
    /// It writes tests that fail until a later task: those are expected to.
    Red,
}

/// What a plan says of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    pub id: String,
    pub title: String,
    /// What is to be done, in the plan's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that it is done with, in the agent's words; and how hard that is to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    #[serde(default)]
    pub expect: Expect,
    /// The agent that reviews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// What a person is asked before it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// What follows if it fails.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// As the plan says; only of weight when the workflow is made.
    #[serde(default)]
    pub state: TaskState,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A person's yes to what a task waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub at: Timestamp,
}

/// A task, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    #[serde(flatten)]
    pub spec: TaskSpec,
    /// How often it was begun.
    pub attempts: u32,
    /// The sessions it was worked on in, the latest last.
    pub sessions: Vec<SessionId>,
    /// Which of them is the first of the latest attempt.
    #[serde(skip)]
    pub first_session: usize,
    /// It was begun and not ended: it comes first.
    pub was_interrupted: bool,
    /// Who approved that it begins, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How often in a row it was put off because of trouble that passes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub put_off: u32,
    /// It does not begin before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Why it failed, or what was left of it.
    pub note: Option<String>,
    pub used: Used,
    pub tests: Option<TestState>,
}

impl Task {
    /// A task that nobody has begun here: what its plan calls running or failed is still to be done.
    pub fn new(mut spec: TaskSpec) -> Self {
        if !spec.state.is_done() {
            spec.state = TaskState::Pending;
        }
        Self {
            spec,
            attempts: 0,
            sessions: Vec::new(),
            first_session: 0,
            was_interrupted: false,
            approval: None,
            put_off: 0,
            not_before: None,
            note: None,
            used: Used::default(),
            tests: None,
        }
    }

    pub const fn state(&self) -> TaskState {
        self.spec.state
    }

    /// What a person is asked before it begins, unless they have approved.
    pub fn gate(&self) -> Option<Question> {
        let what = self.spec.approve.clone().filter(|_| self.is_gated())?;
        Some(Question::Gate { task: self.spec.id.clone(), what })
    }

    /// Whether a person has to approve before it begins, and has not.
    pub const fn is_gated(&self) -> bool {
        self.spec.approve.is_some() && self.approval.is_none()
    }
}
