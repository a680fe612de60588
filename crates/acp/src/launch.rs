//! Starts an agent as a child process.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::agents::{Agent, AgentError, Launcher, PermissionHandler};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::sleep;

use crate::client::AcpAgent;
use crate::connection::{self, Peer, lock};
use crate::files::Files;
use crate::latch::Latch;
use crate::lines::{LineReader, Tail};
use crate::presets::Entry;
use crate::process::{self, Process, Recipe};
use crate::protected_paths::ProtectedPaths;
use crate::serve::Server;
use crate::session::Shared;
use crate::terminals::Terminals;

/// How much of an agent's standard error is kept.
const KEPT_ERRORS: usize = 64 * 1024;
/// Our own variables, some of them secret.
const OWN: &str = "RETHREAD_";
/// How long an agent's output may still be read after the agent has exited.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// Timeouts and size limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line, in bytes.
    pub line: usize,
    /// For the first response. Some agents need half a minute to start.
    pub initialize: Duration,
    /// For opening a session, with its replay.
    pub open: Duration,
    /// For setting a mode, a model or an option.
    pub set: Duration,
    /// How long a prompt may run without any message from the agent.
    pub answer: Option<Duration>,
    /// For ending a turn that was cancelled.
    pub cancel: Duration,
    /// For exiting after the end of input.
    pub close: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line: 16 * 1024 * 1024,
            initialize: Duration::from_secs(90),
            open: Duration::from_mins(2),
            set: Duration::from_secs(30),
            answer: Some(Duration::from_hours(1)),
            cancel: Duration::from_secs(10),
            close: Duration::from_secs(1),
        }
    }
}

/// Starts the agent of an entry.
#[derive(Debug, Clone, Default)]
pub struct AcpLauncher {
    pub entry: Entry,
    /// The command that starts [`crate::guard()`]: normally this program and the name of its subcommand.
    pub guard: Option<Vec<OsString>>,
    /// Folders and files of the program itself, which agents may only touch with an answer of its own.
    pub protected: Vec<PathBuf>,
    /// The environment that we were started in.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that agents must not see, besides our own.
    pub withheld: Vec<OsString>,
    pub limits: Limits,
}

/// Both ends of a connection with an agent, and its state.
pub(crate) struct Started {
    pub(crate) peer: Arc<Peer>,
    pub(crate) process: Arc<Process>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) errors: Arc<Errors>,
    pub(crate) folder: PathBuf,
}

/// A process that was started, with its streams.
pub(crate) struct Spawned {
    pub(crate) process: Arc<Process>,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) errors: Arc<Errors>,
    environment: Vec<(OsString, OsString)>,
}

/// What an agent wrote to its standard error.
#[derive(Debug)]
pub(crate) struct Errors {
    pub(crate) tail: Mutex<Tail>,
    pub(crate) ended: Latch,
}

#[async_trait]
impl Launcher for AcpLauncher {
    async fn launch(
        &self,
        folder: &Path,
        permissions: Arc<dyn PermissionHandler>,
    ) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(self.connect(folder, permissions).await?))
    }
}

impl AcpLauncher {
    /// The path of the agent's program.
    pub fn program(&self) -> Result<PathBuf, AgentError> {
        let program = self.entry.command.first().map_or("", String::as_str);
        process::find(OsStr::new(program), &self.environment())
    }

    /// Starts the process and negotiates its capabilities.
    pub(crate) async fn connect(
        &self,
        folder: &Path,
        permissions: Arc<dyn PermissionHandler>,
    ) -> Result<AcpAgent, AgentError> {
        let started = self.start(folder, permissions)?;
        AcpAgent::initialize(started, self.entry.clone(), self.limits).await
    }

