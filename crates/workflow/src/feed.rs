//! The kind of a workflow's event in the feed.

use rethread_domain::feed::Kind;
use rethread_domain::id::SessionId;

use super::event::{Event, Outcome};
use super::state::Workflow;

impl Event {
    /// Its kind in the feed.
    pub const fn feed_kind(&self) -> Kind {
        match self {
            Self::Created(_) => Kind::WorkflowCreated,
            Self::Began { .. } => Kind::WorkflowStarted,
            Self::TaskBegan { .. } => Kind::TaskStarted,
            Self::TaskEnded(ended) => match ended.outcome {
                Outcome::Completed => Kind::TaskCompleted,
                Outcome::Failed { .. } => Kind::TaskFailed,
                Outcome::Interrupted { .. } | Outcome::Refused { .. } | Outcome::PutOff { .. } => {
                    Kind::WorkflowChanged
                }
            },
            Self::Warned { .. } => Kind::CapacityWarning,
            Self::PauseAsked { .. } => Kind::WorkflowPausing,
            Self::Paused(_) => Kind::WorkflowPaused,
            Self::Resumed { .. } => Kind::WorkflowResumed,
            Self::Blocked => Kind::WorkflowBlocked,
            Self::Completed => Kind::WorkflowCompleted,
            Self::Failed { .. } => Kind::WorkflowFailed,
            Self::Cancelled { .. } => Kind::WorkflowCancelled,
            Self::Planned { .. }
            | Self::TaskMoved { .. }
            | Self::Reviewed(_)
            | Self::Addressed { .. }
            | Self::TaskSkipped { .. }
            | Self::TaskRetried { .. }
            | Self::Decided(_)
            | Self::Erred(_)
            | Self::Parked { .. }
            | Self::Asked(_)
            | Self::Answered { .. }
            | Self::Unblocked
            | Self::TaskMarked { .. }
            | Self::Rewound { .. }
            | Self::Spent { .. }
            | Self::Purged { .. }
            | Self::SessionBegan { .. }
            | Self::Abandoned { .. }
            | Self::Closed(_)
            | Self::Unknown(_) => Kind::WorkflowChanged,
        }
    }
}

/// The session that an event, which has been applied, is about.
pub fn session_of(event: &Event, workflow: &Workflow) -> Option<SessionId> {
    match event {
        Event::TaskBegan { session, .. } | Event::TaskMoved { session, .. } => Some(*session),
        Event::TaskEnded(ended) => workflow.task(&ended.task)?.sessions.last().copied(),
        Event::Warned { task, .. } => workflow.task(task)?.sessions.last().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ended, Used};

    #[test]
    fn the_end_of_a_task_is_told_by_its_outcome() {
        let why = || "no".to_owned();
        for (outcome, kind) in [
            (Outcome::Completed, Kind::TaskCompleted),
            (Outcome::Failed { why: why() }, Kind::TaskFailed),
            (Outcome::Interrupted { why: why() }, Kind::WorkflowChanged),
        ] {
            let used = Used::default();
            let ended = Ended { task: "one".into(), attempt: 1, outcome, used, tests: None };
            assert_eq!(Event::TaskEnded(ended).feed_kind(), kind);
        }
    }
}
