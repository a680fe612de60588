//! What session folders cost: looking through many that have not changed, and catching one up that is long.
//!
//! Beside each stands the limit: the same look by `readdir` and `stat` alone, and the same bytes appended to a file.
//! `cargo build --release && cargo run --release -p rethread-bench --bin folders`

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::executor::block_on;
use rethread_bench::{Dice, ROW, Times, fill, millis, open, program, ratio, say, start, text};
use rethread_domain::SessionId;
use rethread_domain::message::Role;
use rethread_engine::Engine;
use rethread_engine::folders::{FolderReport, Workspace};
use rethread_store::{Append, Store};

const FOLDERS: usize = 1_000;
const MESSAGES: u32 = 6;
const LOOKS: usize = 40;
const LENGTHS: [u32; 2] = [100, 50_000];
const CATCH_UPS: usize = 200;
const MOST: Duration = Duration::from_millis(20);

/// A store, and a workspace beside it.
struct Place {
    dir: tempfile::TempDir,
    store: Arc<dyn Store>,
    engine: Engine,
}

impl Place {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("project"))?;
        fs::create_dir(dir.path().join("elsewhere"))?;
        let (store, engine) = open(dir.path())?;
        let made = Workspace::init(&dir.path().join("project"), None)?;
        let engine = engine.with_workspace(Some(Arc::new(made.workspace)));
        Ok(Self { dir, store, engine })
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A session with its folder.
    fn session(&self, messages: u32) -> Result<SessionId> {
        let root = self.engine.workspace().context("a workspace")?.root().to_owned();
        let id = start(&self.engine, &root)?.id;
        fill(&self.store, id, 0, messages)?;
        block_on(self.engine.follow(id))?;
        Ok(id)
    }

    /// How long the program takes to list, in a folder.
    fn list(&self, folder: &str) -> Result<Times> {
        let program = program("rethread")?;
        let store = format!("sqlite:{}", self.dir.path().join("bench.db").display());
        Times::of(LOOKS, || {
            let status = Command::new(&program)
                .args(["list", "-n", "20"])
                .env("RETHREAD_STORE", &store)
                .env("RETHREAD_USER", "bench")
                .env("HOME", self.dir.path())
                .current_dir(self.dir.path().join(folder))
                .stdout(Stdio::null())
                .status()?;
            ensure!(status.success(), "list failed");
            Ok(())
        })
    }
}

/// What a look through the folders costs at least.
fn glance(conversations: &Path) -> Result<usize> {
    let mut seen = 0;
    for day in fs::read_dir(conversations)? {
        for folder in fs::read_dir(day?.path())? {
            let session = folder?.path().join(".session");
            for name in ["messages.jsonl", "session.json"] {
                seen += usize::from(fs::symlink_metadata(session.join(name)).is_ok());
            }
        }
    }
    Ok(seen)
}

fn looking() -> Result<()> {
    let place = Place::new()?;
    for _ in 0..FOLDERS {
        place.session(MESSAGES)?;
    }
    let conversations = place.project().join("conversations");
    let least = Times::of(LOOKS, || {
        ensure!(glance(&conversations)? == 2 * FOLDERS, "folders are missing");
        Ok(())
    })?;
    let looked = Times::of(LOOKS, || {
        let followed = block_on(place.engine.gather("bench"))?;
        ensure!(followed == FolderReport::default(), "something changed: {followed:?}");
        Ok(())
    })?;
    let (inside, outside) = (place.list("project")?, place.list("elsewhere")?);
    say(&format!("\n{FOLDERS} session folders that have not changed\n"));
    say("| what | median ms | worst ms | × readdir and stat |");
    say("|---|---|---|---|");
    for (what, times) in [
        ("readdir and stat alone", &least),
        ("looking through them", &looked),
        ("`rethread list` in the workspace", &inside),
        ("`rethread list` elsewhere", &outside),
    ] {
        let (median, worst) = (times.median(), times.worst());
        let times = ratio(median, least.median());
        say(&format!("| {what} | {:.2} | {:.2} | {times:.1} |", millis(median), millis(worst)));
    }
    let kept = if looked.median() <= MOST { "kept" } else { "NOT KEPT" };
    say(&format!("\nlimit: {} ms for looking through them: {kept}", MOST.as_millis()));
    Ok(())
}

/// How long a folder takes to follow one more message, and the same bytes to be appended to a file.
fn catching_up(messages: u32) -> Result<(Times, Times)> {
    let place = Place::new()?;
    let id = place.session(messages)?;
    let mut file = File::options().create(true).append(true).open(place.dir.path().join("raw"))?;
    let mut dice = Dice::new(11);
    let (mut followed, mut least) = (Vec::new(), Vec::new());
    for _ in 0..CATCH_UPS {
        let content = text(&mut dice, ROW);
        let line = format!("{content}\n");
        let message =
            rethread_bench::unpriced(Role::User, content, "2026-06-01T00:00:00Z".parse()?);
        block_on(place.store.append(Append::new(id, vec![message])))?;
        let begun = Instant::now();
        block_on(place.engine.follow(id))?;
        followed.push(begun.elapsed());
        let begun = Instant::now();
        file.write_all(line.as_bytes())?;
        least.push(begun.elapsed());
    }
    Ok((Times::new(followed), Times::new(least)))
}

fn main() -> Result<()> {
    looking()?;
    say("\ncatching up after one more message\n");
    say("| messages before | median ms | worst ms | an append alone, ms |");
    say("|---|---|---|---|");
    let mut medians = Vec::new();
    for messages in LENGTHS {
        let (followed, least) = catching_up(messages)?;
        let (median, worst) = (followed.median(), followed.worst());
        let least = millis(least.median());
        say(&format!("| {messages} | {:.3} | {:.3} | {least:.4} |", millis(median), millis(worst)));
        medians.push(median);
    }
    say(&format!("\nthe long one takes {:.2} times as long", ratio(medians[1], medians[0])));
    Ok(())
}
