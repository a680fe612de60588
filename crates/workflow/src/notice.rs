//! Notices about workflows, for webhooks for example.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use rethread_domain::wording::counted;
use serde::{Deserialize, Serialize};

use super::event::{Event, EventRecord, Question};
use super::snapshot::Trigger;
use super::state::Workflow;

/// The kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum NoticeKind {
    Started,
    Paused,
    Resumed,
    /// It waits for a person.
    Blocked,
    Completed,
    Failed,
    Cancelled,
    /// Its agent died.
    Crashed,
    /// Much of the context is used up.
    CapacityWarning,
}

/// An unknown name of a notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no such event; there are {}", NoticeKind::ALL.map(NoticeKind::name).join(", "))]
pub struct UnknownNotice;

impl NoticeKind {
    /// The notice that an event leads to, if any.
    pub const fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Began { .. } => Self::Started,
            Event::Paused(mark) if matches!(mark.trigger, Trigger::Crash) => Self::Crashed,
            Event::Paused(_) => Self::Paused,
            Event::Resumed { .. } => Self::Resumed,
            Event::Blocked => Self::Blocked,
            Event::Completed => Self::Completed,
            Event::Failed { .. } => Self::Failed,
            Event::Cancelled { .. } => Self::Cancelled,
            Event::Warned { .. } => Self::CapacityWarning,
            _ => return None,
        })
    }

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
    pub fn describe(self) -> &'static str {
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

impl fmt::Display for NoticeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for NoticeKind {
    type Err = UnknownNotice;

    fn from_str(name: &str) -> Result<Self, UnknownNotice> {
        Self::ALL.into_iter().find(|event| event.name() == name).ok_or(UnknownNotice)
    }
}

impl From<NoticeKind> for &'static str {
    fn from(event: NoticeKind) -> Self {
        event.name()
    }
}

impl TryFrom<String> for NoticeKind {
    type Error = UnknownNotice;

    fn try_from(name: String) -> Result<Self, UnknownNotice> {
        name.parse()
    }
}

/// A notice, with everything that a receiver needs to find the workflow and to resume it. Its texts are masked before they come
/// here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The same for each attempt to deliver it, so that a receiver can recognise duplicates.
    pub id: String,
    pub event: NoticeKind,
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
    /// The command that resumes it.
    pub resume: Option<String>,
}

impl Notice {
    /// The notice of an event, after which the workflow is in the given state; `masked` masks a text.
    pub fn of(
        workflow: &Workflow,
        record: &EventRecord,
        masked: impl Fn(&str) -> String,
    ) -> Option<Self> {
        let event = NoticeKind::of(&record.event)?;
        let (reason, snapshot) = match &record.event {
            Event::Paused(mark) => (Some(mark.reason.clone()), Some(mark.id)),
            Event::Resumed { from, .. } => (None, Some(*from)),
            Event::Failed { why } | Event::Cancelled { why } => (Some(why.clone()), None),
            Event::Blocked => (workflow.questions.first().map(Question::describe), None),
            _ => (None, None),
        };
        let folder = std::path::Path::new(&workflow.charter.worktree).file_name();
        Some(Self {
            id: format!("{}-{}", workflow.id, record.no),
            event,
            at: record.at,
            workflow_id: workflow.id.to_string(),
            title: masked(&workflow.charter.title),
            status: workflow.status().as_str().to_owned(),
            reason: reason.map(|reason| masked(&reason)),
            snapshot_id: snapshot.map(|id| id.to_string()),
            session_number: workflow.sessions,
            tasks_completed: workflow.completed() as usize,
            tasks_total: workflow.tasks.len(),
            worktree: folder.map(|name| name.to_string_lossy().into_owned()),
            resume: Some(format!("rethread workflow resume {}", workflow.id.short())),
        })
    }

    /// Its progress.
    pub fn progress(&self) -> String {
        format!("{} of {}", self.tasks_completed, counted(self.tasks_total, "task"))
    }

    /// Details besides title and reason: a name, and the text.
    pub fn details(&self) -> Vec<(&'static str, String)> {
        let mut details = vec![
            ("Status", self.status.clone()),
            ("Done", self.progress()),
            ("Run", self.session_number.to_string()),
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
