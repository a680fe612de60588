//! What workflows take: bytes beside those of the records, and the cost of a snapshot, an event and a task at the
//! beginning and at the end of long work.
//!
//! The reference agent makes the tool calls; every task ends with a snapshot.
//! `cargo run --release -p rethread-bench --bin flow`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use rethread_acp::Shell;
use rethread_bench::{Dice, Times, millis, open, options, program, ratio, say, text};
use rethread_domain::Session;
use rethread_engine::Engine;
use rethread_engine::agents::{OpenOptions, Talk};
use rethread_engine::workflows::{Checker, Crew, Extractor, Report};
use rethread_workflow::{
    Budgets, Charter, Command, Event, Issue, Limits, Status, TaskSpec, Workflow, WorkflowId,
};
use rusqlite::Connection;

const TASKS: usize = 250;
const CALLS: usize = 20;
const BYTES: usize = 2_000;
/// Tasks whose costs are compared, at the beginning and at the end.
const SOME: usize = 20;

fn thousands(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1_000).unwrap_or(u32::MAX))
}

struct Bench {
    program: PathBuf,
    shell: Shell,
}

#[async_trait]
impl Crew for Bench {
    async fn options(
        &self,
        _: &Charter,
        session: &Session,
        _: &str,
        _: Option<&TaskSpec>,
    ) -> rethread_engine::Result<OpenOptions> {
        Ok(options(&self.program, session.id, &[]))
    }

    fn command(&self, _: &str) -> Option<String> {
        None
    }

    fn checker(&self) -> &dyn Checker {
        &self.shell
    }

    fn extractor(&self) -> Option<&dyn Extractor> {
        None
    }

    fn lesson_tokens(&self) -> u32 {
        0
    }

    fn brief_tokens(&self) -> u32 {
        8_000
    }

