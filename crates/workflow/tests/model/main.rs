//! Random histories of workflows against a model that knows only the rules.
#![expect(clippy::unwrap_used, reason = "a test")]

mod reference;

use std::collections::{BTreeSet, HashSet};

use reference::Model;
use rethread_domain::SessionId;
use rethread_workflow::{
    Answer, Budgets, Charter, Command, Decision, DecisionKind, Effect, Ended, ErrorRecord, Event,
    EventRecord, Feedback, GitDelta, Issue, Limits, Mark, OnFailure, Outcome, Question, Resolution,
    Severity, SnapshotId, Source, Status, TaskSpec, TaskState, Trigger, Used, Workflow, WorkflowId,
};
use uuid::Uuid;

const HISTORIES: u64 = 20_000;
const STEPS: usize = 36;

struct Dice(fastrand::Rng);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0.u64(..sides)
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).unwrap();
        (count > 0).then(|| &all[usize::try_from(self.throw(count)).unwrap()])
    }
}

/// One workflow, lived through.
struct Play {
    seed: u64,
    dice: Dice,
    real: Workflow,
    model: Model,
    records: Vec<EventRecord>,
    completed: HashSet<String>,
    begun: HashSet<(String, u32)>,
    ended: HashSet<(String, u32)>,
    /// What was interrupted when it paused, until something begins.
    first: HashSet<String>,
    story: Vec<String>,
    /// Which status became which.
    moves: BTreeSet<(&'static str, &'static str)>,
}

