//! How fast, in one run and against the raw limit of this machine.
//!
//! `cargo build --release --workspace && cargo run --release -p rethread-bench --bin speed [-- MESSAGES [FOLDER]]`
//!
//! With a folder, the store that is filled there is kept, and measured again by the next run; only contexts and searches are.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use futures::future::join_all;
use jiff::Timestamp;
use rethread_bench::{
    Dice, Newest, ROW, Times, beginning, cpu_time, fill, open, peak_memory, program, ratio, say,
    start, sums_of_a_context, text, unpriced,
};
use rethread_domain::search::Filter;
use rethread_domain::{Role, SessionId};
use rethread_engine::{ContextOptions, Engine, Pruning, Recorder, Search};
use rethread_store::{ListFilter, Store};
use rusqlite::Connection;

const APPENDS: usize = 600;
const TASKS: usize = 16;
const SESSIONS: usize = 100_000;
const CONTEXTS: usize = 300;
const SEARCHES: usize = 60;
const PROCESSES: usize = 100;

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("append") {
        return append_only(Path::new(&std::env::args().nth(2).context("append FOLDER")?));
    }
    let messages: u32 =
        argument.map_or(Ok(1_000_000), |text| text.parse()).context("MESSAGES is a number")?;
    say("| what | reached | against | ratio | reach |");
    say("|---|---|---|---|---|");
    if let Some(folder) = std::env::args().nth(2) {
        return sessions_of(Path::new(&folder), messages).map(|_| ());
    }
    appends()?;
    let dir = tempfile::tempdir()?;
    let last = sessions_of(dir.path(), messages)?;
    processes(dir.path(), last)?;
    list()?;
    Ok(())
}

fn row(what: &str, reached: Duration, against: &str, limit: Duration, reach: &str) {
    say(&format!(
        "| {what} | {reached:.1?} | {against} {limit:.1?} | {:.2} | {reach} |",
        ratio(reached, limit)
    ));
}

/// A table like the one a message goes into, and nothing around it.
fn bare(folder: &Path) -> Result<Connection> {
    let bare = Connection::open(folder.join("bare.db"))?;
    bare.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
    bare.pragma_update(None, "synchronous", "full")?;
    bare.execute_batch(
        "create table message (id integer primary key, at integer, body text) strict",
    )?;
    Ok(bare)
}

fn appends() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (store, engine) = open(dir.path())?;
    let session = start(&engine, dir.path())?.id;
    let bare = bare(dir.path())?;
    let mut recorder = block_on(Recorder::open(&engine, session, Pruning::default()))?;
    let mut dice = Dice::new(1);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for number in 0..APPENDS {
        let content = text(&mut dice, ROW);
        let begun = Instant::now();
        bare.prepare_cached("insert into message values (null, ?1, ?2)")?
            .execute((number, &content))?;
        raw.push(begun.elapsed());
        let next = unpriced(Role::User, content, engine.clock().now());
        let begun = Instant::now();
        block_on(recorder.record(vec![next]))?;
        ours.push(begun.elapsed());
    }
    let (ours, raw) = (Times::new(ours), Times::new(raw));
    row("durable append, counted and priced", ours.median(), "bare commit", raw.median(), "≤ 1.6");
    let one = throughput(&engine, dir.path(), 1)?;
    let many = throughput(&engine, dir.path(), TASKS)?;
    say(&format!(
        "| {TASKS} writers at once | {many:.0} messages/s | one writer {one:.0} messages/s | {:.2} | ≥ 4 |",
        many / one
    ));
    drop(store);
    syncs(dir.path())
}

