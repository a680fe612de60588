//! What a person says to a workflow: pause, approve, reject, retry, skip, cancel.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rethread_domain::quote::safe;
use rethread_domain::workflow::{Command, Status, Trigger, Workflow, WorkflowId};
use rethread_engine::workflows::WorkflowView;
use serde_json::json;

use super::background::detached;
use super::{Which, drive, told};
use crate::cli::App;
use crate::output;

/// How often is looked whether the boundary is reached.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
    /// Interrupt the running task; it is the next one then
    #[arg(long)]
    now: bool,
    /// Do not wait for the task
    #[arg(long)]
    no_wait: bool,
}

impl Pause {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[Status::InProgress]).await?;
        let reason = self.reason.unwrap_or_else(|| "asked for".to_owned());
        let told = || {
            if !app.json {
                output::note(format_args!("Pausing workflow {} …", id.short()));
            }
        };
        let wait = if self.no_wait { Duration::ZERO } else { Duration::MAX };
        let workflow = pause(app, id, reason, self.now, wait, told).await?;
        say(app, &workflow);
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks for a pause and, once that is written, waits for the boundary, at most so long.
pub(crate) async fn pause(
    app: &App,
    id: WorkflowId,
    reason: String,
    now: bool,
    wait: Duration,
    asked: impl FnOnce(),
) -> anyhow::Result<Workflow> {
    let command = Command::Pause { trigger: Trigger::Pause, reason, now };
    let mut workflow = app.engine.ask_workflow(id, &command).await?;
    asked();
    let begun = Instant::now();
    while workflow.status == Status::InProgress && begun.elapsed() < wait {
        if !app.engine.is_workflow_driven(id).await? {
            // Nobody is there to reach the boundary: it is reached.
            workflow = settle(app, id).await?;
            continue;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        workflow = app.engine.workflow(id).await?;
    }
    Ok(workflow)
}

/// Takes the snapshot of a workflow that nobody runs any more.
async fn settle(app: &App, id: WorkflowId) -> anyhow::Result<Workflow> {
    match super::recover::recover(app, id).await {
        Err(rethread_engine::Error::WorkflowBusy(_)) => Ok(app.engine.workflow(id).await?),
        outcome => Ok(outcome?),
    }
}

fn say(app: &App, workflow: &Workflow) {
    if app.json {
        let status = if workflow.status == Status::InProgress {
            "pausing"
        } else {
            workflow.status.as_str()
        };
        let snapshot = workflow.mark.as_ref().map(|mark| mark.id);
        output::json(
            &json!({ "status": status, "workflow_id": workflow.id, "snapshot_id": snapshot }),
        );
    } else {
        output::data(&told::rests(workflow));
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

/// Say no to what a workflow waits for: a plan is written anew, a failed task is given up
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

/// Run a failed or skipped task again
#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    /// The task
    task: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    then: Then,
}

impl Retry {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id =
            self.which.find(app, &[Status::Blocked, Status::Paused, Status::InProgress]).await?;
        self.then.go_on(app, id, Command::Retry { task: self.task }).await
    }
}

/// Leave a task out: what depends on it may begin
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
        let why = self.reason.unwrap_or_else(|| "asked for".to_owned());
        let workflow = app.engine.ask_workflow(id, &Command::Cancel { why }).await?;
        say(app, &workflow);
        crate::notices::tell(app, id).await;
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
        if workflow.status != Status::Blocked {
            let workflow = app.engine.ask_workflow(id, &command).await?;
            say_whole(app, &workflow);
            return Ok(ExitCode::SUCCESS);
        }
        workflow.decide(&command).map_err(rethread_engine::Error::from)?;
        if self.detach {
            return detached(app, id, &wish(&command)).await;
        }
        drive(app, id, Some(command), false).await
    }
}

/// Says something to a workflow for whoever is not at this terminal. Where it waits and nobody runs it, it goes on in
/// the background.
pub(crate) async fn tell(app: &App, read: &Workflow, command: Command) -> anyhow::Result<Workflow> {
    let id = read.id;
    if command == Command::Approve {
        app.engine.approve_question(read).await?;
    }
    let workflow = app.engine.workflow(id).await?;
    let is_end = matches!(command, Command::Cancel { .. });
    if workflow.status != Status::Blocked || is_end {
        let workflow = app.engine.ask_workflow(id, &command).await?;
        if is_end {
            crate::notices::tell(app, id).await;
        }
        return Ok(workflow);
    }
    workflow.decide(&command).map_err(rethread_engine::Error::from)?;
    super::in_background(app, id, &wish(&command)).await
}

fn say_whole(app: &App, workflow: &Workflow) {
    if app.json {
        output::json(&WorkflowView::from(workflow));
    } else {
        output::data(&told::rests(workflow));
    }
}

/// A command as the process in the background is told it.
fn wish(command: &Command) -> Vec<String> {
    let (name, value) = match command {
        Command::Reject { why } => ("--reject", why.clone().unwrap_or_default()),
        Command::Retry { task } => ("--retry", task.clone()),
        Command::Skip { task } => ("--skip", task.clone()),
        _ => return vec!["--approve".to_owned()],
    };
    vec![format!("{name}={value}")]
}
