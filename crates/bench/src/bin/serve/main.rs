//! The server under load: 200 clients that follow events, and 500 requests a second whether or not it keeps up.
//!
//! `cargo build --release && cargo run --release -p rethread-bench --bin serve [seconds]`

mod crowd;
mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rethread_bench::{Dice, fill, millis, open, program, say, start, text};
use rethread_domain::SessionId;
use rethread_domain::search::Filter;
use rethread_engine::{ContextOptions, Engine, Search};
use serde_json::{Value, json};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinHandle;
use wire::{Door, Follower, Line};

const CLIENTS: usize = 200;
const RATE: u32 = 500;
const SECONDS: u64 = 60;
/// Connections that carry the requests.
const LINES: usize = 64;
const SESSIONS: usize = 100;
const MESSAGES: u32 = 200;
const LONG: u32 = 5_000;
const CALLS: usize = 500;

/// What so many of a hundred do not exceed.
fn percentile(mut times: Vec<Duration>, part: usize) -> Duration {
    times.sort_unstable();
    let at = (times.len() * part / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

/// The middle, all but a hundredth, and the worst, in milliseconds.
fn spread(times: &[Duration]) -> String {
    let ms = |part| millis(percentile(times.to_vec(), part));
    format!("p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms", ms(50), ms(99), ms(100))
}

fn median(times: Vec<Duration>) -> Duration {
    percentile(times, 50)
}

/// The program beside this one, serving a store.
struct Server {
    child: Child,
    door: Door,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    /// With these settings.
    fn start(folder: &Path, settings: &str) -> Result<Self> {
        let config = folder.join(".config/rethread");
        std::fs::create_dir_all(&config)?;
        std::fs::write(config.join("config.toml"), settings)?;
        let program = program("rethread")?;
        let store = folder.join("bench.db");
        let log = std::fs::File::create(folder.join("log"))?;
        let child = Command::new(program)
            .args(["--store", &format!("sqlite:{}", store.display())])
            .args(["serve", "--addr", "127.0.0.1:0"])
            .env("HOME", folder)
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let begun = Instant::now();
        let address = loop {
            let said = std::fs::read_to_string(folder.join("log"))?;
            let url = said.lines().find_map(|line| line.strip_prefix("Listening on http://"));
            if let Some(address) = url {
                break address.parse()?;
            }
            ensure!(begun.elapsed() < Duration::from_secs(30), "it does not listen: {said}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let token = PathBuf::from(format!("{}.token", store.display()));
        let token = std::fs::read_to_string(token)?.trim().to_owned();
        Ok(Self { child, door: Door { address, token } })
    }

    /// The memory that it has now, in megabytes.
    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
        Ok(kilobytes.parse::<f64>()? / 1024.0)
    }

    /// For how many seconds it has had a core.
    fn worked(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit_once(')').context("no name")?.1.split_whitespace();
        // In ticks of a hundredth: as a user, and in the system for it.
        let ticks = fields.skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
        Ok(ticks / 100.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    List,
    Messages,
    Context,
    Search,
    Append,
}

impl Kind {
    /// Nine of ten read.
    fn of(number: u32) -> Self {
        match number % 10 {
            0 => Self::Append,
            1 | 5 => Self::List,
            2 | 6 => Self::Messages,
            3 | 7 | 9 => Self::Context,
            _ => Self::Search,
        }
    }
}

/// What is known of all requests together.
#[derive(Debug, Default)]
struct Tally {
    times: HashMap<Kind, Vec<Duration>>,
    errors: Vec<String>,
    /// When which message was sent off, by session and number.
    sent: HashMap<(String, u64), Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    number: u32,
    due: Instant,
}

/// Carries out jobs, one after the other; how late they begin counts.
async fn carry(
    door: Door,
    sessions: Arc<Vec<SessionId>>,
    jobs: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Job>>>,
    tally: Arc<Mutex<Tally>>,
) -> Result<()> {
    let mut line = Line::open(&door).await?;
    loop {
        let Some(job) = jobs.lock().await.recv().await else { return Ok(()) };
        let kind = Kind::of(job.number);
        let mut dice = Dice::new(u64::from(job.number));
        let session = sessions[usize::try_from(dice.roll(sessions.len() as u64))?].to_string();
        let path = format!("/api/v1/sessions/{session}");
        let answer = match kind {
            Kind::List => line.ask("GET", "/api/v1/sessions?limit=50", "").await,
            Kind::Messages => line.ask("GET", &format!("{path}/messages?limit=50"), "").await,
            Kind::Context => line.ask("GET", &format!("{path}/context"), "").await,
            Kind::Search => {
                let path = format!("/api/v1/search?q=handler_{}&limit=20", dice.roll(40_000));
                line.ask("GET", &path, "").await
            }
            Kind::Append => {
                let said = text(&mut dice, rethread_bench::ROW);
                let body = json!({"messages": [{"role": "user", "content": said}]}).to_string();
                line.ask("POST", &format!("{path}/messages"), &body).await
            }
        };
        if !note(&tally, job, session, answer)? {
            line = Line::open(&door).await?;
        }
    }
}

/// Writes down what came of a job; gives whether the connection can still be used.
fn note(
    tally: &Mutex<Tally>,
    job: Job,
    session: String,
    answer: Result<(u16, Vec<u8>)>,
) -> Result<bool> {
    let took = job.due.elapsed();
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.times.entry(Kind::of(job.number)).or_default().push(took);
    match answer {
        Ok((200, _)) => (),
        Ok((201, body)) => {
            let written: Value = serde_json::from_slice(&body)?;
            let seq = written["messages"][0]["seq"].as_u64().context("no number")?;
            tally.sent.insert((session, seq), job.due);
        }
        Ok((status, body)) => {
            tally.errors.push(format!("{status} {}", String::from_utf8_lossy(&body)));
        }
        Err(error) => {
            tally.errors.push(error.to_string());
            return Ok(false);
        }
    }
    Ok(true)
}

/// An event that reached a client.
struct Came {
    session: String,
    first: u64,
    last: u64,
    at: Instant,
}

type Following = JoinHandle<Result<Vec<Came>>>;

fn follow(door: Door, all_are_there: Arc<Barrier>) -> Following {
    tokio::spawn(async move {
        let follower = Follower::open(&door).await;
        all_are_there.wait().await;
        let mut follower = follower?;
        let mut came = Vec::new();
        loop {
            // It ends with the server; who was cut off before that has missed something, which is counted.
            let Ok(text) = follower.next().await else { return Ok(came) };
            let at = Instant::now();
            let event: Value = serde_json::from_str(&text)?;
            if event["type"] == "MESSAGES_APPENDED" {
                let session = event["session_id"].as_str().unwrap_or_default().to_owned();
                let number = |name: &str| event[name].as_u64().unwrap_or(0);
                came.push(Came { session, first: number("first"), last: number("last"), at });
            }
        }
    })
}

/// `GET context` against the call within a process, and the wire by itself.
async fn context(door: &Door, engine: &Engine, session: SessionId) -> Result<()> {
    let path = format!("/api/v1/sessions/{session}/context");
    let bare = wire::echo().await?;
    let (mut line, mut bare) = (Line::open(door).await?, Line::open(&bare).await?);
    let (mut over, mut within, mut wire) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..CALLS + 20 {
        let begun = Instant::now();
        let (status, _) = line.ask("GET", &path, "").await?;
        let asked = begun.elapsed();
        ensure!(status == 200, "{status}");
        let begun = Instant::now();
        engine.context(session, &ContextOptions::default()).await?;
        let called = begun.elapsed();
        let begun = Instant::now();
        bare.ask("GET", &path, "").await?;
        let echoed = begun.elapsed();
        // The first ones load what is loaded once.
        if number >= 20 {
            over.push(asked);
            within.push(called);
            wire.push(echoed);
        }
    }
    let (over, within, wire) = (median(over), median(within), median(wire));
    say(&format!(
        "GET context of {LONG} messages: median {:.3} ms, in-process {:.3} ms: {:.3} ms above (reach: 1 ms); an empty answer \
         takes {:.3} ms on this wire",
        millis(over),
        millis(within),
        millis(over.saturating_sub(within)),
        millis(wire)
    ));
    Ok(())
}

/// The requests of all seconds, each begun when it is due.
async fn load(server: &Server, sessions: Vec<SessionId>, seconds: u64) -> Result<()> {
    let door = &server.door;
    let all_are_there = Arc::new(Barrier::new(CLIENTS + 1));
    let followers = (0..CLIENTS).map(|_| follow(door.clone(), Arc::clone(&all_are_there)));
    let followers: Vec<_> = followers.collect();
    all_are_there.wait().await;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let (send, jobs) = mpsc::unbounded_channel();
    let (jobs, sessions) = (Arc::new(tokio::sync::Mutex::new(jobs)), Arc::new(sessions));
    let carry = |_| {
        let (sessions, jobs) = (Arc::clone(&sessions), Arc::clone(&jobs));
        tokio::spawn(carry(door.clone(), sessions, jobs, Arc::clone(&tally)))
    };
    let lines: Vec<_> = (0..LINES).map(carry).collect();
    let count = RATE * u32::try_from(seconds)?;
    let (begun, mut memory) = (Instant::now(), vec![server.memory()?]);
    let worked = server.worked()?;
    for number in 0..count {
        let due = begun + Duration::from_secs(1) * number / RATE;
        tokio::time::sleep_until(due.into()).await;
        send.send(Job { number, due })?;
        if number > 0 && number % (count / 6) == 0 {
            memory.push(server.memory()?);
        }
    }
    drop(send);
    for line in lines {
        line.await??;
    }
    memory.push(server.memory()?);
    let worked = (server.worked()? - worked) / begun.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    print_summary(&tally, &memory);
    say(&format!("the server used {:.0} % of one core", worked * 100.0));
    events(followers, &tally, server.child.id()).await
}

fn print_summary(tally: &Tally, memory: &[f64]) {
    let all: Vec<Duration> = tally.times.values().flatten().copied().collect();
    say(&format!("{} requests, {} errors: {}", all.len(), tally.errors.len(), spread(&all)));
    for error in tally.errors.iter().take(5) {
        say(&format!("  error: {error}"));
    }
    let mut kinds: Vec<_> = tally.times.iter().collect();
    kinds.sort_by_key(|(kind, _)| **kind);
    for (kind, times) in kinds {
        say(&format!("  {kind:?}: {} requests, {}", times.len(), spread(times)));
    }
    let memory: Vec<String> = memory.iter().map(|megabytes| format!("{megabytes:.1}")).collect();
    say(&format!("memory from begin to end: {} MB", memory.join(" ")));
}

/// How long appended messages took to every client, from when they were due to be sent.
async fn events(followers: Vec<Following>, tally: &Tally, server: u32) -> Result<()> {
    let killed = Command::new("kill").arg(server.to_string()).status()?;
    ensure!(killed.success(), "the server cannot be told to end");
    let (mut times, mut missed) = (Vec::new(), 0);
    for follower in followers {
        let came = follower.await??;
        let mut got = 0;
        for one in came {
            for seq in one.first..=one.last {
                if let Some(sent) = tally.sent.get(&(one.session.clone(), seq)) {
                    times.push(one.at.saturating_duration_since(*sent));
                    got += 1;
                }
            }
        }
        missed += tally.sent.len().saturating_sub(got);
    }
    say(&format!(
        "{} appended messages to {CLIENTS} clients, {missed} missed: {} from the request to the client",
        tally.sent.len(),
        spread(&times)
    ));
    Ok(())
}

fn filled(folder: &Path) -> Result<(Engine, Vec<SessionId>)> {
    let (store, engine) = open(folder)?;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let session = start(&engine, folder)?.id;
        fill(&store, session, 0, if number == 0 { LONG } else { MESSAGES })?;
        sessions.push(session);
    }
    futures::executor::block_on(engine.search(Search::new("warm", Filter::default(), 1)))?;
    Ok((engine, sessions))
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(SECONDS), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    rethread_domain::tokens::count("warm");
    let (engine, sessions) = filled(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = Server::start(folder.path(), "")?;
    say(&format!(
        "{CLIENTS} event clients, {RATE} requests a second for {seconds} s, {SESSIONS} sessions of {MESSAGES} messages"
    ));
    runtime.block_on(async {
        context(&server.door, &engine, sessions[0]).await?;
        load(&server, sessions.clone(), seconds).await?;
        drop(server);
        let limited = format!("[serve]\nrequests_per_second = {}\n", crowd::LIMIT);
        let server = Server::start(folder.path(), &limited)?;
        crowd::measure(&server.door, sessions[0]).await
    })
}
