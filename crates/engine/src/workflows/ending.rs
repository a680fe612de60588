//! Records the outcome of work: events, the snapshot of a pause, and the last snapshot.

use rethread_domain::SessionId;
use rethread_workflow as workflow;
use rethread_workflow::{
    Command, Mark, Refusal, SnapshotId, TaskSpec, TaskState, Trigger, Workflow,
};

use super::drive::Driver;
use super::task::Done;
use super::{plan, repository};
use crate::{Engine, Error, Result};

impl Engine {
    /// Tokens of a session, by our own count.
    pub(super) async fn counted(&self, session: SessionId) -> u64 {
        self.session(session).await.map_or(0, |session| session.counters.tokens)
    }
}

/// The last snapshot of a workflow that is over.
pub(super) fn last_mark(workflow: &Workflow) -> Mark {
    Mark {
        id: SnapshotId::generate(),
        trigger: Trigger::End,
        reason: workflow.status().as_str().to_owned(),
        git: repository::delta(workflow),
        forced: false,
        until: None,
        is_in_plan: plan::has_states(workflow),
    }
}

impl Driver<'_> {
    pub(super) async fn task_done(&mut self, done: Done) -> Result<()> {
        self.stops.remove(&done.ended.task);
        if let Some((trigger, reason, until)) = done.pause {
            self.command_if_fit(&Command::Pause { trigger, reason, now: false }).await?;
            if let Some(until) = until {
                self.note(workflow::Event::Parked { until }).await?;
            }
        }
        let (on, used) = (done.ended.task.clone(), done.ended.used);
        match self.command(&Command::EndTask(done.ended)).await {
            // The attempt does not count any more, but what it used does.
            Err(Error::Workflow(
                Refusal::Over(..) | Refusal::Stale { .. } | Refusal::NoTask(..),
            )) => self.command(&Command::Spend { on, used }).await,
            outcome => outcome,
        }
    }

    pub(super) async fn planned(
        &mut self,
        planned: std::result::Result<Vec<TaskSpec>, String>,
    ) -> Result<()> {
        let written = match (planned, &self.workflow.charter.plan) {
            (Ok(tasks), Some(path)) if !self.workflow.status().is_final() => {
                plan::write_new(path, &self.workflow, tasks)
            }
            (planned, _) => planned,
        };
        match written {
            Ok(tasks) => self.command_if_fit(&Command::Propose(tasks)).await,
            Err(why) => {
                let reason = format!("there is no plan yet: {why}");
                let command = Command::Pause { trigger: Trigger::Pause, reason, now: false };
                self.command_if_fit(&command).await
            }
        }
    }

    pub(super) async fn snapshot(&mut self) -> Result<()> {
        let Some(pausing) = self.workflow.pausing().cloned() else { return Ok(()) };
        // States in the file that differ later were set by hand.
        self.keep_plan().await?;
        let was_interrupted = self.workflow.tasks.iter().any(|task| task.was_interrupted);
        let mark = Mark {
            id: SnapshotId::generate(),
            trigger: pausing.trigger,
            reason: pausing.reason,
            git: repository::delta(&self.workflow),
            forced: pausing.now && was_interrupted && pausing.trigger != Trigger::Crash,
            until: pausing.until,
            is_in_plan: plan::has_states(&self.workflow),
        };
        self.command_if_fit(&Command::Settle(mark)).await
    }

    /// Takes the last snapshot, once the workflow is over.
    pub(super) async fn close(&mut self) -> Result<()> {
        let is_taken = self.workflow.mark.as_ref().is_some_and(|mark| mark.trigger == Trigger::End);
        if !self.workflow.status().is_final() || is_taken {
            return Ok(());
        }
        self.command(&Command::Close(last_mark(&self.workflow))).await
    }

    /// States that a person wrote into the plan while the workflow was paused.
    pub(super) async fn marked_by_hand(&mut self) -> Result<Vec<(String, TaskState)>> {
        if !self.workflow.mark.as_ref().is_some_and(|mark| mark.is_in_plan) {
            return Ok(Vec::new());
        }
        let latest = self.engine.snapshot(self.id(), None).await?;
        Ok(plan::marked_by_hand(&self.workflow, &latest))
    }
}
