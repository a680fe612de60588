//! Where a workflow stands, with what is only of weight there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::Used;
use super::snapshot::Trigger;
use rethread_domain::id::SessionId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    InProgress,
    Blocked,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

rethread_domain::named!(Status {
    Pending = "pending",
    InProgress = "in_progress",
    Blocked = "blocked",
    Paused = "paused",
    Completed = "completed",
    Failed = "failed",
    Cancelled = "cancelled",
});

impl Status {
    /// The same in a sentence for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::InProgress => "running",
            other => other.as_str(),
        }
    }

    /// Whether nothing can happen any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether this move is allowed.
    pub const fn may_become(self, next: Self) -> bool {
        use Status::{Blocked, Cancelled, Completed, Failed, InProgress, Paused, Pending};
        matches!(
            (self, next),
            (Pending | Blocked | Paused, InProgress | Cancelled)
                | (InProgress, Blocked | Paused | Completed | Failed | Cancelled)
                | (Blocked, Failed)
        )
    }
}

impl std::str::FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| format!("not a status of workflows: {text:?}"))
    }
}

/// Where a workflow stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Pending,
    InProgress {
        /// Since when: only this time counts as running.
        since: Timestamp,
        pausing: Option<Pausing>,
    },
    /// A person is waited for. A pause that was asked for comes when they have answered.
    Blocked {
        pausing: Option<Pausing>,
    },
    Paused(Pause),
    Completed,
    Failed,
    Cancelled,
}

impl State {
    pub const fn status(&self) -> Status {
        match self {
            Self::Pending => Status::Pending,
            Self::InProgress { .. } => Status::InProgress,
            Self::Blocked { .. } => Status::Blocked,
            Self::Paused(_) => Status::Paused,
            Self::Completed => Status::Completed,
            Self::Failed => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }
}

/// Since when a workflow is paused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pause {
    #[serde(rename = "paused_at")]
    pub at: Timestamp,
    #[serde(rename = "pause_reason")]
    pub reason: String,
    /// When the usage limit that it waits for is lifted.
    #[serde(rename = "resumes_at", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A pause that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pausing {
    pub trigger: Trigger,
    pub reason: String,
    pub since: Timestamp,
    /// Tasks that run are interrupted.
    pub now: bool,
    /// When the usage limit that led to it is lifted.
    pub until: Option<Timestamp>,
}

impl Pausing {
    /// For how many seconds it has been waited for the boundary.
    pub fn lasts(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.since).as_secs()).unwrap_or(0)
    }
}

/// The run that is under way, or the latest: from a start or a resume until the workflow pauses or is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub began: Timestamp,
    pub used: Used,
    /// Tasks that were completed in it.
    pub completed: u32,
    /// Whether a context that is nearly full was told of.
    pub is_warned: bool,
    /// How the repository differed from the snapshot that it goes on from, a line each.
    pub diverged: Vec<String>,
    /// Sessions beside those of tasks, in which a plan or a review is still made, each with what it is for.
    pub beside: Vec<(String, SessionId)>,
}

impl Run {
    pub(super) fn new(began: Timestamp, diverged: Vec<String>) -> Self {
        let (used, beside) = (Used::default(), Vec::new());
        Self { began, used, completed: 0, is_warned: false, diverged, beside }
    }
}
