//! The rules of a workflow in the plainest words, to compare the real one with.

use rethread_workflow::{
    Command, Effect, Event, OnFailure, Outcome, Question, Status, TaskSpec, TaskState, Workflow,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) needs: Vec<String>,
    pub(crate) state: TaskState,
    pub(crate) attempts: u32,
    pub(crate) interrupted: bool,
    pub(crate) on_failure: OnFailure,
    /// A person has to approve before it begins, and whether they have.
    pub(crate) gate: Option<bool>,
}

/// All that matters of a workflow for what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<Job>,
    /// A pause was asked for, and whether at once.
    pub(crate) pausing: Option<bool>,
    pub(crate) questions: Vec<Question>,
    pub(crate) sessions: u32,
    pub(crate) side_by_side: usize,
}

/// Why a task failed does not matter here.
fn plain(question: &Question) -> Question {
    match question {
        Question::TaskFailed { task, .. } => {
            Question::TaskFailed { task: task.clone(), why: "no".to_owned() }
        }
        other => other.clone(),
    }
}

impl Model {
    pub(crate) fn new(side_by_side: usize) -> Self {
        let status = Status::Pending;
        let (jobs, questions) = (Vec::new(), Vec::new());
        Self { status, jobs, pausing: None, questions, sessions: 1, side_by_side }
    }

    /// The same, read from the real one.
    pub(crate) fn of(real: &Workflow) -> Self {
        let job = |task: &rethread_workflow::Task| Job {
            id: task.spec.id.clone(),
            needs: task.spec.depends_on.clone(),
            state: task.state(),
            attempts: task.attempts,
            interrupted: task.was_interrupted,
            on_failure: real.on_failure(task),
            gate: task.spec.approve.as_ref().map(|_| task.approval.is_some()),
        };
        Self {
            status: real.status(),
            jobs: real.tasks.iter().map(job).collect(),
            pausing: real.pausing().map(|pausing| pausing.now),
            questions: real.questions.iter().map(plain).collect(),
            sessions: real.sessions,
            side_by_side: real.charter.limits.jobs as usize,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Failed | Status::Cancelled)
    }

