//! What is to be worked on, and how: the same for whoever starts a workflow.

use std::path::{Path, PathBuf};

use rethread_domain::quote::{one_line, safe};
use rethread_domain::workflow::plan::Plan;
use rethread_domain::workflow::{Charter, Issue, Limits, Verify, Workflow, WorkflowId};
use rethread_engine::program::{Order, PLAN};
use rethread_engine::workflows::read_plan;

use crate::cli::App;
use crate::commands::choice::{confirm, is_asked};
use crate::commands::refuse_excluded;
use crate::error::{BadInput, Refused};
use crate::output;

/// The most that an issue may have.
const MOST_ISSUE: usize = 256 * 1024;

/// What is ordered, with what only a person may say.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) order: Order,
    pub(crate) permissions: Option<String>,
    pub(crate) commands: Approval,
}

/// Who lets the commands in a plan run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    /// All may, as they stand there.
    Given,
    /// The person at the terminal is shown them and asked.
    Asked,
    /// The workflow waits for a person.
    Later,
}

impl Start {
    /// Checks all of it and makes the workflow, pending.
    pub(crate) async fn begin(&self, app: &App) -> anyhow::Result<Workflow> {
        refuse_excluded(app, &self.order.worktree)?;
        let plan = self.order.plan.as_deref().map(plan_of).transpose()?;
        let charter = self.charter(app, plan.as_ref())?;
        for agent in agents(&charter, plan.as_ref()) {
            app.agent(&agent)?;
        }
        if let Some(plan) = &plan {
            self.check_commands(app, &charter, plan).await?;
        }
        let tasks = plan.map(|plan| plan.tasks).unwrap_or_default();
        let id = self.order.id.unwrap_or_else(WorkflowId::generate);
        Ok(app.engine.create_workflow_as(id, charter, tasks).await?)
    }

    fn charter(&self, app: &App, plan: Option<&Plan>) -> anyhow::Result<Charter> {
        let (order, settings) = (&self.order, &app.config.workflow);
        if let Some(rule) = &self.permissions {
            app.config.consent(Some(rule)).map_err(|error| {
                BadInput::new(error.to_string(), "one of ask, allow, deny, agent")
            })?;
        }
        let title = plan.map(|plan| plan.title.clone()).filter(|title| !title.is_empty());
        let issue = order.issue.as_deref().map(issue_of).transpose()?;
        let issue = issue.unwrap_or_else(|| Issue {
            id: None,
            title: title.clone().unwrap_or_default(),
            text: plan.map(|plan| plan.intro.clone()).unwrap_or_default(),
        });
        let agent = order.agent.as_deref().or_else(|| settings.agent()).ok_or_else(|| {
            BadInput::new(
                "which agent is to work?",
                "say it with --agent, or set workflow.agent; `rethread agents` lists them",
            )
        })?;
        let limits = Limits {
            jobs: order.jobs.unwrap_or(settings.jobs).max(1),
            tasks: order.pause_after.filter(|count| *count > 0),
            seconds: order.max_minutes.map(seconds_of).transpose()?,
            tokens: order.max_tokens,
            cost_usd: order.max_cost.map(|most| amount("a cost", most)).transpose()?,
            ..settings.limits()?
        };
        Ok(Charter {
            user: app.config.user(order.user.as_deref())?,
            worktree: order.worktree.to_string_lossy().into_owned(),
            plan: Some(self.plan_path()?),
            title: one_line(&title.unwrap_or_else(|| issue.title.clone()), 120),
            issue,
            agent: agent.to_owned(),
            permissions: self.permissions.clone(),
            limits,
        })
    }

    /// Where the plan is, or is to be written.
    fn plan_path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.order.plan {
            return Ok(std::fs::canonicalize(path)?);
        }
        let path = self.order.worktree.join(PLAN);
        if path.exists() {
            let what = format!("{} is there already", path.display());
            return Err(BadInput::new(
                what,
                "start it: `rethread workflow start PLAN.md`, or move it away",
            )
            .into());
        }
        Ok(path)
    }

    /// Names have to be known; texts have to be approved, now or later.
    async fn check_commands(
        &self,
        app: &App,
        charter: &Charter,
        plan: &Plan,
    ) -> anyhow::Result<()> {
        let mut unknown: Vec<&str> = Vec::new();
        for verify in plan.tasks.iter().filter_map(|task| task.verify.as_ref()) {
            match verify {
                Verify::Named(name) if !app.config.workflow.commands.contains_key(name) => {
                    return Err(no_command(name));
                }
                Verify::Text(command)
                    if !unknown.contains(&command.as_str())
                        && !app.engine.is_approved(charter, command).await? =>
                {
                    unknown.push(command);
                }
                Verify::Named(_) | Verify::Text(_) => (),
            }
        }
        let may_run = match self.commands {
            Approval::Given => true,
            Approval::Asked => !unknown.is_empty() && is_approved(app, &unknown)?,
            Approval::Later => false,
        };
        for command in unknown.into_iter().filter(|_| may_run) {
            app.engine.approve_command(charter, command).await?;
        }
        Ok(())
    }
}

/// A limit that is one.
fn amount(what: &str, most: f64) -> anyhow::Result<f64> {
    if most.is_finite() && most > 0.0 {
        return Ok(most);
    }
    Err(BadInput::new(format!("{what} of {most} limits nothing"), "give a number above 0").into())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0")]
fn seconds_of(minutes: f64) -> anyhow::Result<u64> {
    Ok((amount("a time", minutes)? * 60.0).ceil() as u64)
}

/// Asks the person at the terminal; where there is none, the workflow waits for them.
fn is_approved(app: &App, commands: &[&str]) -> anyhow::Result<bool> {
    if app.json || !is_asked() {
        return Ok(false);
    }
    output::note(format_args!("The plan's checks run these commands in the worktree:"));
    for command in commands {
        output::note(format_args!("  {}", safe(command)));
    }
    confirm("May they run?")
}

fn no_command(name: &str) -> anyhow::Error {
    let what = format!("the plan's check {name:?} is not in your settings");
    let hint = format!(
        "`rethread config set workflow.commands.{name} \"…\"`, or write the command in the plan, in `backticks`"
    );
    BadInput::new(what, hint).into()
}

fn agents(charter: &Charter, plan: Option<&Plan>) -> Vec<String> {
    let tasks = plan.map(|plan| plan.tasks.as_slice()).unwrap_or_default();
    let named = tasks.iter().flat_map(|task| [task.agent.clone(), task.review.clone()]).flatten();
    let mut all: Vec<String> = named.chain([charter.agent.clone()]).collect();
    all.sort();
    all.dedup();
    all
}

fn plan_of(path: &Path) -> anyhow::Result<Plan> {
    let plan = read_plan(path).map_err(|error| Refused {
        code: "bad_plan",
        message: format!("{}: {error}", path.display()),
        hint: Some("docs/guide/workflows.md has a plan to copy".to_owned()),
    })?;
    Ok(plan)
}

/// The first line of a text is the title.
fn issue_of(text: &str) -> anyhow::Result<Issue> {
    if text.trim().is_empty() || text.len() > MOST_ISSUE {
        let what = format!("the issue has {} bytes", text.len());
        return Err(BadInput::new(what, "it has to say something, in at most 256 KiB").into());
    }
    let mut lines = text.trim().splitn(2, '\n');
    let title = lines.next().unwrap_or_default().trim_start_matches(['#', ' ']).trim();
    let rest = lines.next().unwrap_or_default().trim();
    Ok(Issue { id: None, title: one_line(title, 200), text: rest.to_owned() })
}
