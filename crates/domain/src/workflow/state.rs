//! A workflow as it stands: the fold of its events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::{Charter, Ended, Event, EventRecord, Outcome, Question};
use super::id::{SnapshotId, WorkflowId};
use super::record::{Decision, ErrorRecord, Feedback, GitState, Phase, TestState, Used};
use super::snapshot::{Mark, Snapshot, SnapshotSum, Trigger};
use super::task::{Expect, Task, TaskSpec, TaskState};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    InProgress,
    Blocked,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::InProgress,
        Self::Blocked,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can happen any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether this move is allowed.
    pub const fn may_become(self, next: Self) -> bool {
        use Status::{Blocked, Cancelled, Completed, Failed, InProgress, Paused, Pending};
        matches!(
            (self, next),
            (Pending | Blocked | Paused, InProgress | Cancelled)
                | (InProgress, Blocked | Paused | Completed | Failed | Cancelled)
                | (Blocked, Failed)
        )
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| format!("not a status of workflows: {text:?}"))
    }
}

/// A pause that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pausing {
    pub trigger: Trigger,
    pub reason: String,
    pub since: Timestamp,
    /// Tasks that run are interrupted.
    pub now: bool,
}

impl Pausing {
    /// For how many seconds it has been waited for the boundary.
    pub fn lasts(&self, now: Timestamp) -> u64 {
        u64::try_from(now.duration_since(self.since).as_secs()).unwrap_or(0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub charter: Charter,
    pub status: Status,
    pub tasks: Vec<Task>,
    /// Runs so far, from 1.
    pub sessions: u32,
    pub pausing: Option<Pausing>,
    pub paused_at: Option<Timestamp>,
    pub pause_reason: Option<String>,
    /// When the limit it waits for is lifted.
    pub until: Option<Timestamp>,
    pub questions: Vec<Question>,
    /// Why the plan was not good.
    pub rejection: Option<String>,
    pub decisions: Vec<Decision>,
    pub errors: Vec<ErrorRecord>,
    pub feedback: Vec<Feedback>,
    pub tests: Option<TestState>,
    pub git: GitState,
    pub total: Used,
    /// Of this run: when it began, what it took, how many tasks it ended, whether a full context was told of.
    pub run_began: Timestamp,
    pub run_used: Used,
    pub run_ended: u32,
    /// Since when a person is waited for: that does not count as running.
    pub blocked_at: Option<Timestamp>,
    pub is_warned: bool,
    /// How the repository differed from the snapshot that this run goes on from, a line each.
    pub diverged: Vec<String>,
    /// The latest snapshot.
    pub mark: Option<Mark>,
    /// All snapshots, the oldest first.
    pub snapshots: Vec<SnapshotSum>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// How many events there are: who decides says which count they decided on.
    pub events: u32,
}

impl Workflow {
    /// The workflow that begins with this event; `None` where it is another.
    pub fn create(id: WorkflowId, event: &Event, at: Timestamp) -> Option<Self> {
        let Event::Created(charter) = event else { return None };
        Some(Self {
            id,
            charter: charter.clone(),
            status: Status::Pending,
            tasks: Vec::new(),
            sessions: 1,
            pausing: None,
            paused_at: None,
            pause_reason: None,
            until: None,
            questions: Vec::new(),
            rejection: None,
            decisions: Vec::new(),
            errors: Vec::new(),
            feedback: Vec::new(),
            tests: None,
            git: GitState::default(),
            total: Used::default(),
            run_began: at,
            run_used: Used::default(),
            run_ended: 0,
            blocked_at: None,
            is_warned: false,
            diverged: Vec::new(),
            mark: None,
            snapshots: Vec::new(),
            created_at: at,
            updated_at: at,
            events: 1,
        })
    }

    /// The fold of all events; `None` where they do not begin a workflow.
    pub fn fold(id: WorkflowId, events: &[EventRecord]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let mut workflow = Self::create(id, &first.event, first.at)?;
        for record in rest {
            workflow.apply(&record.event, record.at);
        }
        Some(workflow)
    }

    /// Every snapshot that was taken, or only one, in full.
    pub fn snapshots(
        id: WorkflowId,
        events: &[EventRecord],
        only: Option<SnapshotId>,
    ) -> Vec<Snapshot> {
        let Some((first, rest)) = events.split_first() else { return Vec::new() };
        let Some(mut workflow) = Self::create(id, &first.event, first.at) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for record in rest {
            workflow.apply(&record.event, record.at);
            if let Event::Paused(mark) | Event::Closed(mark) = &record.event
                && only.is_none_or(|only| only == mark.id)
            {
                found.push(Snapshot::of(&workflow, mark, record.at));
            }
        }
        found
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.spec.id == id)
    }

    fn task_mut(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.spec.id == id)
    }

