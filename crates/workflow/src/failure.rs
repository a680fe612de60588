//! What follows when a task fails: retries for trouble that passes, a time limit, and what becomes of the other tasks.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::event::{Event, Question};
use super::state::Workflow;
use super::status::Status;
use super::task::{Task, TaskState};

/// What follows if a task fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// No other task begins until a person has decided.
    #[default]
    Stop,
    /// A person is asked; what does not depend on it goes on.
    Ask,
    /// Nobody is asked: it is left out, with what depends on it.
    Continue,
}

rethread_domain::named!(OnFailure { Stop = "stop", Ask = "ask", Continue = "continue" });

/// What a plan says about failures of a task; what it does not say is as in the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How often it is tried again by itself after trouble that passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How long an attempt may take, its check included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
}

impl Policy {
    pub const fn is_empty(&self) -> bool {
        self.retries.is_none() && self.seconds.is_none() && self.on_failure.is_none()
    }

    /// The same, with what the other one says where this one says nothing.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            retries: self.retries.or(other.retries),
            seconds: self.seconds.or(other.seconds),
            on_failure: self.on_failure.or(other.on_failure),
        }
    }
}

/// Each time a task is put off for so many times as long as before,
const GROWTH: u64 = 4;
/// but for no longer than this, unless it is known when the trouble is over.
const LONGEST: u64 = 3_600;
/// What is put off for longer is waited for in a pause, which costs no running time.
const WAITED_FOR: SignedDuration = SignedDuration::from_secs(60);

impl Workflow {
    /// What follows if this task fails.
    pub fn on_failure(&self, task: &Task) -> OnFailure {
        task.spec.policy.on_failure.unwrap_or(self.charter.limits.on_failure)
    }

    /// How long an attempt at this task may take.
    pub fn seconds_for(&self, task: &Task) -> u64 {
        task.spec.policy.seconds.unwrap_or(self.charter.limits.task_seconds)
    }

    /// How often this task is tried again by itself.
    pub fn retries_of(&self, task: &Task) -> u32 {
        task.spec.policy.retries.unwrap_or(self.charter.limits.retries)
    }

    /// Until when a task is put off because of trouble that passes, at `over` if that is known; `None` if it was put off often
    /// enough.
    pub fn put_off_until(
        &self,
        task: &Task,
        over: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if task.put_off >= self.retries_of(task) {
            return None;
        }
        let first = self.charter.limits.retry_seconds;
        let seconds = first.saturating_mul(GROWTH.saturating_pow(task.put_off)).min(LONGEST);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let until = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        Some(over.map_or(until, |over| over.max(now)))
    }

    /// When the next task begins that was put off, where nothing else can be done until then, and that is so far away that the
    /// workflow pauses meanwhile.
    pub fn long_wait(&self, now: Timestamp) -> Option<Timestamp> {
        let is_idle = self.status() == Status::InProgress
            && self.pausing().is_none()
            && self.questions.is_empty()
            && !self.is_running();
        let until = Some(self.next_put_off()?).filter(|_| is_idle)?;
        (until.duration_since(now) > WAITED_FOR).then_some(until)
    }

    /// Whether it is paused only until a task can go on that was put off: it does so by itself.
    pub fn goes_on_at(&self) -> Option<Timestamp> {
        self.next_put_off()?;
        self.pause()?.until
    }

    /// When the first of the tasks begins that were put off, if all that may begin were.
    fn next_put_off(&self) -> Option<Timestamp> {
        let ready = self.ready();
        let times = ready.iter().map(|task| task.not_before).collect::<Option<Vec<_>>>()?;
        times.into_iter().min()
    }

    /// Whether no task may begin until this question is answered.
    pub(super) fn stops_all(&self, question: &Question) -> bool {
        match question {
            Question::TaskFailed { task, .. } | Question::TaskRefused { task, .. } => {
                self.task(task).is_none_or(|task| self.on_failure(task) == OnFailure::Stop)
            }
            Question::Gate { .. } => false,
            Question::Plan | Question::TaskRemoved { .. } | Question::Command { .. } => true,
        }
    }

    /// Whether no task may begin until a person has answered.
    pub(super) fn is_held(&self) -> bool {
        self.questions.iter().any(|question| self.stops_all(question))
    }

    /// Whether something can be done, now or later, without an answer of a person.
    pub(super) fn can_go_on(&self) -> bool {
        !self.is_held() && self.ready().iter().any(|task| !task.is_gated() || !self.is_asked(task))
    }

    /// Whether this task failed and is left out.
    pub fn is_left_out(&self, task: &Task) -> bool {
        task.state() == TaskState::Failed && self.on_failure(task) == OnFailure::Continue
    }