/// Messages a second with so many tasks that each wait for their own message.
fn throughput(engine: &Engine, project: &Path, tasks: usize) -> Result<f64> {
    let each = 2_400 / tasks;
    let mut recorders = Vec::new();
    for _ in 0..tasks {
        let session = start(engine, project)?.id;
        recorders.push(block_on(Recorder::open(engine, session, Pruning::default()))?);
    }
    let begun = Instant::now();
    let work = recorders.iter_mut().enumerate().map(|(task, recorder)| async move {
        let mut dice = Dice::new(task as u64);
        for _ in 0..each {
            let next = unpriced(Role::User, text(&mut dice, ROW), Timestamp::UNIX_EPOCH);
            recorder.record(vec![next]).await?;
        }
        anyhow::Ok(())
    });
    block_on(join_all(work)).into_iter().collect::<Result<Vec<()>>>()?;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand messages")]
    let messages = (each * tasks) as f64;
    Ok(messages / begun.elapsed().as_secs_f64())
}

/// What the child of [`syncs`] does.
fn append_only(folder: &Path) -> Result<()> {
    let (_, engine) = open(folder)?;
    let session = start(&engine, folder)?.id;
    let mut recorder = block_on(Recorder::open(&engine, session, Pruning::default()))?;
    let mut dice = Dice::new(1);
    for _ in 0..200 {
        block_on(recorder.record(vec![unpriced(
            Role::User,
            text(&mut dice, ROW),
            Timestamp::UNIX_EPOCH,
        )]))?;
    }
    Ok(())
}

/// Counts the syncs of 200 appends, one after the other, with strace.
fn syncs(folder: &Path) -> Result<()> {
    let log = folder.join("strace.log");
    let child = folder.join("strace");
    std::fs::create_dir(&child)?;
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&log)
        .arg(std::env::current_exe()?)
        .arg("append")
        .arg(&child)
        .status();
    match traced {
        Ok(status) if status.success() => {
            let text = std::fs::read_to_string(&log)?;
            let count = text
                .lines()
                .filter(|line| line.contains("fdatasync(") || line.contains("fsync("))
                .count();
            say(&format!(
                "| syncs of 200 appends, one at a time (opening and closing included) | {count} | appends 200 | | 1 a batch |"
            ));
        }
        _ => say("| syncs of 200 appends | not counted: strace is not installed | | | 1 a batch |"),
    }
    Ok(())
}

fn sessions_of(folder: &Path, largest: u32) -> Result<SessionId> {
    let (store, engine) = open(folder)?;
    let sizes: Vec<u32> =
        [100, 10_000, 100_000, largest].into_iter().filter(|size| *size <= largest).collect();
    let filter = ListFilter { limit: 50, ..ListFilter::default() };
    let mut kept = block_on(engine.list(&filter))?;
    kept.sort_by_key(|session| session.last_seq);
    let ids = if kept.iter().map(|session| session.last_seq).eq(sizes.iter().copied()) {
        kept.into_iter().map(|session| session.id).collect()
    } else {
        ensure!(kept.is_empty(), "the folder has another store");
        filled(folder, &store, &engine, &sizes)?
    };
    contexts(folder, &engine, &sizes, &ids)?;
    searches(folder, &engine)?;
    ids.last().copied().context("no session")
}

/// Fills sessions of these sizes, and the index.
fn filled(
    folder: &Path,
    store: &Arc<dyn Store>,
    engine: &Engine,
    sizes: &[u32],
) -> Result<Vec<SessionId>> {
    let total: u32 = sizes.iter().sum();
    let made = making_texts(total)?;
    let begun = cpu_time()?;
    let mut ids = Vec::new();
    for size in sizes {
        let id = start(engine, folder)?.id;
        fill(store, id, 0, *size)?;
        ids.push(id);
    }
    let filled = cpu_time()?.saturating_sub(begun).saturating_sub(made);
    let begun = cpu_time()?;
    while block_on(store.index(10_000))? > 0 {}
    let indexed = cpu_time()?.saturating_sub(begun);
    say(&format!(
        "| filling {total} messages, processor time of each | {:.1?}: searched for secrets, priced and stored \
         {:.1?}, index {:.1?} | | | ≤ 45 µs |",
        (filled + indexed) / total,
        filled / total,
        indexed / total,
    ));
    Ok(ids)
}

