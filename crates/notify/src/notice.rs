//! What is told.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::text::cut;

/// Longer texts are cut: a notice is no archive.
const LONGEST: usize = 4000;

/// What became of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Event {
    Started,
    Paused,
    Resumed,
    /// It waits for a person.
    Blocked,
    Completed,
    Failed,
    Cancelled,
    /// Its agent was gone without a word.
    Crashed,
    /// Much of the context is used up.
    CapacityWarning,
}

/// A name that no event has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no such event; there are {}", Event::ALL.map(Event::name).join(", "))]
pub struct UnknownEvent;

impl Event {
    pub const ALL: [Self; 9] = [
        Self::Started,
        Self::Paused,
        Self::Resumed,
        Self::Blocked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Crashed,
        Self::CapacityWarning,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "workflow_started",
            Self::Paused => "workflow_paused",
            Self::Resumed => "workflow_resumed",
            Self::Blocked => "workflow_blocked",
            Self::Completed => "workflow_completed",
            Self::Failed => "workflow_failed",
            Self::Cancelled => "workflow_cancelled",
            Self::Crashed => "workflow_crashed",
            Self::CapacityWarning => "capacity_warning",
        }
    }

    /// For a reader.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Started => "Workflow started",
            Self::Paused => "Workflow paused",
            Self::Resumed => "Workflow resumed",
            Self::Blocked => "Workflow waits for you",
            Self::Completed => "Workflow completed",
            Self::Failed => "Workflow failed",
            Self::Cancelled => "Workflow cancelled",
            Self::Crashed => "Workflow crashed",
            Self::CapacityWarning => "Workflow runs out of context",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Event {
    type Err = UnknownEvent;

    fn from_str(name: &str) -> Result<Self, UnknownEvent> {
        Self::ALL.into_iter().find(|event| event.name() == name).ok_or(UnknownEvent)
    }
}

impl From<Event> for &'static str {
    fn from(event: Event) -> Self {
        event.name()
    }
}

impl TryFrom<String> for Event {
    type Error = UnknownEvent;

    fn try_from(name: String) -> Result<Self, UnknownEvent> {
        name.parse()
    }
}

/// What is told, with all that a receiver needs to find the workflow and to take it up again. Its texts have been
/// freed of secrets before they come here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same however often it is sent, so that a receiver can tell that it knows it already.
    pub id: String,
    pub event: Event,
    pub at: Timestamp,
    pub workflow_id: String,
    pub title: String,
    pub status: String,
    pub reason: Option<String>,
    pub snapshot_id: Option<String>,
    pub session_number: u32,
    pub tasks_completed: usize,
    pub tasks_total: usize,
    /// The name of its worktree, not the whole path.
    pub worktree: Option<String>,
    /// The command that takes it up again.
    pub resume: Option<String>,
}

impl Notice {
    /// The same, with no text that is too long.
    pub(crate) fn bounded(&self) -> Self {
        let short = |text: &String| cut(text, LONGEST);
        Self {
            id: short(&self.id),
            workflow_id: short(&self.workflow_id),
            title: short(&self.title),
            status: short(&self.status),
            reason: self.reason.as_ref().map(short),
            snapshot_id: self.snapshot_id.as_ref().map(short),
            worktree: self.worktree.as_ref().map(short),
            resume: self.resume.as_ref().map(short),
            ..*self
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> String {
        format!("{} of {} tasks", self.tasks_completed, self.tasks_total)
    }

    /// What is told of it beside title and reason: a name, and the text.
    pub(crate) fn details(&self) -> Vec<(&'static str, String)> {
        let mut details = vec![
            ("Status", self.status.clone()),
            ("Done", self.progress()),
            ("Session", self.session_number.to_string()),
            ("Workflow", self.workflow_id.clone()),
        ];
        for (name, text) in [
            ("Snapshot", &self.snapshot_id),
            ("Worktree", &self.worktree),
            ("To resume", &self.resume),
        ] {
            details.extend(text.clone().map(|text| (name, text)));
        }
        details.retain(|(_, text)| !text.trim().is_empty());
        details
    }
}
