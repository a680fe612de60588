//! Starting, watching, pausing and resuming workflows.

use std::path::Path;
use std::time::Duration;

use rethread_domain::quote::one_line;
use rethread_engine::views::SnapshotRowView;
use rethread_engine::workflows::{PLAN, ResumeOptions, WorkflowOrder};
use rethread_workflow::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::within;
use crate::error::Failure;
use crate::server::ServerState;
use crate::views::WorkflowProgress;

/// How much of the time for an answer is kept in reserve while waiting for a pause.
const LEFT: Duration = Duration::from_secs(5);
/// The most tasks in parallel.
const MOST_JOBS: u32 = 64;

/// What to work on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartArgs {
    /// The path of a plan: a markdown file with tasks; relative to the worktree
    plan: Option<String>,
    /// What it is about; without a plan the agent writes one for it first, which a person has to approve
    issue: Option<String>,
    /// The agent that works; by default the one of the settings
    agent: Option<String>,
    /// The folder to work in; by default the project of this server
    worktree: Option<String>,
    /// How many tasks may run side by side
    jobs: Option<u32>,
    /// Pause after this many tasks
    pause_after: Option<u32>,
    /// Pause when it has run for this many minutes in total
    max_minutes: Option<u64>,
    /// Pause before a task that would take more tokens than this in all
    max_tokens: Option<u64>,
    /// Pause before a task that would cost more USD than this in all
    max_cost: Option<f64>,
}

/// Which workflow.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusArgs {
    /// By default the one that you work on, or else the latest of this project
    workflow_id: Option<String>,
    /// Also its snapshots, plan, tests and usage, and each task with its attempts and sessions
    detail: Option<bool>,
}

/// The state of a workflow.
#[derive(Debug, Serialize)]
pub(crate) struct WorkflowStatus {
    #[serde(flatten)]
    workflow: WorkflowProgress,
    snapshot_count: usize,
    /// With detail, the oldest first: `get_snapshot` shows one in full
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<Vec<SnapshotRowView>>,
    /// The task that you work on in it
    #[serde(skip_serializing_if = "Option::is_none")]
    your_task: Option<String>,
}

/// Which workflow to pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseArgs {
    /// By default the one that you work on, or else that of this project
    workflow_id: Option<String>,
    /// Why; shown to whoever resumes it
    reason: Option<String>,
    /// Interrupt the running task instead of waiting for its end; it is the next one then
    now: Option<bool>,
}

/// Which workflow to resume.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeArgs {
    /// By default the paused one of this project
    workflow_id: Option<String>,
    /// The id of a snapshot; by default the latest
    from: Option<String>,
    /// Another agent goes on with it
    with: Option<String>,
}

/// What is being resumed.
#[derive(Debug, Serialize)]
pub(crate) struct Resumption {
    #[serde(flatten)]
    workflow: WorkflowProgress,
    from: Option<SnapshotRowView>,
    /// How the repository differs from what the snapshot says, a line each
    diverged: Vec<String>,
}

pub(super) async fn start(
    state: &ServerState,
    args: Result<StartArgs, Failure>,
) -> Result<WorkflowProgress, Failure> {
    let args = args?;
    state.may_go_deeper()?;
    let filled = |given: Option<String>| given.filter(|text| !text.trim().is_empty());
    let (plan, issue) = (filled(args.plan), filled(args.issue));
    if plan.is_none() && issue.is_none() {
        return Err(Failure::new(
            "Nothing to work on is given",
            "give plan, the path of a markdown file with tasks, or issue, a text",
        ));
    }
    if args.max_cost.is_some_and(|cost| cost.is_nan() || cost <= 0.0) {
        return Err(Failure::new("max_cost is not above 0", "give an amount in USD"));
    }
    for (what, given) in [("max_minutes", args.max_minutes), ("max_tokens", args.max_tokens)] {
        if given == Some(0) {
            return Err(Failure::new(format!("{what} is 0"), "limits begin at 1"));
        }
    }
    let some =
        |what, given: Option<u32>, most| given.map(|_| within(what, given, 1, most)).transpose();
    let worktree = state.project(args.worktree.as_deref())?;
    let agent = filled(args.agent);
    if agent.is_none() && state.program.workflows()?.agent.is_none() {
        return Err(Failure::new("No agent is given", "give agent; list_agents shows them"));
    }
    let unwritten = worktree.join(PLAN);
    if plan.is_none() && unwritten.exists() {
        let what = format!("{} already exists", unwritten.display());
        return Err(Failure::new(what, "give it as plan, or have it moved elsewhere"));
    }
    let order = WorkflowOrder {
        plan: plan.map(|path| worktree.join(Path::new(path.trim()))),
        worktree,
        issue,
        agent,
        jobs: some("jobs", args.jobs, MOST_JOBS)?,
        pause_after: some("pause_after", args.pause_after, u32::MAX)?,
        max_minutes: args
            .max_minutes
            .map(|most| f64::from(u32::try_from(most).unwrap_or(u32::MAX))),
        max_tokens: args.max_tokens,
        max_cost: args.max_cost,
        ..WorkflowOrder::default()
    };
    let program = state.program.as_ref();
    let (started, warning) = Box::pin(state.engine.start_workflow(program, order)).await?;
    let mut standing = WorkflowProgress::of(state, &started, false).await?;
    standing.warning = warning;
    Ok(standing)
}

