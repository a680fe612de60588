//! The plan's file: read when it changes; task states are written back.

use std::path::Path;

use rethread_workflow::plan::{self, Plan, Problem};
use rethread_workflow::{Snapshot, Task, TaskSpec, TaskState, Workflow};
use rethread_workspace::text;

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the plan cannot be read: {0}")]
    Unreadable(String),
    #[error("the plan cannot be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Bad(Vec<Problem>),
}

/// Reads a plan.
pub fn read_plan(path: &Path) -> Result<Plan, PlanError> {
    let text = text::read(path).map_err(|error| PlanError::Unreadable(reason(&error)))?;
    plan::parse(&text).map_err(PlanError::Bad)
}

/// What the system says, without its number of it.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.as_str(), |(why, _)| why).to_owned()
}

/// Whether the file is a valid plan; a missing file is fine.
pub(super) fn check(workflow: &Workflow) -> Result<(), PlanError> {
    let text = workflow.charter.plan.as_deref().and_then(|path| text::read(path).ok());
    text.map_or(Ok(()), |text| plan::parse(&text).map(drop).map_err(PlanError::Bad))
}

/// Removes temporary files that a killed process left beside it.
pub(super) fn sweep(workflow: &Workflow) {
    if let Some(path) = &workflow.charter.plan {
        // If it is a link, the target is written.
        text::sweep(&std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    }
}

/// The tasks in the file, if it is a plan.
fn tasks_of(workflow: &Workflow) -> Vec<TaskSpec> {
    let text = workflow.charter.plan.as_deref().and_then(|path| text::read(path).ok());
    text.and_then(|text| plan::parse(&text).ok()).map(|plan| plan.tasks).unwrap_or_default()
}

/// Whether the file shows the current states of all its tasks.
pub(super) fn has_states(workflow: &Workflow) -> bool {
    let is_same =
        |spec: &TaskSpec| workflow.task(&spec.id).is_some_and(|task| task.state() == spec.state);
    tasks_of(workflow).iter().all(is_same)
}

/// States that a person wrote into the file since a snapshot at which it was up to date. Later commands are not undone by a file
/// that does not show them.
pub(super) fn marked_by_hand(workflow: &Workflow, snapshot: &Snapshot) -> Vec<(String, TaskState)> {
    let marked = |spec: TaskSpec| {
        let then = snapshot.tasks.iter().find(|task| task.spec.id == spec.id)?.state();
        let now = workflow.task(&spec.id)?.state();
        let is_wish = spec.state.is_done() || spec.state == TaskState::Pending;
        (now == then && spec.state != then && is_wish).then_some((spec.id, spec.state))
    };
    tasks_of(workflow).into_iter().filter_map(marked).collect()
}

/// The plan's file as last seen.
#[derive(Debug, Default)]
pub(super) struct PlanFile {
    seen: Option<String>,
    trouble: Option<String>,
}

/// The result of checking the file.
#[derive(Debug, Default)]
pub(super) struct PlanCheck {
    /// The tasks, if the file was changed by hand.
    pub(super) tasks: Option<Vec<TaskSpec>>,
    /// A problem, reported once.
    pub(super) trouble: Option<String>,
}

impl PlanFile {
    /// Reads manual changes, and writes the states that differ.
    pub(super) fn keep(&mut self, workflow: &Workflow) -> PlanCheck {
        let Some(path) = &workflow.charter.plan else { return PlanCheck::default() };
        if workflow.tasks.is_empty() {
            return PlanCheck::default();
        }
        let text = match text::read(path) {
            Ok(text) => text,
            Err(error) => {
                let why = reason(&error);
                return self.troubled(format!("the plan cannot be read: {why}"));
            }
        };
        let mut looked = PlanCheck::default();
        if self.seen.as_deref() != Some(&text) {
            match plan::parse(&text) {
                Ok(plan) if !is_same(&plan.tasks, workflow) => looked.tasks = Some(plan.tasks),
                Ok(_) => (),
                Err(problems) => {
                    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    return self
                        .troubled(format!("the plan cannot be used now: {}", told.join("; ")));
                }
            }
            self.seen = Some(text.clone());
        }
        self.trouble = None;
        if looked.tasks.is_none() {
            looked.trouble = self.write(path, &text, workflow).err();
        }
        looked
    }

    fn write(&mut self, path: &Path, text: &str, workflow: &Workflow) -> Result<(), String> {
        let states: Vec<(String, TaskState)> =
            workflow.tasks.iter().map(|task| (task.spec.id.clone(), task.state())).collect();
        let wanted = plan::with_states(text, &states);
        if wanted != text {
            text::replace(path, text, &wanted)
                .map_err(|error| format!("the plan cannot be written: {error}"))?;
            self.seen = Some(wanted);
        }
        Ok(())
    }

    fn troubled(&mut self, trouble: String) -> PlanCheck {
        let is_new = self.trouble.as_ref() != Some(&trouble);
        self.trouble = Some(trouble.clone());
        PlanCheck { tasks: None, trouble: is_new.then_some(trouble) }
    }
}

/// Whether a plan has the tasks of the workflow, whatever their states.
fn is_same(tasks: &[TaskSpec], workflow: &Workflow) -> bool {
    let stateless = |spec: &TaskSpec| TaskSpec { state: TaskState::Pending, ..spec.clone() };
    let known = |spec: &TaskSpec| {
        workflow.task(&spec.id).is_some_and(|task| stateless(&task.spec) == stateless(spec))
    };
    // A finished task that was deleted from the file stays known.
    let is_open = |task: &&Task| {
        task.attempts == 0 || matches!(task.state(), TaskState::Pending | TaskState::InProgress)
    };
    let mut open = workflow.tasks.iter().filter(is_open);
    tasks.iter().all(known) && open.all(|task| tasks.iter().any(|spec| spec.id == task.spec.id))
}

/// Writes the plan that an agent made: if there is none yet, or in place of the rejected one. If somebody wrote one meanwhile,
/// or we did before a crash, that one is proposed.
pub(super) fn write_new(
    path: &Path,
    workflow: &Workflow,
    tasks: Vec<TaskSpec>,
) -> Result<Vec<TaskSpec>, String> {
    let text = plan::written(&workflow.charter.title, &tasks);
    let written = match text::read(path) {
        Ok(rejected) if workflow.rejection.is_some() => text::replace(path, &rejected, &text),
        Ok(there) => {
            let there = plan::parse(&there).map(|plan| plan.tasks);
            return there.map_err(|_| {
                format!("{} exists and is not a plan: move it elsewhere", path.display())
            });
        }
        Err(_) => text::create(path, &text),
    };
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(tasks)
}
