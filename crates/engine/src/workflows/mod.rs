//! Workflows: carries out what the crate `workflow` decides.
//!
//! The process that runs a workflow holds its claim, and each of its events is fenced by the claim's epoch. Others (pause, cancel,
//! approve) write events too, decided on the state they have seen; the running process notices. So there is one log, and no
//! messages between processes.

mod background;
mod configured_crew;
mod crew;
mod drive;
mod earlier;
mod ending;
mod extract;
mod limit;
mod live_text;
mod moves;
mod notices;
mod order;
mod plan;
mod planning;
mod port;
mod preview;
mod recovery;
mod repository;
mod review;
mod task;
mod trouble;
mod usage;

use rethread_domain::SessionId;
use rethread_domain::quote::one_line;
use rethread_store::{self as store, Grant, Span};
use rethread_workflow::{
    Charter, Command, Event, EventRecord, Question, Refusal, Snapshot, SnapshotId, Status,
    TaskSpec, Workflow, WorkflowId,
};

pub use rethread_store::{WorkflowFilter, WorkflowRow};

pub use crew::{Crew, Extractor, NoAnswer};
pub use drive::Report;
pub(crate) use limit::{is_sensible, lifted_in};
pub use limit::{limit_in, says_limit};
pub use live_text::LiveText;
pub use moves::{ResumeOptions, Resumed, Resumption};
pub use order::{CheckedOrder, PLAN, WorkflowOrder, budgets, consent_of};
pub use plan::{PlanError, read_plan};
pub use port::{Checker, CommandOutcome, ExitReason};
pub use preview::{PlannedCommand, Preview, Unapproved};

use crate::{Engine, Error, Result};

/// How many workflows of one folder are searched.
const PAGE: u32 = 200;

/// The subject under which approved commands are stored as grants.
const COMMANDS: &str = "verify";

/// The name of a workflow in a sentence.
fn named(workflow: &Workflow) -> String {
    format!("{} ({})", workflow.id.short(), one_line(&workflow.charter.title, 40))
}

impl Engine {
    /// Creates a workflow, pending.
    pub async fn create_workflow(
        &self,
        charter: Charter,
        tasks: Vec<TaskSpec>,
    ) -> Result<Workflow> {
        self.create_workflow_new(WorkflowId::generate(), charter, tasks).await
    }

    pub(crate) async fn create_workflow_new(
        &self,
        id: WorkflowId,
        charter: Charter,
        tasks: Vec<TaskSpec>,
    ) -> Result<Workflow> {
        rethread_domain::id::check_user(&charter.user)?;
        rethread_domain::id::check_agent("agent", &charter.agent)?;
        let mut events = vec![Event::Created(charter)];
        if !tasks.is_empty() {
            events.push(Event::Planned { tasks });
        }
        let events = self.without_secrets(events);
        Ok(self.store.create_workflow(id, events, self.clock.now()).await?)
    }

    pub async fn workflow(&self, id: WorkflowId) -> Result<Workflow> {
        Ok(self.store.workflow(id).await?)
    }

    pub async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRow>> {
        Ok(self.store.workflows(filter).await?)
    }

    /// The one workflow that an id prefix stands for.
    pub async fn resolve_workflow(&self, text: &str) -> Result<WorkflowId> {
        match self.store.resolve_workflow(text, None).await?.as_slice() {
            [] => Err(Error::NoWorkflow(text.chars().take(80).collect())),
            [one] => Ok(*one),
            several => {
                let candidates = several.iter().map(WorkflowId::short).collect();
                Err(Error::AmbiguousWorkflow { given: text.to_owned(), candidates })
            }
        }
    }

    /// The one workflow of a user that an id prefix stands for; those of others are not found.
    pub async fn own_workflow(&self, text: &str, user: &str) -> Result<Workflow> {
        let mut own = Vec::new();
        for id in self.store.resolve_workflow(text, Some(user)).await? {
            own.push(self.store.workflow(id).await?);
        }
        match (own.pop(), own.is_empty()) {
            (Some(one), true) => Ok(one),
            (None, _) => Err(Error::NoWorkflow(text.chars().take(80).collect())),
            (Some(one), false) => {
                let candidates = own.iter().chain([&one]).map(named).collect();
                Err(Error::AmbiguousWorkflow { given: text.to_owned(), candidates })
            }
        }
    }