    pub fn count(&self, state: TaskState) -> u32 {
        let count = self.tasks.iter().filter(|task| task.state() == state).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Tasks that are still to be done.
    pub fn remaining(&self) -> u32 {
        let left = self.tasks.iter().filter(|task| !task.state().is_done()).count();
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    pub fn running(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.state() == TaskState::InProgress)
    }

    pub fn is_running(&self) -> bool {
        self.running().next().is_some()
    }

    /// The tasks that may begin: what was interrupted first, then as the plan has them. What was taken out of the plan
    /// holds up nothing.
    pub fn ready(&self) -> Vec<&Task> {
        let is_done = |id: &String| self.task(id).is_none_or(|task| task.state().is_done());
        let mut ready: Vec<&Task> = self
            .tasks
            .iter()
            .filter(|task| task.state() == TaskState::Pending)
            .filter(|task| task.spec.depends_on.iter().all(is_done))
            .collect();
        ready.sort_by_key(|task| !task.was_interrupted);
        ready
    }

    /// The task that is worked on, or comes next.
    pub fn next_task(&self) -> Option<&Task> {
        self.running().next().or_else(|| self.ready().first().copied())
    }

    /// Takes in what has happened. Cannot fail.
    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        self.events += 1;
        self.updated_at = self.updated_at.max(at);
        match event {
            Event::Planned { tasks } => self.replan(tasks),
            Event::Began { branch, commit } => {
                self.git.branch.clone_from(branch);
                self.git.commit_at_start.clone_from(commit);
                self.git.commit.clone_from(commit);
                self.begin_run(at);
            }
            Event::Spent { used, .. } => {
                self.total.add(used);
                self.run_used.add(used);
            }
            Event::Reviewed(feedback) => self.feedback.push(feedback.clone()),
            Event::Addressed { feedback } => {
                for known in self.feedback.iter_mut().filter(|known| known.id == *feedback) {
                    known.addressed = true;
                }
            }
            Event::Decided(decision) => self.take_decision(decision),
            Event::Erred(error) => self.take_error(error),
            Event::Warned { .. } => self.is_warned = true,
            Event::PauseAsked { trigger, reason, now } => {
                self.ask_pause(*trigger, reason, *now, at);
            }
            Event::Paused(mark) => self.pause(mark, at),
            Event::Closed(mark) => self.take_snapshot(mark, at),
            Event::Resumed { agent, diverged, budgets, .. } => {
                self.charter.limits = self.charter.limits.raised(*budgets);
                self.resume(agent.as_ref(), diverged, at);
            }
            Event::Asked(question) => {
                if !self.questions.contains(question) {
                    self.questions.push(question.clone());
                }
            }
            Event::Answered { question, yes, why } => self.answer(question, *yes, why.as_ref()),
            Event::Parked { until } => self.until = Some(*until),
            // A pause that was asked for comes when the person has answered.
            Event::Blocked => (self.status, self.blocked_at) = (Status::Blocked, Some(at)),
            Event::Unblocked => self.unblock(at),
            Event::Completed => self.finish(Status::Completed),
            Event::Failed { .. } => self.finish(Status::Failed),
            Event::Cancelled { .. } => self.finish(Status::Cancelled),
            Event::Created(_) | Event::Purged { .. } | Event::Unknown(_) => (),
            of_task => self.apply_to_task(of_task),
        }
    }

