//! What an order would lead to, without beginning it: what is wrong with it, the order of its tasks, its commands, what will be
//! asked, and what it is likely to take.

use rethread_workflow::forecast::{self, Estimate, Experience};
use rethread_workflow::{Charter, TaskSpec, TaskState, Verify, WorkflowId};

use super::WorkflowFilter;
use super::order::{WorkflowOrder, agents, no_command, plan_of, warning};
use super::plan::{PlanError, read_plan};
use crate::Engine;
use crate::program::{Fault, Program, may_record};

/// By how many of the latest workflows of the folder the costs are judged.
const JUDGED_BY: u32 = 20;

/// A command that the plan runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCommand {
    pub command: String,
    /// The tasks that it checks.
    pub tasks: Vec<String>,
    /// Whether it may run: it was approved for this folder, or is one of the user's settings.
    pub is_approved: bool,
    /// Its name in the settings.
    pub name: Option<String>,
}

/// What an order would lead to.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    pub title: String,
    /// The agent of tasks for which the plan names none.
    pub agent: Option<String>,
    pub jobs: u32,
    /// What is wrong: it cannot be started like this.
    pub problems: Vec<String>,
    /// Empty without a plan: the agent would write one first.
    pub tasks: Vec<TaskSpec>,
    /// The ids of the tasks that are left, in order; those of a step run at once.
    pub steps: Vec<Vec<String>>,
    pub commands: Vec<PlannedCommand>,
    /// What is refused if nobody is there to be asked.
    pub warning: Option<String>,
    /// `None` if there are no earlier tasks to judge by.
    pub estimate: Option<Estimate>,
}

/// The commands of a plan that is to be started and that were not approved, with what it would be started with.
#[derive(Debug, Clone)]
pub struct Unapproved {
    pub charter: Charter,
    pub commands: Vec<String>,
}

impl Engine {
    /// The commands of a plan that is to be started and that were not approved.
    pub async fn unapproved_in(
        &self,
        program: &dyn Program,
        order: &WorkflowOrder,
    ) -> Result<Unapproved, Fault> {
        let settings = program.workflows()?;
        let plan = order.plan.as_deref().map(plan_of).transpose()?;
        // Commands are approved for a folder, whoever works on them.
        let agent = order.agent.clone().or_else(|| Some("none".to_owned()));
        let order = WorkflowOrder { agent, ..order.clone() };
        let charter = order.charter(program, &settings, plan.as_ref())?;
        let tasks = plan.map(|plan| plan.tasks).unwrap_or_default();
        let planned = self.planned_commands(&charter, &tasks).await?;
        let open = planned.into_iter().filter(|command| !command.is_approved);
        let commands = open.map(|command| command.command).collect();
        Ok(Unapproved { charter, commands })
    }

