//! Decides commands: the only place where a transition of a workflow is decided.

use jiff::Timestamp;

use super::due::budget_hit;
use super::event::{Budgets, Ended, Event, Outcome, Question};
use super::failure::OnFailure;
use super::question::Answer;
use super::record::Used;
use super::snapshot::{Mark, Trigger};
use super::state::Workflow;
use super::status::Status;
use super::task::{Task, TaskSpec, TaskState};
use rethread_domain::id::SessionId;
use rethread_domain::id::{SnapshotId, WorkflowId};

/// A command to a workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Start {
        branch: Option<String>,
        commit: Option<String>,
    },
    /// The plan was written by the agent: a person has to approve it.
    Propose(Vec<TaskSpec>),
    /// The plan's file was changed by hand.
    Replan(Vec<TaskSpec>),
    BeginTask {
        task: String,
        session: SessionId,
        agent: String,
    },
    EndTask(Ended),
    /// Another event that happened while a task ran.
    Note(Box<Event>),
    /// A question came up before a task could begin.
    Ask(Question),
    Pause {
        trigger: Trigger,
        reason: String,
        now: bool,
    },
    /// The boundary is reached, and this is the snapshot.
    Settle(Mark),
    Resume {
        from: SnapshotId,
        agent: Option<String>,
        diverged: Vec<String>,
        /// Tasks that are done now but were not at that snapshot: they are repeated.
        rewind: Vec<String>,
        budgets: Budgets,
        /// What agents may do without asking from now on, if that changes.
        permissions: Option<String>,
    },
    /// States that a person wrote into the plan while no process ran it.
    Mark(Vec<(String, TaskState)>),
    /// Usage of work that belongs to no attempt that counts.
    Spend {
        on: String,
        used: Used,
    },
    /// It is over, and this is the last snapshot.
    Close(Mark),
    /// The process that ran it has died, and was last seen then.
    Abandon {
        seen: Timestamp,
    },
    /// Work in progress is ended, and a pause requested.
    Recover,
    /// Yes to a question: the one about this task, or else the first that can be approved.
    Approve(Answer),
    Reject(Answer),
    Retry {
        task: String,
        /// Another agent to continue with.
        agent: Option<String>,
        permissions: Option<String>,
    },
    Skip {
        task: String,
    },
    Cancel {
        why: String,
    },
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("workflow {0} is already {is}", is = .1.word())]
    Already(WorkflowId, Status),
    #[error("workflow {0} is {is}: nothing can be done with it any more", is = .1.word())]
    Over(WorkflowId, Status),
    #[error("workflow {0} is {is}, not {not}", is = .1.word(), not = .2.word())]
    Not(WorkflowId, Status, Status),
    /// With the task that has failed, where it waits for what becomes of that.
    #[error("workflow {id} is blocked: {about}")]
    Waits { id: WorkflowId, about: String, failed: Option<String> },
    #[error("workflow {0} is not waiting for an answer")]
    WaitsForNothing(WorkflowId),
    #[error("workflow {0} has no task {1:?}")]
    NoTask(WorkflowId, String),
    #[error("task {task} is {}: it cannot be {wanted}", .state.as_str())]
    Task { task: String, state: TaskState, wanted: &'static str },
    #[error("attempt {attempt} at task {task} is over")]
    Stale { task: String, attempt: u32 },
    #[error("workflow {0} still has running tasks")]
    Running(WorkflowId),
    #[error("workflow {0} has a plan already")]
    HasPlan(WorkflowId),
    #[error("workflow {0} has reached its limit: {1}")]
    Spent(WorkflowId, String),
}

impl Workflow {
    /// The events that a command leads to, with those that follow from them.
    pub fn decide(&self, command: &Command) -> Result<Vec<Event>, Refusal> {
        if self.status().is_final() {
            return self.decide_afterwards(command);
        }
        let events = match command {
            Command::Start { branch, commit } => {
                self.has_to_be(Status::Pending)?;
                vec![Event::Began { branch: branch.clone(), commit: commit.clone() }]
            }
            Command::Propose(tasks) => {
                self.has_to_be(Status::InProgress)?;
                if !self.tasks.is_empty() {
                    return Err(Refusal::HasPlan(self.id));
                }
                vec![Event::Planned { tasks: tasks.clone() }, Event::Asked(Question::Plan)]
            }
            Command::Replan(tasks) => self.replanned(tasks),
            Command::BeginTask { task, session, agent } => {
                self.begin_task(task, *session, agent)?
            }
            Command::EndTask(ended) => {
                self.is_current(&ended.task, ended.attempt)?;
                self.end_events(ended)
            }
            Command::Note(event) => vec![(**event).clone()],
            Command::Ask(question) => {
                self.has_to_be(Status::InProgress)?;
                vec![Event::Asked(question.clone())]
            }
            Command::Pause { trigger, reason, now } => self.ask_to_pause(*trigger, reason, *now)?,
            Command::Settle(mark) => {
                self.has_to_be(Status::InProgress)?;
                if self.is_running() {
                    return Err(Refusal::Running(self.id));
                }
                // What is asked is answered first: nothing fails while it is paused.
                if !self.questions.is_empty() {
                    return Err(self.waits());
                }
                vec![Event::Paused(mark.clone())]
            }
            Command::Resume { .. } => self.resumed(command)?,
            Command::Mark(states) => marked(states),
            Command::Spend { on, used } => vec![Event::Spent { on: on.clone(), used: *used }],
            Command::Close(_) => Vec::new(),
            Command::Abandon { seen } => {
                self.has_to_be(Status::InProgress)?;
                vec![Event::Abandoned { seen: *seen }]
            }
            Command::Recover => self.recovered(),
            Command::Approve(answer) => self.answered(true, answer)?,
            Command::Reject(answer) => self.answered(false, answer)?,
            Command::Retry { task, agent, permissions } => {
                self.retried(task, agent.as_ref(), permissions.as_ref())?
            }
            Command::Skip { task } => self.skipped(task)?,
            Command::Cancel { why } => vec![Event::Cancelled { why: why.clone() }],
        };
        Ok(self.with_consequences(events))
    }

