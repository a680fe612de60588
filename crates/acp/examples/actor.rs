//! For the tests, one program in five roles: the guard, an agent that says what a folder tells it to say, one that says what
//! it is asked to say, one who drives an agent until it is killed, and one who runs a command.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use futures::channel::mpsc;
use rethread_acp::{AcpLauncher, Entry, Shell};
use rethread_engine::agents::{
    Action, Block, Choice, Launcher, OpenRequest, PermissionHandler, Question,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().and_then(|role| role.into_string().ok()).as_deref() {
        Some("guard") => rethread_acp::guard(args),
        Some("scripted") => scripted(Path::new(&args.next().unwrap_or_default())),
        Some("mirror") => mirror(Path::new(&args.next().unwrap_or_default())),
        Some("drive") => drive(args.collect()),
        Some("shell") => shell(args.collect()),
        _ => ExitCode::from(2),
    }
}

/// Answers each call with the content of the file that is named like it, `/` being `_`. `$ID` in it is the id of
/// the call, and `$EXIT` at its end ends the process. Without a file, it answers as it should.
fn scripted(folder: &Path) -> ExitCode {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let call: Value = serde_json::from_str(&line).unwrap_or_default();
        let (Some(method), false) = (call["method"].as_str(), call["id"].is_null()) else {
            continue;
        };
        let script = folder.join(method.replace('/', "_"));
        let said = std::fs::read(script).unwrap_or_else(|_| proper(method).into_bytes());
        let said = replaced(&said, b"$ID", call["id"].to_string().as_bytes());
        let (said, exit) = match said.strip_suffix(b"$EXIT") {
            Some(said) => (said, true),
            None => (said.as_slice(), false),
        };
        let mut out = io::stdout().lock();
        if out.write_all(said).and_then(|()| out.flush()).is_err() || exit {
            return ExitCode::from(7);
        }
    }
    ExitCode::SUCCESS
}

/// Does what a call has in `_do`: says these lines (`$S` in them is its session), waits for the answers to as many questions as are
/// among them, then answers with these members, and says what it has in `then`. All that it gets is written to a file.
fn mirror(log: &Path) -> ExitCode {
    let (mut lines, mut made) = (io::stdin().lock().lines().map_while(Result::ok), 0);
    let Ok(mut log) = std::fs::File::create(log) else { return ExitCode::from(2) };
    while let Some(line) = lines.next() {
        let call: Value = serde_json::from_str(&line).unwrap_or_default();
        let id = &call["id"];
        let (Some(method), true) = (call["method"].as_str(), call.get("id").is_some()) else {
            if writeln!(log, "{line}").is_err() {
                break;
            }
            continue;
        };
        let own = &call["params"]["_do"];
        let mut said = Vec::new();
        for line in own["say"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let session = call["params"]["sessionId"].to_string();
            said.extend(replaced(line.as_bytes(), b"$S", session.as_bytes()));
            said.push(b'\n');
        }
        if writeln!(log, "{line}").and_then(|()| io::stdout().write_all(&said)).is_err() {
            break;
        }
        drop(io::stdout().flush());
        for _ in 0..own["asks"].as_u64().unwrap_or(0) {
            let Some(answer) = lines.next() else { return ExitCode::SUCCESS };
            drop(writeln!(log, "{answer}"));
        }
        let answer = match (own["answer"].as_str(), method) {
            (Some(answer), _) => answer.to_owned(),
            (None, "session/new") => {
                made += 1;
                format!("\"result\":{{\"sessionId\":\"native-{made}\"}}")
            }
            (None, "initialize") => "\"result\":{\"protocolVersion\":1}".to_owned(),
            (None, _) => "\"result\":{}".to_owned(),
        };
        let mut out = io::stdout().lock();
        let mut answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}\n");
        for line in own["then"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            answer.push_str(line);
            answer.push('\n');
        }
        if out.write_all(answer.as_bytes()).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn proper(method: &str) -> String {
    let result = match method {
        "initialize" => {
            json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } })
        }
        "session/new" => json!({ "sessionId": "s" }),
        "session/prompt" => json!({ "stopReason": "end_turn" }),
        _ => Value::Null,
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n")
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

struct Yes;

#[async_trait]
impl PermissionHandler for Yes {
    async fn permit(&self, question: &Question) -> Option<Choice> {
        question.options.first().map(|option| Choice {
            option: option.id.clone(),
            kind: option.kind.clone(),
            by: "policy",
        })
    }

    fn may(&self, _: &Action) -> Option<bool> {
        Some(true)
    }
}

/// `drive FOLDER PROMPT COMMAND…`: starts the agent, sends the prompt and says so on each update.
fn drive(args: Vec<OsString>) -> ExitCode {
    let Some((guard, environment)) = std::env::current_exe().ok().zip(Some(std::env::vars_os()))
    else {
        return ExitCode::from(2);
    };
    let text = |arg: &OsString| arg.to_string_lossy().into_owned();
    let [folder, prompt, command @ ..] = args.as_slice() else { return ExitCode::from(2) };
    let launcher = AcpLauncher {
        entry: Entry { command: command.iter().map(text).collect(), ..Entry::default() },
        guard: Some(vec![guard.into_os_string(), "guard".into()]),
        environment: environment.collect(),
        ..AcpLauncher::default()
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::from(2);
    };
    let done = runtime.block_on(async {
        let mut agent = launcher.launch(&PathBuf::from(folder), Arc::new(Yes)).await?;
        agent.open(OpenRequest::New).await?;
        say("ready");
        let (sender, mut updates) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let prompt = agent.prompt(vec![Block::Text(text(prompt))], sender, cancel);
        let listen = async {
            while let Ok(_update) = updates.recv().await {
                say("update");
            }
        };
        let (ended, ()) = tokio::join!(prompt, listen);
        ended
    });
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(what: &str) {
    let mut out = io::stdout().lock();
    let _gone = writeln!(out, "{what}").and_then(|()| out.flush());
}

/// Runs the second argument in the folder that is the first.
fn shell(args: Vec<OsString>) -> ExitCode {
    let (Ok(own), Ok(runtime)) = (
        std::env::current_exe(),
        tokio::runtime::Builder::new_current_thread().enable_all().build(),
    ) else {
        return ExitCode::FAILURE;
    };
    let [folder, command] = args.as_slice() else { return ExitCode::from(2) };
    let shell = Shell {
        guard: Some(vec![own.into_os_string(), "guard".into()]),
        environment: std::env::vars_os().collect(),
        withheld: Vec::new(),
    };
    let (command, limit) = (command.to_string_lossy(), std::time::Duration::from_mins(10));
    let stop = std::future::pending();
    let ran = runtime.block_on(shell.run(&command, Path::new(folder), limit, stop));
    ran.code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
