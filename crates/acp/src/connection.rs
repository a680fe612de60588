//! A small JSON-RPC peer: one task reads, one writes, and responses are matched to the calls that wait for them.
//!
//! The SDK's connection is not used, only its message types: by contract it queues what arrives without a bound, so an agent that
//! talks faster than we record fills the memory. To hold the agent back in front of it, each line would have to be parsed before
//! the SDK sees it. Here the reader itself hands updates on and waits while nobody takes them, so that the agent has to wait too
//! (backpressure); and no queue stands between an update and the response that follows it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::classify::RpcError;
use crate::frame::Frame;
use crate::latch::Latch;
use crate::lines::{LineError, LineReader, Noise, write_lines};

/// How many lines may wait to be written before writers have to wait.
const QUEUED_LINES: usize = 64;
/// How many requests of the agent are handled at once.
const MOST_CALLS: usize = 256;

/// Locks a mutex, even if a holder has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles what the agent sends on its own.
pub(crate) trait Incoming: Send + Sync + 'static {
    /// Nothing else is read before this is done.
    fn notified(&self, method: &str, params: &str) -> impl Future<Output = ()> + Send;

    /// Answers a request. Runs beside the reader.
    fn asked(
        &self,
        method: &str,
        params: &str,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send;
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(RpcError),
    /// Nothing can be read from the agent any more.
    Closed,
}

type Answer = Result<Box<RawValue>, RpcError>;

/// A call that waits for its response.
struct Waiting {
    answer: oneshot::Sender<Answer>,
    at_once: Box<dyn FnOnce() + Send>,
}

/// Our end of the connection.
pub(crate) struct Peer {
    out: mpsc::Sender<String>,
    /// Pending calls; `None` once no response can come any more.
    waiting: Mutex<Option<HashMap<u64, Waiting>>>,
    next: AtomicU64,
    /// Set when nothing more will be read.
    closed: Latch,
    /// Set when nothing more is to be written.
    shut: Latch,
    /// The length limit, if the agent exceeded it.
    too_long: Mutex<Option<u64>>,
    noise: Mutex<Noise>,
    calls: Arc<Semaphore>,
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl Peer {
    /// A peer that writes to `to`. [`read`] has to be run for what it receives.
    pub(crate) fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Arc<Self> {
        let (out, lines) = mpsc::channel(QUEUED_LINES);
        let peer = Arc::new(Self {
            out,
            waiting: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
            closed: Latch::new(),
            shut: Latch::new(),
            too_long: Mutex::new(None),
            noise: Mutex::default(),
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
        });
        let writer = Arc::clone(&peer);
        tokio::spawn(async move { write_lines(lines, to, &writer.shut).await });
        peer
    }

    /// Calls the agent. If dropped, the response is ignored; the agent is told nothing.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<Box<RawValue>, Failure> {
        self.call_then(method, params, || ()).await
    }

