//! What `rethread acp` adds between an editor and an agent: processor time per update, the time until an update is shown, how fast a
//! history is replayed, and memory over many turns.
//!
//! This program is the editor, and started with `agent` it is the agent too, so that both read the same clock. Compared with
//! `tee` in the agent's place. `cargo run --release -p rethread-bench --bin editor`

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use rethread_bench::{Spent, Times, fill, millis, open, program, say};
use rethread_domain::session::Beginning;
use serde_json::{Value, json};

/// The updates of the turn whose processor time is taken.
const UPDATES: u32 = 100_000;
/// Updates that come one by one.
const SHOWN: usize = 60;
const MESSAGES: u32 = 10_000;
const TURNS: usize = 400;

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("agent") {
        return agent();
    }
    overhead()?;
    shown()?;
    replay()?;
    memory()
}

fn number(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}

fn now() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())
}

/// An agent that says in a turn as many updates as it is asked to, so many milliseconds apart, each with its time.
fn agent() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let call: Value = serde_json::from_str(&line?)?;
        let result = match call["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": 1 }),
            Some("session/new") => json!({ "sessionId": "native" }),
            Some("session/prompt") => {
                let text = call["params"]["prompt"].as_array().and_then(|all| all.last());
                let text = text.map(|last| last["text"].to_string()).unwrap_or_default();
                let mut numbers =
                    text.trim_matches('"').split(' ').map_while(|number| number.parse().ok());
                let (count, apart) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                for _ in 0..count {
                    if apart > 0 {
                        std::thread::sleep(Duration::from_millis(apart));
                    }
                    let text = format!("{:>30}{}", now()?, " ".repeat(70));
                    let content = json!({ "type": "text", "text": text });
                    let update =
                        json!({ "sessionUpdate": "agent_message_chunk", "content": content });
                    let params = json!({ "sessionId": "native", "update": update });
                    let frame =
                        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
                    writeln!(out, "{frame}")?;
                }
                json!({ "stopReason": "end_turn" })
            }
            _ => json!({}),
        };
        if !call["id"].is_null() {
            writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))?;
        }
        out.flush()?;
    }
    Ok(())
}

/// What stands where an editor expects an agent.
struct Line {
    child: Child,
    tee: Option<Child>,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    session: String,
}

impl Line {
    /// The agent behind `rethread acp`.
    fn rethread(folder: &Path) -> Result<Self> {
        let mut line = Self::unopened(folder)?;
        line.begin(folder)?;
        Ok(line)
    }

    fn unopened(folder: &Path) -> Result<Self> {
        let own = std::env::current_exe()?.display().to_string();
        let settings = folder.join(".config/rethread");
        std::fs::create_dir_all(&settings)?;
        let entry = format!("[agents.bench]\ncommand = {}\n", json!([own, "agent"]));
        std::fs::write(settings.join("config.toml"), entry)?;
        let mut command = Command::new(program("rethread")?);
        command.args(["acp", "bench"]).env("HOME", folder).env("RETHREAD_USER", "bench");
        command.env_remove("XDG_CONFIG_HOME");
        command.env("RETHREAD_STORE", format!("sqlite:{}", folder.join("bench.db").display()));
        Self::of(command, None, folder)
    }

    /// The agent behind a bare pipe.
    fn bare(folder: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("agent");
        let mut line = Self::of(command, Some(Command::new("tee")), folder)?;
        line.begin(folder)?;
        Ok(line)
    }

    fn of(mut command: Command, tee: Option<Command>, folder: &Path) -> Result<Self> {
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let to = child.stdin.take().context("no input")?;
        let out = child.stdout.take().context("no output")?;
        let (tee, out) = match tee {
            Some(mut tee) => {
                tee.arg(folder.join("log")).stdin(out).stdout(Stdio::piped());
                let mut tee = tee.spawn()?;
                let out = tee.stdout.take().context("no output")?;
                (Some(tee), out)
            }
            None => (None, out),
        };
        let from = BufReader::with_capacity(1 << 20, out);
        Ok(Self { child, tee, to, from, next: 0, session: String::new() })
    }

    fn begin(&mut self, folder: &Path) -> Result<()> {
        self.call("initialize", &json!({ "protocolVersion": 1 }), |_| Ok(()))?;
        let place = json!({ "cwd": folder, "mcpServers": [] });
        let opened = self.call("session/new", &place, |_| Ok(()))?;
        opened["sessionId"].as_str().context("no session")?.clone_into(&mut self.session);
        Ok(())
    }

    fn call(
        &mut self,
        method: &str,
        params: &Value,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Value> {
        self.next += 1;
        let frame =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.to, "{frame}")?;
        let mut line = Vec::new();
        loop {
            line.clear();
            ensure!(self.from.read_until(b'\n', &mut line)? > 0, "{method}: the agent ended");
            // Reading each would take longer than what is measured.
            if !line.windows(5).take(60).any(|at| at == b"\"id\":") {
                each(&line)?;
                continue;
            }
            let mut frame: Value = serde_json::from_slice(&line)?;
            if frame["id"] == self.next {
                ensure!(frame.get("error").is_none(), "{method}: {frame}");
                return Ok(frame["result"].take());
            }
            each(&line)?;
        }
    }