    fn apply_to_task(&mut self, event: &Event) {
        match event {
            Event::TaskBegan { task, attempt, session, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.attempts = *attempt;
                    task.sessions.push(*session);
                    task.spec.state = TaskState::InProgress;
                    // What is known of the attempt before stays: whoever goes on is told.
                    task.was_interrupted = false;
                }
            }
            Event::TaskMoved { task, session, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.sessions.push(*session);
                }
            }
            Event::TaskEnded(ended) => self.end_task(ended),
            Event::TaskSkipped { task } => self.set_task(task, TaskState::Skipped),
            Event::TaskRetried { task, permissions } => {
                self.set_task(task, TaskState::Pending);
                if permissions.is_some() {
                    self.charter.permissions.clone_from(permissions);
                }
            }
            Event::TaskMarked { task, state } => self.set_task(task, *state),
            Event::Rewound { tasks, .. } => {
                for task in tasks {
                    self.set_task(task, TaskState::Pending);
                }
            }
            _ => (),
        }
    }

    fn unblock(&mut self, at: Timestamp) {
        self.status = Status::InProgress;
        if let Some(since) = self.blocked_at.take() {
            self.run_began += at.duration_since(since);
        }
    }

    /// Whoever takes over after a crash finds what was found before: once is enough.
    fn take_decision(&mut self, decision: &Decision) {
        if self.decisions.iter().all(|known| known.id != decision.id) {
            self.decisions.push(decision.clone());
        }
    }

    fn take_error(&mut self, error: &ErrorRecord) {
        if self.errors.iter().all(|known| known.id != error.id) {
            self.errors.push(error.clone());
        }
    }

    fn begin_run(&mut self, at: Timestamp) {
        self.status = Status::InProgress;
        (self.paused_at, self.pause_reason, self.until, self.pausing) = (None, None, None, None);
        (self.run_began, self.run_used, self.run_ended) = (at, Used::default(), 0);
        self.is_warned = false;
    }

    fn ask_pause(&mut self, trigger: Trigger, reason: &str, now: bool, at: Timestamp) {
        match &mut self.pausing {
            Some(pausing) => pausing.now |= now,
            None => {
                self.pausing = Some(Pausing { trigger, reason: reason.to_owned(), since: at, now });
            }
        }
    }

    fn pause(&mut self, mark: &Mark, at: Timestamp) {
        self.status = Status::Paused;
        self.pausing = None;
        self.paused_at = Some(at);
        self.pause_reason = Some(mark.reason.clone());
        self.until = mark.until;
        self.take_snapshot(mark, at);
    }

    fn take_snapshot(&mut self, mark: &Mark, at: Timestamp) {
        mark.git.apply(&mut self.git);
        self.mark = Some(mark.clone());
        self.snapshots.push(SnapshotSum::of(self, mark, at));
    }

    fn resume(&mut self, agent: Option<&String>, diverged: &[String], at: Timestamp) {
        if let Some(agent) = agent {
            self.charter.agent.clone_from(agent);
        }
        self.diverged = diverged.to_vec();
        self.sessions += 1;
        self.begin_run(at);
    }

    fn finish(&mut self, status: Status) {
        self.status = status;
        self.pausing = None;
        self.questions.clear();
        for task in self.tasks.iter_mut().filter(|task| task.state() == TaskState::InProgress) {
            task.spec.state = TaskState::Pending;
            task.was_interrupted = true;
        }
    }

    fn set_task(&mut self, id: &str, state: TaskState) {
        let about = |question: &Question| matches!(question, Question::TaskFailed { task, .. } | Question::TaskRefused { task, .. } if task == id);
        self.questions.retain(|question| !about(question));
        if let Some(task) = self.task_mut(id) {
            task.spec.state = state;
            task.was_interrupted &= state != TaskState::Skipped;
        }
    }

    fn answer(&mut self, question: &Question, yes: bool, why: Option<&String>) {
        self.questions.retain(|known| known != question);
        match question {
            Question::Plan if !yes => {
                self.rejection = Some(why.cloned().unwrap_or_default());
                self.tasks.clear();
            }
            Question::Plan => self.rejection = None,
            Question::TaskRefused { task, .. } if yes => self.set_task(task, TaskState::Completed),
            Question::TaskRemoved { task } if !yes => {
                // Not forgotten: should it come back, its attempts count on.
                self.set_task(task, TaskState::Skipped);
            }
            _ => (),
        }
    }

    /// The plan has these tasks now: what is known of them stays, what runs stays until a person has decided.
    fn replan(&mut self, specs: &[TaskSpec]) {
        let mut old = std::mem::take(&mut self.tasks);
        for spec in specs {
            let known = old.iter().position(|task| task.spec.id == spec.id);
            let task = match known.map(|at| old.remove(at)) {
                Some(task) => {
                    let state = task.state();
                    Task { spec: TaskSpec { state, ..spec.clone() }, ..task }
                }
                None => Task::new(spec.clone()),
            };
            self.tasks.push(task);
        }
        let is_back = |id: &String| specs.iter().any(|spec| spec.id == *id);
        self.questions
            .retain(|asked| !matches!(asked, Question::TaskRemoved { task } if is_back(task)));
        // What was worked on is not forgotten because a line was deleted, but nobody wants it done any more.
        for mut task in old.into_iter().filter(|task| task.attempts > 0) {
            if task.state() == TaskState::Pending {
                (task.spec.state, task.was_interrupted) = (TaskState::Skipped, false);
            }
            self.tasks.push(task);
        }
    }

    fn end_task(&mut self, ended: &Ended) {
        self.total.add(&ended.used);
        self.run_used.add(&ended.used);
        let before = self.tests.as_ref().map(|tests| (tests.phase, tests.expected.clone()));
        let Some(task) = self.task_mut(&ended.task) else { return };
        task.used.add(&ended.used);
        (task.spec.state, task.was_interrupted, task.note) = match &ended.outcome {
            Outcome::Completed => (TaskState::Completed, false, None),
            Outcome::Failed { why } => (TaskState::Failed, false, Some(why.clone())),
            Outcome::Refused { what } => {
                let note = format!("its agent was not allowed to: {}", what.join("; "));
                (TaskState::Blocked, false, Some(note))
            }
            Outcome::Interrupted { why } => (TaskState::Pending, true, Some(why.clone())),
        };
        let is_red = task.spec.expect == Expect::Red && ended.outcome == Outcome::Completed;
        if let Some(mut tests) = ended.tests.clone() {
            let (phase, expected) = before.unwrap_or_default();
            if is_red {
                tests.expected.clone_from(&tests.failing);
            } else if tests.expected.is_empty() {
                tests.expected =
                    expected.into_iter().filter(|test| tests.failing.contains(test)).collect();
            }
            if tests.phase == Phase::Green && matches!(phase, Phase::Green | Phase::Refactor) {
                tests.phase = Phase::Refactor;
            }
            task.tests = Some(tests.clone());
            self.tests = Some(tests);
        }
        if ended.outcome == Outcome::Completed {
            self.run_ended += 1;
        }
    }
}
