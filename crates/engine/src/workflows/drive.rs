//! The driver of a workflow: carries out effects and records their outcomes, until the workflow rests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rethread_domain::turn::Update;
use rethread_store::{self as store, WorkflowClaim};
use rethread_workflow::{
    Command, Effect, Event, EventRecord, Question, Refusal, Snapshot, Status, TaskSpec, Trigger,
    Used, Verify, Workflow, WorkflowId, limit_hit,
};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::crew::Crew;
use super::plan::{self, PlanFile};
use super::planning::PLANNING;
use super::repository;
use super::task::{Attempt, Done, beginning_of};
use super::usage::Watch;
use crate::{Engine, Error, Result};

/// How long the lease of a claim lasts without renewal.
pub(super) const LEASE: Duration = Duration::from_secs(10);
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(3);
/// How often the lease and the plan's file are checked.
const BEAT: Duration = Duration::from_millis(100);

/// How often a claim is retried whose holder is about to leave.
const LOOKS: u32 = 50;

/// A report to whoever watches.
#[derive(Debug, Clone)]
pub enum Report {
    /// An event that has been recorded.
    Event(Box<EventRecord>),
    /// An event that is to be recorded.
    #[doc(hidden)]
    Became(Event),
    /// An agent says or does something.
    Update { task: String, update: Update },
    /// Something that a person should know.
    Note(String),
}

/// The result of work that ran beside the loop.
pub(super) enum Finished {
    Task(Box<Done>),
    Plan(std::result::Result<Vec<TaskSpec>, String>, Used),
}

pub(super) type View<'a> = &'a mut (dyn FnMut(&Report) + Send);

pub(super) struct Driver<'a> {
    pub(super) engine: Engine,
    pub(super) crew: Arc<dyn Crew>,
    pub(super) claim: WorkflowClaim,
    pub(super) workflow: Workflow,
    pub(super) view: View<'a>,
    pub(super) work: FuturesUnordered<BoxFuture<'static, Finished>>,
    pub(super) is_planning: bool,
    pub(super) stops: HashMap<String, watch::Sender<bool>>,
    pub(super) sender: mpsc::UnboundedSender<Report>,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    pub(super) plan: PlanFile,
    pub(super) resumed: Option<Arc<Snapshot>>,
    /// What was completed on this project before, once it is needed.
    pub(super) earlier: Option<Arc<Vec<Workflow>>>,
    pub(super) renewed: Instant,
}

impl Engine {
    /// Claims a workflow, cleans up after an earlier process, applies `first`, and runs it until it rests: paused, blocked
    /// or over.
    #[tracing::instrument(name = "workflow", skip_all, fields(workflow = %id))]
    pub async fn drive_workflow(
        &self,
        id: WorkflowId,
        first: Option<Command>,
        crew: Arc<dyn Crew>,
        view: View<'_>,
    ) -> Result<Workflow> {
        tracing::info!("workflow runs");
        let driven = async {
            let mut driver = self.driver(id, crew, view).await?;
            driver.recover().await?;
            if let Some(first) = first {
                driver.begin(first).await?;
            }
            driver.run().await
        };
        let driven = driven.await;
        match &driven {
            Ok(workflow) => tracing::info!(status = %workflow.status(), "workflow rests"),
            Err(error) => {
                tracing::error!(error = error as &dyn std::error::Error, "workflow failed");
            }
        }
        driven
    }

    /// Completes what a dead process left undone: the snapshot, and the states in the plan. No task is run.
    pub async fn recover_workflow(&self, id: WorkflowId, crew: Arc<dyn Crew>) -> Result<Workflow> {
        let mut view = |_: &Report| ();
        let mut driver = self.driver(id, crew, &mut view).await?;
        driver.recover().await?;
        driver.keep_plan().await?;
        driver.close().await?;
        Ok(driver.workflow)
    }