    /// Little can still be recorded when it is over.
    fn decide_afterwards(&self, command: &Command) -> Result<Vec<Event>, Refusal> {
        if let Some(event) = afterwards(command) {
            return Ok(vec![event]);
        }
        let wants_same =
            matches!(command, Command::Cancel { .. }) && self.status() == Status::Cancelled;
        Err(if wants_same {
            Refusal::Already(self.id, self.status())
        } else {
            Refusal::Over(self.id, self.status())
        })
    }

    fn resumed(&self, command: &Command) -> Result<Vec<Event>, Refusal> {
        self.has_to_be(Status::Paused)?;
        let Command::Resume { from, agent, diverged, rewind, budgets, permissions } = command
        else {
            return Ok(Vec::new());
        };
        let raised = self.charter.limits.raised(*budgets);
        if let Some((_, why)) = budget_hit(self, &raised, self.updated_at) {
            return Err(Refusal::Spent(self.id, why));
        }
        let (agent, diverged, tasks) = (agent.clone(), diverged.clone(), rewind.clone());
        let rewound = Event::Rewound { to: *from, tasks };
        let (from, budgets, permissions) = (*from, *budgets, permissions.clone());
        let resumed = Event::Resumed { from, agent, diverged, budgets, permissions };
        Ok(Some(rewound).filter(|_| !rewind.is_empty()).into_iter().chain([resumed]).collect())
    }

    fn has_to_be(&self, status: Status) -> Result<(), Refusal> {
        if self.status() == status {
            return Ok(());
        }
        Err(match self.status() {
            Status::Blocked => self.waits(),
            now if now == Status::InProgress && status == Status::Paused => {
                Refusal::Already(self.id, now)
            }
            now => Refusal::Not(self.id, now, status),
        })
    }

    fn waits(&self) -> Refusal {
        let about: Vec<String> = self.questions.iter().map(Question::describe).collect();
        let failed = self.questions.iter().find_map(|question| match question {
            Question::TaskFailed { task, .. } => Some(task.clone()),
            _ => None,
        });
        Refusal::Waits { id: self.id, about: about.join("; "), failed }
    }

    pub(super) fn known(&self, id: &str) -> Result<&Task, Refusal> {
        self.task(id).ok_or_else(|| Refusal::NoTask(self.id, id.to_owned()))
    }

    fn is_current(&self, task: &str, attempt: u32) -> Result<(), Refusal> {
        let known = self.known(task)?;
        if known.state() == TaskState::InProgress && known.attempts == attempt {
            return Ok(());
        }
        Err(Refusal::Stale { task: task.to_owned(), attempt })
    }

    fn begin_task(&self, id: &str, session: SessionId, agent: &str) -> Result<Vec<Event>, Refusal> {
        self.has_to_be(Status::InProgress)?;
        let task = self.known(id)?;
        if self.pausing().is_some() || self.is_held() {
            return Err(Refusal::Waits {
                id: self.id,
                about: "no task begins any more".to_owned(),
                failed: None,
            });
        }
        if !self.ready().iter().any(|ready| ready.spec.id == id && !ready.is_gated()) {
            let (task, state) = (id.to_owned(), task.state());
            return Err(Refusal::Task { task, state, wanted: "begun" });
        }
        if self.room() == 0 {
            return Err(Refusal::Running(self.id));
        }
        let (task, attempt) = (id.to_owned(), task.attempts + 1);
        Ok(vec![Event::TaskBegan { task, attempt, session, agent: agent.to_owned() }])
    }

    fn replanned(&self, tasks: &[TaskSpec]) -> Vec<Event> {
        let is_gone = |id: &String| !tasks.iter().any(|spec| spec.id == *id);
        let mut events = vec![Event::Planned { tasks: tasks.to_vec() }];
        let running = self.running().map(|task| &task.spec.id);
        events.extend(
            running
                .filter(|id| is_gone(id))
                .map(|id| Event::Asked(Question::TaskRemoved { task: id.clone() })),
        );
        events
    }

