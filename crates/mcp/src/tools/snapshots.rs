//! Decisions, errors, review feedback and git changes, at any snapshot of a workflow.

use rethread_engine::Error;
use rethread_engine::views::{DecisionView, ErrorView, FeedbackView, GitView, SnapshotView};
use rethread_workflow::{
    Decision, ErrorRecord, Feedback, GitState, Resolution, Snapshot, Status, Workflow,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::within;
use crate::error::Failure;
use crate::server::ServerState;
use crate::views::Bounded;

/// The default and the maximum number of entries.
const USUAL: u32 = 50;
const MOST: u32 = 500;

/// Which snapshot.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotArgs {
    /// By default the one that you work on, or else the latest of this project
    workflow_id: Option<String>,
    /// By default the latest
    snapshot_id: Option<String>,
}

/// Which snapshot, and which part of it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartArgs {
    /// By default the one that you work on, or else the latest of this project
    workflow_id: Option<String>,
    /// By default the latest; while there is none, what is known so far
    snapshot_id: Option<String>,
    /// Only those of this task
    task: Option<String>,
    /// Only what is still open: unresolved errors, feedback that nobody has addressed
    only_open: Option<bool>,
    /// At most this many, the latest; by default 50
    limit: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DecisionList {
    #[serde(flatten)]
    of: ReadFrom,
    /// The oldest first
    decisions: Vec<DecisionView>,
    /// How many there are in all
    total: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct ErrorList {
    #[serde(flatten)]
    of: ReadFrom,
    /// The oldest first
    errors: Vec<ErrorView>,
    /// How many there are in all
    total: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct FeedbackList {
    #[serde(flatten)]
    of: ReadFrom,
    /// The oldest first
    feedback: Vec<FeedbackView>,
    /// How many there are in all
    total: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Changes {
    #[serde(flatten)]
    of: ReadFrom,
    git: GitView,
    /// How the repository differs now from what the snapshot says, a line each
    diverged: Vec<String>,
}

/// Where the answer was read from.
#[derive(Debug, Clone, Serialize)]
struct ReadFrom {
    workflow_id: String,
    /// Missing while there is no snapshot: then it is what is known so far
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<String>,
}

/// A snapshot or, if there is none yet, the current state of the workflow.
enum SnapshotOrCurrent {
    Snapshot(Box<Snapshot>),
    Now(Box<Workflow>),
}

impl SnapshotOrCurrent {
    async fn find(
        state: &ServerState,
        workflow: Option<&str>,
        snapshot: Option<&str>,
    ) -> Result<Self, Failure> {
        let workflow = state.workflow(workflow, &[]).await?;
        if snapshot.is_none() && workflow.status() == Status::InProgress {
            // The current state is newer than any snapshot.
            return Ok(Self::Now(Box::new(workflow)));
        }
        match state.engine.snapshot(workflow.id, snapshot.map(str::trim)).await {
            Ok(found) => Ok(Self::Snapshot(Box::new(found))),
            Err(Error::NoSnapshot { .. }) if snapshot.is_none() => {
                Ok(Self::Now(Box::new(workflow)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn of(&self) -> ReadFrom {
        match self {
            Self::Snapshot(one) => ReadFrom {
                workflow_id: one.workflow_id.to_string(),
                snapshot_id: Some(one.id.to_string()),
            },
            Self::Now(one) => ReadFrom { workflow_id: one.id.to_string(), snapshot_id: None },
        }
    }

    fn decisions(&self) -> &[Decision] {
        match self {
            Self::Snapshot(one) => &one.decisions,
            Self::Now(one) => &one.decisions,
        }
    }

    fn errors(&self) -> &[ErrorRecord] {
        match self {
            Self::Snapshot(one) => &one.errors,
            Self::Now(one) => &one.errors,
        }
    }

    fn feedback(&self) -> &[Feedback] {
        match self {
            Self::Snapshot(one) => &one.feedback,
            Self::Now(one) => &one.feedback,
        }
    }

    fn git(&self) -> &GitState {
        match self {
            Self::Snapshot(one) => &one.git,
            Self::Now(one) => &one.git,
        }
    }
}

/// The last of the matching entries, and how many match.
fn last<'a, T: 'a, View: From<&'a T>>(
    all: &'a [T],
    limit: Option<u32>,
    is_meant: impl Fn(&T) -> bool,
) -> Result<(Vec<View>, usize), Failure> {
    let limit = within("limit", limit, USUAL, MOST)?;
    let meant: Vec<&T> = all.iter().filter(|one| is_meant(one)).collect();
    let skipped = meant.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((meant[skipped..].iter().map(|one| View::from(one)).collect(), meant.len()))
}

impl PartArgs {
    async fn read(&self, state: &ServerState) -> Result<SnapshotOrCurrent, Failure> {
        SnapshotOrCurrent::find(state, self.workflow_id.as_deref(), self.snapshot_id.as_deref())
            .await
    }

    fn is_of(&self, task: Option<&str>) -> bool {
        self.task.is_none() || self.task.as_deref() == task
    }

    fn wants(&self, is_open: bool) -> bool {
        is_open || self.only_open != Some(true)
    }
}

pub(super) async fn get(
    state: &ServerState,
    args: Result<SnapshotArgs, Failure>,
) -> Result<Bounded, Failure> {
    let args = args?;
    let workflow = state.workflow(args.workflow_id.as_deref(), &[]).await?;
    let given = args.snapshot_id.as_deref().map(str::trim);
    let one = state.engine.snapshot(workflow.id, given).await?;
    // Only the latest of each: the other tools have more.
    let mut view = SnapshotView::from(&one);
    latest(&mut view.decisions);
    latest(&mut view.errors);
    latest(&mut view.feedback);
    Bounded::of(&view, true)
}

fn latest<T>(all: &mut Vec<T>) {
    let skipped = all.len().saturating_sub(usize::try_from(USUAL).unwrap_or(usize::MAX));
    all.drain(..skipped);
}

pub(super) async fn decisions(
    state: &ServerState,
    args: Result<PartArgs, Failure>,
) -> Result<DecisionList, Failure> {
    let args = args?;
    let read = args.read(state).await?;
    let is_meant = |one: &Decision| args.is_of(one.task.as_deref());
    let (decisions, total) = last(read.decisions(), args.limit, is_meant)?;
    Ok(DecisionList { of: read.of(), decisions, total })
}

pub(super) async fn errors(
    state: &ServerState,
    args: Result<PartArgs, Failure>,
) -> Result<ErrorList, Failure> {
    let args = args?;
    let read = args.read(state).await?;
    let is_meant = |one: &ErrorRecord| {
        args.is_of(one.task.as_deref()) && args.wants(one.resolution == Resolution::Unresolved)
    };
    let (errors, total) = last(read.errors(), args.limit, is_meant)?;
    Ok(ErrorList { of: read.of(), errors, total })
}

pub(super) async fn feedback(
    state: &ServerState,
    args: Result<PartArgs, Failure>,
) -> Result<FeedbackList, Failure> {
    let args = args?;
    let read = args.read(state).await?;
    let is_meant =
        |one: &Feedback| args.is_of(Some(&one.task)) && args.wants(!one.approved && !one.addressed);
    let (feedback, total) = last(read.feedback(), args.limit, is_meant)?;
    Ok(FeedbackList { of: read.of(), feedback, total })
}

pub(super) async fn changes(
    state: &ServerState,
    args: Result<SnapshotArgs, Failure>,
) -> Result<Changes, Failure> {
    let args = args?;
    let (workflow, snapshot) = (args.workflow_id.as_deref(), args.snapshot_id.as_deref());
    let read = SnapshotOrCurrent::find(state, workflow, snapshot).await?;
    let diverged = match &read {
        SnapshotOrCurrent::Snapshot(one) => state.engine.diverged(one.workflow_id, one).await?,
        SnapshotOrCurrent::Now(_) => Vec::new(),
    };
    Ok(Changes { of: read.of(), git: GitView::from(read.git()), diverged })
}