    async fn driver<'a>(
        &self,
        id: WorkflowId,
        crew: Arc<dyn Crew>,
        view: View<'a>,
    ) -> Result<Driver<'a>> {
        let claim = self.claimed(id).await?;
        let (sender, reports) = mpsc::unbounded_channel();
        let workflow = self.store.workflow(id).await?;
        plan::sweep(&workflow);
        Ok(Driver {
            engine: self.clone(),
            crew,
            workflow,
            claim,
            view,
            work: FuturesUnordered::new(),
            is_planning: false,
            stops: HashMap::new(),
            sender,
            reports,
            plan: PlanFile::default(),
            resumed: None,
            earlier: None,
            renewed: Instant::now(),
        })
    }

    /// Takes the claim. A holder whose workflow already rests is about to leave.
    async fn claimed(&self, id: WorkflowId) -> Result<WorkflowClaim> {
        for _ in 0..LOOKS {
            if let Some(claim) = self.store.claim_workflow(id, LEASE).await? {
                return Ok(claim);
            }
            if self.store.workflow(id).await?.status() == Status::InProgress {
                break;
            }
            tokio::time::sleep(BEAT).await;
        }
        Err(Error::WorkflowBusy(id))
    }
}

impl Driver<'_> {
    pub(super) fn id(&self) -> WorkflowId {
        self.workflow.id
    }

    async fn begin(&mut self, first: Command) -> Result<()> {
        if let Command::Resume { from, .. } = &first {
            let given = from.to_string();
            self.resumed = Some(Arc::new(self.engine.snapshot(self.id(), Some(&given)).await?));
        } else if self.workflow.mark.is_some() {
            self.resumed = Some(Arc::new(self.engine.snapshot(self.id(), None).await?));
        }
        // Manual changes of the plan are what the person wants now; a resumed older plan must not overwrite them.
        if !matches!(first, Command::Reject(_)) && !self.workflow.tasks.is_empty() {
            plan::check(&self.workflow).map_err(Error::Plan)?;
        }
        let marked = match &first {
            Command::Resume { .. } => self.marked_by_hand().await?,
            _ => Vec::new(),
        };
        self.command(&first).await?;
        if marked.is_empty() { Ok(()) } else { self.command(&Command::Mark(marked)).await }
    }

    async fn run(mut self) -> Result<Workflow> {
        let mut changes = self.engine.changes();
        // Ticks whatever else happens: an agent that never stops talking must not cost us the lease.
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut kept = 0;
        loop {
            // Before anything begins: the plan may have been changed while no process was watching.
            if kept != self.workflow.events {
                self.keep_plan().await?;
                kept = self.workflow.events;
            }
            self.keep_limits().await?;
            for effect in self.workflow.due(self.engine.clock.now()) {
                self.carry_out(effect).await?;
            }
            if self.workflow.status() != Status::InProgress {
                self.stop_all();
                if self.work.is_empty() {
                    self.keep_plan().await?;
                    self.close().await?;
                    return Ok(self.workflow);
                }
            }
            tokio::select! {
                Some(finished) = self.work.next() => self.finished(finished).await?,
                Some(report) = self.reports.recv() => self.report(report).await?,
                () = changes.next() => self.look().await?,
                _ = beat.tick() => {
                    self.renew().await?;
                    self.keep_plan().await?;
                }
            }
        }
    }

    async fn renew(&mut self) -> Result<()> {
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.engine.store.renew_workflow(self.id(), self.claim.epoch, LEASE).await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// Applies events that others wrote.
    async fn look(&mut self) -> Result<()> {
        let records = self.engine.store.workflow_events(self.id(), self.workflow.events).await?;
        let is_changed = records.iter().any(|one| matches!(one.event, Event::Purged { .. }));
        for record in records {
            self.workflow.apply(&record.event, record.at);
            (self.view)(&Report::Event(Box::new(record)));
        }
        if is_changed {
            self.workflow = self.engine.store.workflow(self.id()).await?;
        }
        Ok(())
    }

    /// Decides and writes, again if others were faster. Fails with a stale epoch once another process has the claim.
    pub(super) async fn command(&mut self, command: &Command) -> Result<()> {
        loop {
            let events = self.engine.without_secrets(self.workflow.decide(command)?);
            if events.is_empty() {
                return Ok(());
            }
            let (now, before) = (self.engine.clock.now(), self.workflow.events);
            let epoch = Some(self.claim.epoch);
            let appended = self
                .engine
                .store
                .append_events(self.id(), before, epoch, events.clone(), now)
                .await;
            match appended {
                Ok(()) => {
                    for event in events {
                        self.workflow.apply(&event, now);
                        let record = EventRecord { no: self.workflow.events, at: now, event };
                        (self.view)(&Report::Event(Box::new(record)));
                    }
                    return Ok(());
                }
                Err(store::Error::WorkflowConflict(_)) => self.look().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// As [`Self::command`], but a refusal means that it is no longer wanted.
    pub(super) async fn command_if_fit(&mut self, command: &Command) -> Result<()> {
        match self.command(command).await {
            Err(Error::Workflow(
                Refusal::Over(..)
                | Refusal::Stale { .. }
                | Refusal::NoTask(..)
                | Refusal::Not(..)
                | Refusal::Waits { .. }
                | Refusal::Already(..)
                | Refusal::Task { .. },
            )) => Ok(()),
            outcome => outcome,
        }
    }

    pub(super) async fn note(&mut self, event: Event) -> Result<()> {
        if matches!(event, Event::Warned { .. }) && self.workflow.run.is_warned {
            return Ok(());
        }
        self.command_if_fit(&Command::Note(Box::new(event))).await
    }

    async fn report(&mut self, report: Report) -> Result<()> {
        match report {
            Report::Became(event) => self.note(event).await,
            other => {
                (self.view)(&other);
                Ok(())
            }
        }
    }

    /// A limit of this run pauses it at the next boundary; a boundary that does not come is forced.
    async fn keep_limits(&mut self) -> Result<()> {
        if self.workflow.status() != Status::InProgress {
            return Ok(());
        }
        let now = self.engine.clock.now();
        let most = self.workflow.charter.limits.boundary_seconds;
        let asked = match self.workflow.pausing() {
            None => {
                limit_hit(&self.workflow, now).map(|(trigger, reason)| (trigger, reason, false))
            }
            Some(pausing)
                if !pausing.now && pausing.lasts(now) >= most && self.workflow.is_running() =>
            {
                let note = format!("the task did not end within {most} seconds: it is interrupted");
                (self.view)(&Report::Note(note));
                Some((pausing.trigger, pausing.reason.clone(), true))
            }
            Some(_) => None,
        };
        match asked {
            Some((trigger, reason, now)) => {
                self.command_if_fit(&Command::Pause { trigger, reason, now }).await
            }
            None => self.keep_waiting().await,
        }
    }

    /// Where nothing can be done for long, it pauses until then.
    async fn keep_waiting(&mut self) -> Result<()> {
        let Some(until) = self.workflow.long_wait(self.engine.clock.now()) else { return Ok(()) };
        let first = self.workflow.ready().into_iter().min_by_key(|task| task.not_before);
        let why = first.and_then(|task| task.note.clone()).unwrap_or_default();
        let reason = format!("what is left waits: {why}");
        let pause = Command::Pause { trigger: Trigger::Exhaustion, reason, now: false };
        self.command_if_fit(&pause).await?;
        self.note(Event::Parked { until }).await
    }

    pub(super) async fn keep_plan(&mut self) -> Result<()> {
        let looked = self.plan.keep(&self.workflow);
        if let Some(trouble) = looked.trouble {
            (self.view)(&Report::Note(trouble));
        }
        match looked.tasks {
            Some(tasks) if !self.workflow.status().is_final() => {
                self.command_if_fit(&Command::Replan(tasks)).await
            }
            _ => Ok(()),
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> Result<()> {
        let strays = self.stop_strays();
        match effect {
            // Its agent is still writing in the folder.
            Effect::Run { .. } if strays > 0 => Ok(()),
            Effect::Run { task } => self.start(&task).await,
            Effect::Ask { task } => match self.workflow.question_for(Some(&task), true) {
                Some(question) => self.command_if_fit(&Command::Ask(question)).await,
                None => Ok(()),
            },
            Effect::Stop { task } => {
                if let Some(stop) = self.stops.get(&task) {
                    stop.send_replace(true);
                }
                Ok(())
            }
            // Work beside the loop is waited for.
            Effect::Snapshot if !self.work.is_empty() => {
                self.stop_all();
                Ok(())
            }
            Effect::Snapshot => self.snapshot().await,
            Effect::Plan if self.is_planning => Ok(()),
            Effect::Plan => {
                self.start_planning().await;
                Ok(())
            }
        }
    }

    /// Stops attempts that no longer count; returns how many there are.
    fn stop_strays(&self) -> usize {
        let is_running = |id: &str| self.workflow.running().any(|task| task.spec.id == id);
        let strays = self.stops.iter().filter(|(id, _)| !id.is_empty() && !is_running(id));
        let mut count = 0;
        for (_, stop) in strays {
            stop.send_replace(true);
            count += 1;
        }
        count
    }

    fn stop_all(&self) {
        for stop in self.stops.values() {
            stop.send_replace(true);
        }
    }

    async fn start(&mut self, id: &str) -> Result<()> {
        let Some(task) = self.workflow.task(id).cloned() else { return Ok(()) };
        if let Some(Verify::Text(command)) = &task.spec.verify
            && !self.engine.is_approved(&self.workflow.charter, command).await?
        {
            let question = Question::Command { command: command.clone() };
            return self.command_if_fit(&Command::Ask(question)).await;
        }
        let earlier = self.earlier().await;
        let before = self.workflow.clone();
        let agent = task.spec.agent.clone().unwrap_or_else(|| self.workflow.charter.agent.clone());
        let beginning = beginning_of(&self.workflow, &task, &agent, self.crew.tools());
        let session = self.engine.start_titled(beginning).await?;
        let command =
            Command::BeginTask { task: id.to_owned(), session: session.id, agent: agent.clone() };
        self.command_if_fit(&command).await?;
        let begun = self.workflow.task(id).filter(|task| task.sessions.last() == Some(&session.id));
        let Some(begun) = begun.cloned() else {
            // Somebody paused or cancelled it just now.
            return self.engine.erase_if_empty(session.id).await;
        };
        let (stop, stopped) = watch::channel(false);
        self.stops.insert(id.to_owned(), stop);
        let seconds = before.seconds_for(&task);
        let attempt =
            Attempt {
                engine: self.engine.clone(),
                crew: Arc::clone(&self.crew),
                number: begun.attempts,
                task,
                agent,
                session,
                // If something was done since, the workflow itself says more.
                resumed: self.resumed.as_ref().filter(|_| before.run.completed == 0).map(
                    |snapshot| Arc::new(snapshot.as_of_now(&before, repository::now(&before))),
                ),
                earlier,
                commit_at_start: repository::head(Path::new(&self.workflow.charter.worktree)),
                reports: self.sender.clone(),
                stop: stopped,
                watch: Watch::default(),
                deadline: Instant::now() + Duration::from_secs(seconds),
                tests: None,
                // The state before this attempt: it matters whether the task was interrupted.
                workflow: before,
            };
        self.work.push(Box::pin(async { Finished::Task(Box::new(Box::pin(attempt.run()).await)) }));
        Ok(())
    }

    async fn finished(&mut self, finished: Finished) -> Result<()> {
        // Its reports came before its end.
        while let Ok(report) = self.reports.try_recv() {
            self.report(report).await?;
        }
        match finished {
            Finished::Task(done) => self.task_done(*done).await,
            Finished::Plan(planned, used) => {
                self.is_planning = false;
                self.command(&Command::Spend { on: PLANNING.to_owned(), used }).await?;
                self.planned(planned).await
            }
        }
    }
}
