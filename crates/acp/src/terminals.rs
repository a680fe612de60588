//! Programs that an agent has us run: within the project, under a guard, with bounded output.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agent_client_protocol_schema::v1::CreateTerminalRequest;
use rethread_domain::consent;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Duration, timeout};

use crate::classify::RpcError;
use crate::connection::lock;
use crate::files::Files;
use crate::latch::Latch;
use crate::lines::Tail;
use crate::process::{self, Process, Recipe};

const MOST_OUTPUT: usize = 1024 * 1024;
const MOST_TERMINALS: usize = 64;
/// How long output may still arrive after the program has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The programs of one agent. If dropped, they are ended.
#[derive(Debug)]
pub(crate) struct Terminals {
    guard: Option<Vec<OsString>>,
    /// The environment of the agent.
    environment: Vec<(OsString, OsString)>,
    running: Mutex<HashMap<String, Arc<Terminal>>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Terminal {
    process: Process,
    output: Mutex<Tail>,
    most: usize,
    /// Set when both streams have ended.
    silent: Latch,
}

impl Terminals {
    pub(crate) fn new(
        guard: Option<Vec<OsString>>,
        environment: Vec<(OsString, OsString)>,
    ) -> Self {
        Self { guard, environment, running: Mutex::default(), next: AtomicU64::new(1) }
    }

    pub(crate) fn create(
        &self,
        asked: CreateTerminalRequest,
        files: &Files,
    ) -> Result<Value, RpcError> {
        if lock(&self.running).len() >= MOST_TERMINALS {
            return Err(RpcError::new(-32603, "too many terminals are open"));
        }
        let folder = files.folder(asked.cwd.as_deref())?;
        let mut environment = self.environment.clone();
        environment.extend(asked.env.into_iter().map(|set| (set.name.into(), set.value.into())));
        // Some agents send a whole command line, with neither arguments nor a shell.
        let is_line = asked.args.is_empty() && consent::is_line(&asked.command);
        let (program, args) = if is_line {
            let line = ["-c".to_owned(), asked.command];
            (shell(&environment)?, line.map(OsString::from).to_vec())
        } else {
            let program = find(OsStr::new(asked.command.trim_ascii()), &folder, &environment)?;
            (program, asked.args.into_iter().map(OsString::from).collect())
        };
        let recipe = Recipe {
            guard: self.guard.as_deref(),
            program,
            args,
            folder: &folder,
            environment,
            stdin: Stdio::null(),
            merged: None,
        };
        let failed = |error: std::io::Error| RpcError::new(-32603, error.to_string());
        let (process, streams) = process::start(recipe).map_err(failed)?;
        let most = asked.output_byte_limit.and_then(|most| usize::try_from(most).ok());
        let most = most.map_or(MOST_OUTPUT, |most| most.min(MOST_OUTPUT));
        let output = Mutex::new(Tail::new(most));
        let terminal = Arc::new(Terminal { process, output, most, silent: Latch::new() });
        let listening = Arc::clone(&terminal);
        tokio::spawn(async move {
            let (out, err) = (streams.stdout, streams.stderr);
            tokio::join!(listen(&listening.output, out), listen(&listening.output, err));
            listening.silent.set();
        });
        let id = format!("terminal-{}", self.next.fetch_add(1, Ordering::Relaxed));
        lock(&self.running).insert(id.clone(), terminal);
        Ok(json!({ "terminalId": id }))
    }

    /// The output of a terminal so far.
    pub(crate) fn output(&self, id: &str) -> Option<String> {
        let terminal = lock(&self.running).get(id).cloned()?;
        Some(terminal.text())
    }

    fn get(&self, id: &str) -> Result<Arc<Terminal>, RpcError> {
        let known = lock(&self.running).get(id).cloned();
        known.ok_or_else(|| RpcError::new(-32002, format!("there is no {id}")))
    }

    pub(crate) fn show(&self, id: &str) -> Result<Value, RpcError> {
        let terminal = self.get(id)?;
        let (output, truncated) = (terminal.text(), lock(&terminal.output).is_cut());
        let status = terminal.process.status().map(exit);
        Ok(json!({ "output": output, "truncated": truncated, "exitStatus": status }))
    }

    pub(crate) async fn wait(&self, id: &str) -> Result<Value, RpcError> {
        let terminal = self.get(id)?;
        Ok(exit(terminal.over().await.unwrap_or_default()))
    }

    pub(crate) async fn kill(&self, id: &str) -> Result<Value, RpcError> {
        let terminal = self.get(id)?;
        terminal.process.end().await;
        Ok(json!({}))
    }

    /// Ends the program and forgets it. Returns all of its output.
    pub(crate) async fn release(&self, id: &str) -> Result<String, RpcError> {
        let terminal = self.get(id)?;
        lock(&self.running).remove(id);
        terminal.process.end().await;
        let _late = timeout(LAST_WORDS, terminal.silent.wait()).await;
        Ok(terminal.text())
    }

    /// Ends all programs, without waiting for them.
    pub(crate) fn abandon(&self) {
        for (_, terminal) in lock(&self.running).drain() {
            terminal.process.abandon();
        }
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Terminal {
    fn text(&self) -> String {
        lock(&self.output).text(self.most)
    }

    /// Waits for the exit of the program, and for its last output.
    async fn over(&self) -> Option<ExitStatus> {
        let status = self.process.exited().await;
        let _late = timeout(LAST_WORDS, self.silent.wait()).await;
        status
    }
}

async fn listen(output: &Mutex<Tail>, stream: Option<impl AsyncRead + Unpin>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        lock(output).push(&chunk[..read]);
    }
}

/// A program as the agent names it: on the PATH, or by a path relative to its working directory.
fn find(
    program: &OsStr,
    folder: &Path,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, RpcError> {
    let path = Path::new(program);
    let path = if path.components().count() > 1 { folder.join(path) } else { path.to_owned() };
    process::find(path.as_os_str(), environment)
        .map_err(|trouble| RpcError::new(-32603, trouble.to_string()))
}

/// The shell that reads whole command lines: models write them for bash.
fn shell(environment: &[(OsString, OsString)]) -> Result<PathBuf, RpcError> {
    process::find(OsStr::new("bash"), environment)
        .or_else(|_| process::find(OsStr::new("/bin/sh"), environment))
        .map_err(|trouble| RpcError::new(-32603, trouble.to_string()))
}

fn exit(status: ExitStatus) -> Value {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| signal.to_string());
    json!({ "exitCode": status.code(), "signal": signal })
}
