//! Sessions of other agents: importing them against recording the same messages, a run where nothing has changed against a
//! look at each file, and what a hook costs its agent.
//!
//! `cargo build --release --workspace && cargo run --release -p rethread-bench --bin reach [-- SESSIONS MEGABYTES]`

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rethread_bench::{Dice, Spent, Times, millis, program, ratio, say, text};
use serde_json::{Value, json};

const MEGABYTE: u64 = 1024 * 1024;
/// What a tool prints: most is short, some is a whole file.
const OUTPUTS: [usize; 8] = [200, 400, 800, 800, 1_600, 3_200, 6_400, 12_800];
const HOOK_CALLS: usize = 400;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| match arguments.next() {
        Some(text) => text.parse().context("SESSIONS and MEGABYTES are numbers"),
        None => Ok(otherwise),
    };
    let (sessions, megabytes) = (number(2_000)?, number(5 * 1024)?);
    let folder = tempfile::tempdir()?;
    let place = Place::new(folder.path())?;
    let messages = place.write_sessions(sessions, megabytes * MEGABYTE)?;
    say(&format!(
        "{sessions} sessions of Claude Code and Codex, {megabytes} MB, {messages} messages\n"
    ));
    say("| what | reached | against | ratio | reach |");
    say("|---|---|---|---|---|");
    let imported = spent(&mut place.rethread("imported", &["import"]))?;
    let recorded = place.record()?;
    let each = u32::try_from(messages)?;
    row(
        "first import, index included, processor time of a message",
        imported / each,
        "recording it",
        recorded / each,
        "≤ 1.3",
    );
    unchanged(&place)?;
    hook(&place)
}

fn row(what: &str, reached: Duration, against: &str, other: Duration, reach: &str) {
    say(&format!(
        "| {what} | {reached:.2?} | {against} {other:.2?} | {:.2} | {reach} |",
        ratio(reached, other)
    ));
}

/// What a second import costs, beside a program that only looks at the state of each file.
fn unchanged(place: &Place) -> Result<()> {
    let mut times = [Duration::ZERO; 2];
    for _ in 0..20 {
        let mut find = Command::new("find");
        find.arg(&place.home).args(["-type", "f", "-printf", "%s %T@ %i\\n"]);
        for (sum, command) in
            times.iter_mut().zip([&mut find, &mut place.rethread("imported", &["import"])])
        {
            *sum += spent(command)?;
        }
    }
    row(
        "import where nothing has changed",
        times[1] / 20,
        "`find` with the state of each file",
        times[0] / 20,
        "≤ 2",
    );
    Ok(())
}

/// What a prompt's hook costs in a session that goes on, in the store that all of it was imported into.
fn hook(place: &Place) -> Result<()> {
    let transcript = place.claude(0);
    let id =
        transcript.file_stem().and_then(|stem| stem.to_str()).context("a session has an id")?;
    let said = place.folder.join("hook");
    let (mut bare, mut own) = (Duration::ZERO, Duration::ZERO);
    let mut waited = Vec::with_capacity(HOOK_CALLS);
    for call in 0..HOOK_CALLS {
        let input = json!({
            "session_id": id, "transcript_path": transcript, "cwd": place.folder, "hook_event_name": "UserPromptSubmit",
            "prompt": format!("Why does handler_{call} fail?"),
        });
        fs::write(&said, input.to_string())?;
        bare += spent(&mut Command::new("/bin/true"))?;
        let mut command =
            place.rethread("imported", &["hook", "run", "claude", "UserPromptSubmit"]);
        command.stdin(File::open(&said)?);
        let begun = Instant::now();
        own += spent(&mut command)?;
        waited.push(begun.elapsed());
    }
    let calls = u32::try_from(HOOK_CALLS)?;
    row("a hook at a prompt, processor time", own / calls, "`/bin/true`", bare / calls, "≤ 8");
    let waited = Times::new(waited);
    say(&format!(
        "| a hook at a prompt, waited for | p50 {:.2} ms, p99 {:.2} ms | | | p99 ≤ 15 ms |",
        millis(waited.median()),
        millis(waited.at(99))
    ));
    Ok(())
}

/// The processor time of a command that has to succeed.
fn spent(command: &mut Command) -> Result<Duration> {
    let before = Spent::by_children()?;
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "a process failed: {command:?}");
    Ok(Spent::by_children()?.since(before).time)
}

/// Where the sessions of the agents are, and the stores.
struct Place {
    folder: PathBuf,
    home: PathBuf,
}

impl Place {
    fn new(folder: &Path) -> Result<Self> {
        let home = folder.join("home");
        fs::create_dir_all(home.join(".claude/projects/-work-shop"))?;
        fs::create_dir_all(home.join(".codex/sessions/2026/03/01"))?;
        Ok(Self { folder: folder.to_owned(), home })
    }

    fn rethread(&self, store: &str, arguments: &[&str]) -> Command {
        let path = program("rethread").unwrap_or_else(|_| "rethread".into());
        let mut command = Command::new(path);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env(
                "RETHREAD_STORE",
                format!("sqlite:{}", self.folder.join(store).with_extension("db").display()),
            )
            .env("RETHREAD_USER", "bench")
            .current_dir(&self.folder);
        command
    }

    fn claude(&self, session: u64) -> PathBuf {
        let name = format!("{session:08x}-1111-4111-8111-111111111111.jsonl");
        self.home.join(".claude/projects/-work-shop").join(name)
    }

