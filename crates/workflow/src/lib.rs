//! Workflows: long work on a plan of tasks that survives the sessions it is done in.
//!
//! [`Workflow`] is a fold of [`Event`]s. A request is a [`Command`]; `decide` answers with the events that follow, or with a
//! [`Refusal`]; what is to be done next is derived from the state as [`Effect`]s. Nothing here runs anything, reads a clock or knows
//! where events are stored.

pub mod brief;
mod decide;
mod describe;
mod due;
mod event;
pub mod extract;
mod failure;
mod feed;
pub mod forecast;
mod notice;
pub mod plan;
mod question;
mod quoted;
mod record;
mod snapshot;
mod state;
mod status;
mod task;
#[cfg(test)]
mod tests;
pub mod verdict;

pub use brief::BriefLimits;
pub use decide::{Command, Refusal};
pub use due::{Effect, budget_hit, expected_use, limit_hit};
pub use event::{
    Budgets, Charter, Ended, Event, EventRecord, Issue, Limits, OnFull, Outcome, Question,
};
pub use failure::{OnFailure, Policy};
pub use feed::session_of;
pub use notice::{Notice, NoticeKind, UnknownNotice};
pub use question::Answer;
pub use quoted::Quoted;
pub use record::{
    Decision, DecisionKind, ErrorRecord, Feedback, GitState, Measure, Phase, Resolution, Severity,
    Source, TestState, Used, WINDOW,
};
pub use rethread_domain::id::{SnapshotId, WorkflowId};
pub use snapshot::{GitDelta, Mark, Snapshot, SnapshotSum, Trigger};
pub use state::Workflow;
pub use status::{Pause, Pausing, Run, State, Status};
pub use task::{Approval, Expect, Task, TaskSpec, TaskState, Verify};
