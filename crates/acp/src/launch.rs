//! Starts an agent as a child of ours.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::agents::{Agent, Desk, Launcher, Trouble};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::sleep;

use crate::client::AcpAgent;
use crate::connection::{self, Peer, lock};
use crate::files::Files;
use crate::latch::Latch;
use crate::lines::{LineReader, Tail};
use crate::presets::Entry;
use crate::process::{self, Process, Recipe};
use crate::serve::Server;
use crate::session::Shared;
use crate::terminals::Terminals;
use crate::ward::Ward;

/// What is kept of what an agent writes to its standard error.
const KEPT_ERRORS: usize = 64 * 1024;
/// Our own variables, some of them secret.
const OWN: &str = "RETHREAD_";
/// How long an agent's output may still be read after the agent is gone.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long things may take, and how large they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line, in bytes.
    pub line: usize,
    /// For the first answer. Some agents need half a minute to start.
    pub initialize: Duration,
    /// For opening a session, with its replay.
    pub open: Duration,
    /// For setting a mode, a model or an option.
    pub set: Duration,
    /// How long a prompt may go on without a word from the agent.
    pub answer: Option<Duration>,
    /// For ending a turn that was cancelled.
    pub cancel: Duration,
    /// For ending after the input has ended.
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
    /// What starts [`crate::guard()`]: normally this program and the name of its subcommand.
    pub guard: Option<Vec<OsString>>,
    /// Folders and files of the program itself, which agents need an answer of its own for.
    pub warded: Vec<PathBuf>,
    /// The environment that we were started in.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that agents must not see, beside our own.
    pub withheld: Vec<OsString>,
    pub limits: Limits,
}

/// The two ends of a conversation with an agent, and what there is to know of it.
pub(crate) struct Started {
    pub(crate) peer: Arc<Peer>,
    pub(crate) process: Arc<Process>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) errors: Arc<Errors>,
    pub(crate) folder: PathBuf,
}

/// What an agent wrote to its standard error.
#[derive(Debug)]
pub(crate) struct Errors {
    pub(crate) tail: Mutex<Tail>,
    pub(crate) ended: Latch,
}

#[async_trait]
impl Launcher for AcpLauncher {
    async fn launch(&self, folder: &Path, desk: Arc<dyn Desk>) -> Result<Box<dyn Agent>, Trouble> {
        Ok(Box::new(self.connect(folder, desk).await?))
    }
}

impl AcpLauncher {
    /// Where the agent's program is.
    pub fn program(&self) -> Result<PathBuf, Trouble> {
        let program = self.entry.command.first().map_or("", String::as_str);
        process::find(OsStr::new(program), &self.environment())
    }

    /// Starts the process and agrees on what it can do.
    pub(crate) async fn connect(
        &self,
        folder: &Path,
        desk: Arc<dyn Desk>,
    ) -> Result<AcpAgent, Trouble> {
        let started = self.start(folder, desk)?;
        AcpAgent::initialize(started, self.entry.clone(), self.limits).await
    }

    fn start(&self, folder: &Path, desk: Arc<dyn Desk>) -> Result<Started, Trouble> {
        let gone = |_| Trouble::FolderGone(folder.to_owned());
        let files = Files::open(folder, Ward::new(&self.warded)).map_err(gone)?;
        // As the user calls it: agents know their sessions by it.
        let folder = if folder.is_absolute() { folder.to_owned() } else { files.root().to_owned() };
        let environment = self.environment();
        let (program, args) = self.entry.command.split_first().ok_or_else(|| {
            Trouble::CannotStart { program: self.entry.name.clone(), why: "no command".to_owned() }
        })?;
        let found = process::find(OsStr::new(program), &environment)?;
        let recipe = Recipe {
            guard: self.guard.as_deref(),
            program: found,
            args: args.iter().map(OsString::from).collect(),
            folder: &folder,
            environment: environment.clone(),
            stdin: Stdio::piped(),
            merged: None,
        };
        let cannot = |error: std::io::Error| Trouble::CannotStart {
            program: program.clone(),
            why: error.to_string(),
        };
        let (process, streams) = process::start(recipe).map_err(cannot)?;
        let no_stream = || cannot(std::io::Error::other("it has no standard streams"));
        let stdin = streams.stdin.ok_or_else(no_stream)?;
        let stdout = streams.stdout.ok_or_else(no_stream)?;
        let server = Server::new(files, Terminals::new(self.guard.clone(), environment));
        let shared = Arc::new(Shared::new(desk, server));
        let errors = Errors { tail: Mutex::new(Tail::new(KEPT_ERRORS)), ended: Latch::new() };
        let (process, errors) = (Arc::new(process), Arc::new(errors));
        let peer = Peer::new(stdin);
        tokio::spawn(keep(Arc::clone(&errors), streams.stderr));
        tokio::spawn(bury(Arc::clone(&process), Arc::clone(&peer)));
        let lines = LineReader::new(stdout, self.limits.line);
        tokio::spawn(read(lines, Arc::clone(&peer), Arc::clone(&process), Arc::clone(&shared)));
        Ok(Started { peer, process, shared, errors, folder })
    }

    /// What the agent sees: what we see, without secrets, and with what the entry says.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut seen = without_secrets(&self.environment, &self.withheld);
        seen.extend(self.entry.env.iter().map(|(name, value)| (name.into(), value.into())));
        seen
    }
}

/// What others may see of our environment: neither our own variables nor those that are withheld.
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

/// Something else may hold the agent's output open when the agent is long gone.
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