    fn ask_to_pause(
        &self,
        trigger: Trigger,
        reason: &str,
        now: bool,
    ) -> Result<Vec<Event>, Refusal> {
        // It would go on by itself.
        let is_wait = self.status() == Status::Paused && self.goes_on_at().is_some();
        if self.status() == Status::Paused && !is_wait {
            return Err(Refusal::Already(self.id, self.status()));
        }
        if is_wait {
            return Ok(vec![Event::PauseAsked { trigger, reason: reason.to_owned(), now }]);
        }
        self.has_to_be(Status::InProgress)?;
        // A second request is the same pause, unless it is more urgent.
        if self.pausing().is_some_and(|pausing| pausing.now || !now) {
            return Ok(Vec::new());
        }
        Ok(vec![Event::PauseAsked { trigger, reason: reason.to_owned(), now }])
    }

    /// Running tasks did not end; if a pause was requested, it still is.
    fn recovered(&self) -> Vec<Event> {
        if self.status() != Status::InProgress {
            return Vec::new();
        }
        let why = "the process running it ended".to_owned();
        let mut events: Vec<Event> = self
            .running()
            .map(|task| {
                Event::TaskEnded(Ended {
                    task: task.spec.id.clone(),
                    attempt: task.attempts,
                    outcome: Outcome::Interrupted { why: why.clone() },
                    used: Used::default(),
                    tests: None,
                })
            })
            .collect();
        if self.pausing().is_none() {
            events.push(Event::PauseAsked { trigger: Trigger::Crash, reason: why, now: true });
        }
        events
    }

    fn retried(
        &self,
        id: &str,
        agent: Option<&String>,
        permissions: Option<&String>,
    ) -> Result<Vec<Event>, Refusal> {
        let task = self.known(id)?;
        match task.state() {
            TaskState::Failed | TaskState::Skipped | TaskState::Blocked => {
                let (agent, permissions) = (agent.cloned(), permissions.cloned());
                Ok(vec![Event::TaskRetried { task: id.to_owned(), agent, permissions }])
            }
            state => Err(Refusal::Task { task: id.to_owned(), state, wanted: "retried" }),
        }
    }

    fn skipped(&self, id: &str) -> Result<Vec<Event>, Refusal> {
        let task = self.known(id)?;
        match task.state() {
            TaskState::Failed | TaskState::Pending | TaskState::Blocked => {
                Ok(vec![Event::TaskSkipped { task: id.to_owned() }])
            }
            state => Err(Refusal::Task { task: id.to_owned(), state, wanted: "skipped" }),
        }
    }

    /// A task that failed asks what to do, unless the plan says; one that was refused something always does.
    fn end_events(&self, ended: &Ended) -> Vec<Event> {
        let mut events = vec![Event::TaskEnded(ended.clone())];
        let task = ended.task.clone();
        let known = self.task(&task);
        match &ended.outcome {
            Outcome::Failed { .. }
                if known.is_some_and(|task| self.on_failure(task) == OnFailure::Continue) => {}
            Outcome::Failed { why } => {
                events.push(Event::Asked(Question::TaskFailed { task, why: why.clone() }));
            }
            Outcome::Refused { what } => {
                events.push(Event::Asked(Question::TaskRefused { task, refused: what.clone() }));
            }
            Outcome::Completed | Outcome::Interrupted { .. } | Outcome::PutOff { .. } => (),
        }
        events
    }

    /// Adds what follows automatically: blocked while a person is waited for, completed when everything is done.
    fn with_consequences(&self, mut events: Vec<Event>) -> Vec<Event> {
        let mut after = self.clone();
        for event in &events {
            after.apply(event, self.updated_at);
        }
        for event in after.unasked() {
            after.apply(&event, self.updated_at);
            events.push(event);
        }
        let has_questions = !after.questions.is_empty();
        // A pause comes once everything is answered.
        let waits = has_questions && (after.pausing().is_some() || !after.can_go_on());
        match after.status() {
            Status::InProgress if after.is_running() => (),
            Status::InProgress if waits => events.push(Event::Blocked),
            Status::InProgress if !has_questions => events.extend(after.completion()),
            Status::Blocked if !waits => {
                events.push(Event::Unblocked);
                if !has_questions {
                    events.extend(after.completion());
                }
            }
            _ => (),
        }
        events
    }
}

/// What may still be recorded when a workflow is over: findings and usage of its last tasks, and a snapshot.
fn afterwards(command: &Command) -> Option<Event> {
    match command {
        Command::Note(event) => match event.as_ref() {
            Event::Decided(_) | Event::Erred(_) | Event::Reviewed(_) => Some((**event).clone()),
            _ => None,
        },
        Command::Spend { on, used } => Some(Event::Spent { on: on.clone(), used: *used }),
        Command::Close(mark) => Some(Event::Closed(mark.clone())),
        _ => None,
    }
}

fn marked(states: &[(String, TaskState)]) -> Vec<Event> {
    let event = |(task, state): &(String, TaskState)| {
        let (task, state) = (task.clone(), *state);
        Event::TaskMarked { task, state }
    };
    states.iter().map(event).collect()
}
