//! Many workflows are run by two processes that are killed every 1 to 3 seconds: every outcome is recorded once, none
//! is lost, none is stuck, and what is done is never begun again (PROMISES W1, W8).

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::Chance;
use crate::env::TestEnv;

/// More of them, for a long run: `LEDGER=100x20 cargo test …`.
fn size() -> (usize, usize) {
    let text = std::env::var_os("LEDGER").unwrap_or_else(|| "40x20".into());
    let text = text.to_str().and_then(|text| text.split_once('x'));
    let (workflows, tasks) = text.expect("LEDGER is WORKFLOWSxTASKS");
    (workflows.parse().expect("a number"), tasks.parse().expect("a number"))
}

const PROCESSES: usize = 2;
/// How long nothing may come to its end.
const STUCK_AFTER: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Start(usize),
    Recover,
}

struct Running {
    child: Child,
    work: Work,
    dies_at: Instant,
    /// What it says of trouble.
    told: PathBuf,
}

struct Ledger {
    env: TestEnv,
    tasks: usize,
    waiting: VecDeque<usize>,
    chance: Chance,
    /// When those are to be killed that come in the place of some that ended by themselves.
    due: Vec<Instant>,
    kills: usize,
    started: usize,
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn a_ledger_shows_every_task_once_however_often_those_who_run_it_are_killed() {
    let seed = 0x1ed6_e75e_u64 ^ u64::from(std::process::id()) << 32;
    // Kept by hand when it fails: put it above in place of the number of the process.
    eprintln!("seed {seed:#x}");
    let (workflows, tasks) = size();
    let began = Instant::now();
    let mut ledger = Ledger::new(seed, workflows, tasks);
    ledger.run(workflows);
    let took = began.elapsed();
    ledger.env.assert_nothing_runs();
    let attempts = ledger.audit(workflows);
    eprintln!(
        "{workflows} workflows of {tasks} tasks in {took:.1?}: {} kills, {} processes, {attempts} attempts",
        ledger.kills, ledger.started
    );
    assert!(ledger.kills > workflows / 10, "hardly anybody was killed");
    ledger.env.assert_sound();
}

impl Ledger {
    fn new(seed: u64, workflows: usize, tasks: usize) -> Self {
        let env = TestEnv::new();
        env.agent("ref", &[]);
        let ledger = env.path("ledger");
        for workflow in 0..workflows {
            let folder = env.path(&format!("w{workflow}"));
            std::fs::create_dir(&folder).unwrap();
            let task = |task: usize| {
                let line = format!("echo w{workflow} T{task} $PPID >> {}", ledger.display());
                format!("\n## Task T{task}: write a line\n\ndo: exec: {line}\n")
            };
            let plan: String = (1..=tasks).map(task).collect();
            std::fs::write(folder.join("plan.md"), format!("# Ledger\n{plan}")).unwrap();
        }
        let waiting = (0..workflows).collect();
        Self { env, tasks, waiting, chance: Chance(seed), due: Vec::new(), kills: 0, started: 0 }
    }

    /// Until every workflow is completed.
    fn run(&mut self, workflows: usize) {
        let mut running: Vec<Running> = Vec::new();
        let (mut done, mut done_at) = (0, Instant::now());
        while done < workflows {
            while running.len() < PROCESSES {
                let work = self.waiting.pop_front().map_or(Work::Recover, Work::Start);
                running.push(self.spawn(work));
            }
            std::thread::sleep(LOOK_EVERY);
            for mut one in std::mem::take(&mut running) {
                let is_over = one.child.try_wait().unwrap().is_some();
                if !is_over && Instant::now() < one.dies_at {
                    running.push(one);
                    continue;
                }
                if is_over {
                    self.due.push(one.dies_at);
                    Self::ended(&mut one);
                } else if let Some(next) = self.kill(&mut one) {
                    running.push(next);
                }
                let now = self.completed();
                if now > done {
                    (done, done_at) = (now, Instant::now());
                }
                assert!(done_at.elapsed() < STUCK_AFTER, "stuck: {:#}", self.list());
            }
        }
        for mut one in running {
            one.child.wait().unwrap();
        }
    }

