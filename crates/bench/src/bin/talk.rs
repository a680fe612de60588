//! What Rethread adds to driving an agent: to a request, to each streamed update, and to the start of a long story.
//!
//! Both sides drive the same agent, the reference agent, in the same run: once by the barest client there can be,
//! once by the program's own way with a store on the disk. `cargo run --release -p rethread-bench --bin talk`

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rethread_bench::{Times, fill, open, options, program, say, start};
use rethread_domain::SessionId;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::search::Filter;
use rethread_engine::agents::Talk;
use rethread_engine::{Engine, Search};
use serde_json::{Value, json};

const PROMPTS: usize = 200;
const UPDATES: u32 = 100_000;
const LONG: u32 = 1_000_000;

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The barest client: one line out, lines in until the answer.
struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
    session: String,
}

impl Bare {
    fn start(folder: &Path, flags: &[&str]) -> Result<Self> {
        let mut child = Command::new(program("rethread")?)
            .arg("reference-agent")
            .args(flags)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut bare = Self { child, input, output, next: 0, session: String::new() };
        bare.call("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
        let opened = bare.call("session/new", &json!({ "cwd": folder, "mcpServers": [] }))?;
        opened["sessionId"].as_str().context("no session")?.clone_into(&mut bare.session);
        Ok(bare)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let frame =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.input, "{frame}")?;
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.output.read_line(&mut line)? > 0, "the agent ended");
            let mut frame: Value = serde_json::from_str(&line)?;
            if frame["id"] == self.next {
                return Ok(frame["result"].take());
            }
        }
    }

    fn prompt(&mut self, text: &str) -> Result<()> {
        let blocks = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": blocks });
        self.call("session/prompt", &params).map(drop)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn times(talk: &mut Talk, count: usize) -> Result<Times> {
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        talk.send("say: fine", &mut |_| ()).await?;
        times.push(begun.elapsed());
    }
    Ok(Times::new(times))
}

/// A small write to the store, and nothing else.
async fn commits(engine: &Engine, session: SessionId) -> Result<Times> {
    let mut times = Vec::new();
    for number in 0..PROMPTS {
        let begun = Instant::now();
        engine.retitle(session, &format!("title {number}"), TitleFrom::Person).await?;
        times.push(begun.elapsed());
    }
    Ok(Times::new(times))
}

async fn prompts(folder: &Path) -> Result<()> {
    let (_, engine) = open(folder)?;
    let mut bare = Bare::start(folder, &[])?;
    let direct = Times::of(PROMPTS, || bare.prompt("say: fine"))?;
    let session = start(&engine, folder)?.id;
    let commit = commits(&engine, session).await?;
    let mut talk = Talk::open(&engine, options(&program("rethread")?, session, &[])).await?;
    times(&mut talk, 5).await?;
    let ours = times(&mut talk, PROMPTS).await?;
    talk.end().await?;
    let added = ours.median().saturating_sub(direct.median());
    let beside = added.saturating_sub(commit.median() * 2);
    say(&format!(
        "a prompt: {:.0} µs direct, {:.0} µs with Rethread; of the {:.0} µs added, two commits are {:.0}: {:.0} µs \
         remain (reach: 1000)",
        micros(direct.median()),
        micros(ours.median()),
        micros(added),
        micros(commit.median() * 2),
        micros(beside)
    ));
    Ok(())
}

async fn updates(folder: &Path) -> Result<()> {
    let (_, engine) = open(folder)?;
    let count = UPDATES.to_string();
    let flags = ["--flood", count.as_str()];
    let mut bare = Bare::start(folder, &flags)?;
    let begun = Instant::now();
    bare.prompt("say: fine")?;
    let direct = begun.elapsed();
    let session = start(&engine, folder)?.id;
    let mut talk = Talk::open(&engine, options(&program("rethread")?, session, &flags)).await?;
    let begun = Instant::now();
    talk.send("say: fine", &mut |_| ()).await?;
    let ours = begun.elapsed();
    talk.end().await?;
    let each = |time: Duration| micros(time) / f64::from(UPDATES);
    say(&format!(
        "an update: {:.1} µs direct, {:.1} µs with Rethread: {:.1} µs added (reach: 50), {UPDATES} updates",
        each(direct),
        each(ours),
        each(ours.saturating_sub(direct))
    ));
    Ok(())
}

/// The first request to an agent that knows nothing, in a session of a million messages and in a new one.
async fn long_story(folder: &Path) -> Result<()> {
    let (store, engine) = open(folder)?;
    let session = start(&engine, folder)?.id;
    say(&format!("filling a session with {LONG} messages …"));
    fill(&store, session, 0, LONG)?;
    engine.search(Search::new("warm", Filter::default(), 1)).await?;
    let mut took = Vec::new();
    for number in 0..5 {
        let fresh = start(&engine, folder)?.id;
        let mut pair = Vec::new();
        for (session, name) in [(fresh, "fresh".to_owned()), (session, format!("agent{number}"))] {
            let mut options = options(&program("rethread")?, session, &[]);
            options.agent = name;
            let begun = Instant::now();
            let mut talk = Talk::open(&engine, options).await?;
            talk.send("what did handler_77 return", &mut |_| ()).await?;
            pair.push(begun.elapsed());
            talk.end().await?;
        }
        took.push((pair[0], pair[1]));
    }
    took.sort_by_key(|(fresh, long)| long.saturating_sub(*fresh));
    let (fresh, long) = took[took.len() / 2];
    say(&format!(
        "told the story of {LONG} messages: {:.1} ms from launch to answer, {:.1} ms in a new session: {:.1} ms added \
         (reach: 20)",
        micros(long) / 1e3,
        micros(fresh) / 1e3,
        micros(long.saturating_sub(fresh)) / 1e3
    ));
    Ok(())
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The program loads the tokenizer while an agent starts; here it is loaded before.
    rethread_domain::tokens::count("warm");
    for part in 0..3 {
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        runtime.block_on(async {
            match part {
                0 => prompts(folder).await,
                1 => updates(folder).await,
                _ => long_story(folder).await,
            }
        })?;
    }
    Ok(())
}
