//! What the benchmarks share: stores that go away, an agent, text like that of agents, and times.

mod agent;
mod bare;
mod process;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use rethread_domain::message::{Extras, NewMessage, Role};
use rethread_domain::price::Price;
use rethread_domain::session::Beginning;
use rethread_domain::{Session, SessionId};
use rethread_engine::{Clock, Engine};
use rethread_redact::Redactor;
use rethread_store::{Append, Store, StoreUrl};

pub use agent::options;
pub use bare::{Newest, cpu_time, sums_of_a_context};
pub use process::{Spent, peak_memory};

#[expect(clippy::print_stdout, reason = "what a benchmark is for")]
pub fn say(line: &str) {
    println!("{line}");
}

/// A program that was built beside this one.
pub fn program(name: &str) -> Result<PathBuf> {
    // One that is installed, or made by `./release`.
    if let Some(given) = std::env::var_os("RETHREAD_PROGRAM").filter(|_| name == "rethread") {
        return Ok(given.into());
    }
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{name} is not built: cargo build --release --workspace");
    Ok(path)
}

/// A store in a folder, with the use cases on it.
pub fn open(folder: &Path) -> Result<(Arc<dyn Store>, Engine)> {
    let url = StoreUrl::Sqlite(folder.join("bench.db"));
    let store = futures::executor::block_on(rethread_store::open(&url))?;
    Ok((store.clone(), Engine::new(store, Clock::Wall)))
}

pub fn beginning(project: &Path) -> Beginning {
    Beginning {
        agent: Some("claude".into()),
        ..Beginning::new("bench", project.display().to_string())
    }
}

pub fn start(engine: &Engine, project: &Path) -> Result<Session> {
    Ok(futures::executor::block_on(engine.start(beginning(project)))?)
}

/// A generator of numbers: the same seed gives the same text.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Words of which the first are common and the last are rare, as in real text.
const COMMON: &[&str] = &[
    "the", "to", "a", "of", "is", "and", "in", "it", "that", "for", "we", "error", "this", "file",
    "with", "test", "not", "be", "on", "code", "run", "function", "line", "should", "value",
    "when", "data", "return", "build", "type",
];

/// About `bytes` of text for message `number`, with rare identifiers strewn in.
pub fn text(dice: &mut Dice, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 16);
    while out.len() < bytes {
        match dice.roll(10) {
            0..=6 => {
                let at = dice.roll(COMMON.len() as u64).min(dice.roll(COMMON.len() as u64));
                out.push_str(COMMON[usize::try_from(at).unwrap_or(0)]);
            }
            7 | 8 => out.push_str(&format!("word{}", dice.roll(2_000))),
            _ => out.push_str(&format!("handler_{}", dice.roll(40_000))),
        }
        out.push(if dice.roll(14) == 0 { '\n' } else { ' ' });
    }
    out.truncate(bytes);
    out
}

/// A message as it comes in: the recorder prices it.
pub fn unpriced(role: Role, content: String, at: Timestamp) -> NewMessage {
    NewMessage {
        id: None,
        role,
        content,
        at,
        conversation: "main".into(),
        extras: Extras::default(),
        price: Price::default(),
    }
}

/// A message as the recorder makes it ready: searched for secrets, of which these texts have none, and priced.
fn message(redactor: &Redactor, role: Role, content: String, at: Timestamp) -> NewMessage {
    let price = Price::of(&content);
    let is_clean = redactor.redact(&content).found.is_empty();
    let rules = if is_clean { rethread_redact::VERSION } else { 0 };
    let extras = Extras { rules, ..Extras::default() };
    NewMessage { price, extras, ..unpriced(role, content, at) }
}

/// The bytes of a message in the benchmarks.
pub const ROW: usize = 450;

/// Fills a session up to `messages`.
pub fn fill(store: &Arc<dyn Store>, session: SessionId, from: u32, messages: u32) -> Result<()> {
    let mut dice = Dice::new(u64::from(from) + 7);
    let redactor = Redactor::new([]);
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    let mut at = from;
    while at < messages {
        let batch = (messages - at).min(2_000);
        let messages = (0..batch).map(|index| {
            let number = at + index;
            let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
            let when = begin + jiff::SignedDuration::from_secs(i64::from(number) * 20);
            message(&redactor, role, text(&mut dice, ROW), when)
        });
        let append = Append::new(session, messages.collect());
        futures::executor::block_on(store.append(append))?;
        at += batch;
    }
    Ok(())
}

/// How long things took.
#[derive(Debug, Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Runs `job` once to warm up and then `count` times.
    pub fn of(count: usize, mut job: impl FnMut() -> Result<()>) -> Result<Self> {
        job()?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let begun = Instant::now();
            job()?;
            times.push(begun.elapsed());
        }
        Ok(Self::new(times))
    }

    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    /// The one that so many of a hundred are below.
    pub fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    pub fn worst(&self) -> Duration {
        self.0[self.0.len() - 1]
    }

    pub fn best(&self) -> Duration {
        self.0[0]
    }
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
