//! Operations on a workflow from outside its driver: resume, pause, answer, recover.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_store::WorkflowFilter;
use rethread_workflow::{
    Budgets, Command, GitState, Snapshot, SnapshotId, Status, Trigger, Workflow, WorkflowId,
};
use tokio::sync::mpsc;

use super::configured_crew::ConfiguredCrew;
use super::crew::Crew;
use super::drive::{Report, View};
use super::notices::is_of_interest;
use super::order::consent_of;
use super::repository;
use crate::agents::{Asker, Nobody};
use crate::program::{Fault, Program, check_installed};
use crate::{Engine, Error, Logged as _, Result};

/// How long a background process may take before it has recorded something.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);
/// How often to check that the process that runs a workflow is alive.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// How long to wait at the end for notices to be delivered.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// How to resume a workflow.
#[derive(Debug, Clone, Default)]
pub struct ResumeOptions {
    /// From this snapshot; by default the latest.
    pub from: Option<String>,
    /// Another agent to continue with.
    pub agent: Option<String>,
    /// New budgets for the whole workflow.
    pub budgets: Budgets,
    /// What agents may do without asking from now on, if that changes.
    pub permissions: Option<String>,
    /// Whether tasks may be repeated that were not done at that snapshot.
    pub may_rewind: bool,
}

/// What is resumed, and what has changed since the snapshot.
#[derive(Debug, Clone)]
pub struct Resumption {
    pub snapshot: Snapshot,
    /// The current state.
    pub workflow: Workflow,
    /// The current state of the repository.
    pub git: GitState,
    /// How tasks and repository differ from the snapshot, one line each.
    pub diverged: Vec<String>,
    /// The tasks that will be repeated.
    pub rewind: Vec<String>,
    agent: Option<String>,
    budgets: Budgets,
    permissions: Option<String>,
}

impl Resumption {
    pub fn command(&self) -> Command {
        Command::Resume {
            from: self.snapshot.id,
            agent: self.agent.clone(),
            diverged: self.diverged.clone(),
            rewind: self.rewind.clone(),
            budgets: self.budgets,
            permissions: self.permissions.clone(),
        }
    }
}

/// A resumed workflow.
#[derive(Debug, Clone)]
pub struct Resumed {
    pub workflow: Workflow,
    /// The snapshot it was resumed from.
    pub snapshot: Snapshot,
    /// How the repository differs from that.
    pub diverged: Vec<String>,
}

impl Resumption {
    /// Refuses to repeat tasks unless that was agreed to.
    pub fn check(&self, may_rewind: bool) -> std::result::Result<(), Fault> {
        if self.rewind.is_empty() || may_rewind {
            return Ok(());
        }
        let tasks = self.rewind.join(", ");
        let what = format!(
            "going back to snapshot {} means that these tasks are done again: {tasks}. Files and commits stay as they are.",
            self.snapshot.id.short()
        );
        let hint = format!(
            "a person agrees to it: `rethread workflow resume {} --from {} --yes`; without --from it goes on from the latest snapshot",
            self.workflow.id.short(),
            self.snapshot.id.short()
        );
        Err(Fault::refused("refused", what, hint))
    }
}

fn resumed_from(workflow: Workflow, snapshot: Snapshot, asked: &ResumeOptions) -> Resumption {
    let is_latest = workflow.mark.as_ref().is_some_and(|mark| mark.id == snapshot.id);
    // Resuming from the latest snapshot does not undo what was done by hand or skipped since.
    let rewind = if is_latest { Vec::new() } else { snapshot.done_since(&workflow) };
    let git = repository::now(&workflow);
    let mut diverged = repository::diverged(&snapshot.git, &git);
    diverged.extend(repository::tasks_diverged(&snapshot, &workflow, &rewind));
    let (agent, budgets) = (asked.agent.clone(), asked.budgets);
    let permissions = asked.permissions.clone();
    Resumption { snapshot, workflow, git, diverged, rewind, agent, budgets, permissions }
}

impl Engine {
    /// Runs a workflow in this process until it rests, like [`Engine::drive_workflow`], and sends notices.
    pub async fn run_workflow(
        &self,
        program: &Arc<dyn Program>,
        id: WorkflowId,
        first: Option<Command>,
        asker: Arc<dyn Asker>,
        view: View<'_>,
    ) -> Result<Workflow> {
        let crew: Arc<dyn Crew> = Arc::new(ConfiguredCrew::new(self, program, asker)?);
        let (wake, mut woken) = mpsc::unbounded_channel();
        let telling = async {
            while woken.recv().await.is_some() {
                self.tell_others(program.as_ref(), id).await;
            }
        };
        let mut telling = std::pin::pin!(telling);
        let outcome = {
            let mut show = |report: &Report| {
                view(report);
                if is_of_interest(report) {
                    // The receiver is only gone once everything is delivered.
                    let _told = wake.send(());
                }
            };
            let mut driven = std::pin::pin!(self.drive_workflow(id, first, crew, &mut show));
            loop {
                tokio::select! {
                    outcome = &mut driven => break outcome,
                    () = &mut telling => (),
                }
            }
        };
        drop(wake);
        // Notices that cannot be delivered in time are left to the next process.
        drop(tokio::time::timeout(LAST_WORDS, telling).await);
        outcome
    }