/// The processor time of making up the texts, which is no part of filling.
fn making_texts(count: u32) -> Result<Duration> {
    let begun = cpu_time()?;
    let mut dice = Dice::new(7);
    for _ in 0..count {
        std::hint::black_box(text(&mut dice, ROW));
    }
    Ok(cpu_time()?.saturating_sub(begun))
}

/// The last 20 rows of a session, as owned texts, on a connection of its own.
fn read_last(bare: &Connection, no: i64) -> Result<()> {
    let mut statement = bare.prepare_cached(
        "select id, role, at, tokens, body from message where id between ?1 and ?2 order by id desc limit 20",
    )?;
    let rows: Vec<(i64, i64, i64, i64, String)> = statement
        .query_map((no << 32, no << 32 | 0xffff_ffff), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    ensure!(rows.len() == 20, "a session without 20 messages");
    std::hint::black_box(rows);
    Ok(())
}

fn contexts(folder: &Path, engine: &Engine, sizes: &[u32], ids: &[SessionId]) -> Result<()> {
    let bare = Connection::open(folder.join("bench.db"))?;
    let plain = ContextOptions::default();
    let mut medians = Vec::new();
    for (no, (size, id)) in (1..).zip(sizes.iter().zip(ids)) {
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        for round in 0..CONTEXTS + 20 {
            let begun = Instant::now();
            read_last(&bare, no)?;
            let read = begun.elapsed();
            let begun = Instant::now();
            std::hint::black_box(block_on(engine.context(*id, &plain))?);
            if round >= 20 {
                raw.push(read);
                ours.push(begun.elapsed());
            }
        }
        let (ours, raw) = (Times::new(ours), Times::new(raw));
        row(
            &format!("context at {size} messages"),
            ours.median(),
            "bare read of 20 rows",
            raw.median(),
            "≤ 8",
        );
        medians.push(ours.median());
    }
    let (first, last) = (medians[0], medians[medians.len() - 1]);
    row("context at the largest", last, "at 100 messages", first, "≤ 1.25");
    let largest = i64::try_from(sizes.len())?;
    let sums = sums_of_a_context(folder, largest)?;
    row("checksums of all rows of a context", sums, "the context", last, "≤ 0.03");
    for (size, id) in sizes.iter().zip(ids) {
        for prompt in [
            "why does handler_123 fail when word7 is not in the file",
            "what should we return for this error",
            "is the test code run with the data",
        ] {
            let options =
                ContextOptions { prompt: Some(prompt.to_owned()), ..ContextOptions::default() };
            let times = Times::of(60, || {
                std::hint::black_box(block_on(engine.context(*id, &options))?);
                Ok(())
            })?;
            say(&format!(
                "| context at {size} for “{prompt}” | {:.2?} (worst {:.2?}) | | | ≤ 1 ms |",
                times.median(),
                times.worst()
            ));
        }
    }
    Ok(())
}

/// What is typed.
const SEARCHED: &[(&str, &str)] = &[
    ("rare word", "handler_1234"),
    ("medium word", "word42"),
    ("common word", "error"),
    ("very common word", "the"),
    ("two common words", "error function"),
    ("rare and common word", "handler_77 error"),
    ("phrase", "\"the error\""),
    ("nothing", "unheardof"),
];

fn searches(folder: &Path, engine: &Engine) -> Result<()> {
    let bare = Newest::open(folder)?;
    for (what, words) in SEARCHED {
        search(engine, &bare, what, &Search::new(words, Filter::default(), 20))?;
    }
    let filter = Filter { role: Some(Role::System), ..Filter::default() };
    let searched = Search::new("the", filter, 20);
    search(engine, &bare, "very common word, filter that nothing fits", &searched)
}

/// One search, in turns with a bare query for as many rows as it ranks.
fn search(engine: &Engine, bare: &Newest, what: &str, search: &Search) -> Result<()> {
    let (mut ours, mut raw, mut shown) = (Vec::new(), Vec::new(), 0);
    for round in 0..=SEARCHES {
        let begun = Instant::now();
        bare.read()?;
        let read = begun.elapsed();
        let begun = Instant::now();
        shown = std::hint::black_box(block_on(engine.search(search.clone()))?).hits.len();
        if round > 0 {
            raw.push(read);
            ours.push(begun.elapsed());
        }
    }
    let (ours, raw) = (Times::new(ours), Times::new(raw));
    say(&format!(
        "| search: {what} ({shown} shown) | {:.2?} (worst {:.2?}) | bare read of 100 rows {:.2?} | {:.2} | {} |",
        ours.median(),
        ours.worst(),
        raw.median(),
        ratio(ours.median(), raw.median()),
        if what == "rare word" { "≤ 0.3 ms" } else { "≤ 1.5 ms" },
    ));
    Ok(())
}

fn context_command(folder: &Path, id: SessionId) -> Result<Command> {
    let mut command = Command::new(program("rethread")?);
    command
        .arg(format!("--store=sqlite:{}", folder.join("bench.db").display()))
        .args(["context", &id.to_string()]);
    Ok(command)
}

fn processes(folder: &Path, id: SessionId) -> Result<()> {
    let hello = program("hello")?;
    let timed = |command: &mut Command| -> Result<Duration> {
        let begun = Instant::now();
        let status = command.stdout(Stdio::null()).status()?;
        ensure!(status.success(), "a process failed");
        Ok(begun.elapsed())
    };
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        raw.push(timed(&mut Command::new(&hello))?);
        ours.push(timed(&mut context_command(folder, id)?)?);
    }
    let (ours, raw) = (Times::new(ours), Times::new(raw));
    row("cold process: context at the largest", ours.median(), "hello world", raw.median(), "≤ 4");
    let (plain, prompted) = (peak_memory(context_command(folder, id)?)?, {
        let mut command = context_command(folder, id)?;
        command.args(["--prompt", "why does handler_123 fail when word7 is not in the file"]);
        peak_memory(command)?
    });
    say(&format!("| peak memory of that process | {plain} KiB | | | ≤ 32768 KiB |"));
    say(&format!("| the same with a prompt | {prompted} KiB | | | ≤ 32768 KiB |"));
    Ok(())
}

