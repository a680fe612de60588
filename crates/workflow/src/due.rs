//! The effects that are due, derived from the state.

use jiff::Timestamp;
use rethread_domain::wording::counted;

use super::event::Limits;
use super::record::Used;
use super::snapshot::Trigger;
use super::state::Workflow;
use super::status::Status;
use super::task::{Task, TaskState};

/// Something to do now. Doing it again is harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Have the agent write the plan.
    Plan,
    /// Ask whether a task may begin.
    Ask { task: String },
    /// Begin a task.
    Run { task: String },
    /// Interrupt a task that runs.
    Stop { task: String },
    /// No task is running: take the snapshot, which ends the run.
    Snapshot,
}

impl Workflow {
    /// What the process that runs the workflow has to do now.
    pub fn due(&self, now: Timestamp) -> Vec<Effect> {
        let stop =
            || self.running().map(|task| Effect::Stop { task: task.spec.id.clone() }).collect();
        match (self.pausing(), self.status()) {
            (Some(pausing), Status::InProgress) => {
                if !self.is_running() {
                    return vec![Effect::Snapshot];
                }
                if pausing.now { stop() } else { Vec::new() }
            }
            (None, Status::InProgress) if self.is_held() => Vec::new(),
            (None, Status::InProgress) if self.tasks.is_empty() => vec![Effect::Plan],
            (None, Status::InProgress) => {
                let is_time = |task: &&Task| task.not_before.is_none_or(|at| at <= now);
                let ready = self.ready();
                let unasked = ready.iter().filter(|task| task.is_gated() && !self.is_asked(task));
                let ask = unasked.map(|task| Effect::Ask { task: task.spec.id.clone() });
                let open = ready.iter().filter(|task| !task.is_gated()).copied().filter(is_time);
                let run = open.take(self.room());
                ask.chain(run.map(|task| Effect::Run { task: task.spec.id.clone() })).collect()
            }
            _ => stop(),
        }
    }

    /// How many more tasks may begin in parallel.
    pub(super) fn room(&self) -> usize {
        let jobs = usize::try_from(self.charter.limits.jobs.max(1)).unwrap_or(1);
        jobs.saturating_sub(self.running().count())
    }
}

/// The expected usage of the next task, from the completed ones; `None` before the first.
pub fn expected_use(workflow: &Workflow) -> Option<Used> {
    let done: Vec<&Used> = workflow
        .tasks
        .iter()
        .filter(|task| task.state() == TaskState::Completed && task.attempts > 0)
        .map(|task| &task.used)
        .collect();
    let count = u64::try_from(done.len()).ok().filter(|count| *count > 0)?;
    let mut sum = Used::default();
    for used in done {
        sum.add(used);
    }
    let share = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    Some(Used {
        tokens: sum.tokens / count,
        cost_usd: sum.cost_usd.map(|cost| cost / share),
        seconds: sum.seconds / count,
        ..sum
    })
}

/// Which budget of the whole workflow is used up, or would be exceeded by one more task, in words. One more task may use up the
/// remaining time.
pub fn budget_hit(
    workflow: &Workflow,
    limits: &Limits,
    now: Timestamp,
) -> Option<(Trigger, String)> {
    let ran = workflow.ran_for(now);
    if let Some(most) = limits.seconds.filter(|most| ran >= *most) {
        let reason = format!("the time limit of {most} seconds in total is reached: {ran} used");
        return Some((Trigger::Timeout, reason));
    }
    let used = &workflow.total;
    let expected = expected_use(workflow).unwrap_or_default();
    let passes = |most: u64| used.tokens >= most || used.tokens + expected.tokens > most;
    if let Some(most) = limits.tokens.filter(|most| passes(*most)) {
        let (used, expected) = (used.tokens, expected.tokens);
        let reason = format!(
            "the next task would pass the limit of {most} tokens in total: {used} used, a task takes about {expected}"
        );
        return Some((Trigger::Exhaustion, reason));
    }
    let (spent, next) = (used.cost_usd.unwrap_or(0.0), expected.cost_usd.unwrap_or(0.0));
    let most = limits.cost_usd.filter(|most| spent >= *most || spent + next > *most)?;
    let reason = format!(
        "the next task would pass the limit of USD {most:.2} in total: {spent:.2} spent, a task takes about {next:.2}"
    );
    Some((Trigger::Exhaustion, reason))
}

/// Which limit is reached, or would be exceeded by one more task, in words.
pub fn limit_hit(workflow: &Workflow, now: Timestamp) -> Option<(Trigger, String)> {
    let limits = &workflow.charter.limits;
    if let Some(most) = limits.tasks.filter(|most| workflow.run.completed >= *most) {
        return Some((Trigger::TaskComplete, format!("{} done, as asked", counted(most, "task"))));
    }
    budget_hit(workflow, limits, now)
}
