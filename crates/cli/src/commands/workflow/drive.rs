//! Running a workflow in this process, with a person before it or without.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_engine::Error;
use rethread_engine::agents::{Asker, Nobody};
use rethread_engine::program::Fault;
use rethread_engine::workflows::{Report, ResumeOptions, budgets};
use rethread_workflow::{Answer, Budgets, Command, Status, Trigger, Workflow, WorkflowId};

use super::render;
use super::view::View;
use crate::chat::Person;
use crate::cli::App;
use crate::output;

/// How often the clock is looked at while a limit is waited for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Run a workflow that was started elsewhere
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    id: String,
    #[command(flatten)]
    first: First,
    /// Another agent goes on with it
    #[arg(long, conflicts_with_all = ["start", "approve", "reject", "skip"])]
    with: Option<String>,
    /// Tasks may be done again
    #[arg(long, requires = "resume")]
    rewind: bool,
    #[command(flatten)]
    budgets: Budget,
    /// What agents may do from now on
    #[arg(long, conflicts_with_all = ["start", "approve", "reject", "skip"])]
    permissions: Option<String>,
    /// The task that the answer is about
    #[arg(long)]
    about: Option<String>,
    /// Who answers
    #[arg(long)]
    by: Option<String>,
    /// Why they approve
    #[arg(long)]
    why: Option<String>,
}

/// What a workflow may take in total.
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Budget {
    /// Pause before a task with which the whole workflow would take more tokens than this
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
    /// Pause before a task with which the whole workflow would cost more than this
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Pause when the whole workflow has run for this long
    #[arg(long, value_name = "MINUTES")]
    max_minutes: Option<f64>,
}

impl Budget {
    pub(crate) fn checked(self) -> Result<Budgets, Fault> {
        budgets(self.max_minutes, self.max_tokens, self.max_cost)
    }
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
            let asked = ResumeOptions {
                from: Some(snapshot.clone()),
                agent: self.with,
                budgets: self.budgets.checked()?,
                permissions: self.permissions,
                may_rewind: self.rewind,
            };
            let resumption = app.engine.resumption(&app.program(), id, &asked).await?;
            resumption.check(asked.may_rewind)?;
            resumption.command()
        } else if let Some(why) = wanted.reject {
            Command::Reject(Answer {
                why: Some(why).filter(|why| !why.is_empty()),
                task: self.about,
                by: self.by,
            })
        } else if let Some(task) = wanted.retry {
            Command::Retry { task, agent: self.with, permissions: self.permissions }
        } else if let Some(task) = wanted.skip {
            Command::Skip { task }
        } else if wanted.approve {
            Command::Approve(Answer { task: self.about, by: self.by, why: self.why })
        } else {
            app.engine.beginning_of(&app.engine.workflow(id).await?)
        };
        drive(app, id, Some(first), false).await
    }
}

/// Runs a workflow until it rests, and says how it stands. It waits for tasks that were put off; with `waits`, for any limit that
/// is lifted later.
pub(crate) async fn drive(
    app: &App,
    id: WorkflowId,
    first: Option<Command>,
    waits: bool,
) -> anyhow::Result<ExitCode> {
    let mut first = first;
    loop {
        let workflow = Box::pin(run(app, id, first.take())).await?;
        match (workflow.status(), workflow.pause().and_then(|pause| pause.until)) {
            (Status::Paused, Some(until)) if waits || workflow.goes_on_at().is_some() => {
                render::waiting(app, &workflow, until);
                if !wait(app, &workflow, until).await? {
                    return finish(app, &app.engine.workflow(id).await?).await;
                }
                first = Some(app.engine.latest_resumption(workflow).await?);
            }
            _ => return finish(app, &workflow).await,
        }
    }
}

