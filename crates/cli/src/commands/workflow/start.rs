//! `rethread workflow start`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rethread_engine::program::Order;

use super::background::detached;
use super::order::{Approval, Start};
use super::{drive, worktree};
use crate::cli::App;
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

States are written back into the file. Fields: depends on, agent, verify (a name of [workflow.commands] in the settings, or a command in
`backticks`), expect (green, or red for a task that writes failing tests), review.";

/// Begin to work on a plan
///
/// Each task runs in a fresh session of the agent, in the worktree. Ctrl-C pauses at the end of the running task.
/// Without a PLAN, the agent writes one for the issue first, and waits for your approval.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Args {
    /// The plan: a markdown file with tasks; `rethread workflow start --help` shows one
    #[arg(value_name = "PLAN", required_unless_present = "issue")]
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
    /// Pause after so many tasks
    #[arg(long, value_name = "N")]
    pause_after: Option<u32>,
    /// Pause after so many minutes
    #[arg(long, value_name = "MINUTES")]
    max_minutes: Option<f64>,
    /// Pause before a task that would take more tokens than this in all
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
    /// Pause before a task that would cost more than this in all
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// What agents may do without being asked: ask, allow, deny or agent (as they are set up); nobody can be asked without a terminal
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
    /// Let the commands in the plan run, as they stand there
    #[arg(long)]
    approve_commands: bool,
    /// When a usage limit is hit, wait until it is lifted and go on
    #[arg(long)]
    wait: bool,
    /// Go on in the background
    #[arg(long, short, conflicts_with = "wait")]
    detach: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let (is_detached, waits) = (self.detach, self.wait);
        let workflow = self.start()?.begin(app).await?;
        if is_detached {
            return detached(app, workflow.id, &["--start".to_owned()]).await;
        }
        if !app.json {
            output::note(format_args!("Workflow {} begins.", workflow.id.short()));
        }
        drive(app, workflow.id, Some(app.engine.beginning_of(&workflow)), waits).await
    }

    fn start(self) -> anyhow::Result<Start> {
        let order = Order {
            worktree: worktree(self.worktree.as_ref())?,
            plan: self.plan,
            issue: self.issue.as_deref().map(issue_in).transpose()?,
            agent: self.agent,
            jobs: self.jobs,
            pause_after: self.pause_after,
            max_minutes: self.max_minutes,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            ..Order::default()
        };
        let commands = if self.approve_commands { Approval::Given } else { Approval::Asked };
        Ok(Start { order, permissions: self.permissions, commands })
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