    fn find(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub(crate) fn running(&self) -> Vec<String> {
        let running = self.jobs.iter().filter(|job| job.state == TaskState::InProgress);
        running.map(|job| job.id.clone()).collect()
    }

    fn is_done(state: TaskState) -> bool {
        state == TaskState::Completed || state == TaskState::Skipped
    }

    fn may_begin(&self, id: &str) -> bool {
        // What the plan has no more holds up nothing.
        let holds_up = |need: &String| {
            self.jobs.iter().any(|job| job.id == *need && !Self::is_done(job.state))
        };
        self.status == Status::InProgress
            && self.pausing.is_none()
            && !self.is_held()
            && self.running().len() < self.side_by_side
            && self.jobs.iter().any(|job| {
                job.id == id
                    && job.state == TaskState::Pending
                    && job.gate != Some(false)
                    && !job.needs.iter().any(holds_up)
            })
    }

    /// A question stops everything, unless it is about a task whose failure only stops what depends on it.
    fn is_held(&self) -> bool {
        self.questions.iter().any(|question| match question {
            Question::TaskFailed { task, .. } | Question::TaskRefused { task, .. } => {
                let job = self.jobs.iter().find(|job| job.id == *task);
                job.is_none_or(|job| job.on_failure == OnFailure::Stop)
            }
            Question::Gate { .. } => false,
            _ => true,
        })
    }

    fn is_asked(&self, job: &Job) -> bool {
        let gate = Question::Gate { task: job.id.clone(), what: "go?".to_owned() };
        self.questions.contains(&gate)
    }

    fn is_ready(&self, job: &Job) -> bool {
        let holds_up = |need: &String| {
            self.jobs.iter().any(|other| other.id == *need && !Self::is_done(other.state))
        };
        job.state == TaskState::Pending && !job.needs.iter().any(holds_up)
    }

    /// Whether the command is accepted; where it is, what follows.
    pub(crate) fn take(&mut self, command: &Command) -> bool {
        if self.is_over() {
            // What its last tasks found is still written down.
            let is_found = |event: &Event| !matches!(event, Event::Warned { .. });
            return matches!(command, Command::Note(event) if is_found(event));
        }
        let is_accepted = self.accepts(command);
        if is_accepted && !self.is_over() {
            self.follow();
        }
        is_accepted
    }

    fn accepts(&mut self, command: &Command) -> bool {
        match command {
            Command::Start { .. } => self.moves(Status::Pending, Status::InProgress),
            Command::Propose(tasks) => {
                let may = self.status == Status::InProgress && self.jobs.is_empty();
                if may {
                    self.plan(tasks);
                    self.ask(Question::Plan);
                }
                may
            }
            Command::Replan(tasks) => {
                self.plan(tasks);
                true
            }
            Command::BeginTask { task, .. } => self.begins(task),
            Command::EndTask(ended) => self.ends(&ended.task, ended.attempt, &ended.outcome),
            Command::Ask(question) => {
                self.status == Status::InProgress && self.ask(question.clone())
            }
            Command::Pause { now, .. } => {
                let may = self.status == Status::InProgress;
                if may {
                    self.pausing = Some(self.pausing == Some(true) || *now);
                }
                may
            }
            Command::Settle(_) => {
                let may = self.running().is_empty() && self.questions.is_empty();
                may && self.moves(Status::InProgress, Status::Paused) && {
                    self.pausing = None;
                    true
                }
            }
            Command::Resume { rewind, .. } => self.resumes(rewind),
            Command::Recover => {
                if self.status == Status::InProgress {
                    for id in self.running() {
                        self.put(&id, TaskState::Pending, true);
                    }
                    self.pausing = self.pausing.or(Some(true));
                }
                true
            }
            Command::Approve(_) => self.answers(true),
            Command::Reject(_) => self.answers(false),
            Command::Retry { task, .. } => {
                let from = [TaskState::Failed, TaskState::Skipped, TaskState::Blocked];
                self.turns(task, &from, TaskState::Pending)
            }
            Command::Skip { task } => {
                let from = [TaskState::Failed, TaskState::Pending, TaskState::Blocked];
                self.turns(task, &from, TaskState::Skipped)
            }
            Command::Cancel { .. } => self.ends_all(Status::Cancelled),
            Command::Note(_) | Command::Spend { .. } => true,
            Command::Mark(_) | Command::Close(_) | Command::Abandon { .. } => {
                unreachable!("not thrown here")
            }
        }
    }

    fn resumes(&mut self, rewind: &[String]) -> bool {
        let may = self.moves(Status::Paused, Status::InProgress);
        if may {
            self.sessions += 1;
            for id in rewind {
                self.put(id, TaskState::Pending, false);
                if let Some(gate) = self.find(id).and_then(|job| job.gate.as_mut()) {
                    *gate = false;
                }
            }
        }
        may
    }

    fn moves(&mut self, from: Status, to: Status) -> bool {
        let may = self.status == from;
        if may {
            self.status = to;
        }
        may
    }

    fn begins(&mut self, id: &str) -> bool {
        let may = self.may_begin(id);
        if may && let Some(job) = self.find(id) {
            job.attempts += 1;
            (job.state, job.interrupted) = (TaskState::InProgress, false);
        }
        may
    }

    fn ends(&mut self, id: &str, attempt: u32, outcome: &Outcome) -> bool {
        let is_current =
            |job: &mut Job| job.state == TaskState::InProgress && job.attempts == attempt;
        if !self.find(id).is_some_and(is_current) {
            return false;
        }
        match outcome {
            Outcome::Completed => self.put(id, TaskState::Completed, false),
            Outcome::Interrupted { .. } | Outcome::PutOff { .. } => {
                self.put(id, TaskState::Pending, true);
            }
            Outcome::Refused { what } => {
                self.put(id, TaskState::Blocked, false);
                let (task, refused) = (id.to_owned(), what.clone());
                self.ask(Question::TaskRefused { task, refused });
            }
            Outcome::Failed { why } => {
                self.put(id, TaskState::Failed, false);
                let job = self.find(id).map(|job| job.on_failure);
                if job != Some(OnFailure::Continue) {
                    self.ask(Question::TaskFailed { task: id.to_owned(), why: why.clone() });
                }
            }
        }
        true
    }

    fn put(&mut self, id: &str, state: TaskState, interrupted: bool) {
        if let Some(job) = self.find(id) {
            (job.state, job.interrupted) = (state, interrupted);
        }
    }

    fn ask(&mut self, question: Question) -> bool {
        if !self.questions.contains(&question) {
            self.questions.push(question);
        }
        true
    }

    fn turns(&mut self, id: &str, from: &[TaskState], to: TaskState) -> bool {
        let Some(job) = self.find(id).filter(|job| from.contains(&job.state)) else { return false };
        job.state = to;
        if to == TaskState::Skipped {
            job.interrupted = false;
        }
        self.forget_failure(id);
        true
    }

    fn forget_failure(&mut self, id: &str) {
        self.questions
            .retain(|asked| !matches!(asked, Question::TaskFailed { task, .. } | Question::TaskRefused { task, .. } | Question::Gate { task, .. } if task == id));
    }

    fn answers(&mut self, yes: bool) -> bool {
        // Yes goes to the first question that can be approved.
        let can = |asked: &Question| !yes || !matches!(asked, Question::TaskFailed { .. });
        let Some(at) = self.questions.iter().position(can) else { return false };
        match self.questions[at].clone() {
            Question::TaskFailed { .. } => return self.ends_all(Status::Failed),
            Question::TaskRefused { task, .. } if yes => {
                self.put(&task, TaskState::Completed, false);
            }
            Question::Command { .. } | Question::TaskRefused { .. } if !yes => {
                return self.ends_all(Status::Failed);
            }
            Question::Plan if !yes => self.jobs.clear(),
            Question::TaskRemoved { task } if !yes => {
                self.put(&task, TaskState::Skipped, false);
                self.questions.remove(at);
                // Nor does it matter that it failed.
                self.forget_failure(&task);
                return true;
            }
            Question::Gate { task, .. } => {
                let job = self.find(&task).map(|job| job.on_failure);
                if !yes {
                    if let Some(job) = self.find(&task) {
                        job.state = TaskState::Failed;
                    }
                    if job != Some(OnFailure::Continue) {
                        return self.ends_all(Status::Failed);
                    }
                } else if let Some(gate) = self.find(&task).and_then(|job| job.gate.as_mut()) {
                    *gate = true;
                }
            }
            _ => (),
        }
        self.questions.remove(at);
        true
    }

    fn ends_all(&mut self, status: Status) -> bool {
        for id in self.running() {
            self.put(&id, TaskState::Pending, true);
        }
        (self.status, self.pausing) = (status, None);
        self.questions.clear();
        true
    }

    /// Merged by id. What was begun is kept: it runs on with a question, or is done, or failed, or is skipped now.
    fn plan(&mut self, specs: &[TaskSpec]) {
        let old = std::mem::take(&mut self.jobs);
        for spec in specs {
            let known = old.iter().find(|job| job.id == spec.id);
            self.jobs.push(Job {
                id: spec.id.clone(),
                needs: spec.depends_on.clone(),
                state: known.map_or(TaskState::Pending, |job| job.state),
                attempts: known.map_or(0, |job| job.attempts),
                interrupted: known.is_some_and(|job| job.interrupted),
                on_failure: spec.policy.on_failure.unwrap_or_default(),
                gate: spec
                    .approve
                    .as_ref()
                    .map(|_| known.is_some_and(|job| job.gate == Some(true))),
            });
        }
        let is_there = |id: &String| specs.iter().any(|spec| spec.id == *id);
        self.questions
            .retain(|asked| !matches!(asked, Question::TaskRemoved { task } if is_there(task)));
        let is_gated =
            |id: &String| specs.iter().any(|spec| spec.id == *id && spec.approve.is_some());
        self.questions
            .retain(|asked| !matches!(asked, Question::Gate { task, .. } if !is_gated(task)));
        for mut job in old.into_iter().filter(|job| !is_there(&job.id) && job.attempts > 0) {
            match job.state {
                TaskState::InProgress => {
                    self.ask(Question::TaskRemoved { task: job.id.clone() });
                }
                TaskState::Pending => (job.state, job.interrupted) = (TaskState::Skipped, false),
                _ => (),
            }
            self.jobs.push(job);
        }
    }

    /// What follows of itself once nothing runs.
    fn follow(&mut self) {
        if matches!(self.status, Status::InProgress | Status::Blocked) {
            self.ask_of_failures();
        }
        if !self.running().is_empty() {
            return;
        }
        let can =
            |job: &Job| self.is_ready(job) && !(job.gate == Some(false) && self.is_asked(job));
        let goes_on = !self.is_held() && self.jobs.iter().any(can);
        let waits = !self.questions.is_empty() && (self.pausing.is_some() || !goes_on);
        if self.status == Status::Blocked && !waits {
            self.status = Status::InProgress;
        }
        if self.status != Status::InProgress {
            return;
        }
        if waits {
            self.status = Status::Blocked;
        } else if self.questions.is_empty() && !self.jobs.is_empty() {
            self.complete();
        }
    }

    /// What failed waits for a person, unless it is left out.
    fn ask_of_failures(&mut self) {
        for job in self.jobs.clone() {
            let is_asked = self
                .questions
                .iter()
                .any(|asked| matches!(asked, Question::TaskFailed { task, .. } if *task == job.id));
            if job.state == TaskState::Failed && job.on_failure != OnFailure::Continue && !is_asked
            {
                self.ask(Question::TaskFailed { task: job.id, why: "no".to_owned() });
            }
        }
    }

    /// It is completed once everything is done that does not depend on what is left out; that is skipped then.
    fn complete(&mut self) {
        let mut lost: Vec<String> = self
            .jobs
            .iter()
            .filter(|job| job.state == TaskState::Failed && job.on_failure == OnFailure::Continue)
            .map(|job| job.id.clone())
            .collect();
        for _ in 0..self.jobs.len() {
            for job in &self.jobs {
                let is_lost = job.needs.iter().any(|need| lost.contains(need));
                if job.state == TaskState::Pending && is_lost && !lost.contains(&job.id) {
                    lost.push(job.id.clone());
                }
            }
        }
        if !self.jobs.iter().all(|job| Self::is_done(job.state) || lost.contains(&job.id)) {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.state == TaskState::Pending) {
            (job.state, job.interrupted) = (TaskState::Skipped, false);
        }
        (self.status, self.pausing) = (Status::Completed, None);
    }

    /// What is to be done now.
    pub(crate) fn due(&self) -> Vec<Effect> {
        if self.status != Status::InProgress {
            return Vec::new();
        }
        let stop = |task: String| Effect::Stop { task };
        match self.pausing {
            Some(_) if self.running().is_empty() => return vec![Effect::Snapshot],
            Some(true) => return self.running().into_iter().map(stop).collect(),
            Some(false) => return Vec::new(),
            None => (),
        }
        if self.is_held() {
            return Vec::new();
        }
        if self.jobs.is_empty() {
            return vec![Effect::Plan];
        }
        let may = |interrupted: bool| {
            let jobs = self.jobs.iter().filter(move |job| job.interrupted == interrupted);
            jobs.filter(|job| self.may_begin(&job.id))
                .map(|job| Effect::Run { task: job.id.clone() })
        };
        let room = self.side_by_side - self.running().len();
        let gates = |interrupted: bool| {
            let jobs = self.jobs.iter().filter(move |job| job.interrupted == interrupted);
            jobs.filter(|job| self.is_ready(job) && job.gate == Some(false) && !self.is_asked(job))
                .map(|job| Effect::Ask { task: job.id.clone() })
        };
        let run = may(true).chain(may(false)).take(room);
        gates(true).chain(gates(false)).chain(run).collect()
    }
}