/// Waits until a limit is lifted; `false` where the person does not want to, or somebody did something else with it.
async fn wait(app: &App, workflow: &Workflow, until: jiff::Timestamp) -> anyhow::Result<bool> {
    let mut changes = app.engine.changes();
    loop {
        let left = until.duration_since(app.engine.clock().now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        tokio::select! {
            // The clock may be set meanwhile.
            () = changes.within(left.min(LOOK_EVERY)) => (),
            _ = tokio::signal::ctrl_c() => return Ok(false),
        }
        if app.engine.workflow(workflow.id).await?.events != workflow.events {
            return Ok(false);
        }
        if until <= app.engine.clock().now() {
            return Ok(true);
        }
    }
}

async fn run(app: &App, id: WorkflowId, first: Option<Command>) -> anyhow::Result<Workflow> {
    let person = Arc::new(Person::new(app.json));
    let asker: Arc<dyn Asker> = if person.is_there() { person } else { Arc::new(Nobody) };
    let mut view = View::new(app.json);
    view.begin(&app.engine.workflow(id).await?);
    let program = app.program();
    let outcome = {
        let mut show = |report: &Report| view.report(report);
        let run = app.engine.run_workflow(&program, id, first, asker, &mut show);
        let mut run = std::pin::pin!(run);
        let mut presses = 0;
        loop {
            tokio::select! {
                outcome = &mut run => break outcome,
                _ = tokio::signal::ctrl_c() => {
                    presses += 1;
                    ask_to_pause(app, id, presses > 1).await;
                }
            }
        }
    };
    view.end();
    Ok(outcome?)
}

/// Ctrl-C pauses at the end of the task; once more, at once.
async fn ask_to_pause(app: &App, id: WorkflowId, now: bool) {
    let reason = "requested at the terminal".to_owned();
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

async fn finish(app: &App, workflow: &Workflow) -> anyhow::Result<ExitCode> {
    render::whole(app, workflow).await?;
    Ok(match workflow.status() {
        Status::Completed | Status::Paused | Status::InProgress | Status::Pending => {
            ExitCode::SUCCESS
        }
        Status::Blocked | Status::Failed | Status::Cancelled => ExitCode::FAILURE,
    })
}

/// Leaves the work to a process of its own, and says so.
pub(super) async fn detached(
    app: &App,
    id: WorkflowId,
    first: &Command,
) -> anyhow::Result<ExitCode> {
    let workflow = app.engine.run_in_background(app.program().as_ref(), id, first).await?;
    if app.json {
        output::json(&app.engine.workflow_view(&workflow).await?);
    } else if workflow.status() == Status::Blocked {
        output::data(&render::rests(&workflow));
    } else {
        output::note(format_args!(
            "Workflow {0} goes on in the background.\n`rethread workflow status {0}` shows its status, `rethread workflow logs -f {0}` follows it.",
            id.short()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::cast_precision_loss, reason = "nothing runs for that many seconds")]
fn in_minutes(seconds: u64) -> String {
    format!("--max-minutes={}", seconds as f64 / 60.0)
}

/// Who goes on, and what they may do.
fn by_whom(agent: Option<&String>, permissions: Option<&String>) -> Vec<String> {
    let agent = agent.map(|agent| format!("--with={agent}"));
    let rule = permissions.map(|rule| format!("--permissions={rule}"));
    agent.into_iter().chain(rule).collect()
}

/// Who answers, and what it is about.
fn from_whom(answer: &Answer) -> Vec<String> {
    let about = answer.task.iter().map(|task| format!("--about={task}"));
    let by = answer.by.iter().map(|by| format!("--by={by}"));
    about.chain(by).collect()
}

/// What is done first, as the process in the background is told it.
pub(crate) fn wish(first: &Command) -> Vec<String> {
    let (name, value) = match first {
        Command::Resume { from, agent, rewind, budgets, permissions, .. } => {
            let mut words = vec![format!("--resume={from}")];
            words.extend(by_whom(agent.as_ref(), permissions.as_ref()));
            words.extend((!rewind.is_empty()).then(|| "--rewind".to_owned()));
            words.extend(budgets.tokens.map(|most| format!("--max-tokens={most}")));
            words.extend(budgets.cost_usd.map(|most| format!("--max-cost={most}")));
            words.extend(budgets.seconds.map(in_minutes));
            return words;
        }
        Command::Approve(answer) => {
            let mut words = vec!["--approve".to_owned()];
            words.extend(from_whom(answer));
            words.extend(answer.why.iter().map(|why| format!("--why={why}")));
            return words;
        }
        Command::Reject(answer) => {
            let mut words = vec![format!("--reject={}", answer.why.clone().unwrap_or_default())];
            words.extend(from_whom(answer));
            return words;
        }
        Command::Retry { task, agent, permissions } => {
            let mut words = vec![format!("--retry={task}")];
            words.extend(by_whom(agent.as_ref(), permissions.as_ref()));
            return words;
        }
        Command::Skip { task } => ("--skip", task.clone()),
        _ => return vec!["--start".to_owned()],
    };
    vec![format!("{name}={value}")]
}