pub(super) async fn status(
    state: &ServerState,
    args: Result<StatusArgs, Failure>,
) -> Result<WorkflowStatus, Failure> {
    let args = args?;
    let is_detailed = args.detail == Some(true);
    let workflow = state.workflow(args.workflow_id.as_deref(), &[]).await?;
    let snapshots = &workflow.snapshots;
    let own = state.own_task().await?.filter(|(id, _)| *id == workflow.id);
    Ok(WorkflowStatus {
        workflow: WorkflowProgress::of(state, &workflow, is_detailed).await?,
        snapshot_count: snapshots.len(),
        snapshots: is_detailed.then(|| snapshots.iter().map(SnapshotRowView::from).collect()),
        your_task: own.map(|(_, task)| task),
    })
}

pub(super) async fn pause(
    state: &ServerState,
    args: Result<PauseArgs, Failure>,
) -> Result<WorkflowProgress, Failure> {
    let args = args?;
    let workflow = state.workflow(args.workflow_id.as_deref(), &[Status::InProgress]).await?;
    let is_own = state.own_task().await?.is_some_and(|(id, _)| id == workflow.id);
    // The boundary is the end of the caller's own turn, so it cannot be waited for here.
    let wait = if is_own { Duration::ZERO } else { state.limits.wait.saturating_sub(LEFT) };
    let reason = args.reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.map_or_else(|| "requested".to_owned(), |text| one_line(&text, 1_000));
    let now = args.now == Some(true);
    let (engine, program) = (&state.engine, &state.program);
    let workflow = engine.pause_workflow(program, workflow.id, reason, now, wait);
    let workflow = Box::pin(workflow).await?;
    WorkflowProgress::of(state, &workflow, false).await
}

pub(super) async fn resume(
    state: &ServerState,
    args: Result<ResumeArgs, Failure>,
) -> Result<Resumption, Failure> {
    let args = args?;
    state.may_go_deeper()?;
    let wanted = [Status::Paused, Status::InProgress];
    let workflow = state.workflow(args.workflow_id.as_deref(), &wanted).await?;
    if state.own_task().await?.is_some_and(|(id, _)| id == workflow.id) {
        return Err(Failure::new(
            format!(
                "You work on a task of workflow {}: it cannot be resumed from there",
                workflow.id
            ),
            "finish the task; a person, or an agent outside of it, resumes it",
        ));
    }
    let (engine, program) = (&state.engine, &state.program);
    // Repeating work or raising limits is for a person to decide.
    let asked = ResumeOptions { from: args.from, agent: args.with, ..ResumeOptions::default() };
    let resumed = engine.resume_workflow(program, workflow.id, &asked);
    let resumed = Box::pin(resumed).await?;
    let mut rows = resumed.workflow.snapshots.iter();
    let from = rows.find(|row| row.id == resumed.snapshot.id);
    Ok(Resumption {
        workflow: WorkflowProgress::of(state, &resumed.workflow, false).await?,
        from: from.map(SnapshotRowView::from),
        diverged: resumed.diverged,
    })
}

#[cfg(test)]
mod tests {
    use rethread_engine::{Clock, Engine, Pruning};
    use rethread_testkit::{TestProgram, TestStore};

    use super::*;
    use crate::{CallerContext, Limits, Streams};

    #[tokio::test]
    async fn a_workflow_is_started_paused_and_resumed_without_the_command_line() {
        let store = TestStore::sqlite().await;
        let engine = Engine::new(store.open_again().await, Clock::Wall);
        let program = TestProgram::new(&engine);
        let project = store.beside("project");
        std::fs::create_dir(&project).unwrap();
        let project = std::fs::canonicalize(project).unwrap();
        std::fs::write(project.join("plan.md"), "## Task A: One\n\n## Task B: Two\n").unwrap();
        let limits = Limits {
            wait: Duration::from_secs(30),
            prompt_bytes: 1 << 16,
            message_bytes: 1 << 16,
            depth: 3,
            context: rethread_domain::context::Limits::default(),
            idle: jiff::SignedDuration::from_hours(1),
            pruning: Pruning::default(),
        };
        let caller = CallerContext { user: "anna".to_owned(), project, parent: None, depth: 0 };
        let streams = Streams::new(store.beside("streams"));
        let state = ServerState::new(engine.clone(), program.clone(), caller, limits, streams, "1");

        let args = serde_json::from_str(r#"{ "plan": "plan.md" }"#).unwrap();
        start(&state, Ok(args)).await.unwrap();
        let begun = state.workflow(None, &[]).await.unwrap().id;
        while !engine.workflow(begun).await.unwrap().is_running() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let pausing = pause(&state, Ok(PauseArgs::default()));
        let (paused, ()) = tokio::join!(pausing, async { program.turns.add_permits(1) });
        paused.unwrap();
        let workflow = state.workflow(None, &[]).await.unwrap();
        assert_eq!((workflow.status(), workflow.remaining()), (Status::Paused, 1));

        let resumed = resume(&state, Ok(ResumeArgs::default())).await.unwrap();
        assert!(resumed.diverged.is_empty());
        program.turns.add_permits(1);
        while engine.workflow(workflow.id).await.unwrap().status() != Status::Completed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