    /// Calls the agent. `at_once` runs when the response is read, before anything that follows it.
    pub(crate) async fn call_then(
        &self,
        method: &str,
        params: impl Serialize,
        at_once: impl FnOnce() + Send + 'static,
    ) -> Result<Box<RawValue>, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, Waiting { answer, at_once: Box::new(at_once) }),
            None => return Err(Failure::Closed),
        };
        let _forget = Forget { peer: self, id };
        self.send(line(&Call { jsonrpc: "2.0", id: Some(id), method, params })?).await?;
        answered.await.map_err(|_| Failure::Closed)?.map_err(Failure::Error)
    }

    pub(crate) async fn notify(&self, method: &str, params: impl Serialize) {
        if let Ok(line) = line(&Call { jsonrpc: "2.0", id: None, method, params }) {
            let _closed = self.send(line).await;
        }
    }

    /// Sends a notification without waiting; if there is no room, it is dropped.
    pub(crate) fn notify_now(&self, method: &str, params: impl Serialize) {
        if let Ok(line) = line(&Call { jsonrpc: "2.0", id: None, method, params }) {
            let _full = self.out.try_send(line);
        }
    }

    async fn answer(&self, id: &str, outcome: Result<Value, RpcError>) {
        let Ok(id) = RawValue::from_string(id.to_owned()) else { return };
        let reply = match outcome {
            Ok(result) => Reply { jsonrpc: "2.0", id: &id, result: Some(result), error: None },
            Err(error) => {
                let error = serde_json::json!({ "code": error.code, "message": error.message });
                Reply { jsonrpc: "2.0", id: &id, result: None, error: Some(error) }
            }
        };
        if let Ok(line) = line(&reply) {
            let _closed = self.send(line).await;
        }
    }

    async fn send(&self, line: String) -> Result<(), Failure> {
        tokio::select! {
            biased;
            sent = self.out.send(line) => sent.map_err(|_| Failure::Closed),
            () = self.closed.wait() => Err(Failure::Closed),
        }
    }

    /// Stops writing: the agent sees the end of its input.
    pub(crate) fn shut(&self) {
        self.shut.set();
    }

    /// Fails all pending calls.
    pub(crate) fn close(&self) {
        self.closed.set();
        self.shut.set();
        *lock(&self.waiting) = None;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_set()
    }

    pub(crate) async fn closed(&self) {
        self.closed.wait().await;
    }

    pub(crate) fn too_long(&self) -> Option<u64> {
        *lock(&self.too_long)
    }

    /// The last lines that were not frames.
    pub(crate) fn noise(&self) -> String {
        lock(&self.noise).describe()
    }
}

fn line(frame: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(frame).map_err(|error| {
        Failure::Error(RpcError::new(0, format!("it cannot be written as JSON: {error}")))
    })
}

/// Removes a call from the list when nobody waits any more.
struct Forget<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&self.peer.waiting).as_mut() {
            waiting.remove(&self.id);
        }
    }
}

/// Reads until the stream ends, a line is too long or the connection is closed.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    peer: Arc<Peer>,
    mut lines: LineReader<R>,
    incoming: Arc<impl Incoming>,
) {
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = peer.closed() => break,
        };
        match line {
            Ok(Some(line)) => take(&peer, line, &incoming).await,
            Err(LineError::TooLong(most)) => {
                *lock(&peer.too_long) = Some(most as u64);
                break;
            }
            Ok(None) | Err(LineError::Broken) => break,
        }
    }
    peer.close();
}

async fn take(peer: &Arc<Peer>, line: &[u8], incoming: &Arc<impl Incoming>) {
    match Frame::parse(line) {
        Some(Frame::Notification { method, params }) => {
            tokio::select! {
                biased;
                () = incoming.notified(&method, params) => (),
                () = peer.closed() => (),
            }
        }
        Some(Frame::Request { id, method, params }) => {
            serve(peer, incoming, id, &method, params).await;
        }
        Some(Frame::Answer { id, outcome }) => {
            let waits = lock(&peer.waiting).as_mut().and_then(|waiting| waiting.remove(&id));
            let Some(waits) = waits else { return lock(&peer.noise).take(line) };
            let owned =
                outcome.map(|raw| RawValue::from_string(raw.to_owned()).unwrap_or_default());
            (waits.at_once)();
            let _forgotten = waits.answer.send(owned);
        }
        None if line.iter().all(u8::is_ascii_whitespace) => (),
        None => lock(&peer.noise).take(line),
    }
}

/// Answers a request in a task of its own, unless there are too many already.
async fn serve(
    peer: &Arc<Peer>,
    incoming: &Arc<impl Incoming>,
    id: &str,
    method: &str,
    params: &str,
) {
    let Ok(permit) = Arc::clone(&peer.calls).try_acquire_owned() else {
        let refused = RpcError::new(-32603, "too many calls at once");
        return peer.answer(id, Err(refused)).await;
    };
    let (peer, incoming) = (Arc::clone(peer), Arc::clone(incoming));
    let (id, method, params) = (id.to_owned(), method.to_owned(), params.to_owned());
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            outcome = incoming.asked(&method, &params) => peer.answer(&id, outcome).await,
            () = peer.closed() => (),
        }
    });
}