    /// Starts a process of its own for a workflow, and waits until that has begun.
    pub async fn run_in_background(
        &self,
        program: &dyn Program,
        id: WorkflowId,
        first: &Command,
    ) -> std::result::Result<Workflow, Fault> {
        let before = self.workflow(id).await?.events;
        let mut ended = program.run_apart(id, first)?;
        let (begun, mut changes) = (Instant::now(), self.changes());
        loop {
            let fault = tokio::select! {
                fault = &mut ended => Some(fault),
                () = changes.within(CHECK_EVERY) => None,
            };
            let workflow = self.workflow(id).await?;
            if workflow.events > before || begun.elapsed() > BEGINS_WITHIN {
                return Ok(workflow);
            }
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
    }

    /// Prepares a resume. Refused first if it is not possible. A crashed workflow gets its snapshot first.
    pub async fn resumption(
        &self,
        program: &Arc<dyn Program>,
        id: WorkflowId,
        asked: &ResumeOptions,
    ) -> std::result::Result<Resumption, Fault> {
        if let Some(agent) = &asked.agent {
            check_installed(program.as_ref(), agent)?;
        }
        consent_of(asked.permissions.as_deref())?;
        let mut workflow = self.workflow(id).await?;
        if workflow.status() == Status::InProgress && !self.is_workflow_driven(id).await? {
            workflow = self.take_up(program, id).await?;
        }
        // Checked before snapshots: a running workflow may have none yet.
        let resume = Command::Resume {
            from: SnapshotId::generate(),
            agent: None,
            diverged: Vec::new(),
            rewind: Vec::new(),
            budgets: asked.budgets,
            permissions: None,
        };
        workflow.decide(&resume).map_err(Error::from)?;
        let snapshot = self.snapshot(id, asked.from.as_deref()).await?;
        Ok(resumed_from(workflow, snapshot, asked))
    }

    /// Resumes a workflow in the background.
    pub async fn resume_workflow(
        &self,
        program: &Arc<dyn Program>,
        id: WorkflowId,
        asked: &ResumeOptions,
    ) -> std::result::Result<Resumed, Fault> {
        let resumption = self.resumption(program, id, asked).await?;
        resumption.check(asked.may_rewind)?;
        let first = resumption.command();
        let workflow = self.run_in_background(program.as_ref(), id, &first).await?;
        Ok(Resumed { workflow, snapshot: resumption.snapshot, diverged: resumption.diverged })
    }

    /// Requests a pause and, once that is recorded, waits for the boundary for a limited time.
    pub async fn pause_workflow(
        &self,
        program: &Arc<dyn Program>,
        id: WorkflowId,
        reason: String,
        now: bool,
        wait: Duration,
    ) -> std::result::Result<Workflow, Fault> {
        let command = Command::Pause { trigger: Trigger::Pause, reason, now };
        let workflow = self.ask_workflow(id, &command).await?;
        self.reach_boundary(program, workflow, wait).await
    }

    /// Waits for a limited time until a workflow has paused.
    pub async fn reach_boundary(
        &self,
        program: &Arc<dyn Program>,
        mut workflow: Workflow,
        wait: Duration,
    ) -> std::result::Result<Workflow, Fault> {
        let (id, begun, mut changes) = (workflow.id, Instant::now(), self.changes());
        while workflow.status() == Status::InProgress && begun.elapsed() < wait {
            if !self.is_workflow_driven(id).await? {
                // No process runs it, so this is a boundary.
                workflow = match self.take_up(program, id).await {
                    Err(Error::WorkflowBusy(_)) => self.workflow(id).await?,
                    outcome => outcome?,
                };
                continue;
            }
            changes.within(CHECK_EVERY).await;
            workflow = self.workflow(id).await?;
        }
        Ok(workflow)
    }

    /// Answers a workflow as it was read: approve, reject, retry, skip, cancel. If it was waiting and no process runs it, it
    /// continues in the background.
    pub async fn answer_workflow(
        &self,
        program: &dyn Program,
        read: &Workflow,
        command: Command,
    ) -> std::result::Result<Workflow, Fault> {
        let id = read.id;
        if let Command::Approve(answer) = &command {
            self.approve_question(read, answer.task.as_deref()).await?;
        }
        let workflow = self.workflow(id).await?;
        let is_end = matches!(command, Command::Cancel { .. });
        if workflow.status() != Status::Blocked || is_end {
            let workflow = self.ask_workflow(id, &command).await?;
            if is_end {
                self.tell_others(program, id).await;
            }
            return Ok(workflow);
        }
        workflow.decide(&command).map_err(Error::from)?;
        self.run_in_background(program, id, &command).await
    }

    /// Takes the snapshot of a workflow whose process has died; no task is run.
    pub async fn take_up(&self, program: &Arc<dyn Program>, id: WorkflowId) -> Result<Workflow> {
        let members = ConfiguredCrew::new(self, program, Arc::new(Nobody))?;
        let workflow = Box::pin(self.recover_workflow(id, Arc::new(members))).await?;
        self.tell_others(program.as_ref(), id).await;
        Ok(workflow)
    }

    /// Completes what processes left undone that were killed when their workflow had come to rest: the last snapshot, the
    /// states in the plan, locks. Workflows in progress are left to a resume or to [`Engine::take_up_all`].
    pub async fn finish_killed(
        &self,
        program: &Arc<dyn Program>,
    ) -> std::result::Result<(), Fault> {
        let user = program.user()?;
        for id in self.store.sweep_locks().await.map_err(Error::from)? {
            let workflow = self.workflow(id).await?;
            if workflow.charter.user != user || workflow.status() == Status::InProgress {
                continue;
            }
            match self.take_up(program, id).await {
                Ok(_) | Err(Error::WorkflowBusy(_)) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Done at the start of a long-running process: recovers crashed workflows, and resumes them if the settings say so.
    pub async fn take_up_all(&self, program: &Arc<dyn Program>) {
        let Ok(user) = program.user() else { return };
        // If it fails, the next process tries again.
        self.finish_killed(program).await.or_log("what was killed could not be finished");
        let crashed = self.abandoned(Some(&user)).await;
        let crashed = crashed.or_log("abandoned workflows cannot be found").unwrap_or_default();
        for id in &crashed {
            let short = id.short();
            match self.take_up(program, *id).await {
                Ok(_) => program.note(&format!(
                    "workflow {short} had crashed; `rethread workflow resume {short}` goes on with it"
                )),
                Err(Error::WorkflowBusy(_) | Error::Workflow(_)) => (),
                Err(error) => program.note(&format!("workflow {short}: {error}")),
            }
        }
        let resumes = program.workflows().is_ok_and(|settings| settings.resumes_after_crash);
        if !crashed.is_empty()
            && resumes
            && let Err(error) = program.recover_apart()
        {
            program.note(&format!("what crashed does not go on by itself: {error}"));
        }
    }

    /// The command that continues a workflow which rests because of a crash, whose time to go on has come, or which was never begun; `None` if it does not,
    /// or not any more.
    pub async fn after_crash(&self, id: WorkflowId) -> Result<Option<Command>> {
        let workflow = self.workflow(id).await?;
        let command = match (workflow.status(), &workflow.mark) {
            (Status::Pending, _) => self.beginning_of(&workflow),
            (Status::Paused, Some(mark)) if mark.trigger == Trigger::Crash => {
                self.latest_resumption(workflow).await?
            }
            // Whoever waited for that has died.
            (Status::Paused, _)
                if workflow.goes_on_at().is_some_and(|at| at <= self.clock.now()) =>
            {
                self.latest_resumption(workflow).await?
            }
            _ => return Ok(None),
        };
        Ok(if self.is_workflow_driven(id).await? { None } else { Some(command) })
    }

    /// The command that resumes a workflow from its latest snapshot, with what has changed since.
    pub async fn latest_resumption(&self, workflow: Workflow) -> Result<Command> {
        let snapshot = self.snapshot(workflow.id, None).await?;
        Ok(resumed_from(workflow, snapshot, &ResumeOptions::default()).command())
    }

    /// The workflows of a user that may rest because of a crash, oldest first.
    pub async fn resting(&self, user: &str) -> Result<Vec<WorkflowId>> {
        let filter = WorkflowFilter {
            user: Some(user.to_owned()),
            statuses: vec![Status::Paused, Status::Pending],
            limit: u32::MAX,
            ..WorkflowFilter::default()
        };
        let mut ids: Vec<_> = self.workflows(&filter).await?.iter().map(|row| row.id).collect();
        ids.sort();
        Ok(ids)
    }
}
