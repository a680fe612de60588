//! Views of what a plan would lead to.

use rethread_domain::quote::safe;
use rethread_workflow::TaskState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::workflows::{PlannedCommand, Preview};

/// What a plan would lead to; nothing was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct PreviewView {
    pub title: String,
    pub agent: Option<String>,
    /// How many tasks may run at once
    pub jobs: u32,
    /// Whether it can be started like this
    pub is_good: bool,
    /// What is wrong, with the lines of the plan
    pub problems: Vec<String>,
    pub tasks_total: usize,
    /// Tasks that are done, as the plan says
    pub tasks_done: usize,
    /// The ids of the tasks that are left, in order; those of a step run at once
    pub steps: Vec<Vec<String>>,
    pub commands: Vec<PlannedCommandView>,
    /// What agents would be refused if nobody is there to be asked
    pub warning: Option<String>,
    /// Absent where no earlier task of the folder tells
    pub estimate: Option<EstimateView>,
}

/// A command that checks tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct PlannedCommandView {
    /// The whole command; unsafe characters are spelled out
    pub command: String,
    /// Its name in the settings
    pub name: Option<String>,
    pub tasks: Vec<String>,
    /// Whether it may run; otherwise the workflow waits for a person before it
    pub is_approved: bool,
}

/// What it is likely to take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct EstimateView {
    /// How many earlier tasks of the folder it is judged by
    pub judged_by: usize,
    pub tokens: u64,
    pub cost_usd: Option<f64>,
    pub seconds: u64,
}

impl From<&Preview> for PreviewView {
    fn from(seen: &Preview) -> Self {
        let done = |state: TaskState| state.is_done();
        Self {
            title: seen.title.clone(),
            agent: seen.agent.clone(),
            jobs: seen.jobs,
            is_good: seen.problems.is_empty(),
            problems: seen.problems.clone(),
            tasks_total: seen.tasks.len(),
            tasks_done: seen.tasks.iter().filter(|task| done(task.state)).count(),
            steps: seen.steps.clone(),
            commands: seen.commands.iter().map(PlannedCommandView::from).collect(),
            warning: seen.warning.clone(),
            estimate: seen.estimate.map(|estimate| EstimateView {
                judged_by: estimate.judged_by,
                tokens: estimate.tokens,
                cost_usd: estimate.cost_usd,
                seconds: estimate.seconds,
            }),
        }
    }
}

impl From<&PlannedCommand> for PlannedCommandView {
    fn from(of: &PlannedCommand) -> Self {
        Self {
            command: safe(&of.command),
            name: of.name.clone(),
            tasks: of.tasks.clone(),
            is_approved: of.is_approved,
        }
    }
}