/// A session as a list needs it.
type Listed = (
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    i64,
    i64,
    i64,
    Option<String>,
    i64,
    i64,
    i64,
);

fn bare_list(bare: &Connection) -> Result<Vec<Listed>> {
    let mut statement = bare.prepare_cached(
        "select id, user, project, kind, title, agent, status, started_at, last_active_at, summary, conversations,
            last_seq, tokens
         from session where user = 'bench' and deleted_at is null order by last_active_at desc limit 50",
    )?;
    let rows = statement.query_map([], |row| {
        Ok((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
            row.get(7)?,
            row.get(8)?,
            row.get(9)?,
            row.get(10)?,
            row.get(11)?,
            row.get(12)?,
        ))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn list() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (store, engine) = open(dir.path())?;
    for batch in 0..SESSIONS / 500 {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse()?;
        let starts = (0..500).map(|index| {
            let when = at
                + jiff::SignedDuration::from_secs(i64::try_from(batch * 500 + index).unwrap_or(0));
            let mut beginning = beginning(dir.path());
            beginning.title = Some(format!("Session {index} about handler_{batch}"));
            store.start(SessionId::generate(), beginning, when)
        });
        block_on(join_all(starts)).into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let bare = Connection::open(dir.path().join("bench.db"))?;
    let filter = ListFilter { limit: 50, ..ListFilter::default() };
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..CONTEXTS {
        let begun = Instant::now();
        let rows = bare_list(&bare)?;
        raw.push(begun.elapsed());
        ensure!(rows.len() == 50, "fewer sessions than expected");
        let begun = Instant::now();
        let listed = block_on(engine.list(&filter))?;
        ours.push(begun.elapsed());
        ensure!(listed.len() == 50, "fewer sessions than expected");
    }
    let (ours, raw) = (Times::new(ours), Times::new(raw));
    row(
        &format!("list 50 of {SESSIONS} sessions"),
        ours.median(),
        "its bare query",
        raw.median(),
        "≤ 3",
    );
    Ok(())
}
