//! What it costs to start the program: processor time against `/bin/true` in the same run, memory, syncs.
//!
//! `cargo build --release --workspace && cargo run --release -p rethread-bench --bin start [-- MESSAGES]`

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use rethread_bench::{Spent, fill, millis, open, peak_memory, program, ratio, say, start};
use rethread_domain::SessionId;

/// All commands are run so often in turn, so many times each.
const ROUNDS: usize = 5;
const CALLS: u32 = 200;

/// What is measured, what it is to reach, and how it is called.
type Row<'a> = (String, &'a str, Box<dyn Fn() -> Result<Command> + 'a>);

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    let messages: u32 =
        argument.map_or(Ok(1_000_000), |text| text.parse()).context("MESSAGES is a number")?;
    let folder = tempfile::tempdir()?;
    let [small, large] = sessions(folder.path(), messages)?;
    let said = folder.path().join("said");
    std::fs::write(
        &said,
        "{\"role\":\"user\",\"content\":\"Why does the checkout total not fit?\"}\n",
    )?;
    let setup = Setup { folder: folder.path(), said: &said };
    let small_id = small.to_string();
    let rows: Vec<Row<'_>> = vec![
        ("`/bin/true`".into(), "", Box::new(|| Ok(Command::new("/bin/true")))),
        ("`--version`".into(), "≤ 1.8", Box::new(|| setup.rethread(&["--version"]))),
        (
            "`context` at 100 messages".into(),
            "≤ 3",
            Box::new(|| setup.rethread(&["context", &small_id])),
        ),
        (
            format!("`context` at {messages} messages"),
            "≤ 3",
            Box::new(|| setup.rethread(&["context", &large.to_string()])),
        ),
        (
            "`record` of one message, durable".into(),
            "≤ 6",
            Box::new(|| setup.rethread(&["record", "--session", &small_id])),
        ),
        (
            "`record` of a new session with one message".into(),
            "",
            Box::new(|| setup.rethread(&["record"])),
        ),
    ];
    let mut spent = vec![(Duration::ZERO, 0); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, _, command), sum) in rows.iter().zip(&mut spent) {
            let before = Spent::by_children()?;
            for _ in 0..CALLS {
                ensure!(setup.ready(command()?)?.status()?.success(), "a process failed");
            }
            let own = Spent::by_children()?.since(before);
            *sum = (sum.0 + own.time, sum.1 + own.faults);
        }
    }
    table(&rows, &spent)?;
    memory(&setup, &large.to_string())?;
    syncs(&setup, &small_id)
}

fn table(rows: &[Row<'_>], spent: &[(Duration, u64)]) -> Result<()> {
    say("| what | processor time a call | against `/bin/true` | reach | page faults |");
    say("|---|---|---|---|---|");
    let bare = spent[0].0;
    for ((what, reach, _), (time, faults)) in rows.iter().zip(spent) {
        let calls = CALLS * u32::try_from(ROUNDS)?;
        say(&format!(
            "| {what} | {:.2} ms | {:.2} | {reach} | {} |",
            millis(*time / calls),
            ratio(*time, bare),
            faults / u64::from(calls)
        ));
    }
    Ok(())
}

/// Two sessions in a store, indexed and closed.
fn sessions(folder: &Path, largest: u32) -> Result<[SessionId; 2]> {
    let (store, engine) = open(folder)?;
    let mut ids = [SessionId::generate(); 2];
    for (id, size) in ids.iter_mut().zip([100, largest]) {
        *id = start(&engine, folder)?.id;
        fill(&store, *id, 0, size)?;
    }
    while block_on(store.index(10_000))? > 0 {}
    Ok(ids)
}

struct Setup<'a> {
    folder: &'a Path,
    /// What is recorded.
    said: &'a Path,
}

impl Setup<'_> {
    fn rethread(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("rethread")?);
        command
            .args(arguments)
            .env("RETHREAD_STORE", format!("sqlite:{}", self.folder.join("bench.db").display()))
            .env("RETHREAD_USER", "bench")
            .current_dir(self.folder);
        Ok(command)
    }

    fn ready(&self, mut command: Command) -> Result<Command> {
        command.stdin(File::open(self.said)?).stdout(Stdio::null());
        Ok(command)
    }
}

fn memory(setup: &Setup<'_>, large: &str) -> Result<()> {
    say("");
    say("| peak memory | KiB | reach |");
    say("|---|---|---|");
    for (what, arguments, reach) in
        [("`context`", vec!["context", large], ""), ("`record`", vec!["record"], "≤ 12288")]
    {
        let peak = peak_memory(setup.ready(setup.rethread(&arguments)?)?)?;
        say(&format!("| {what} | {peak} | {reach} |"));
    }
    Ok(())
}

/// Counts the syncs of a few commands that each record one message.
fn syncs(setup: &Setup<'_>, session: &str) -> Result<()> {
    let log = setup.folder.join("strace.log");
    let mut counts = Vec::new();
    for _ in 0..10 {
        let plain = setup.rethread(&["record", "--session", session])?;
        let mut traced = Command::new("strace");
        traced.args(["-f", "-e", "trace=fsync,fdatasync", "-o"]).arg(&log);
        traced.arg(plain.get_program()).args(plain.get_args());
        traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if !setup.ready(traced)?.current_dir(setup.folder).status().is_ok_and(|done| done.success())
        {
            say("syncs were not counted: strace is not installed");
            return Ok(());
        }
        let text = std::fs::read_to_string(&log)?;
        let is_sync = |line: &&str| line.contains("fsync(") || line.contains("fdatasync(");
        counts.push(text.lines().filter(is_sync).count().to_string());
    }
    say(&format!("\nSyncs of ten such commands, one after the other: {}", counts.join(", ")));
    Ok(())
}