    fn codex(&self, session: u64) -> PathBuf {
        let name =
            format!("rollout-2026-03-01T10-00-00-{session:08x}-2222-7222-8222-222222222222.jsonl");
        self.home.join(".codex/sessions/2026/03/01").join(name)
    }

    /// Writes the sessions as their agents would, and beside them what `record` is given. Gives the number of messages.
    fn write_sessions(&self, sessions: u64, bytes: u64) -> Result<u64> {
        let mut plain = BufWriter::new(File::create(self.folder.join("plain"))?);
        let mut messages = 0;
        for session in 0..sessions {
            let is_claude = session.is_multiple_of(2);
            let path = if is_claude { self.claude(session) } else { self.codex(session) };
            let mut file = Written { file: BufWriter::new(File::create(path)?), bytes: 0 };
            let mut dice = Dice::new(session);
            let mut turn = 0;
            if !is_claude {
                file.line(&codex_head(session))?;
            }
            while file.bytes < bytes / sessions {
                let said = turn_of(&mut dice);
                for (number, (role, content)) in said.iter().enumerate() {
                    let at = format!(
                        "2026-03-{:02}T{:02}:{:02}:{number:02}.000Z",
                        turn / 1440 % 28 + 1,
                        turn / 60 % 24,
                        turn % 60
                    );
                    let index = turn * 4 + u64::try_from(number)?;
                    let line = if is_claude {
                        claude_line(session, index, role, content, &at)
                    } else {
                        codex_line(index, role, content, &at)
                    };
                    file.line(&line)?;
                    let role = if *role == "call" { "assistant" } else { role };
                    writeln!(
                        plain,
                        "{}",
                        json!({ "role": role, "content": content, "timestamp": at })
                    )?;
                }
                messages += 4;
                turn += 1;
            }
            file.file.flush()?;
        }
        plain.flush()?;
        Ok(messages)
    }

    /// The same messages through `record`, all of them in the index at the end.
    fn record(&self) -> Result<Duration> {
        let mut record = self.rethread("recorded", &["record"]);
        record.stdin(File::open(self.folder.join("plain"))?);
        let recorded = spent(&mut record)?;
        Ok(recorded + spent(&mut self.rethread("recorded", &["search", "handler_1"]))?)
    }
}

struct Written {
    file: BufWriter<File>,
    bytes: u64,
}

impl Written {
    fn line(&mut self, line: &Value) -> Result<()> {
        let line = line.to_string();
        self.bytes += line.len() as u64 + 1;
        Ok(writeln!(self.file, "{line}")?)
    }
}

/// A request, a command, what it printed, an answer.
fn turn_of(dice: &mut Dice) -> [(&'static str, String); 4] {
    let output = OUTPUTS[usize::try_from(dice.roll(OUTPUTS.len() as u64)).unwrap_or(0)];
    [
        ("user", text(dice, 160)),
        ("call", text(dice, 80)),
        ("tool", text(dice, output)),
        ("assistant", text(dice, 700)),
    ]
}

fn claude_line(session: u64, index: u64, role: &str, content: &str, at: &str) -> Value {
    let usage =
        json!({ "input_tokens": 1200, "cache_read_input_tokens": 30_000, "output_tokens": 210 });
    let message = match role {
        "user" => json!({ "role": "user", "content": content }),
        "call" => json!({
            "id": format!("m{index}"), "type": "message", "role": "assistant", "model": "claude-opus-5-5", "usage": usage,
            "content": [{ "type": "tool_use", "id": format!("c{index}"), "name": "Bash", "input": { "command": content } }],
        }),
        "tool" => json!({
            "role": "user",
            "content": [{ "type": "tool_result", "tool_use_id": format!("c{}", index - 1), "content": content, "is_error": false }],
        }),
        _ => json!({
            "id": format!("m{index}"), "type": "message", "role": "assistant", "model": "claude-opus-5-5", "usage": usage,
            "content": [{ "type": "text", "text": content }],
        }),
    };
    let parent = index.checked_sub(1).map(|before| format!("u{before}"));
    let kind = if matches!(role, "user" | "tool") { "user" } else { "assistant" };
    json!({
        "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/work/shop", "sessionId": format!("{session:08x}-1111-4111-8111-111111111111"),
        "version": "2.1.325", "gitBranch": "main", "type": kind, "message": message, "uuid": format!("u{index}"), "timestamp": at,
    })
}

fn codex_head(session: u64) -> Value {
    json!({
        "timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta",
        "payload": { "id": format!("{session:08x}-2222-7222-8222-222222222222"), "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/work/shop", "cli_version": "0.166.0", "source": "cli" },
    })
}

fn codex_line(index: u64, role: &str, content: &str, at: &str) -> Value {
    let payload = match role {
        "call" => json!({
            "type": "function_call", "id": format!("f{index}"), "name": "exec_command", "call_id": format!("k{index}"),
            "arguments": json!({ "cmd": content }).to_string(),
        }),
        "tool" => {
            json!({ "type": "function_call_output", "id": format!("o{index}"), "call_id": format!("k{}", index - 1), "output": content })
        }
        "user" => json!({
            "type": "message", "id": format!("i{index}"), "role": "user", "content": [{ "type": "input_text", "text": content }],
            "internal_chat_message_metadata_passthrough": { "content_item_kinds": ["user.text"] },
        }),
        _ => {
            json!({ "type": "message", "id": format!("i{index}"), "role": "assistant", "content": [{ "type": "output_text", "text": content }] })
        }
    };
    json!({ "timestamp": at, "type": "response_item", "payload": payload })
}
