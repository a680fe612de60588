//! `rethread workflow start`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rethread_domain::quote::{one_line, safe};
use rethread_engine::agents::Asker as _;
use rethread_engine::workflows::WorkflowOrder;
use rethread_workflow::Workflow;

use super::{detached, drive, worktree};
use crate::chat::Person;
use crate::cli::App;
use crate::commands::choice::{confirm, is_asked};
use crate::error::BadInput;
use crate::output;

const EXAMPLE: &str = "A plan:

  # Read the new format

  What it is about.

  ## Task parser: Read headers
  - verify: `cargo test parser`

  What is to be done.

  ## Task docs: Describe it
  - depends on: parser
  - agent: codex
  - review: claude

States are written back into the file. `model`, `effort`, `retries`, `time limit` and `on failure` may also stand in a list
below the title, for all tasks that say nothing else. The fields:

";

/// A plan, and every field that the parser takes.
fn example() -> String {
    format!("{EXAMPLE}{}", rethread_workflow::plan::fields())
}

/// Start working on a plan
///
/// Each task runs in a fresh session of the agent, in the worktree. Ctrl-C pauses at the end of the running task.
/// Without a PLAN, the agent writes one for the issue first, and waits for your approval.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, clap::Args)]
#[command(after_long_help = example())]
#[command(group = clap::ArgGroup::new("work").args(["plan", "issue"]).required(true).multiple(true))]
pub(crate) struct Args {
    /// The plan: a markdown file with tasks, such as the one below
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// What it is about: a text, or a file with one
    #[arg(long, value_name = "TEXT|FILE")]
    issue: Option<String>,
    /// The agent [default: the setting workflow.agent]
    #[arg(long)]
    agent: Option<String>,
    /// The folder to work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    worktree: Option<PathBuf>,
    /// How many tasks may run side by side
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Pause after this many tasks
    #[arg(long, value_name = "N")]
    pause_after: Option<u32>,
    /// Pause when the whole workflow has run for this long
    #[arg(long, value_name = "MINUTES")]
    max_minutes: Option<f64>,
    /// Pause before a task with which the whole workflow would take more tokens than this
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
    /// Pause before a task with which the whole workflow would cost more than this
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// How permission questions of agents are answered: ask, allow, deny or agent (as they are set up); without a terminal nobody can be asked
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
    /// Approve the commands in the plan as they are written there
    #[arg(long)]
    approve_commands: bool,
    /// At a usage limit wait until it is lifted and continue, however often (`retries` says how often without this)
    #[arg(long)]
    wait: bool,
    /// Go on in the background
    #[arg(long, short, conflicts_with = "wait")]
    detach: bool,
    /// Only say what it would lead to, as `rethread workflow check` does
    #[arg(long)]
    dry_run: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if self.dry_run {
            return super::check::look(app, &self.order()?).await;
        }
        let (is_detached, waits, approves) = (self.detach, self.wait, self.approve_commands);
        let ordered = app.engine.check_order(app.program().as_ref(), &self.order()?).await?;
        let may_run = approves || is_approved(app, &ordered.unapproved)?;
        let warning = ordered.warning.clone();
        let waits_for = if may_run { Vec::new() } else { ordered.unapproved.clone() };
        let workflow = app.engine.carry_out(ordered, may_run).await?;
        let is_alone = is_detached || !Person::new(app.json).is_there();
        if let Some(warning) = warning.filter(|_| is_alone) {
            output::note(format_args!("note: {warning}"));
        }
        let first = app.engine.beginning_of(&workflow);
        if is_detached {
            tell_waiting(app, &waits_for, &workflow);
            return detached(app, workflow.id, &first).await;
        }
        if !app.json {
            let title = one_line(&workflow.charter.title, 100);
            output::note(format_args!("Workflow {}: {title}", workflow.id.short()));
        }
        drive(app, workflow.id, Some(first), waits).await
    }

    fn order(self) -> anyhow::Result<WorkflowOrder> {
        Ok(WorkflowOrder {
            worktree: worktree(self.worktree.as_ref())?,
            plan: self.plan,
            issue: self.issue.as_deref().map(issue_in).transpose()?,
            agent: self.agent,
            jobs: self.jobs,
            pause_after: self.pause_after,
            max_minutes: self.max_minutes,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            permissions: self.permissions,
            ..WorkflowOrder::default()
        })
    }
}

/// Asks the person at the terminal; where there is none, the workflow waits for them.
fn is_approved(app: &App, commands: &[String]) -> anyhow::Result<bool> {
    if commands.is_empty() || app.json || !is_asked() {
        return Ok(false);
    }
    output::note(format_args!("The plan's checks run these commands in the worktree:"));
    for command in commands {
        output::note(format_args!("  {}", safe(command)));
    }
    confirm("Allow them to run?")
}

/// Says which commands a workflow in the background will wait for.
fn tell_waiting(app: &App, commands: &[String], workflow: &Workflow) {
    if commands.is_empty() || app.json {
        return;
    }
    output::note(format_args!(
        "note: it waits before each of these commands of the plan until `rethread workflow approve {}` allows it (`--all`: all of them); --approve-commands allows all at the start",
        workflow.id.short()
    ));
    for command in commands {
        output::note(format_args!("  {}", safe(command)));
    }
}

/// A text, or the content of a file.
fn issue_in(given: &str) -> anyhow::Result<String> {
    let path = Path::new(given);
    if given.lines().count() > 1 || !path.is_file() {
        return Ok(given.to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| {
        let what = format!("the issue {given:?} cannot be read: {error}");
        BadInput::new(what, "give a text, or a file of text").into()
    })
}