fn at(no: usize) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_800_000_000 + i64::try_from(no).unwrap()).unwrap()
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(fastrand::Rng::with_seed(seed));
        let jobs = u32::try_from(1 + dice.throw(3)).unwrap();
        let charter = Charter {
            user: "u".into(),
            worktree: "/w".into(),
            plan: None,
            title: "t".into(),
            issue: Issue::default(),
            agent: "a".into(),
            permissions: None,
            limits: Limits { jobs, ..Limits::default() },
        };
        let event = Event::Created(charter);
        let real = Workflow::create(WorkflowId::from_uuid(Uuid::nil()), &event, at(1)).unwrap();
        Self {
            seed,
            dice,
            model: Model::new(jobs as usize),
            real,
            records: vec![EventRecord { no: 1, at: at(1), event }],
            completed: HashSet::new(),
            moves: BTreeSet::new(),
            begun: HashSet::new(),
            ended: HashSet::new(),
            first: HashSet::new(),
            story: Vec::new(),
        }
    }

    /// A plan without cycles: a task depends on those that stand before it.
    fn plan(&mut self) -> Vec<TaskSpec> {
        let mut tasks: Vec<TaskSpec> = Vec::new();
        for number in 0..6u64 {
            if self.dice.throw(3) == 0 {
                continue;
            }
            let mut task = TaskSpec { id: format!("t{number}"), ..TaskSpec::default() };
            task.policy.on_failure = [None, Some(OnFailure::Ask), Some(OnFailure::Continue)]
                [usize::try_from(self.dice.throw(3)).unwrap()];
            if self.dice.throw(8) == 0 {
                task.approve = Some("go?".into());
            }
            for before in &tasks {
                if self.dice.throw(4) == 0 {
                    task.depends_on.push(before.id.clone());
                }
            }
            tasks.push(task);
        }
        tasks
    }

    fn session(&mut self) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(self.dice.throw(u64::MAX).into()))
    }

    fn begin(&mut self, task: String) -> Command {
        Command::BeginTask { task, session: self.session(), agent: "a".into() }
    }

    /// The end of an attempt; sometimes of one that is long over, or never was.
    fn end(&mut self, task: &str) -> Command {
        let attempts = self.real.task(task).map_or(0, |task| task.attempts);
        let attempt = match self.dice.throw(6) {
            0 => attempts.saturating_sub(1),
            1 if self.dice.throw(4) == 0 => attempts + 1,
            _ => attempts,
        };
        let outcome = match self.dice.throw(5) {
            0 => Outcome::Failed { why: "no".into() },
            1 if self.dice.throw(2) == 0 => {
                Outcome::PutOff { why: "overloaded".into(), until: at(100) }
            }
            1 => Outcome::Interrupted { why: "stopped".into() },
            2 => Outcome::Refused { what: vec!["execute: make".into()] },
            _ => Outcome::Completed,
        };
        let task = task.to_owned();
        Command::EndTask(Ended { task, attempt, outcome, used: Used::default(), tests: None })
    }

    fn settle(&mut self) -> Command {
        Command::Settle(Mark {
            id: SnapshotId::from_uuid(Uuid::from_u128(self.dice.throw(u64::MAX).into())),
            trigger: Trigger::Pause,
            reason: "asked".into(),
            git: GitDelta::default(),
            forced: false,
            until: None,
            is_in_plan: false,
        })
    }

    /// Sometimes a task that is done is to be done again.
    fn rewound(&mut self) -> Vec<String> {
        let done = self.real.tasks.iter().filter(|task| task.state() == TaskState::Completed);
        let done: Vec<String> = done.map(|task| task.spec.id.clone()).collect();
        if self.dice.throw(4) > 0 {
            return Vec::new();
        }
        self.dice.one_of(&done).cloned().into_iter().collect()
    }

    /// What whoever runs it would do now.
    fn as_due(&mut self) -> Option<Command> {
        let due = self.real.due(at(1_000));
        let running = self.model.running();
        match self.dice.one_of(&due).cloned() {
            Some(Effect::Plan) => {
                let plan = self.plan();
                Some(Command::Propose(plan))
            }
            Some(Effect::Run { task }) if running.is_empty() || self.dice.throw(2) == 0 => {
                Some(self.begin(task))
            }
            Some(Effect::Ask { task }) => {
                Some(Command::Ask(Question::Gate { task, what: "go?".into() }))
            }
            Some(Effect::Snapshot) => Some(self.settle()),
            _ => self.dice.one_of(&running).cloned().map(|task| self.end(&task)),
        }
    }

    fn any(&mut self) -> Command {
        let task = format!("t{}", self.dice.throw(7));
        let why = "because".to_owned();
        match self.dice.throw(40) {
            0..=3 => Command::Start { branch: None, commit: None },
            4 | 5 => Command::Replan(self.plan()),
            6 => Command::Propose(self.plan()),
            7 | 8 => self.begin(task),
            9..=11 => self.end(&task),
            12 => Command::Ask(Question::Command { command: "make".into() }),
            13..=15 => Command::Pause { trigger: Trigger::Pause, reason: why, now: false },
            16 => Command::Pause { trigger: Trigger::Timeout, reason: why, now: true },
            17 => self.settle(),
            18..=23 => {
                let from = SnapshotId::from_uuid(Uuid::nil());
                let rewind = self.rewound();
                let budgets = Budgets::default();
                let (agent, permissions, diverged) = (None, None, Vec::new());
                Command::Resume { from, agent, diverged, rewind, budgets, permissions }
            }
            24 | 25 => Command::Recover,
            26..=29 => Command::Approve(Answer::default()),
            30 => Command::Reject(Answer::default()),
            31..=35 => Command::Retry { task, agent: None, permissions: None },
            36..=38 => Command::Skip { task },
            _ if self.dice.throw(3) == 0 => Command::Cancel { why },
            _ => Command::Note(Box::new(self.note(task))),
        }
    }

    fn note(&mut self, task: String) -> Event {
        let source = Source { by: "rules".into(), session: None, messages: vec![3] };
        let (id, at, some) = ("x".to_owned(), at(7), "some".to_owned());
        match self.dice.throw(4) {
            0 => Event::Decided(Decision {
                id,
                at,
                task: Some(task),
                kind: DecisionKind::Library,
                what: "use it".into(),
                why: some,
                alternatives: vec!["the other".into()],
                source,
            }),
            1 => Event::Erred(ErrorRecord {
                id,
                at,
                task: None,
                kind: "panic".into(),
                message: some,
                context: None,
                resolution: Resolution::Deferred,
                notes: None,
                source,
            }),
            2 => Event::Reviewed(Feedback {
                id,
                at,
                task,
                reviewer: "r".into(),
                approved: false,
                severity: Severity::Major,
                comments: vec![some],
                addressed: false,
                session: None,
            }),
            _ => Event::Warned { task, context_use: 0.71 },
        }
    }

    fn step(&mut self) {
        let by_due = if self.dice.throw(5) < 3 { self.as_due() } else { None };
        let command = by_due.unwrap_or_else(|| self.any());
        let answer = self.real.decide(&command);
        self.story.push(format!("{command:?} -> {answer:?}"));
        let is_accepted = self.model.take(&command);
        assert_eq!(answer.is_ok(), is_accepted, "{}", self.describe());
        for event in answer.unwrap_or_default() {
            self.live(event);
        }
        assert_eq!(Model::of(&self.real), self.model, "{}", self.describe());
        assert_eq!(self.real.due(at(1_000)), self.model.due(), "{}", self.describe());
        self.is_not_stuck();
    }

    /// One event, and what must hold of it.
    fn live(&mut self, event: Event) {
        let before = self.real.clone();
        match &event {
            Event::TaskBegan { task, attempt, .. } => self.may_begin(&before, task, *attempt),
            Event::TaskEnded(ended) => {
                let key = (ended.task.clone(), ended.attempt);
                assert!(self.begun.contains(&key), "never begun: {}", self.describe());
                assert!(self.ended.insert(key), "ended twice: {}", self.describe());
                if ended.outcome == Outcome::Completed {
                    self.completed.insert(ended.task.clone());
                }
            }
            // A person said that it does not count.
            Event::Answered { question: Question::TaskRemoved { task }, yes: false, .. } => {
                self.completed.remove(task);
            }
            Event::Rewound { tasks, .. } => {
                for task in tasks {
                    self.completed.remove(task);
                }
            }
            _ => (),
        }
        let at = at(self.records.len() + 1);
        self.real.apply(&event, at);
        let (was, is) = (before.status(), self.real.status());
        assert!(was == is || was.may_become(is), "{was} became {is}: {}", self.describe());
        if was != is {
            self.moves.insert((was.as_str(), is.as_str()));
        }
        let is_resumed = matches!(event, Event::Resumed { .. });
        let more = self.real.sessions - before.sessions;
        assert_eq!(more, u32::from(is_resumed), "{}", self.describe());
        if is_resumed {
            let cut_short = self.real.tasks.iter().filter(|task| task.was_interrupted);
            self.first = cut_short.map(|task| task.spec.id.clone()).collect();
            let next = self.real.next_task().map(|task| task.spec.id.clone());
            let is_first =
                next.is_none_or(|next| self.first.is_empty() || self.first.contains(&next));
            // One whose needs were changed by hand may have to wait.
            let waits = self.real.ready().iter().all(|task| !task.was_interrupted);
            assert!(is_first || waits, "not the interrupted one: {}", self.describe());
        }
        let no = u32::try_from(self.records.len() + 1).unwrap();
        self.records.push(EventRecord { no, at, event });
    }

    fn may_begin(&mut self, before: &Workflow, task: &str, attempt: u32) {
        assert_eq!(before.status(), Status::InProgress, "{}", self.describe());
        assert!(before.pausing().is_none(), "{}", self.describe());
        assert!(!self.completed.contains(task), "completed and begun again: {}", self.describe());
        let is_new = self.begun.insert((task.to_owned(), attempt));
        assert!(is_new, "an attempt begun twice: {}", self.describe());
    }

    fn is_not_stuck(&self) {
        let real = &self.real;
        let rests = matches!(real.status(), Status::Pending | Status::Blocked | Status::Paused);
        let goes_on = real.is_running() || !real.due(at(1_000)).is_empty();
        assert!(rests || real.status().is_final() || goes_on, "stuck: {}", self.describe());
        if real.status() == Status::Blocked {
            assert!(!real.questions.is_empty(), "blocked for nothing: {}", self.describe());
        }
    }

    /// What was kept of it gives the same workflow.
    fn is_kept(&self) {
        let text = serde_json::to_string(&self.records).unwrap();
        let read: Vec<EventRecord> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, self.records, "{}", self.describe());
        let folded = Workflow::fold(self.real.id, &read);
        assert_eq!(folded.as_ref(), Some(&self.real), "{}", self.describe());
    }

    fn describe(&self) -> String {
        format!("seed {}\n{}\n{:#?}", self.seed, self.story.join("\n"), self.model)
    }
}

