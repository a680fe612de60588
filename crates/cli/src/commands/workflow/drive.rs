//! Running a workflow in this process, with a person before it or without.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_domain::workflow::{Command, SnapshotId, Status, Trigger, Workflow, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::{Asker, Nobody};
use rethread_engine::workflows::{Report, WorkflowView};

use super::crew::Crew;
use super::told;
use super::view::View;
use crate::chat::Person;
use crate::cli::App;
use crate::notices;
use crate::output;

/// How often is looked, while a limit is waited for, whether somebody did something else.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long those who want to know are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// Run a workflow that was started elsewhere
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    id: String,
    #[command(flatten)]
    first: First,
    /// Another agent goes on with it
    #[arg(long, requires = "resume")]
    with: Option<String>,
}

/// What is done before it runs.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct First {
    /// Start it first
    #[arg(long)]
    start: bool,
    /// Resume it first, from this snapshot
    #[arg(long)]
    resume: Option<String>,
    /// Say yes first
    #[arg(long)]
    approve: bool,
    /// Say no first, and why
    #[arg(long)]
    reject: Option<String>,
    /// Retry this task first
    #[arg(long)]
    retry: Option<String>,
    /// Skip this task first
    #[arg(long)]
    skip: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.engine.resolve_workflow(&self.id).await?;
        let wanted = self.first;
        let first = if let Some(snapshot) = &wanted.resume {
            let snapshot = app.engine.snapshot(id, Some(snapshot)).await?;
            resumption(app, id, snapshot.id, self.with).await?
        } else if let Some(why) = wanted.reject {
            Command::Reject { why: Some(why).filter(|why| !why.is_empty()) }
        } else if let Some(task) = wanted.retry {
            Command::Retry { task }
        } else if let Some(task) = wanted.skip {
            Command::Skip { task }
        } else if wanted.approve {
            Command::Approve
        } else {
            app.engine.beginning_of(&app.engine.workflow(id).await?)
        };
        drive(app, id, Some(first), false).await
    }
}

/// Runs a workflow until it rests, and says how it stands. With `waits`, a limit that is lifted later is waited for.
pub(crate) async fn drive(
    app: &App,
    id: WorkflowId,
    first: Option<Command>,
    waits: bool,
) -> anyhow::Result<ExitCode> {
    let person = Arc::new(Person::new(app.json));
    let asker: Arc<dyn Asker> = if person.is_there() { person } else { Arc::new(Nobody) };
    let crew = Arc::new(Crew::new(app, asker)?);
    let mut first = first;
    loop {
        let workflow = Box::pin(run(app, id, first.take(), &crew)).await?;
        match (workflow.status, workflow.until, &workflow.mark) {
            (Status::Paused, Some(until), Some(mark)) if waits => {
                told::waiting(app, &workflow, until);
                if !wait(app, &workflow, until).await? {
                    return Ok(finish(app, &app.engine.workflow(id).await?));
                }
                first = Some(resumption(app, id, mark.id, None).await?);
            }
            _ => return Ok(finish(app, &workflow)),
        }
    }
}

pub(super) async fn resumption(
    app: &App,
    id: WorkflowId,
    from: SnapshotId,
    agent: Option<String>,
) -> anyhow::Result<Command> {
    let snapshot = app.engine.snapshot(id, Some(&from.to_string())).await?;
    let diverged = app.engine.diverged(id, &snapshot).await?;
    Ok(Command::Resume { from, agent, diverged })
}

/// Waits until a limit is lifted; `false` where the person does not want to, or somebody did something else with it.
async fn wait(app: &App, workflow: &Workflow, until: jiff::Timestamp) -> anyhow::Result<bool> {
    loop {
        let left = until.duration_since(app.engine.clock().now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        tokio::select! {
            () = tokio::time::sleep(left.min(LOOK_EVERY)) => (),
            _ = tokio::signal::ctrl_c() => return Ok(false),
        }
        if app.engine.workflow(workflow.id).await?.events != workflow.events {
            return Ok(false);
        }
        if left <= LOOK_EVERY {
            return Ok(true);
        }
    }
}

async fn run(
    app: &App,
    id: WorkflowId,
    first: Option<Command>,
    crew: &Arc<Crew>,
) -> anyhow::Result<Workflow> {
    let mut view = View::new(app.json);
    let before = app.engine.workflow(id).await?;
    view.begin(&before);
    let (wake, woken) = tokio::sync::mpsc::unbounded_channel();
    let mut telling = std::pin::pin!(notices::keep_telling(app, id, woken));
    let outcome = {
        let mut show = |report: &Report| {
            view.report(report);
            if notices::is_of_interest(report) {
                // Nobody listens any more only when all is told.
                let _told = wake.send(());
            }
        };
        let driven = app.engine.drive_workflow(id, first, crew.clone(), &mut show);
        let mut driven = std::pin::pin!(driven);
        let mut asked = 0;
        loop {
            tokio::select! {
                outcome = &mut driven => break outcome,
                () = &mut telling => (),
                _ = tokio::signal::ctrl_c() => {
                    asked += 1;
                    ask_to_pause(app, id, asked > 1).await;
                }
            }
        }
    };
    view.end();
    drop(wake);
    // Whoever cannot be told in time is told by the next process.
    drop(tokio::time::timeout(LAST_WORDS, telling).await);
    Ok(outcome?)
}

/// Ctrl-C pauses at the end of the task; once more, at once.
async fn ask_to_pause(app: &App, id: WorkflowId, now: bool) {
    let reason = "asked for at the terminal".to_owned();
    let command = Command::Pause { trigger: Trigger::Pause, reason, now };
    match app.engine.ask_workflow(id, &command).await {
        Ok(_) if now => output::note(format_args!("Pausing at once …")),
        Ok(_) => output::note(format_args!(
            "Pausing when the running task is done; Ctrl-C once more interrupts it."
        )),
        Err(Error::Workflow(_)) => (),
        Err(error) => output::note(format_args!("note: {error}")),
    }
}

fn finish(app: &App, workflow: &Workflow) -> ExitCode {
    if app.json {
        output::json(&WorkflowView::from(workflow));
    } else {
        output::data(&told::rests(workflow));
    }
    match workflow.status {
        Status::Completed | Status::Paused | Status::InProgress | Status::Pending => {
            ExitCode::SUCCESS
        }
        Status::Blocked | Status::Failed | Status::Cancelled => ExitCode::FAILURE,
    }
}