    fn spawn(&mut self, work: Work) -> Running {
        let told = self.env.path(&format!("told{}", self.started));
        self.started += 1;
        let mut command = match work {
            Work::Start(number) => {
                let folder = self.env.path(&format!("w{number}"));
                let mut command = self.env.command(["workflow", "start", "--agent", "ref"]);
                let jobs = (1 + number % 3).to_string();
                command.args(["--permissions", "allow", "--jobs", &jobs, "--worktree"]);
                command.arg(&folder).arg(folder.join("plan.md"));
                command
            }
            Work::Recover => self.env.command(["workflow", "recover", "--resume"]),
        };
        command.stdout(Stdio::null()).stderr(File::create(&told).unwrap());
        let lives = Duration::from_millis(1_000 + self.chance.below(2_000));
        let dies_at = self.due.pop().unwrap_or_else(|| Instant::now() + lives);
        Running { child: command.spawn().unwrap(), work, dies_at, told }
    }

    /// One came to its end: well, unless the other one was faster.
    fn ended(one: &mut Running) {
        let told = std::fs::read_to_string(&one.told).unwrap();
        let is_well = one.child.wait().unwrap().success();
        let was_late = matches!(one.work, Work::Start(_))
            && (told.contains("another process runs") || told.contains("not pending"));
        assert!(is_well || was_late, "{:?}: {told}", one.work);
    }

    /// Somebody takes up what it leaves, in its place; where it left nothing, it is to be started anew.
    fn kill(&mut self, one: &mut Running) -> Option<Running> {
        one.child.kill().unwrap();
        one.child.wait().unwrap();
        self.kills += 1;
        if let Work::Start(number) = one.work
            && self.find(number).is_none()
        {
            self.waiting.push_back(number);
        }
        (self.chance.below(4) > 0).then(|| self.spawn(Work::Recover))
    }

    fn list(&self) -> Value {
        self.env.json(["workflow", "list", "-n", "1000"])
    }

    fn completed(&self) -> usize {
        let list = self.list();
        let rows = list.as_array().unwrap();
        rows.iter().filter(|row| row["status"] == "completed").count()
    }

    fn find(&self, number: usize) -> Option<String> {
        let folder = self.env.path(&format!("w{number}"));
        let list = self.list();
        let mut rows = list.as_array().unwrap().iter();
        let row = rows.find(|row| row["worktree"] == folder.to_str().unwrap())?;
        Some(row["id"].as_str().unwrap().to_owned())
    }

    /// Compares what was done with what was recorded; gives how many attempts there were.
    fn audit(&self, workflows: usize) -> usize {
        let lines = std::fs::read_to_string(self.env.path("ledger")).unwrap();
        let mut written: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for line in lines.lines() {
            let mut words = line.split(' ');
            let (Some(workflow), Some(task)) = (words.next(), words.next()) else { panic!() };
            *written.entry((workflow, task)).or_default() += 1;
        }
        let list = self.list();
        assert_eq!(list.as_array().unwrap().len(), workflows, "{list:#}");
        let mut attempts = 0;
        for number in 0..workflows {
            let id = self.find(number).unwrap();
            let log = self.env.data(["workflow", "logs", &id, "--json", "--events"]);
            let records: Vec<Value> =
                log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            for task in 1..=self.tasks {
                let (workflow, task) = (format!("w{number}"), format!("T{task}"));
                let told = History::of(&records, &task);
                let count = written.get(&(workflow.as_str(), task.as_str())).copied();
                told.check(count.unwrap_or(0), &format!("{workflow} {task}: {log}"));
                attempts += told.began;
            }
            for (at, record) in (1_u64..).zip(&records) {
                assert_eq!(record["no"], at, "{log}");
            }
            let ends = records.iter().filter(|record| record["what"] == "completed").count();
            assert_eq!(ends, 1, "{log}");
        }
        attempts
    }
}

/// What the log says of a task.
#[derive(Debug, Default)]
struct History {
    began: usize,
    ended: usize,
    completed: usize,
    began_after_completion: bool,
}

impl History {
    fn of(records: &[Value], task: &str) -> Self {
        let mut told = Self::default();
        for record in records.iter().filter(|record| record["with"]["task"] == task) {
            match record["what"].as_str().unwrap() {
                "task_began" => {
                    told.began += 1;
                    told.began_after_completion |= told.completed > 0;
                    assert_eq!(record["with"]["attempt"], told.began, "{record:#}");
                }
                "task_ended" => {
                    told.ended += 1;
                    told.completed += usize::from(record["with"]["outcome"]["how"] == "completed");
                }
                _ => (),
            }
        }
        told
    }

    /// Recorded once, done at least once, and not more often than it was begun.
    #[track_caller]
    fn check(&self, written: usize, told: &str) {
        assert_eq!(self.completed, 1, "{self:?}: {told}");
        assert_eq!(self.began, self.ended, "{self:?}: {told}");
        assert!(!self.began_after_completion, "{self:?}: {told}");
        assert!((1..=self.began).contains(&written), "{written} times: {self:?}: {told}");
    }
}