#[test]
fn random_histories_go_as_the_rules_say() {
    let mut ends = std::collections::BTreeMap::new();
    let mut resumed = 0;
    let mut moves = BTreeSet::new();
    for seed in 0..HISTORIES {
        let mut play = Play::new(seed);
        for _ in 0..STEPS {
            play.step();
            if play.real.status().is_final() && play.dice.throw(4) == 0 {
                break;
            }
        }
        play.is_kept();
        *ends.entry(play.real.status().as_str()).or_insert(0) += 1;
        resumed += play.real.sessions - 1;
        moves.extend(play.moves);
    }
    // What is allowed is what happens: no move is allowed that no history makes.
    let pairs = Status::ALL.into_iter().flat_map(|was| Status::ALL.map(|is| (was, is)));
    let allowed = pairs.filter(|(was, is)| was.may_become(*is));
    let allowed: BTreeSet<_> = allowed.map(|(was, is)| (was.as_str(), is.as_str())).collect();
    assert_eq!(moves, allowed);
    // A test in which nothing happens would prove nothing.
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Pending) {
        assert!(ends.get(status.as_str()).is_some_and(|count| *count > 200), "{ends:?}");
    }
    assert!(resumed > 5_000, "{resumed} resumed, {ends:?}");
}

#[test]
fn an_event_of_a_newer_version_is_kept_as_it_came() {
    let text = r#"{"no":7,"at":"2026-11-16T07:00:00Z","what":"danced","with":{"how":[1]},"x":2}"#;
    let record: EventRecord = serde_json::from_str(text).unwrap();
    assert!(matches!(record.event, Event::Unknown(_)), "{record:?}");
    assert_eq!(serde_json::to_string(&record).unwrap(), text);
    let known = EventRecord { no: 8, at: at(1), event: Event::Blocked };
    let text = serde_json::to_string(&known).unwrap();
    assert_eq!(serde_json::from_str::<EventRecord>(&text).unwrap(), known);
}