    fn prompt(&mut self, text: &str, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let blocks = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": blocks });
        self.call("session/prompt", &params, each).map(drop)
    }

    fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(field.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?)
    }

    fn end(mut self) -> Result<()> {
        drop(self.to);
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut self.from, &mut rest)?;
        ensure!(self.child.wait()?.success(), "the program failed");
        if let Some(mut tee) = self.tee {
            tee.wait()?;
        }
        Ok(())
    }
}

/// The processor time of a turn with everything that takes part in it.
fn turn(start: impl FnOnce(&Path) -> Result<Line>) -> Result<(Duration, Duration)> {
    let folder = tempfile::tempdir()?;
    let before = Spent::by_children()?;
    let mut line = start(folder.path())?;
    let begun = Instant::now();
    let mut seen = 0;
    line.prompt(&format!("{UPDATES} 0"), |_| {
        seen += 1;
        Ok(())
    })?;
    let took = begun.elapsed();
    ensure!(seen >= UPDATES, "{seen} updates came");
    line.end()?;
    Ok((Spent::by_children()?.since(before).time, took))
}

fn overhead() -> Result<()> {
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bare.push(turn(Line::bare)?);
        ours.push(turn(Line::rethread)?);
    }
    bare.sort_unstable();
    ours.sort_unstable();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(UPDATES);
    let (bare, ours) = (bare[1], ours[1]);
    say(&format!(
        "an update: {:.1} µs of processor time over `tee`, {:.1} µs with Rethread: {:.1} µs added (reach: 50); on the clock {:.1} and \
         {:.1} µs; {UPDATES} updates of 100 bytes",
        each(bare.0),
        each(ours.0),
        each(ours.0.saturating_sub(bare.0)),
        each(bare.1),
        each(ours.1)
    ));
    Ok(())
}

fn shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut line = Line::rethread(folder.path())?;
    let mut times = Vec::new();
    line.prompt(&format!("{SHOWN} 137"), |frame| {
        let came = now()?;
        let frame: Value = serde_json::from_slice(frame)?;
        let said = frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
        if let Ok(said) = said.trim().parse::<u128>() {
            let nanos = u64::try_from(came.saturating_sub(said))?;
            times.push(Duration::from_nanos(nanos));
        }
        Ok(())
    })?;
    line.end()?;
    ensure!(times.len() == SHOWN, "{} updates came", times.len());
    let times = Times::new(times);
    say(&format!(
        "until an update is shown: median {:.1} ms, 95 of 100 within {:.1} ms, worst {:.1} ms (reach: 60 and one commit)",
        millis(times.median()),
        millis(times.at(95)),
        millis(times.worst())
    ));
    Ok(())
}

fn replay() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let real = std::fs::canonicalize(folder)?;
    let (store, engine) = open(folder)?;
    let beginning = Beginning {
        agent: Some("bench".into()),
        ..Beginning::new("bench", real.display().to_string())
    };
    let session = futures::executor::block_on(engine.start(beginning))?.id;
    fill(&store, session, 0, MESSAGES)?;
    drop((store, engine));
    let mut best: Option<(Duration, usize)> = None;
    for _ in 0..3 {
        let mut line = Line::unopened(folder)?;
        line.call("initialize", &json!({ "protocolVersion": 1 }), |_| Ok(()))?;
        let params = json!({ "sessionId": session.to_string(), "cwd": real, "mcpServers": [] });
        let (begun, mut bytes, mut last) = (Instant::now(), 0, Duration::ZERO);
        line.call("session/load", &params, |frame| {
            bytes += frame.len();
            last = begun.elapsed();
            Ok(())
        })?;
        line.end()?;
        if best.is_none_or(|(time, _)| last < time) {
            best = Some((last, bytes));
        }
    }
    let (time, bytes) = best.context("no run")?;
    let megabytes = number(bytes) / 1e6;
    let rate = megabytes / time.as_secs_f64();
    say(&format!(
        "a history of {MESSAGES} messages: {megabytes:.1} MB in {:.0} ms, {rate:.0} MB/s (reach: 50)",
        millis(time)
    ));
    Ok(())
}

fn memory() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut line = Line::rethread(folder.path())?;
    let mut early = 0;
    for turn in 0..TURNS {
        if turn == TURNS / 10 {
            early = line.memory()?;
        }
        line.prompt("1000 0", |_| Ok(()))?;
    }
    let late = line.memory()?;
    line.end()?;
    say(&format!(
        "memory: {:.1} MB after {} turns of 1000 updates, {:.1} MB after {TURNS}",
        number(early) / 1e3,
        TURNS / 10,
        number(late) / 1e3
    ));
    Ok(())
}