    fn start(
        &self,
        folder: &Path,
        permissions: Arc<dyn PermissionHandler>,
    ) -> Result<Started, AgentError> {
        let gone = |_| AgentError::FolderGone(folder.to_owned());
        let protected = ProtectedPaths::new(&self.protected).with_repository_of(folder);
        let files = Files::open(folder, protected).map_err(gone)?;
        // The path as the user spells it: agents identify their sessions by it.
        let folder = if folder.is_absolute() { folder.to_owned() } else { files.root().to_owned() };
        let Spawned { process, stdin, stdout, stderr, errors, environment } =
            self.spawn(&folder)?;
        tokio::spawn(keep(Arc::clone(&errors), stderr));
        let server = Server::new(files, Terminals::new(self.guard.clone(), environment));
        let shared = Arc::new(Shared::new(permissions, server));
        let peer = Peer::new(stdin);
        tokio::spawn(bury(Arc::clone(&process), Arc::clone(&peer)));
        let lines = LineReader::new(stdout, self.limits.line);
        tokio::spawn(read(lines, Arc::clone(&peer), Arc::clone(&process), Arc::clone(&shared)));
        Ok(Started { peer, process, shared, errors, folder })
    }

    /// Starts the process, behind the guard where there is one.
    pub(crate) fn spawn(&self, folder: &Path) -> Result<Spawned, AgentError> {
        let environment = self.environment();
        let (program, args) =
            self.entry.command.split_first().ok_or_else(|| AgentError::CannotStart {
                program: self.entry.name.clone(),
                why: "no command".to_owned(),
            })?;
        let recipe = Recipe {
            guard: self.guard.as_deref(),
            program: process::find(OsStr::new(program), &environment)?,
            args: args.iter().map(OsString::from).collect(),
            folder,
            environment: environment.clone(),
            stdin: Stdio::piped(),
            merged: None,
        };
        let cannot = |error: std::io::Error| AgentError::CannotStart {
            program: program.clone(),
            why: error.to_string(),
        };
        let (process, streams) = process::start(recipe).map_err(cannot)?;
        let no_stream = || cannot(std::io::Error::other("it has no standard streams"));
        let stdin = streams.stdin.ok_or_else(no_stream)?;
        let stdout = streams.stdout.ok_or_else(no_stream)?;
        let errors = Errors { tail: Mutex::new(Tail::new(KEPT_ERRORS)), ended: Latch::new() };
        let (process, errors) = (Arc::new(process), Arc::new(errors));
        Ok(Spawned { process, stdin, stdout, stderr: streams.stderr, errors, environment })
    }

    /// The agent's environment: ours without secrets, plus what the entry says.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut seen = without_secrets(&self.environment, &self.withheld);
        seen.extend(self.entry.env.iter().map(|(name, value)| (name.into(), value.into())));
        seen
    }
}

/// Our environment without our own variables and those that are withheld.
pub(crate) fn without_secrets(
    environment: &[(OsString, OsString)],
    withheld: &[OsString],
) -> Vec<(OsString, OsString)> {
    let withheld: BTreeSet<&OsStr> = withheld.iter().map(OsString::as_os_str).collect();
    let is_own = |name: &OsStr| name.as_encoded_bytes().starts_with(OWN.as_bytes());
    let is_secret = |name: &OsStr| is_own(name) || withheld.contains(name);
    environment.iter().filter(|(name, _)| !is_secret(name)).cloned().collect()
}

async fn read(
    lines: LineReader<impl AsyncRead + Unpin>,
    peer: Arc<Peer>,
    process: Arc<Process>,
    shared: Arc<Shared>,
) {
    connection::read(Arc::clone(&peer), lines, shared).await;
    if peer.too_long().is_some() {
        process.abandon();
    }
}

/// Another process may hold the agent's output open after the agent has exited.
async fn bury(process: Arc<Process>, peer: Arc<Peer>) {
    tokio::select! {
        _ = process.exited() => sleep(LAST_WORDS).await,
        () = peer.closed() => (),
    }
    peer.close();
}

async fn keep(errors: Arc<Errors>, stream: Option<impl AsyncRead + Unpin>) {
    if let Some(mut stream) = stream {
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            lock(&errors.tail).push(&chunk[..read]);
        }
    }
    errors.ended.set();
}
