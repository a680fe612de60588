//! The agent's process behind the proxy: what is sent to it, and who waits for which of its answers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rethread_domain::quote;
use rethread_engine::agents::{AgentError, Settings};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::ChildStdout;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::binding::Binding;
use super::outbox::Attempt;
use super::raw;
use crate::connection::lock;
use crate::latch::Latch;
use crate::launch::{AcpLauncher, Errors, LAST_WORDS, Spawned};
use crate::lines::{LineReader, Noise, write_lines};
use crate::process::{self, Process};

/// How many lines may wait for the agent before the editor has to wait.
const QUEUED_LINES: usize = 64;
/// How many requests may wait for its answers.
const MOST_PENDING: usize = 64 * 1024;
/// How much of its standard error is shown.
const SHOWN_ERRORS: usize = 4 * 1024;

/// The raw result or the raw error of a call.
pub(crate) type Reply = Result<String, String>;

/// Runs when an answer is read, before anything that follows it.
pub(crate) type AtOnce = Box<dyn FnOnce(&Reply) + Send>;

/// Who waits for an answer of the agent.
pub(crate) enum Pending {
    /// We do.
    Own { answer: oneshot::Sender<Reply>, at_once: AtOnce },
    /// The editor does, under an id of its own; with what it sets in the session, if the agent agrees.
    Editor { id: String, binding: Option<Arc<Binding>>, sets: Settings },
    /// Both: the turn is recorded first.
    Prompt {
        id: String,
        attempt: Arc<Attempt>,
        answer: oneshot::Sender<Reply>,
        binding: Arc<Binding>,
    },
}

/// A process of the agent, until it ends.
pub(crate) struct Upstream {
    out: mpsc::Sender<String>,
    /// `None` once no answer can come any more.
    pending: Mutex<Option<HashMap<u64, Pending>>>,
    next: AtomicU64,
    /// Set when nothing more will be read.
    pub(crate) closed: Latch,
    shut: Latch,
    process: Arc<Process>,
    errors: Arc<Errors>,
    pub(crate) noise: Mutex<Noise>,
    /// What it answered to initialize.
    pub(crate) hello: OnceLock<String>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}

impl Upstream {
    /// Starts the process; what it says has to be read by the caller.
    pub(crate) fn start(
        launcher: &AcpLauncher,
        folder: &Path,
    ) -> Result<(Arc<Self>, LineReader<ChildStdout>), AgentError> {
        let spawned = launcher.spawn(folder)?;
        let Spawned { process, stdin, stdout, stderr, errors, .. } = spawned;
        let (out, lines) = mpsc::channel(QUEUED_LINES);
        let upstream = Arc::new(Self {
            out,
            pending: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            closed: Latch::new(),
            shut: Latch::new(),
            process,
            errors,
            noise: Mutex::default(),
            hello: OnceLock::new(),
        });
        let writer = Arc::clone(&upstream);
        tokio::spawn(async move { write_lines(lines, stdin, &writer.shut).await });
        tokio::spawn(pass_errors(Arc::clone(&upstream.errors), stderr));
        tokio::spawn(bury(Arc::clone(&upstream)));
        Ok((upstream, LineReader::new(stdout, launcher.limits.line)))
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.closed.is_set() || self.process.status().is_some()
    }

    /// Waits while the agent does not read (backpressure); gives whether it is still there.
    pub(crate) async fn send(&self, line: String) -> bool {
        tokio::select! {
            biased;
            sent = self.out.send(line) => sent.is_ok(),
            () = self.closed.wait() => false,
        }
    }

    /// An id for a request whose answer is waited for; nothing if none can come any more.
    pub(crate) fn expect(&self, pending: Pending) -> Result<u64, Pending> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        match lock(&self.pending).as_mut() {
            Some(all) => {
                all.insert(id, pending);
                Ok(id)
            }
            None => Err(pending),
        }
    }

    /// Whether so many requests wait that it is not asked more.
    pub(crate) fn is_crowded(&self) -> bool {
        lock(&self.pending).as_ref().is_some_and(|all| all.len() >= MOST_PENDING)
    }

    /// Whoever waits for the answer with this id.
    pub(crate) fn take(&self, id: &str) -> Option<Pending> {
        let id: u64 = id.trim_matches('"').parse().ok()?;
        lock(&self.pending).as_mut()?.remove(&id)
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn forget(&self, id: u64) {
        if let Some(all) = lock(&self.pending).as_mut() {
            all.remove(&id);
        }
    }

    /// Our id of a request that the editor waits for under this one.
    pub(crate) fn id_of(&self, editor: &str) -> Option<u64> {
        let pending = lock(&self.pending);
        let is_meant = |one: &Pending| match one {
            Pending::Editor { id, .. } | Pending::Prompt { id, .. } => id == editor,
            Pending::Own { .. } => false,
        };
        pending.as_ref()?.iter().find(|(_, one)| is_meant(one)).map(|(id, _)| *id)
    }

    /// Calls the agent; the error is `None` if it is gone.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &str,
        at_once: AtOnce,
    ) -> Result<String, Option<String>> {
        let (answer, answered) = oneshot::channel();
        let Ok(id) = self.expect(Pending::Own { answer, at_once }) else { return Err(None) };
        if !self.send(raw::request(id, method, params)).await {
            return Err(None);
        }
        answered.await.map_err(|_| None)?.map_err(Some)
    }

    /// Nothing is read any more: gives whoever still waits.
    pub(crate) fn close(&self) -> Vec<Pending> {
        self.closed.set();
        self.shut.set();
        let all = lock(&self.pending).take();
        all.into_iter().flatten().map(|(_, pending)| pending).collect()
    }

    /// Why it does not answer any more.
    pub(crate) async fn ended(&self, patience: Duration) -> AgentError {
        if timeout(patience, self.process.exited()).await.is_err() {
            self.process.abandon();
            let _lost = timeout(patience * 5, self.process.exited()).await;
        }
        let _late = timeout(patience, self.errors.ended.wait()).await;
        let errors = lock(&self.errors.tail).text(SHOWN_ERRORS);
        let (errors, noise) = (quote::safe(errors.trim()), lock(&self.noise).describe());
        let said = [errors, noise].into_iter().filter(|said| !said.is_empty()).collect::<Vec<_>>();
        let status = process::describe_exit(self.process.status());
        AgentError::Ended { status, stderr: said.join("\n[and on its output:] ") }
    }

    pub(crate) fn abandon(&self) {
        self.process.abandon();
        self.closed.set();
    }

    /// Ends the process and all that it started.
    pub(crate) async fn end(&self, patience: Duration) {
        self.shut.set();
        if timeout(patience, self.process.exited()).await.is_err() {
            self.process.end().await;
        }
        self.closed.set();
    }
}

/// Another process may hold the agent's output open after the agent has exited.
async fn bury(upstream: Arc<Upstream>) {
    tokio::select! {
        _ = upstream.process.exited() => sleep(LAST_WORDS).await,
        () = upstream.closed.wait() => (),
    }
    upstream.closed.set();
}

/// An editor shows or keeps what its agents write to their standard error.
#[expect(clippy::print_stderr, reason = "it is the agent's, passed on")]
async fn pass_errors(errors: Arc<Errors>, stream: Option<impl AsyncRead + Unpin>) {
    if let Some(mut stream) = stream {
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            lock(&errors.tail).push(&chunk[..read]);
            eprint!("{}", String::from_utf8_lossy(&chunk[..read]));
        }
    }
    errors.ended.set();
}