    /// The tasks that cannot be done because they depend on one that is left out; `None` while something else is to be done.
    fn rest_is_left_out(&self) -> Option<Vec<String>> {
        let open = || self.tasks.iter().filter(|task| !task.state().is_done());
        let is_open_otherwise =
            |task: &Task| task.state() != TaskState::Pending && !self.is_left_out(task);
        if self.tasks.is_empty() || open().any(is_open_otherwise) {
            return None;
        }
        let mut left: HashSet<&str> = open()
            .filter(|task| self.is_left_out(task))
            .map(|task| task.spec.id.as_str())
            .collect();
        let mut waiting: Vec<&Task> =
            open().filter(|task| task.state() == TaskState::Pending).collect();
        let mut lost = Vec::new();
        while !waiting.is_empty() {
            let depends =
                |task: &&Task| task.spec.depends_on.iter().any(|on| left.contains(on.as_str()));
            let (more, others): (Vec<&Task>, Vec<&Task>) = waiting.into_iter().partition(depends);
            if more.is_empty() {
                return None;
            }
            lost.extend(more.iter().map(|task| task.spec.id.clone()));
            left.extend(more.iter().map(|task| task.spec.id.as_str()));
            waiting = others;
        }
        Some(lost)
    }

    /// Questions about tasks that failed and were left out, until the plan was changed.
    pub(super) fn unasked(&self) -> Vec<Event> {
        if !matches!(self.status(), Status::InProgress | Status::Blocked) {
            return Vec::new();
        }
        let is_asked = |id: &str| {
            let about = |question: &Question| matches!(question, Question::TaskFailed { task, .. } if task == id);
            self.questions.iter().any(about)
        };
        let failed = self.tasks.iter().filter(|task| task.state() == TaskState::Failed);
        let unasked = failed.filter(|task| !self.is_left_out(task) && !is_asked(&task.spec.id));
        let ask = |task: &Task| {
            let why = task.note.clone().unwrap_or_default();
            Event::Asked(Question::TaskFailed { task: task.spec.id.clone(), why })
        };
        unasked.map(ask).collect()
    }