    /// The workflows of a user in a folder or a folder above it, latest first.
    pub async fn workflows_in(
        &self,
        folder: &std::path::Path,
        user: &str,
    ) -> Result<Vec<WorkflowRow>> {
        for place in folder.ancestors() {
            let filter = WorkflowFilter {
                user: Some(user.to_owned()),
                worktree: Some(place.to_string_lossy().into_owned()),
                limit: PAGE,
                ..WorkflowFilter::default()
            };
            let rows = self.store.workflows(&filter).await?;
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }

    pub async fn workflow_events(&self, id: WorkflowId, after: u32) -> Result<Vec<EventRecord>> {
        Ok(self.store.workflow_events(id, after).await?)
    }

    /// A part of the log, in the order of `span`: fewer events than its limit if they are long.
    pub async fn workflow_log(&self, id: WorkflowId, span: Span) -> Result<Vec<EventRecord>> {
        Ok(self.store.workflow_log(id, span).await?)
    }

    /// The workflow and the task that a session belongs to.
    pub async fn workflow_of(&self, session: SessionId) -> Result<Option<(WorkflowId, String)>> {
        Ok(self.store.workflow_of(session).await?)
    }

    /// The one snapshot of a workflow that an id prefix stands for; by default the latest.
    pub async fn snapshot(&self, id: WorkflowId, given: Option<&str>) -> Result<Snapshot> {
        let events = self.store.workflow_events(id, 0).await?;
        let mut marks = events.iter().filter_map(|record| match &record.event {
            Event::Paused(mark) | Event::Closed(mark) => Some(mark.id),
            _ => None,
        });
        let meant: Vec<SnapshotId> = match given {
            None => marks.next_back().into_iter().collect(),
            Some(given) => marks.filter(|id| id.is_meant_by(given)).collect(),
        };
        let [only] = meant.as_slice() else {
            let given = given.map(|given| given.chars().take(80).collect());
            return Err(Error::NoSnapshot { workflow: id, given, several: meant.len() });
        };
        let found = Workflow::snapshots(id, &events, Some(*only)).pop();
        found.ok_or(Error::NoSnapshot { workflow: id, given: None, several: 0 })
    }

    /// Applies a command to a workflow, whichever process runs it. Decided again if somebody else was faster.
    pub async fn ask_workflow(&self, id: WorkflowId, command: &Command) -> Result<Workflow> {
        loop {
            let mut workflow = self.store.workflow(id).await?;
            let events = self.without_secrets(workflow.decide(command)?);
            let now = self.clock.now();
            match self.store.append_events(id, workflow.events, None, events.clone(), now).await {
                Ok(()) => {
                    for event in &events {
                        workflow.apply(event, now);
                    }
                    let is_over =
                        workflow.status().is_final() && !matches!(command, Command::Close(_));
                    if is_over && !self.is_workflow_driven(id).await? {
                        let close = Command::Close(ending::last_mark(&workflow));
                        return Box::pin(self.ask_workflow(id, &close)).await;
                    }
                    return Ok(workflow);
                }
                Err(store::Error::WorkflowConflict(_)) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// If a workflow waits for the approval of a command: lets that command run from now on.
    ///
    /// Returns the command.
    pub async fn approve_question(
        &self,
        read: &Workflow,
        task: Option<&str>,
    ) -> Result<Option<String>> {
        let workflow = self.store.workflow(read.id).await?;
        // An approval is for the command that was read.
        let asked = workflow.question_for(task, true);
        if asked != read.question_for(task, true) {
            return Err(Error::Store(rethread_store::Error::WorkflowConflict(read.id)));
        }
        match asked {
            Some(Question::Command { command }) => {
                self.approve_command(&workflow.charter, &command).await?;
                Ok(Some(command))
            }
            _ => Ok(None),
        }
    }

    /// Lets a command of a plan run: exactly this text, in this worktree.
    pub async fn approve_command(&self, charter: &Charter, command: &str) -> Result<()> {
        let grant = Grant {
            user: charter.user.clone(),
            project: charter.worktree.clone(),
            agent: COMMANDS.to_owned(),
            what: command.to_owned(),
            allowed: true,
        };
        Ok(self.store.grant(grant, self.clock.now()).await?)
    }

    /// The commands of a workflow's plan that are still to run and were not approved.
    pub async fn unapproved_commands(
        &self,
        workflow: &Workflow,
    ) -> std::result::Result<Vec<String>, crate::program::Fault> {
        let specs: Vec<TaskSpec> = workflow.tasks.iter().map(|task| task.spec.clone()).collect();
        let planned = self.planned_commands(&workflow.charter, &specs).await?;
        let open = planned.into_iter().filter(|command| !command.is_approved);
        Ok(open.map(|command| command.command).collect())
    }

    pub async fn is_approved(&self, charter: &Charter, command: &str) -> Result<bool> {
        let (user, project) = (charter.user.as_str(), charter.worktree.as_str());
        Ok(self.store.granted(user, project, COMMANDS, command).await? == Some(true))
    }

    /// How the repository differs now from a snapshot, one line each.
    pub async fn diverged(&self, id: WorkflowId, snapshot: &Snapshot) -> Result<Vec<String>> {
        let workflow = self.store.workflow(id).await?;
        Ok(repository::diverged(&snapshot.git, &repository::now(&workflow)))
    }

    /// Whether a process runs it now.
    pub async fn is_workflow_driven(&self, id: WorkflowId) -> Result<bool> {
        Ok(self.store.is_workflow_claimed(id).await?)
    }

    /// Workflows in progress that no process runs.
    pub async fn abandoned(&self, user: Option<&str>) -> Result<Vec<WorkflowId>> {
        let filter = WorkflowFilter {
            user: user.map(str::to_owned),
            statuses: vec![Status::InProgress],
            limit: u32::MAX,
            ..WorkflowFilter::default()
        };
        let mut found = Vec::new();
        for row in self.store.workflows(&filter).await? {
            if !self.store.is_workflow_claimed(row.id).await? {
                found.push(row.id);
            }
        }
        Ok(found)
    }

    /// Removes known secret values from events: those never reach the disk. What agents, tools and reviewers said is also masked by
    /// the rules, like summaries, as it is shown to others.
    pub(crate) fn without_secrets(&self, events: Vec<Event>) -> Vec<Event> {
        events.into_iter().map(|event| self.event_without_secrets(event)).collect()
    }

    fn event_without_secrets(&self, event: Event) -> Event {
        let is_heard = matches!(
            event,
            Event::Decided(_)
                | Event::Erred(_)
                | Event::Reviewed(_)
                | Event::TaskEnded(_)
                | Event::Asked(Question::TaskFailed { .. })
        );
        if !is_heard && !self.redactor.has_known() && !self.masks_at_rest {
            return event;
        }
        let Ok(mut value) = serde_json::to_value(&event) else { return event };
        if is_heard || self.masks_at_rest {
            self.redactor.redact_json(&mut value);
        } else {
            self.redactor.redact_known_json(&mut value);
        }
        serde_json::from_value(value).unwrap_or(event)
    }
}

/// What the state of a workflow does not allow is for the caller to resolve.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Workflow(refusal)
    }
}
