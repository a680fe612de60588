//! What a person says to a workflow: pause, approve, reject, retry, skip, cancel.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rethread_domain::quote::safe;
use rethread_engine::program::check_installed;
use rethread_engine::views::MoveView;
use rethread_engine::workflows::{WorkflowOrder, consent_of};
use rethread_workflow::{Answer, Command, Question, Status, Trigger, Workflow, WorkflowId};

use super::{Which, detached, drive, render, worktree};
use crate::cli::App;
use crate::commands::choice::{confirm, is_asked};
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

/// Say yes to what a workflow waits for: its plan, that a task begins, or a command
///
/// With --all, all commands of the plan may run from then on, in this folder and as they are written: each is shown whole. That can
/// be done at any time, also before the start (`--all --plan plan.md`). A command that is changed needs another approval.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,
    /// The task that it is about, where several things are asked; also ahead of time
    #[arg(long, value_name = "TASK", conflicts_with = "all")]
    task: Option<String>,
    /// Why; kept with who approved
    #[arg(long, short)]
    reason: Option<String>,
    /// All commands of the plan
    #[arg(long)]
    all: bool,
    /// Those of this plan, before it is started
    #[arg(long, value_name = "PLAN", requires = "all", conflicts_with = "id")]
    plan: Option<PathBuf>,
    /// The folder in which that plan will be worked on [default: the current one]
    #[arg(long, value_name = "DIR", requires = "plan")]
    worktree: Option<PathBuf>,
    #[command(flatten)]
    then: Then,
}

impl Approve {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let by = Some(app.config.user(None)?);
        if let Some(plan) = self.plan {
            let worktree = worktree(self.worktree.as_ref())?;
            return approve_plan(app, plan, worktree).await;
        }
        let wanted: &[Status] =
            if self.all { &[Status::Blocked, Status::Paused] } else { &[Status::Blocked] };
        let id = self.which.find(app, wanted).await?;
        let read = app.engine.workflow(id).await?;
        if self.all {
            let commands = app.engine.unapproved_commands(&read).await?;
            if !is_agreed(app, &commands)? {
                return Ok(ExitCode::FAILURE);
            }
            for command in &commands {
                app.engine.approve_command(&read.charter, command).await?;
            }
            let is_asked = matches!(read.question_for(None, true), Some(Question::Command { .. }));
            if read.status() != Status::Blocked || !is_asked {
                render::whole(app, &read).await?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        let answer = Answer { task: self.task, by, why: self.reason };
        if let Some(command) = app.engine.approve_question(&read, answer.task.as_deref()).await?
            && !app.json
            && !self.all
        {
            output::note(format_args!("Approved: {}", safe(&command)));
        }
        self.then.go_on(app, id, Command::Approve(answer)).await
    }
}

/// Approves the commands of a plan that is to be started.
async fn approve_plan(app: &App, plan: PathBuf, worktree: PathBuf) -> anyhow::Result<ExitCode> {
    let order = WorkflowOrder { worktree, plan: Some(plan), ..WorkflowOrder::default() };
    let unapproved = app.engine.unapproved_in(app.program().as_ref(), &order).await?;
    if !is_agreed(app, &unapproved.commands)? {
        return Ok(ExitCode::FAILURE);
    }
    for command in &unapproved.commands {
        app.engine.approve_command(&unapproved.charter, command).await?;
    }
    if app.json {
        output::json(&unapproved.commands);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows each command whole; where somebody can be asked, asks whether all may run.
fn is_agreed(app: &App, commands: &[String]) -> anyhow::Result<bool> {
    if app.json {
        return Ok(true);
    }
    if commands.is_empty() {
        output::note(format_args!("Every command of the plan is approved already."));
        return Ok(true);
    }
    output::note(format_args!("The plan's checks run these commands:"));
    for command in commands {
        output::note(format_args!("  {}", safe(command)));
    }
    let is_agreed = !is_asked() || confirm("Allow them to run?")?;
    output::note(format_args!("{}", if is_agreed { "Approved." } else { "Nothing was approved." }));
    Ok(is_agreed)
}

/// Say no to what a workflow waits for: a plan is written again, a failed task is given up
#[derive(Debug, clap::Args)]
pub(crate) struct Reject {
    #[command(flatten)]
    which: Which,
    /// The task that it is about, where several things are asked
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Why
    #[arg(long, short)]
    reason: Option<String>,
    #[command(flatten)]
    then: Then,
}

impl Reject {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[Status::Blocked]).await?;
        let by = Some(app.config.user(None)?);
        let answer = Answer { task: self.task, by, why: self.reason };
        self.then.go_on(app, id, Command::Reject(answer)).await
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
