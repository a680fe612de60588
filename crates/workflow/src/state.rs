//! A workflow as it stands: the fold of its events.

use jiff::{SignedDuration, Timestamp};

use super::event::{Charter, Ended, Event, EventRecord, Outcome, Question};
use super::record::{Decision, ErrorRecord, Feedback, GitState, Phase, TestState, Used};
use super::snapshot::{Mark, Snapshot, SnapshotSum, Trigger};
use super::status::{Pause, Pausing, Run, State, Status};
use super::task::{Approval, Expect, Task, TaskSpec, TaskState};
use rethread_domain::id::{SessionId, SnapshotId, WorkflowId};

#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub charter: Charter,
    pub state: State,
    pub tasks: Vec<Task>,
    /// Runs so far, from 1.
    pub sessions: u32,
    pub questions: Vec<Question>,
    /// Why the plan was not good.
    pub rejection: Option<String>,
    pub decisions: Vec<Decision>,
    pub errors: Vec<ErrorRecord>,
    pub feedback: Vec<Feedback>,
    pub tests: Option<TestState>,
    pub git: GitState,
    pub total: Used,
    /// For how long it was in progress, before it last became so.
    pub ran: SignedDuration,
    pub run: Run,
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
            state: State::Pending,
            tasks: Vec::new(),
            sessions: 1,
            questions: Vec::new(),
            rejection: None,
            decisions: Vec::new(),
            errors: Vec::new(),
            feedback: Vec::new(),
            tests: None,
            git: GitState::default(),
            total: Used::default(),
            ran: SignedDuration::ZERO,
            run: Run::new(at, Vec::new()),
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

    pub const fn status(&self) -> Status {
        self.state.status()
    }

    /// The pause that was asked for and has not come yet.
    pub const fn pausing(&self) -> Option<&Pausing> {
        match &self.state {
            State::InProgress { pausing, .. } | State::Blocked { pausing } => pausing.as_ref(),
            _ => None,
        }
    }

    /// Where it is paused: since when, and why.
    pub const fn pause(&self) -> Option<&Pause> {
        match &self.state {
            State::Paused(pause) => Some(pause),
            _ => None,
        }
    }

    /// For how many seconds it was in progress until now, over all of its runs.
    pub fn ran_for(&self, now: Timestamp) -> u64 {
        let running = match self.state {
            State::InProgress { since, .. } => time_between(since, now),
            _ => SignedDuration::ZERO,
        };
        u64::try_from((self.ran + running).as_secs()).unwrap_or(0)
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.spec.id == id)
    }

    pub(super) fn task_mut(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.spec.id == id)
    }

    pub fn count(&self, state: TaskState) -> u32 {
        let count = self.tasks.iter().filter(|task| task.state() == state).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Tasks that were done; those that were skipped were not.
    pub fn completed(&self) -> u32 {
        self.count(TaskState::Completed)
    }

    /// Tasks that are still to be done.
    pub fn remaining(&self) -> u32 {
        let left = self.tasks.iter().filter(|task| !task.state().is_done()).count();
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    pub fn running(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.state() == TaskState::InProgress)
    }

    /// The sessions that are worked in now, each with the task that it is for, or `plan`.
    pub fn at_work(&self) -> Vec<(&str, SessionId)> {
        if self.status() != Status::InProgress {
            return Vec::new();
        }
        let own = |task: &'_ Task| task.sessions.last().copied();
        let of_tasks = self.running().filter_map(|task| Some((task.spec.id.as_str(), own(task)?)));
        let beside = self.run.beside.iter().map(|(on, session)| (on.as_str(), *session));
        of_tasks.chain(beside).collect()
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
            Event::SessionBegan { on, session } => self.run.beside.push((on.clone(), *session)),
            Event::Spent { on, used } => self.spend(on, used),
            Event::Reviewed(feedback) => self.feedback.push(feedback.clone()),
            Event::Addressed { feedback } => {
                for known in self.feedback.iter_mut().filter(|known| known.id == *feedback) {
                    known.addressed = true;
                }
            }
            Event::Decided(decision) => self.take_decision(decision),
            Event::Erred(error) => self.take_error(error),
            Event::Warned { .. } => self.run.is_warned = true,
            Event::Closed(mark) => self.take_snapshot(mark, at),
            Event::Asked(question) => {
                if !self.questions.contains(question) {
                    self.questions.push(question.clone());
                }
            }
            Event::Answered { question, yes, why, by } => {
                let approval = Approval { by: by.clone(), why: why.clone(), at };
                self.answer(question, *yes, approval);
            }
            Event::Created(_) | Event::Purged { .. } | Event::Unknown(_) => (),
            of_state => self.apply_to_state(of_state, at),
        }
    }

    fn apply_to_state(&mut self, event: &Event, at: Timestamp) {
        match event {
            Event::Began { branch, commit } => {
                self.git.branch.clone_from(branch);
                self.git.commit_at_start.clone_from(commit);
                self.git.commit.clone_from(commit);
                self.begin_run(Vec::new(), at);
            }
            Event::PauseAsked { trigger, reason, now } => {
                self.ask_pause(*trigger, reason, *now, at);
            }
            Event::Parked { until } => {
                if let Some(pausing) = self.pausing_mut() {
                    pausing.until = Some(*until);
                }
            }
            Event::Paused(mark) => self.take_pause(mark, at),
            Event::Resumed { agent, diverged, budgets, permissions, .. } => {
                self.charter.limits = self.charter.limits.raised(*budgets);
                self.charter.change(agent.as_ref(), permissions.as_ref());
                self.sessions += 1;
                self.begin_run(diverged.clone(), at);
            }
            Event::Abandoned { seen } => {
                self.stop_clock(*seen);
                if let State::InProgress { since, .. } = &mut self.state {
                    *since = at;
                }
            }
            Event::Blocked => {
                let pausing = self.pausing().cloned();
                self.move_to(State::Blocked { pausing }, at);
            }
            Event::Unblocked => {
                let pausing = self.pausing().cloned();
                self.move_to(State::InProgress { since: at, pausing }, at);
            }
            Event::Completed => self.finish(State::Completed, at),
            Event::Failed { .. } => self.finish(State::Failed, at),
            Event::Cancelled { .. } => self.finish(State::Cancelled, at),
            of_task => self.apply_to_task(of_task),
        }
    }

    fn apply_to_task(&mut self, event: &Event) {
        match event {
            Event::TaskBegan { task, attempt, session, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.attempts = *attempt;
                    task.first_session = task.sessions.len();
                    task.sessions.push(*session);
                    task.spec.state = TaskState::InProgress;
                    task.not_before = None;
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
            Event::TaskRetried { task, agent, permissions } => {
                self.set_task(task, TaskState::Pending);
                self.charter.change(agent.as_ref(), permissions.as_ref());
            }
            Event::TaskMarked { task, state } => self.set_task(task, *state),
            Event::Rewound { tasks, .. } => {
                for task in tasks {
                    self.set_task(task, TaskState::Pending);
                    if let Some(task) = self.task_mut(task) {
                        task.approval = None;
                    }
                }
            }
            _ => (),
        }
    }

    const fn pausing_mut(&mut self) -> Option<&mut Pausing> {
        match &mut self.state {
            State::InProgress { pausing, .. } | State::Blocked { pausing } => pausing.as_mut(),
            _ => None,
        }
    }

    fn move_to(&mut self, state: State, at: Timestamp) {
        self.stop_clock(at);
        self.state = state;
    }

    /// Counts for how long it was in progress until then.
    fn stop_clock(&mut self, until: Timestamp) {
        if let State::InProgress { since, .. } = self.state {
            self.ran += time_between(since, until);
        }
    }

    fn spend(&mut self, on: &str, used: &Used) {
        self.total.add(used);
        self.run.used.add(used);
        self.run.beside.retain(|(known, _)| known != on);
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

    fn begin_run(&mut self, diverged: Vec<String>, at: Timestamp) {
        // Whoever resumes it earlier does not want to wait.
        if self.pause().is_some_and(|pause| pause.until.is_none_or(|until| at < until)) {
            for task in &mut self.tasks {
                (task.put_off, task.not_before) = (0, None);
            }
        }
        self.move_to(State::InProgress { since: at, pausing: None }, at);
        self.run = Run::new(at, diverged);
    }

    fn ask_pause(&mut self, trigger: Trigger, reason: &str, now: bool, at: Timestamp) {
        if let State::Paused(pause) = &mut self.state {
            // It does not go on by itself any more.
            (pause.until, pause.reason) = (None, reason.to_owned());
        }
        let (State::InProgress { pausing, .. } | State::Blocked { pausing }) = &mut self.state
        else {
            return;
        };
        match pausing {
            Some(pausing) => pausing.now |= now,
            None => {
                let reason = reason.to_owned();
                *pausing = Some(Pausing { trigger, reason, since: at, now, until: None });
            }
        }
    }

    fn take_pause(&mut self, mark: &Mark, at: Timestamp) {
        let (reason, until) = (mark.reason.clone(), mark.until);
        self.move_to(State::Paused(Pause { at, reason, until }), at);
        self.take_snapshot(mark, at);
    }

    fn take_snapshot(&mut self, mark: &Mark, at: Timestamp) {
        mark.git.apply(&mut self.git);
        self.mark = Some(mark.clone());
        self.snapshots.push(SnapshotSum::of(self, mark, at));
    }

    fn finish(&mut self, state: State, at: Timestamp) {
        self.move_to(state, at);
        self.questions.clear();
        for task in self.tasks.iter_mut().filter(|task| task.state() == TaskState::InProgress) {
            task.spec.state = TaskState::Pending;
            task.was_interrupted = true;
        }
    }

    pub(super) fn set_task(&mut self, id: &str, state: TaskState) {
        let about = |question: &Question| matches!(question, Question::TaskFailed { task, .. } | Question::TaskRefused { task, .. } | Question::Gate { task, .. } if task == id);
        self.questions.retain(|question| !about(question));
        if let Some(task) = self.task_mut(id) {
            task.spec.state = state;
            (task.put_off, task.not_before) = (0, None);
            task.was_interrupted &= state != TaskState::Skipped;
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
                    // Another question is another approval.
                    let approval = task.approval.filter(|_| task.spec.approve == spec.approve);
                    Task { spec: TaskSpec { state, ..spec.clone() }, approval, ..task }
                }
                None => Task::new(spec.clone()),
            };
            self.tasks.push(task);
        }
        let is_back = |id: &String| specs.iter().any(|spec| spec.id == *id);
        self.questions
            .retain(|asked| !matches!(asked, Question::TaskRemoved { task } if is_back(task)));
        let is_wanted = |task: &str, what: &String| {
            specs.iter().any(|spec| spec.id == task && spec.approve.as_ref() == Some(what))
        };
        self.questions.retain(|asked| match asked {
            Question::Gate { task, what } => is_wanted(task, what),
            _ => true,
        });
        // What was worked on is not forgotten because a line was deleted, but nobody wants it done any more.
        for mut task in old.into_iter().filter(|task| task.attempts > 0) {
            if task.state() == TaskState::Pending {
                (task.spec.state, task.was_interrupted) = (TaskState::Skipped, false);
            }
            self.tasks.push(task);
        }
    }

    fn end_task(&mut self, ended: &Ended) {
        self.spend(&ended.task, &ended.used);
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
            Outcome::Interrupted { why } | Outcome::PutOff { why, .. } => {
                (TaskState::Pending, true, Some(why.clone()))
            }
        };
        (task.put_off, task.not_before) = match &ended.outcome {
            Outcome::PutOff { until, .. } => (task.put_off.saturating_add(1), Some(*until)),
            Outcome::Interrupted { .. } => (task.put_off, None),
            _ => (0, None),
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
            self.run.completed += 1;
        }
    }
}

/// How much later something is; no time where clocks went back.
fn time_between(from: Timestamp, to: Timestamp) -> SignedDuration {
    to.duration_since(from).max(SignedDuration::ZERO)
}
