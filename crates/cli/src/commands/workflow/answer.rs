//! What a person says to a workflow: pause, approve, reject, retry, skip, cancel.

use std::process::ExitCode;
use std::time::Duration;

use rethread_domain::quote::safe;
use rethread_engine::program::check_installed;
use rethread_engine::views::MoveView;
use rethread_engine::workflows::consent_of;
use rethread_workflow::{Command, Status, Trigger, Workflow, WorkflowId};

use super::{Which, detached, drive, render};
use crate::cli::App;
use crate::output;

/// Pause a workflow when its running task is done
///
/// Waits until it is paused, and prints the snapshot's id and the command that resumes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: Which,
    /// Why
    #[arg(long, short)]
    reason: Option<String>,
    /// Interrupt the running task; it will be the next to run
    #[arg(long)]
    now: bool,
    /// Do not wait for the task
    #[arg(long)]
    no_wait: bool,
}

impl Pause {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[Status::InProgress]).await?;
        let reason = self.reason.unwrap_or_else(|| "requested".to_owned());
        let command = Command::Pause { trigger: Trigger::Pause, reason, now: self.now };
        let workflow = app.engine.ask_workflow(id, &command).await?;
        if !app.json {
            output::note(format_args!("Pausing workflow {} …", id.short()));
        }
        let wait = if self.no_wait { Duration::ZERO } else { Duration::MAX };
        let workflow = app.engine.reach_boundary(&app.program(), workflow, wait).await?;
        say(app, &workflow);
        Ok(ExitCode::SUCCESS)
    }
}

fn say(app: &App, workflow: &Workflow) {
    if app.json {
        output::json(&MoveView::of(workflow));
    } else {
        output::data(&render::rests(workflow));
    }
}

/// Say yes to what a workflow waits for: its plan, or a command
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    then: Then,
}

impl Approve {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[Status::Blocked]).await?;
        let read = app.engine.workflow(id).await?;
        if let Some(command) = app.engine.approve_question(&read).await?
            && !app.json
        {
            output::note(format_args!("Approved: {}", safe(&command)));
        }
        self.then.go_on(app, id, Command::Approve).await
    }
}

/// Say no to what a workflow waits for: a plan is written again, a failed task is given up
#[derive(Debug, clap::Args)]
pub(crate) struct Reject {
    #[command(flatten)]
    which: Which,
    /// Why
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    then: Then,
}

impl Reject {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[Status::Blocked]).await?;
        self.then.go_on(app, id, Command::Reject { why: self.reason }).await
    }
}

/// Run a task again that failed, was skipped, or was refused a permission
#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    /// The task
    task: String,
    #[command(flatten)]
    which: Which,
    /// How permission questions of agents are answered from now on: ask, allow, deny or agent (as they are set up)
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
    /// Continue with another agent, where the plan names none for the task
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    #[command(flatten)]
    then: Then,
}

impl Retry {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id =
            self.which.find(app, &[Status::Blocked, Status::Paused, Status::InProgress]).await?;
        consent_of(self.permissions.as_deref())?;
        if let Some(agent) = &self.with {
            check_installed(app.program().as_ref(), agent)?;
        }
        let (agent, permissions) = (self.with, self.permissions);
        let retry = Command::Retry { task: self.task, agent, permissions };
        self.then.go_on(app, id, retry).await
    }
}

/// Skip a task: those that depend on it may begin
#[derive(Debug, clap::Args)]
pub(crate) struct Skip {
    /// The task
    task: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    then: Then,
}

impl Skip {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id =
            self.which.find(app, &[Status::Blocked, Status::Paused, Status::InProgress]).await?;
        self.then.go_on(app, id, Command::Skip { task: self.task }).await
    }
}

/// End a workflow for good; what was done stays
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
    /// Why
    #[arg(long, short)]
    reason: Option<String>,
}

impl Cancel {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let open = [Status::InProgress, Status::Blocked, Status::Paused, Status::Pending];
        let id = self.which.find(app, &open).await?;
        let why = self.reason.unwrap_or_else(|| "requested".to_owned());
        let (program, read) = (app.program(), app.engine.workflow(id).await?);
        let cancel = Command::Cancel { why };
        let workflow = app.engine.answer_workflow(program.as_ref(), &read, cancel).await?;
        say(app, &workflow);
        Ok(ExitCode::SUCCESS)
    }
}

/// Where it goes on once it waits no more.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Then {
    /// Go on in the background
    #[arg(long, short)]
    detach: bool,
}

impl Then {
    /// Says it to whoever runs the workflow; where it waits and nobody does, goes on with it.
    async fn go_on(self, app: &App, id: WorkflowId, command: Command) -> anyhow::Result<ExitCode> {
        let workflow = app.engine.workflow(id).await?;
        if workflow.status() != Status::Blocked {
            let workflow = app.engine.ask_workflow(id, &command).await?;
            render::whole(app, &workflow).await?;
            return Ok(ExitCode::SUCCESS);
        }
        workflow.decide(&command).map_err(rethread_engine::Error::from)?;
        if self.detach {
            return detached(app, id, &command).await;
        }
        drive(app, id, Some(command), false).await
    }
}