    fn tools(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The plan, and the texts that its tools read.
fn plan(folder: &Path) -> Result<Vec<TaskSpec>> {
    let mut dice = Dice::new(7);
    std::fs::create_dir(folder.join("texts"))?;
    let mut tasks = Vec::new();
    for task in 1..=TASKS {
        let mut body = String::new();
        for call in 1..=CALLS {
            let name = format!("texts/{task}-{call}");
            let mut content = text(&mut dice, BYTES);
            content.truncate(content.floor_char_boundary(BYTES));
            std::fs::write(folder.join(&name), content)?;
            body.push_str(&format!("do: exec: cat {name}\n"));
        }
        let (id, title) = (format!("T{task}"), format!("step {task}"));
        tasks.push(TaskSpec { id, title, body, ..TaskSpec::default() });
    }
    Ok(tasks)
}

/// What one task took.
#[derive(Debug, Clone, Copy)]
struct Took {
    all: Duration,
    snapshot: Duration,
    /// Of the events that make the snapshot.
    bytes: usize,
}

/// Runs one task; the workflow pauses after it.
async fn step(engine: &Engine, id: WorkflowId, crew: &Arc<Bench>) -> Result<(Workflow, Took)> {
    let workflow = engine.workflow(id).await?;
    let begun = Instant::now();
    let first = match &workflow.mark {
        None => engine.beginning_of(&workflow),
        Some(mark) => Command::Resume {
            from: mark.id,
            agent: None,
            diverged: Vec::new(),
            rewind: Vec::new(),
            budgets: Budgets::default(),
            permissions: None,
        },
    };
    let (mut asked, mut took) =
        (begun, Took { all: begun.elapsed(), snapshot: begun.elapsed(), bytes: 0 });
    let mut view = |report: &Report| {
        let Report::Event(record) = report else { return };
        match &record.event {
            Event::PauseAsked { .. } => asked = Instant::now(),
            Event::Paused(_) => took.snapshot = asked.elapsed(),
            _ => return,
        }
        took.bytes += serde_json::to_string(record).map_or(0, |json| json.len());
    };
    let workflow = engine.drive_workflow(id, Some(first), crew.clone(), &mut view).await?;
    took.all = begun.elapsed();
    Ok((workflow, took))
}

/// The same task without a workflow: a session, an agent, one request.
async fn talk(engine: &Engine, folder: &Path, crew: &Bench, task: &TaskSpec) -> Result<Duration> {
    let begun = Instant::now();
    let session = engine.start(rethread_bench::beginning(folder)).await?;
    let mut open = Talk::open(engine, options(&crew.program, session.id, &[])).await?;
    open.send(&task.body, &mut |_| ()).await?;
    open.end().await?;
    Ok(begun.elapsed())
}

/// Adds events of no weight.
async fn events(engine: &Engine, id: WorkflowId) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..SOME {
        let event = Event::Warned { task: "T1".to_owned(), context_use: 0.5 };
        let begun = Instant::now();
        engine.ask_workflow(id, &Command::Note(Box::new(event))).await?;
        times.push(begun.elapsed());
    }
    Ok(Times::new(times).median())
}

/// Bytes of what was said, with what comes with it (what a tool said counts once), and of what happened; and of the
/// store without its search index.
fn sizes(folder: &Path) -> Result<(u64, u64)> {
    let connection = Connection::open(folder.join("bench.db"))?;
    connection.execute_batch("pragma wal_checkpoint(truncate)")?;
    let number = |sql: &str| -> Result<u64> {
        Ok(u64::try_from(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)?)
    };
    let said = number(
        "select sum(coalesce(bytes, length(cast(body as blob))) + coalesce(length(extras), 0)) from message",
    )?;
    let happened = number(
        "select (select sum(length(cast(what as blob))) from workflow_event)
            + (select sum(length(cast(what as blob))) from fact)",
    )?;
    let kept = number(
        "select sum(pgsize) from dbstat where name not like 'posting%' and name not like 'title_index%'",
    )?;
    Ok((said + happened, kept))
}

fn print_summary(took: &[Took]) {
    let median = |took: &[Took], of: fn(&Took) -> Duration| {
        Times::new(took.iter().map(of).collect()).median()
    };
    let (first, last) = (&took[..SOME], &took[took.len() - SOME..]);
    let [early, late] = [first, last].map(|took| median(took, |took| took.snapshot));
    say(&format!(
        "a snapshot: {:.2} ms in the first {SOME} tasks, {:.2} ms in the last {SOME}: ratio {:.2} (reach: 1.3)",
        millis(early),
        millis(late),
        ratio(late, early)
    ));
    let [early, late] =
        [first, last].map(|took| took.iter().map(|took| took.bytes).sum::<usize>() / SOME);
    say(&format!("its bytes: {early} and {late}"));
    let [early, late] = [first, last].map(|took| median(took, |took| took.all));
    say(&format!("a task with its snapshot: {:.1} ms and {:.1} ms", millis(early), millis(late)));
}

async fn run(folder: &Path) -> Result<()> {
    let (_, engine) = open(folder)?;
    let crew = Arc::new(Bench { program: program("rethread")?, shell: Shell::default() });
    let tasks = plan(folder)?;
    let charter = Charter {
        user: "bench".into(),
        worktree: folder.to_string_lossy().into_owned(),
        plan: None,
        title: "bench".into(),
        issue: Issue::default(),
        agent: "reference".into(),
        permissions: None,
        limits: Limits { tasks: Some(1), ..Limits::default() },
    };
    let id = engine.create_workflow(charter, tasks.clone()).await?.id;
    let early = events(&engine, id).await?;
    let mut took = Vec::new();
    while took.len() < TASKS - 1 {
        let (workflow, one) = Box::pin(step(&engine, id, &crew)).await?;
        ensure!(
            workflow.status() == Status::Paused,
            "{:?}: {:?}",
            workflow.status(),
            workflow.questions
        );
        took.push(one);
    }
    let late = events(&engine, id).await?;
    let fold = {
        let (_, fresh) = open(folder)?;
        let begun = Instant::now();
        fresh.workflow(id).await?;
        begun.elapsed()
    };
    let (workflow, _) = Box::pin(step(&engine, id, &crew)).await?;
    ensure!(workflow.status() == Status::Completed, "{:?}", workflow.status());
    let (records, kept) = sizes(folder)?;
    let share = thousands(kept) / thousands(records);
    say(&format!(
        "{} calls of {BYTES} bytes in {TASKS} tasks with a snapshot each: {records} bytes of records, {kept} of store \
         without the search index: ratio {share:.2} (reach: 2)",
        TASKS * CALLS
    ));
    print_summary(&took);
    say(&format!(
        "an event: {:.2} ms at the beginning, {:.2} ms at the end",
        millis(early),
        millis(late)
    ));
    say(&format!("{} events folded in {:.2} ms", workflow.events, millis(fold)));
    let last = tasks.last().context("no task")?;
    let mut bare = Vec::new();
    for _ in 0..SOME {
        bare.push(talk(&engine, folder, &crew, last).await?);
    }
    let bare = Times::new(bare).median();
    say(&format!("the same task without a workflow: {:.1} ms", millis(bare)));
    Ok(())
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    rethread_domain::tokens::count("warm");
    let folder = tempfile::tempdir()?;
    runtime.block_on(run(folder.path()))
}
