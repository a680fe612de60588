//! `rethread workflow resume`

use std::process::ExitCode;

use rethread_domain::quote::one_line;
use rethread_engine::workflows::{ResumeOptions, Resumption};
use rethread_workflow::{Command, GitState, Status, TaskState, Workflow, WorkflowId};

use super::drive::Budget;
use super::{Which, detached, drive};
use crate::cli::App;
use crate::commands::choice::{confirm, is_asked};
use crate::output::{self, time};

/// Go on with a paused workflow
///
/// In fresh agent sessions that are told what was done, decided and left. Says first what it resumes, and how the
/// repository differs from then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Go back to this snapshot: tasks that were not done then are done again; files and commits stay as they are
    /// [default: the latest]
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// Do tasks again without asking
    #[arg(long, short, requires = "from")]
    yes: bool,
    #[command(flatten)]
    budgets: Budget,
    /// Continue with another agent
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// How permission questions of agents are answered from now on: ask, allow, deny or agent (as they are set up)
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
    /// At a usage limit wait until it is lifted and continue, however often (`retries` says how often without this)
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
        if workflow.status() == Status::Pending && self.from.is_none() && self.with.is_none() {
            // Whoever created it did not get to begin it.
            return self.go_on(app, id, app.engine.beginning_of(&workflow)).await;
        }
        let asked = ResumeOptions {
            from: self.from.clone(),
            agent: self.with.clone(),
            budgets: self.budgets.checked()?,
            permissions: self.permissions.clone(),
            may_rewind: self.yes,
        };
        let resumption = app.engine.resumption(&app.program(), id, &asked).await?;
        if !app.json {
            output::note(format_args!("{}", summary_of(&resumption, app)));
        }
        if !(self.yes || is_agreed(&resumption, app)?) {
            resumption.check(false)?;
        }
        self.go_on(app, id, resumption.command()).await
    }

    async fn go_on(&self, app: &App, id: WorkflowId, first: Command) -> anyhow::Result<ExitCode> {
        if self.detach {
            return detached(app, id, &first).await;
        }
        drive(app, id, Some(first), self.wait).await
    }
}

/// Asks whether tasks are to be done again, where there are any and somebody can be asked.
fn is_agreed(resumption: &Resumption, app: &App) -> anyhow::Result<bool> {
    if resumption.rewind.is_empty() || app.json || !is_asked() {
        return Ok(false);
    }
    output::note(format_args!(
        "Done again: {}. Files and commits stay as they are: git is left untouched.",
        one_line(&resumption.rewind.join(", "), 300)
    ));
    confirm("Go back?")
}

fn summary_of(resumption: &Resumption, app: &App) -> String {
    let Resumption { snapshot, workflow, .. } = resumption;
    let ago = time::ago(snapshot.created_at, app.engine.clock().now());
    let mut text = format!(
        "Resuming {} from run {}, snapshot {}:\n  paused {ago} ({}): {}\n  then: {} done, {} left; {}\n  now: {}; {}",
        one_line(&snapshot.title, 80),
        snapshot.session_number,
        snapshot.id.short(),
        snapshot.trigger.as_str(),
        one_line(&snapshot.reason, 200),
        snapshot.tasks_completed,
        snapshot.tasks_remaining,
        place(&snapshot.git),
        tasks(workflow, resumption.rewind.len()),
        place(&resumption.git),
    );
    if let Some(next) = workflow.next_task().filter(|_| resumption.rewind.is_empty()) {
        text.push_str(&format!("\n  next: {}", one_line(&next.spec.id, 80)));
    }
    for line in &resumption.diverged {
        text.push_str(&format!("\nwarning: since then, {}", one_line(line, 300)));
    }
    text
}

/// How far the tasks are, with so many of them to be done again.
fn tasks(workflow: &Workflow, again: usize) -> String {
    let again = u32::try_from(again).unwrap_or(u32::MAX);
    let done = workflow.completed().saturating_sub(again);
    let mut text = format!("{done} done, {} left", workflow.remaining().saturating_add(again));
    let failed = workflow.count(TaskState::Failed);
    if failed > 0 {
        text.push_str(&format!(" ({failed} failed)"));
    }
    text
}

/// Where a repository stands.
fn place(git: &GitState) -> String {
    let Some(commit) = &git.commit else { return "no commit".to_owned() };
    let branch = git.branch.as_deref().unwrap_or("no branch");
    format!("{} at {}", one_line(branch, 80), commit.get(..12).unwrap_or(commit))
}
