//! `rethread workflow`

mod answer;
mod check;
mod drive;
mod logs;
mod recover;
mod render;
mod resume;
mod see;
mod start;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_workflow::{Status, WorkflowId};

pub(crate) use drive::wish;
use drive::{detached, drive};

use super::project;
use crate::cli::App;
use crate::error::Refused;

/// Long work by agents that survives its sessions: plans, tasks, pause and resume
///
/// A plan is a markdown file with tasks. Each task runs in a fresh session of an agent, is checked by a command of
/// yours and, where wanted, reviewed. It can be paused at any task boundary, by you, by a limit or by a crash; `resume`
/// goes on where it stopped, with all that was decided.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Start(start::Args),
    Check(check::Args),
    Pause(answer::Pause),
    Resume(resume::Args),
    List(see::List),
    Status(see::Status),
    Show(see::Show),
    Snapshots(see::Snapshots),
    Diff(see::Diff),
    Logs(logs::Args),
    Approve(answer::Approve),
    Reject(answer::Reject),
    Retry(answer::Retry),
    Skip(answer::Skip),
    Cancel(answer::Cancel),
    Recover(recover::Args),
    /// Run a workflow that was started elsewhere
    #[command(hide = true)]
    Run(drive::Args),
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if !matches!(self.command, Command::Run(_)) {
            // Where that cannot be done, what is asked for may be done all the same, and the next one tries again.
            drop(app.engine.finish_killed(&app.program()).await);
        }
        match self.command {
            Command::Start(args) => args.run(app).await,
            Command::Check(args) => args.run(app).await,
            Command::Pause(args) => args.run(app).await,
            Command::Resume(args) => args.run(app).await,
            Command::List(args) => args.run(app).await,
            Command::Status(args) => args.run(app).await,
            Command::Show(args) => args.run(app).await,
            Command::Snapshots(args) => args.run(app).await,
            Command::Diff(args) => args.run(app).await,
            Command::Logs(args) => args.run(app).await,
            Command::Approve(args) => args.run(app).await,
            Command::Reject(args) => args.run(app).await,
            Command::Retry(args) => args.run(app).await,
            Command::Skip(args) => args.run(app).await,
            Command::Cancel(args) => args.run(app).await,
            Command::Recover(args) => args.run(app).await,
            Command::Run(args) => args.run(app).await,
        }
    }
}

/// Which workflow is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Which {
    /// The workflow [default: that of this folder]
    #[arg(value_name = "ID")]
    id: Option<String>,
}

impl Which {
    pub(crate) const fn new(id: Option<String>) -> Self {
        Self { id }
    }

    /// The one that is named, or the one of this folder that has one of these statuses, whatever was done last. Where
    /// none has, it is the latest: whoever asks something of it is told why it cannot be done.
    pub(crate) async fn find(&self, app: &App, wanted: &[Status]) -> anyhow::Result<WorkflowId> {
        let user = app.config.user(None)?;
        if let Some(id) = &self.id {
            return Ok(app.engine.own_workflow(id, &user).await?.id);
        }
        let folder = project(None)?;
        let rows = app.engine.workflows_in(&folder, &user).await?;
        let needs = rows.iter().find(|row| wanted.is_empty() || wanted.contains(&row.status));
        needs.or(rows.first()).map(|row| row.id).ok_or_else(|| none_here(&folder))
    }
}

fn none_here(folder: &std::path::Path) -> anyhow::Error {
    Refused {
        code: "workflow_not_found",
        message: format!("no workflow in {}", folder.display()),
        hint: Some(
            "`rethread workflow list` shows all; `rethread workflow start PLAN` begins one"
                .to_owned(),
        ),
    }
    .into()
}

/// A folder that is given, or the current one.
fn worktree(given: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    project(given.map(PathBuf::as_path))
}