#[test]
fn a_plan_that_says_a_task_is_running_has_nobody_who_runs_it() {
    for state in [TaskState::InProgress, TaskState::Failed, TaskState::Blocked] {
        let mut play = Play::new(1);
        let spec = TaskSpec { id: "t".into(), state, ..TaskSpec::default() };
        play.real.apply(&Event::Planned { tasks: vec![spec] }, at(2));
        play.real.apply(&Event::Began { branch: None, commit: None }, at(3));
        assert_eq!(play.real.due(at(4)), [Effect::Run { task: "t".into() }], "{state:?}");
    }
}

#[test]
fn what_an_older_version_wrote_is_read() {
    let task = r#"{"id":"a","title":"x","depends_on":["b"],"expect":"green","state":"pending"}"#;
    let spec: TaskSpec = serde_json::from_str(task).unwrap();
    assert!(spec.policy.is_empty() && spec.approve.is_none() && spec.model.is_none());
    let limits: Limits = serde_json::from_str(r#"{"jobs":2,"rounds":1}"#).unwrap();
    assert_eq!((limits.jobs, limits.retries), (2, Limits::default().retries));
    let text = r#"{"no":7,"at":"2026-11-16T07:00:00Z","what":"answered","with":{"question":{"about":"plan"},"yes":true,"why":null}}"#;
    let record: EventRecord = serde_json::from_str(text).unwrap();
    let question = Question::Plan;
    assert_eq!(record.event, Event::Answered { question, yes: true, why: None, by: None });
    assert_eq!(serde_json::to_string(&record).unwrap(), text, "nothing new where nothing is said");
}
