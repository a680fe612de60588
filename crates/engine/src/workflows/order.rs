//! Orders: checks what is to be worked on, and creates a workflow from it.

use std::path::{Path, PathBuf};

use rethread_domain::quote::one_line;
use rethread_workflow::plan::Plan;
use rethread_workflow::{
    Budgets, Charter, Command, Issue, Limits, TaskSpec, Verify, Workflow, WorkflowId,
};

use super::plan::read_plan;
use crate::Engine;
use crate::agents::Consent;
use crate::program::{
    Fault, Program, WorkflowSettings, check_installed, may_record, project_folder,
};

/// The file in the worktree that a plan is written to by default.
pub const PLAN: &str = "PLAN.md";
/// The longest issue, in bytes.
const MOST_ISSUE: usize = 256 * 1024;

/// What to work on, and within which limits.
#[derive(Debug, Clone, Default)]
pub struct WorkflowOrder {
    /// The id of the workflow; if it exists already, that one is used.
    pub id: Option<WorkflowId>,
    /// The owner, if that is not the user of the program.
    pub user: Option<String>,
    pub worktree: PathBuf,
    pub plan: Option<PathBuf>,
    /// A text; its first line is the title.
    pub issue: Option<String>,
    pub agent: Option<String>,
    pub jobs: Option<u32>,
    pub pause_after: Option<u32>,
    pub max_minutes: Option<f64>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<f64>,
    /// What agents may do without asking.
    pub permissions: Option<String>,
}

/// A checked order.
#[derive(Debug, Clone)]
pub struct CheckedOrder {
    id: WorkflowId,
    charter: Charter,
    tasks: Vec<TaskSpec>,
    /// Commands of the plan that are not approved yet: a person has to, or the workflow will wait.
    pub unapproved: Vec<String>,
    /// What will be refused because nobody can be asked.
    pub warning: Option<String>,
}

impl Engine {
    /// Checks an order without writing anything.
    pub async fn check_order(
        &self,
        program: &dyn Program,
        order: &WorkflowOrder,
    ) -> Result<CheckedOrder, Fault> {
        may_record(program, &order.worktree)?;
        let settings = program.workflows()?;
        let plan = order.plan.as_deref().map(plan_of).transpose()?;
        let charter = order.charter(program, &settings, plan.as_ref())?;
        let tasks = plan.map(|plan| plan.tasks).unwrap_or_default();
        let warning = warning(program, &charter, &tasks)?;
        for task in &tasks {
            if let Some(Verify::Named(name)) = &task.verify
                && !settings.commands.contains_key(name)
            {
                return Err(no_command(name));
            }
        }
        let planned = self.planned_commands(&charter, &tasks).await?;
        let unapproved = planned.into_iter().filter(|command| !command.is_approved);
        let unapproved = unapproved.map(|command| command.command).collect();
        let id = order.id.unwrap_or_else(WorkflowId::generate);
        Ok(CheckedOrder { id, charter, tasks, unapproved, warning })
    }

    /// Creates the workflow, pending. With `may_run`, the commands of its plan are approved as they are.
    pub async fn carry_out(&self, ordered: CheckedOrder, may_run: bool) -> Result<Workflow, Fault> {
        for command in ordered.unapproved.iter().filter(|_| may_run) {
            self.approve_command(&ordered.charter, command).await?;
        }
        Ok(self.create_workflow_as(ordered.id, ordered.charter, ordered.tasks).await?)
    }

    /// Creates a workflow and runs it in the background. Its commands wait for a person. Also returns what will be refused
    /// because nobody can be asked.
    pub async fn start_workflow(
        &self,
        program: &dyn Program,
        order: WorkflowOrder,
    ) -> Result<(Workflow, Option<String>), Fault> {
        let order = WorkflowOrder { worktree: project_folder(&order.worktree)?, ..order };
        let ordered = self.check_order(program, &order).await?;
        let warning = ordered.warning.clone();
        let workflow = self.carry_out(ordered, false).await?;
        let first = self.beginning_of(&workflow);
        Ok((self.run_in_background(program, workflow.id, &first).await?, warning))
    }

    /// The command that begins a workflow, with the state of its repository.
    pub fn beginning_of(&self, workflow: &Workflow) -> Command {
        let head = rethread_workspace::head(Path::new(&workflow.charter.worktree));
        let (branch, commit) = head.map_or((None, None), |head| (head.branch, Some(head.commit)));
        Command::Start { branch, commit }
    }
}

