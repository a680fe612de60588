//! `rethread workflow list|status|show|snapshots|diff`

use std::process::ExitCode;

use rethread_domain::quote::one_line;
use rethread_engine::views::{
    Comparison, SnapshotRowView, SnapshotView, WorkflowRowView, WorkflowView,
};
use rethread_store::WorkflowFilter;
use rethread_workflow::{self as workflow, BriefLimits, Snapshot, WorkflowId, brief};
use serde::Serialize;

use super::{Which, render};
use crate::cli::App;
use crate::commands::positive;
use crate::output::{self, table, time};

/// List workflows, the latest first
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only those with this status
    #[arg(long)]
    status: Option<workflow::Status>,
    /// Show at most this many
    #[arg(long, short = 'n', allow_negative_numbers = true)]
    limit: Option<i64>,
}

impl List {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let limit =
            self.limit.map_or(Ok(app.config.list.limit), |given| positive("workflows", given))?;
        let filter = WorkflowFilter {
            user: Some(app.config.user(None)?),
            statuses: self.status.into_iter().collect(),
            limit,
            ..WorkflowFilter::default()
        };
        let rows = app.engine.workflows(&filter).await?;
        if app.json {
            output::json(&rows.iter().map(WorkflowRowView::from).collect::<Vec<_>>());
            return Ok(ExitCode::SUCCESS);
        }
        if rows.is_empty() {
            output::note(format_args!("No workflows. `rethread workflow start PLAN` begins one."));
            return Ok(ExitCode::SUCCESS);
        }
        let now = app.engine.clock().now();
        let lines = rows.iter().map(|row| {
            vec![
                row.id.short(),
                one_line(&row.title, 44),
                render::words(row.status),
                format!("{}/{}", row.tasks_done, row.tasks),
                row.sessions.to_string(),
                one_line(&row.agent, 16),
                time::ago(row.updated_at, now),
                one_line(&row.worktree, 60),
            ]
        });
        let headings = ["ID", "TITLE", "STATUS", "TASKS", "RUNS", "AGENT", "CHANGED", "WORKTREE"];
        output::data(&table::render(&headings, lines.collect()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Show the status of a workflow: tasks, snapshots, what it waits for
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    which: Which,
}

impl Status {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[]).await?;
        let workflow = app.engine.workflow(id).await?;
        if app.json {
            let snapshots = workflow.snapshots.iter().map(SnapshotRowView::from).collect();
            let workflow = app.engine.workflow_view(&workflow).await?;
            output::json(&Stands { workflow, snapshots });
        } else {
            let is_driven = app.engine.is_workflow_driven(id).await?;
            output::data(&render::status(&workflow, is_driven, app));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A workflow with `--json`.
#[derive(Serialize)]
struct Stands {
    #[serde(flatten)]
    workflow: WorkflowView,
    snapshots: Vec<SnapshotRowView>,
}

/// Show a snapshot in full: tasks, decisions, errors, reviews, tests, git, usage
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
    /// The snapshot [default: the latest]
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// What a fresh agent is told of it
    #[arg(long)]
    context: bool,
    /// Only this part: decisions, errors, feedback, git, tests, tasks or usage
    #[arg(long, value_name = "PART", value_parser = ["decisions", "errors", "feedback", "git", "tests", "tasks", "usage"])]
    part: Option<String>,
}

impl Show {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[]).await?;
        let snapshot = app.engine.snapshot(id, self.snapshot.as_deref()).await?;
        if self.context {
            let workflow = app.engine.workflow(id).await?;
            let tokens = app.config.workflow.brief_tokens;
            let sessions = workflow.sessions.max(snapshot.session_number + 1);
            output::data(&brief::resume_context(&snapshot, sessions, BriefLimits { tokens }));
            return Ok(ExitCode::SUCCESS);
        }
        let whole = serde_json::to_value(SnapshotView::from(&snapshot))?;
        let value = match self.part.as_deref() {
            Some(part) => whole.get(part).cloned().unwrap_or_default(),
            None => whole,
        };
        if app.json || self.part.is_some() {
            output::json(&value);
        } else {
            let mut rows = app.engine.workflow(id).await?.snapshots;
            rows.retain(|row| row.id == snapshot.id);
            output::data(&render::snapshot(&snapshot, &rows, app));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// List the snapshots of a workflow
#[derive(Debug, clap::Args)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    which: Which,
}

impl Snapshots {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[]).await?;
        let snapshots = app.engine.workflow(id).await?.snapshots;
        if app.json {
            output::json(&snapshots.iter().map(SnapshotRowView::from).collect::<Vec<_>>());
        } else if snapshots.is_empty() {
            output::note(format_args!("No snapshots yet: one is taken at every pause."));
        } else {
            output::data(&render::snapshots(&snapshots, app));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Compare two snapshots of a workflow
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The earlier snapshot: its id, or the beginning of it
    #[arg(value_name = "A")]
    from: String,
    /// The later snapshot
    #[arg(value_name = "B")]
    to: String,
    /// The workflow [default: the one that has them]
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
}

impl Diff {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let (from, to) = self.both(app).await?;
        let comparison = Comparison::of(&from, &to);
        if app.json {
            output::json(&comparison);
        } else if from.id == to.id {
            output::note(format_args!("No differences: both are the same snapshot."));
        } else {
            output::data(&render::comparison(&from, &to, &comparison));
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn both(&self, app: &App) -> anyhow::Result<(Snapshot, Snapshot)> {
        let id = match &self.workflow {
            Some(_) => Which::new(self.workflow.clone()).find(app, &[]).await?,
            None => self.owner(app).await?,
        };
        let from = app.engine.snapshot(id, Some(&self.from)).await?;
        Ok((from, app.engine.snapshot(id, Some(&self.to)).await?))
    }

    /// The workflow that has the first of them: that of this folder first.
    async fn owner(&self, app: &App) -> anyhow::Result<WorkflowId> {
        let here = Which::new(None).find(app, &[]).await;
        let filter =
            WorkflowFilter { user: Some(app.config.user(None)?), ..WorkflowFilter::default() };
        let others = app.engine.workflows(&filter).await?.into_iter().map(|row| row.id);
        let ids: Vec<WorkflowId> = here.as_ref().ok().copied().into_iter().chain(others).collect();
        for id in ids {
            let all = app.engine.workflow(id).await?.snapshots;
            if all.iter().any(|one| one.id.is_meant_by(&self.from)) {
                return Ok(id);
            }
        }
        here
    }
}