    /// Looks at an order without beginning it. What is wrong with it is part of the answer.
    pub async fn preview_order(
        &self,
        program: &dyn Program,
        order: &WorkflowOrder,
    ) -> Result<Preview, Fault> {
        may_record(program, &order.worktree)?;
        let settings = program.workflows()?;
        let mut seen = Preview {
            agent: order.agent.clone().or_else(|| settings.agent.clone()),
            jobs: order.jobs.unwrap_or(settings.limits.jobs).max(1),
            ..Preview::default()
        };
        let plan = match order.plan.as_deref().map(read_plan).transpose() {
            Ok(plan) => plan,
            Err(PlanError::Bad(problems)) => {
                seen.problems = problems.iter().map(ToString::to_string).collect();
                return Ok(seen);
            }
            Err(error) => {
                seen.problems.push(error.to_string());
                return Ok(seen);
            }
        };
        // Where no agent is given, everything else can be looked at all the same.
        let stand_in = WorkflowOrder {
            agent: seen.agent.clone().or_else(|| Some("none".to_owned())),
            ..order.clone()
        };
        let charter = match (stand_in.charter(program, &settings, plan.as_ref()), &seen.agent) {
            (Ok(charter), _) => charter,
            (Err(fault), _) => {
                seen.problems.push(fault.to_string());
                return Ok(seen);
            }
        };
        seen.title.clone_from(&charter.title);
        seen.tasks = plan.map(|plan| plan.tasks).unwrap_or_default();
        look_at_agents(program, &charter, &mut seen);
        for task in &seen.tasks {
            if let Some(Verify::Named(name)) = &task.verify
                && !settings.commands.contains_key(name)
            {
                let what = no_command(name).to_string();
                if !seen.problems.contains(&what) {
                    seen.problems.push(what);
                }
            }
        }
        seen.commands = self.planned_commands(&charter, &seen.tasks).await?;
        for command in &mut seen.commands {
            if let Some(text) = command.name.as_ref().and_then(|name| settings.commands.get(name)) {
                command.command.clone_from(text);
            }
        }
        let jobs = usize::try_from(seen.jobs).unwrap_or(usize::MAX);
        let steps = forecast::steps(&seen.tasks, jobs);
        let earlier = self.experience(&charter).await?;
        seen.estimate = forecast::estimate(&steps, &charter.agent, &earlier);
        let ids = |step: &Vec<&TaskSpec>| step.iter().map(|task| task.id.clone()).collect();
        seen.steps = steps.iter().map(ids).collect();
        Ok(seen)
    }

    /// The commands that check tasks, each once.
    pub(super) async fn planned_commands(
        &self,
        charter: &Charter,
        tasks: &[TaskSpec],
    ) -> Result<Vec<PlannedCommand>, Fault> {
        let mut found: Vec<PlannedCommand> = Vec::new();
        for task in tasks.iter().filter(|task| !task.state.is_done()) {
            let (text, name) = match &task.verify {
                None => continue,
                Some(Verify::Text(text)) => (text.clone(), None),
                Some(Verify::Named(name)) => (name.clone(), Some(name.clone())),
            };
            let is_same = |known: &&mut PlannedCommand| match &name {
                Some(name) => known.name.as_ref() == Some(name),
                None => known.name.is_none() && known.command == text,
            };
            if let Some(known) = found.iter_mut().find(is_same) {
                known.tasks.push(task.id.clone());
                continue;
            }
            let is_approved = name.is_some() || self.is_approved(charter, &text).await?;
            let tasks = vec![task.id.clone()];
            found.push(PlannedCommand { command: text, tasks, is_approved, name });
        }
        Ok(found)
    }

    /// What earlier tasks took in this folder.
    async fn experience(&self, charter: &Charter) -> Result<Vec<Experience>, Fault> {
        let filter = WorkflowFilter {
            user: Some(charter.user.clone()),
            worktree: Some(charter.worktree.clone()),
            limit: JUDGED_BY,
            ..WorkflowFilter::default()
        };
        let ids: Vec<WorkflowId> =
            self.workflows(&filter).await?.into_iter().map(|row| row.id).collect();
        let mut found = Vec::new();
        for id in ids {
            let workflow = self.workflow(id).await?;
            let agent = &workflow.charter.agent;
            let done = workflow
                .tasks
                .iter()
                .filter(|task| task.state() == TaskState::Completed && task.attempts > 0);
            found.extend(done.map(|task| Experience {
                agent: task.spec.agent.as_ref().unwrap_or(agent).clone(),
                used: task.used,
            }));
        }
        Ok(found)
    }
}

/// Every agent is known and installed, and who asks is told of.
fn look_at_agents(program: &dyn Program, charter: &Charter, seen: &mut Preview) {
    if seen.agent.is_none() {
        seen.problems
            .push("no agent is given: give one with --agent, or set workflow.agent".to_owned());
        return;
    }
    for agent in agents(charter, &seen.tasks) {
        let alone = Charter { agent: agent.clone(), ..charter.clone() };
        if let Err(fault) = warning(program, &alone, &[]) {
            seen.problems.push(fault.to_string());
        }
    }
    seen.warning = warning(program, charter, &seen.tasks).ok().flatten();
}