    /// How it is completed, if nothing is left to be done.
    pub(super) fn completion(&self) -> Vec<Event> {
        let Some(lost) = self.rest_is_left_out() else { return Vec::new() };
        let skipped = lost.into_iter().map(|task| Event::TaskSkipped { task });
        skipped.chain([Event::Completed]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::at;
    use super::super::*;

    /// A running workflow of tasks in this order, each with what it depends on and what follows if it fails.
    fn running(tasks: &[(&str, &[&str], OnFailure)], limits: Limits) -> Workflow {
        let charter = Charter {
            user: "u".into(),
            worktree: "/w".into(),
            plan: None,
            title: "t".into(),
            issue: Issue::default(),
            agent: "a".into(),
            permissions: None,
            limits,
        };
        let spec = |(id, on, then): &(&str, &[&str], OnFailure)| TaskSpec {
            id: (*id).to_owned(),
            depends_on: on.iter().map(|&on| on.to_owned()).collect(),
            policy: Policy { on_failure: Some(*then), ..Policy::default() },
            ..TaskSpec::default()
        };
        let tasks = tasks.iter().map(spec).collect();
        let mut workflow =
            Workflow::create(WorkflowId::generate(), &Event::Created(charter), at(0)).unwrap();
        workflow.apply(&Event::Planned { tasks }, at(0));
        carry(&mut workflow, &Command::Start { branch: None, commit: None }, 1);
        workflow
    }

    fn carry(workflow: &mut Workflow, command: &Command, second: i64) {
        for event in workflow.decide(command).unwrap() {
            workflow.apply(&event, at(second));
        }
    }

    fn attempt(workflow: &mut Workflow, task: &str, outcome: Outcome, second: i64) {
        let session = rethread_domain::SessionId::generate();
        let (task, agent) = (task.to_owned(), "a".to_owned());
        carry(workflow, &Command::BeginTask { task: task.clone(), session, agent }, second);
        let attempt = workflow.task(&task).unwrap().attempts;
        let used = Used::default();
        carry(
            workflow,
            &Command::EndTask(Ended { task, attempt, outcome, used, tests: None }),
            second,
        );
    }

    fn failed() -> Outcome {
        Outcome::Failed { why: "no".into() }
    }

    fn due(workflow: &Workflow, second: i64) -> Vec<String> {
        let tasks = workflow.due(at(second)).into_iter().map(|effect| match effect {
            Effect::Run { task } => task,
            other => format!("{other:?}"),
        });
        tasks.collect()
    }

    #[test]
    fn what_does_not_depend_on_a_failed_task_goes_on_as_the_plan_says() {
        for (then, goes_on) in [(OnFailure::Stop, false), (OnFailure::Ask, true)] {
            let tasks: [(&str, &[&str], _); 3] =
                [("a", &[], then), ("b", &["a"], then), ("c", &[], then)];
            let mut workflow = running(&tasks, Limits::default());
            attempt(&mut workflow, "a", failed(), 2);
            assert_eq!(due(&workflow, 3) == ["c"], goes_on, "{then:?}");
            if goes_on {
                attempt(&mut workflow, "c", Outcome::Completed, 4);
            }
            assert_eq!((workflow.status(), workflow.questions.len()), (Status::Blocked, 1));
            carry(
                &mut workflow,
                &Command::Retry { task: "a".into(), agent: None, permissions: None },
                5,
            );
            assert_eq!(due(&workflow, 6), ["a"]);
        }
    }

    #[test]
    fn what_is_left_out_takes_along_what_depends_on_it_and_nobody_is_asked() {
        let then = OnFailure::Continue;
        let tasks: [(&str, &[&str], _); 4] =
            [("d", &["b"], then), ("a", &[], then), ("b", &["a"], then), ("c", &[], then)];
        let mut workflow = running(&tasks, Limits::default());
        attempt(&mut workflow, "a", failed(), 2);
        assert_eq!(due(&workflow, 3), ["c"]);
        attempt(&mut workflow, "c", Outcome::Completed, 4);
        assert_eq!(workflow.status(), Status::Completed);
        let states: Vec<_> = workflow.tasks.iter().map(|task| task.state().as_str()).collect();
        assert_eq!(states, ["skipped", "failed", "skipped", "completed"]);
    }

    #[test]
    fn trouble_that_passes_puts_a_task_off_for_longer_and_longer_and_not_for_ever() {
        let limits = Limits { retries: 2, retry_seconds: 10, ..Limits::default() };
        let mut workflow = running(&[("a", &[], OnFailure::Stop)], limits);
        let put_off = |workflow: &Workflow, over, second| {
            workflow.put_off_until(workflow.task("a").unwrap(), over, at(second))
        };
        assert_eq!(put_off(&workflow, None, 100), Some(at(110)));
        assert_eq!(put_off(&workflow, Some(at(900)), 100), Some(at(900)), "when it is known");
        let until = put_off(&workflow, None, 100).unwrap();
        attempt(&mut workflow, "a", Outcome::PutOff { why: "busy".into(), until }, 100);
        assert!(due(&workflow, 109).is_empty() && workflow.long_wait(at(100)).is_none());
        assert_eq!(due(&workflow, 110), ["a"]);
        let until = put_off(&workflow, None, 110).unwrap();
        assert_eq!(until, at(150), "four times as long");
        attempt(&mut workflow, "a", Outcome::PutOff { why: "busy".into(), until }, 110);
        assert_eq!(put_off(&workflow, None, 150), None, "often enough");
        // It came to an end in between: it is counted anew.
        attempt(&mut workflow, "a", failed(), 150);
        carry(
            &mut workflow,
            &Command::Retry { task: "a".into(), agent: None, permissions: None },
            151,
        );
        assert_eq!(put_off(&workflow, None, 151), Some(at(161)));
    }

    #[test]
    fn a_long_wait_is_a_pause_that_ends_by_itself_unless_a_person_says_otherwise() {
        let mut workflow = running(&[("a", &[], OnFailure::Stop)], Limits::default());
        let outcome = || Outcome::PutOff { why: "limit".into(), until: at(9_000) };
        attempt(&mut workflow, "a", outcome(), 2);
        assert_eq!(workflow.long_wait(at(3)), Some(at(9_000)));
        let pause = |reason: &str| Command::Pause {
            trigger: Trigger::Exhaustion,
            reason: reason.to_owned(),
            now: false,
        };
        let settle = Command::Settle(Mark {
            id: SnapshotId::generate(),
            trigger: Trigger::Exhaustion,
            reason: "limit".into(),
            git: GitDelta::default(),
            forced: false,
            until: Some(at(9_000)),
            is_in_plan: false,
        });
        let resume = Command::Resume {
            from: SnapshotId::generate(),
            agent: None,
            diverged: Vec::new(),
            rewind: Vec::new(),
            budgets: Budgets::default(),
            permissions: None,
        };
        let paused = |workflow: &mut Workflow, second| {
            carry(workflow, &pause("limit"), second);
            carry(workflow, &settle, second);
            assert_eq!(workflow.goes_on_at(), Some(at(9_000)));
        };
        paused(&mut workflow, 4);
        let mut waited = workflow.clone();
        carry(&mut waited, &resume, 9_000);
        assert_eq!(due(&waited, 9_000), ["a"]);
        // A person who resumes it earlier does not want to wait.
        let mut early = workflow.clone();
        carry(&mut early, &resume, 5);
        assert_eq!(due(&early, 5), ["a"]);
        // One who pauses it wants it to stay so.
        carry(&mut workflow, &pause("no more today"), 6);
        assert_eq!((workflow.goes_on_at(), workflow.status()), (None, Status::Paused));
        assert_eq!(workflow.pause().unwrap().reason, "no more today");
        assert!(matches!(workflow.decide(&pause("again")), Err(Refusal::Already(..))));
    }
}
