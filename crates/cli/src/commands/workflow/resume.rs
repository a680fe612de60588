//! `rethread workflow resume`

use std::process::ExitCode;

use rethread_domain::quote::one_line;
use rethread_domain::workflow::{Command, Snapshot, SnapshotId, Status, TaskState, WorkflowId};

use super::background::detached;
use super::{Which, drive};
use crate::cli::App;
use crate::output::{self, time};

/// Go on with a paused workflow
///
/// In fresh agent sessions that are told what was done, decided and left. Says first what it resumes, and how the
/// repository differs from then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// From this snapshot [default: the latest]
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// Another agent goes on with it
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// When a usage limit is hit, wait until it is lifted and go on
    #[arg(long)]
    wait: bool,
    /// Go on in the background
    #[arg(long, short, conflicts_with = "wait")]
    detach: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let open = [Status::Paused, Status::InProgress, Status::Pending];
        let id = self.which.find(app, &open).await?;
        let workflow = app.engine.workflow(id).await?;
        if workflow.status == Status::Pending && self.from.is_none() && self.with.is_none() {
            // Whoever created it did not get to begin it.
            if self.detach {
                return detached(app, id, &["--start".to_owned()]).await;
            }
            return drive(app, id, Some(app.engine.beginning_of(&workflow)), self.wait).await;
        }
        let resumption = resumption(app, id, self.from.as_deref(), self.with).await?;
        if !app.json {
            let told = told(&resumption.snapshot, &resumption.diverged, app);
            output::note(format_args!("{told}"));
        }
        if self.detach {
            return detached(app, id, &resumption.words()).await;
        }
        drive(app, id, Some(resumption.command()), self.wait).await
    }
}

/// What is gone on with, and how the repository differs from it.
#[derive(Debug, Clone)]
pub(crate) struct Resumption {
    pub(crate) snapshot: Snapshot,
    pub(crate) diverged: Vec<String>,
    with: Option<String>,
}

impl Resumption {
    fn command(&self) -> Command {
        let (agent, diverged) = (self.with.clone(), self.diverged.clone());
        Command::Resume { from: self.snapshot.id, agent, diverged }
    }

    /// As the process in the background is told it.
    pub(crate) fn words(&self) -> Vec<String> {
        let with = self.with.as_ref().map(|agent| format!("--with={agent}"));
        [format!("--resume={}", self.snapshot.id)].into_iter().chain(with).collect()
    }
}

/// What is to be resumed; refused before anything is said of it where it cannot be. What crashed is snapshotted first.
pub(crate) async fn resumption(
    app: &App,
    id: WorkflowId,
    from: Option<&str>,
    with: Option<String>,
) -> anyhow::Result<Resumption> {
    if let Some(agent) = &with {
        app.agent(agent)?;
    }
    let mut workflow = app.engine.workflow(id).await?;
    if workflow.status == Status::InProgress && !app.engine.is_workflow_driven(id).await? {
        workflow = super::recover::recover(app, id).await?;
    }
    // Refused before anything is said of snapshots: what runs may have none yet.
    let resume =
        Command::Resume { from: SnapshotId::generate(), agent: None, diverged: Vec::new() };
    workflow.decide(&resume).map_err(rethread_engine::Error::from)?;
    let snapshot = app.engine.snapshot(id, from).await?;
    let diverged = app.engine.diverged(id, &snapshot).await?;
    Ok(Resumption { snapshot, diverged, with })
}

fn told(snapshot: &Snapshot, diverged: &[String], app: &App) -> String {
    let ago = time::ago(snapshot.created_at, app.engine.clock().now());
    let mut text = format!(
        "Resuming {} from session {}, snapshot {}:\n  paused {ago} ({}): {}\n  tasks: {} done, {} left",
        one_line(&snapshot.title, 80),
        snapshot.session_number,
        snapshot.id.short(),
        snapshot.trigger.as_str(),
        one_line(&snapshot.reason, 200),
        snapshot.tasks_completed,
        snapshot.tasks_remaining,
    );
    let failed = snapshot.tasks.iter().filter(|task| task.state() == TaskState::Failed).count();
    if failed > 0 {
        text.push_str(&format!(" ({failed} failed)"));
    }
    if let Some(next) = &snapshot.next_task {
        text.push_str(&format!("\n  next: {}", one_line(next, 80)));
    }
    for line in diverged {
        text.push_str(&format!("\nwarning: since then, {}", one_line(line, 300)));
    }
    text
}