impl WorkflowOrder {
    pub(super) fn charter(
        &self,
        program: &dyn Program,
        settings: &WorkflowSettings,
        plan: Option<&Plan>,
    ) -> Result<Charter, Fault> {
        let title = plan.map(|plan| plan.title.clone()).filter(|title| !title.is_empty());
        let issue = self.issue.as_deref().map(issue_of).transpose()?;
        let issue = issue.unwrap_or_else(|| Issue {
            id: None,
            title: title.clone().unwrap_or_default(),
            text: plan.map(|plan| plan.intro.clone()).unwrap_or_default(),
        });
        let agent = self.agent.as_ref().or(settings.agent.as_ref()).ok_or_else(|| {
            Fault::bad_input(
                "no agent given",
                "give one with --agent, or set workflow.agent; `rethread agents` lists them",
            )
        })?;
        let budgets = budgets(self.max_minutes, self.max_tokens, self.max_cost)?;
        let limits = Limits {
            jobs: self.jobs.unwrap_or(settings.limits.jobs).max(1),
            tasks: self.pause_after.filter(|count| *count > 0),
            seconds: budgets.seconds,
            tokens: budgets.tokens,
            cost_usd: budgets.cost_usd,
            ..settings.limits.clone()
        };
        Ok(Charter {
            user: self.user.clone().map_or_else(|| program.user(), Ok)?,
            worktree: self.worktree.to_string_lossy().into_owned(),
            plan: Some(self.plan_path()?),
            title: one_line(&title.unwrap_or_else(|| issue.title.clone()), 120),
            issue,
            agent: agent.clone(),
            permissions: self.permissions.clone(),
            limits,
        })
    }

    /// The path of the plan, existing or to be written.
    fn plan_path(&self) -> Result<PathBuf, Fault> {
        if let Some(path) = &self.plan {
            let unusable = |error| {
                let what = format!("the plan {} cannot be used: {error}", path.display());
                Fault::bad_input(what, "check that it exists and that you have access to it")
            };
            return std::fs::canonicalize(path).map_err(unusable);
        }
        let path = self.worktree.join(PLAN);
        if path.exists() {
            let what = format!("{} already exists", path.display());
            let hint = "start it: `rethread workflow start PLAN.md`, or move it elsewhere";
            return Err(Fault::bad_input(what, hint));
        }
        Ok(path)
    }
}

/// Parses a permission rule.
pub fn consent_of(rule: Option<&str>) -> Result<Option<Consent>, Fault> {
    let parsed = rule.map(str::parse::<Consent>).transpose();
    parsed.map_err(|why| {
        Fault::bad_input(
            why,
            "`agent` leaves it to how the agent is set up itself; the others are kept by Rethread",
        )
    })
}

/// The budgets of a workflow, checked.
pub fn budgets(
    minutes: Option<f64>,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
) -> Result<Budgets, Fault> {
    if tokens == Some(0) {
        amount("a number of tokens", 0.0)?;
    }
    Ok(Budgets {
        tokens,
        cost_usd: cost_usd.map(|most| amount("a cost", most)).transpose()?,
        seconds: minutes.map(seconds_of).transpose()?,
    })
}

/// A positive limit.
fn amount(what: &str, most: f64) -> Result<f64, Fault> {
    if most.is_finite() && most > 0.0 {
        return Ok(most);
    }
    Err(Fault::bad_input(format!("{what} of {most} is no limit"), "give a number above 0"))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0")]
fn seconds_of(minutes: f64) -> Result<u64, Fault> {
    // Rounds up, with a tolerance so that whole seconds survive the division.
    Ok((amount("a time", minutes)? * 60.0 - 1e-6).ceil().max(1.0) as u64)
}

pub(super) fn no_command(name: &str) -> Fault {
    let what = format!("the plan's check {name:?} is not in your settings");
    let hint = format!(
        "`rethread config set workflow.commands.{name} \"…\"`, or write the command in the plan, in `backticks`"
    );
    Fault::bad_input(what, hint)
}

/// The warning if nobody can be asked: which agents' requests will be refused. Fails for agents that are unknown or not installed.
pub(super) fn warning(
    program: &dyn Program,
    charter: &Charter,
    tasks: &[TaskSpec],
) -> Result<Option<String>, Fault> {
    let rule = consent_of(charter.permissions.as_deref())?;
    let mut asking = Vec::new();
    for agent in agents(charter, tasks) {
        let own = program.consent(&agent)?;
        check_installed(program, &agent)?;
        if rule.unwrap_or(own) == Consent::Ask {
            asking.push(agent);
        }
    }
    Ok((!asking.is_empty()).then(|| {
        format!(
            "no terminal: permission requests from {} will be refused, and a task that needs one will wait for you. Use --permissions allow to allow all, or allowed_tools in the agent's settings for some.",
            asking.join(", ")
        )
    }))
}

pub(super) fn agents(charter: &Charter, tasks: &[TaskSpec]) -> Vec<String> {
    let named = tasks.iter().flat_map(|task| [task.agent.clone(), task.review.clone()]).flatten();
    let mut all: Vec<String> = named.chain([charter.agent.clone()]).collect();
    all.sort();
    all.dedup();
    all
}

pub(super) fn plan_of(path: &Path) -> Result<Plan, Fault> {
    read_plan(path).map_err(|error| {
        let what = format!("{}: {error}", path.display());
        Fault::refused("bad_plan", what, "`rethread workflow start --help` shows a plan")
    })
}

/// The first line of the text becomes the title.
fn issue_of(text: &str) -> Result<Issue, Fault> {
    if text.trim().is_empty() || text.len() > MOST_ISSUE {
        let what = format!("the issue has {} bytes", text.len());
        return Err(Fault::bad_input(what, "give a text of at most 256 KiB"));
    }
    let mut lines = text.trim().splitn(2, '\n');
    let title = lines.next().unwrap_or_default().trim_start_matches(['#', ' ']).trim();
    let rest = lines.next().unwrap_or_default().trim();
    Ok(Issue { id: None, title: one_line(title, 200), text: rest.to_owned() })
}
