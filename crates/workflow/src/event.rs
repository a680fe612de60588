//! The events of a workflow.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::failure::OnFailure;
use super::record::{Decision, ErrorRecord, Feedback, TestState, Used};
use super::snapshot::{Mark, Trigger};
use super::task::{TaskSpec, TaskState};
use rethread_domain::id::{Seq, SessionId, SnapshotId};

/// What is to be done, in its author's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What to do with a task whose session is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// The workflow pauses at the end of the task.
    #[default]
    Pause,
    /// The task continues in a fresh session that gets a retelling.
    Continue,
}

/// The limits at which a workflow pauses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Tasks that run in parallel.
    pub jobs: u32,
    /// Pause after this many tasks of a run.
    pub tasks: Option<u32>,
    /// In total over all runs: running time, tokens, cost.
    pub seconds: Option<u64>,
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// How full a context may be, from 0 to 1, before the workflow pauses.
    pub context: f64,
    /// How full it may be before a warning.
    pub warn: f64,
    pub on_full: OnFull,
    /// How long a task may continue after a pause was requested.
    pub boundary_seconds: u64,
    /// How long one task may take, its check included.
    pub task_seconds: u64,
    /// How often an agent gets the result of its check or review to fix.
    pub rounds: u32,
    /// How often a task is tried again by itself after trouble that passes, unless the plan says otherwise.
    pub retries: u32,
    /// How long it is put off the first time, where nothing says when the trouble is over.
    pub retry_seconds: u64,
    /// What follows if a task fails, unless the plan says otherwise.
    pub on_failure: OnFailure,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            jobs: 1,
            tasks: None,
            seconds: None,
            tokens: None,
            cost_usd: None,
            context: 0.85,
            warn: 0.70,
            on_full: OnFull::Pause,
            boundary_seconds: 300,
            task_seconds: 4 * 3_600,
            rounds: 1,
            retries: 3,
            retry_seconds: 10,
            on_failure: OnFailure::Stop,
        }
    }
}

/// New budgets in total over all runs; those that are not given stay the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budgets {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl Budgets {
    pub const fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.cost_usd.is_none() && self.seconds.is_none()
    }
}

impl Limits {
    /// These limits with the new budgets.
    pub(super) fn raised(&self, budgets: Budgets) -> Self {
        Self {
            tokens: budgets.tokens.or(self.tokens),
            cost_usd: budgets.cost_usd.or(self.cost_usd),
            seconds: budgets.seconds.or(self.seconds),
            ..self.clone()
        }
    }
}

/// What a workflow is created with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Charter {
    pub user: String,
    /// The folder it works in.
    pub worktree: String,
    /// The plan's file; if there is none, the agent writes it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PathBuf>,
    pub title: String,
    pub issue: Issue,
    pub agent: String,
    /// What its agents may do without asking: `ask`, `allow` or `deny`; by default as in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    #[serde(default)]
    pub limits: Limits,
}

impl Charter {
    /// Another agent goes on, or what its agents may do changes.
    pub(crate) fn change(&mut self, agent: Option<&String>, permissions: Option<&String>) {
        if let Some(agent) = agent {
            self.agent.clone_from(agent);
        }
        if permissions.is_some() {
            self.permissions = permissions.cloned();
        }
    }
}

/// What a person is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Question {
    /// Approve the plan that the agent wrote?
    Plan,
    /// Retry, skip or give up?
    TaskFailed { task: String, why: String },
    /// Its agent was refused this, and nothing shows that the work is done nevertheless: does it count?
    TaskRefused { task: String, refused: Vec<String> },
    /// It was removed from the plan while it ran: does its outcome count?
    TaskRemoved { task: String },
    /// May this command of the plan run?
    Command { command: String },
    /// May this task begin? In the plan's words.
    Gate { task: String, what: String },
}

/// How an attempt at a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed {
        why: String,
    },
    /// Its agent finished, but was refused this, and no check or review shows that the work is done.
    Refused {
        what: Vec<String>,
    },
    /// Stopped before it was done: it is repeated.
    Interrupted {
        why: String,
    },
    /// Trouble that passes came in between: it is repeated, but not before then.
    PutOff {
        why: String,
        until: Timestamp,
    },
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub task: String,
    pub attempt: u32,
    pub outcome: Outcome,
    #[serde(default)]
    pub used: Used,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestState>,
}

/// An event of a workflow. As JSON its parts are nested: a decision has a `what` and an `at` of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", content = "with", rename_all = "snake_case")]
pub enum Event {
    Created(Charter),
    /// The plan from now on. What is known of remaining tasks is kept.
    Planned {
        tasks: Vec<TaskSpec>,
    },
    /// The first run begins.
    Began {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
    },
    TaskBegan {
        task: String,
        attempt: u32,
        session: SessionId,
        agent: String,
    },
    /// The attempt continues in another session.
    TaskMoved {
        task: String,
        attempt: u32,
        session: SessionId,
    },
    Reviewed(Feedback),
    /// A reviewer's feedback was addressed.
    Addressed {
        feedback: String,
    },
    TaskEnded(Ended),
    TaskSkipped {
        task: String,
    },
    TaskRetried {
        task: String,
        /// Another agent continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// What agents may do without asking from now on, if that changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permissions: Option<String>,
    },
    /// A person wrote another state of a task into the plan while no process ran it.
    TaskMarked {
        task: String,
        state: TaskState,
    },
    /// These tasks are repeated: they were not done at the snapshot that is resumed.
    Rewound {
        to: SnapshotId,
        tasks: Vec<String>,
    },
    /// A session in which a plan is written (`plan`) or a task reviewed (the task's id).
    SessionBegan {
        on: String,
        session: SessionId,
    },
    /// The process that ran it has died, and was last seen then: the time in between does not count as running.
    Abandoned {
        seen: Timestamp,
    },
    /// Usage of work that belongs to no attempt that counts: planning, and cancelled attempts.
    Spent {
        on: String,
        used: Used,
    },
    Decided(Decision),
    Erred(ErrorRecord),
    /// A context is nearly full: reported once in a run.
    Warned {
        task: String,
        context_use: f64,
    },
    PauseAsked {
        trigger: Trigger,
        reason: String,
        now: bool,
    },
    /// A boundary was reached: this is the snapshot.
    Paused(Mark),
    /// The workflow is over: this is its last snapshot.
    Closed(Mark),
    Resumed {
        from: SnapshotId,
        /// Another agent continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// How the repository differs from the snapshot.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        diverged: Vec<String>,
        /// Budgets that have changed.
        #[serde(default, skip_serializing_if = "Budgets::is_empty")]
        budgets: Budgets,
        /// What agents may do without asking from now on, if that changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permissions: Option<String>,
    },
    /// A usage limit was reached, which ends then.
    Parked {
        until: Timestamp,
    },
    Asked(Question),
    Answered {
        question: Question,
        yes: bool,
        why: Option<String>,
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    Blocked,
    Unblocked,
    Completed,
    Failed {
        why: String,
    },
    Cancelled {
        why: String,
    },
    /// A message was purged that earlier events had quoted: they were changed.
    Purged {
        session: SessionId,
        message: Seq,
    },
    /// Written by a newer version: kept as it is.
    #[serde(untagged)]
    Unknown(serde_json::Map<String, serde_json::Value>),
}

/// An event with its number in its workflow, from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub no: u32,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}
