//! Running invocations. They are finished whether or not anybody waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_domain::SessionId;
use rethread_engine::Engine;
use rethread_engine::agents::Runner;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::error::Failure;
use crate::views::Invocation;

/// How many ended invocations are remembered for late callers.
const REMEMBERED: usize = 200;
/// How many may run or be queued at once.
const MOST: usize = 64;

pub(crate) type Outcome = Result<Invocation, Failure>;

/// The progress of an invocation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phase {
    /// Incremented with every change.
    pub(crate) updates: u64,
    pub(crate) now: String,
    pub(crate) outcome: Option<Arc<Outcome>>,
}

/// One invocation.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) handle: String,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    pub(crate) is_continuation: bool,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) cancelled: CancellationToken,
}

impl Job {
    pub(crate) fn new(session: SessionId, agent: &str, is_continuation: bool) -> Arc<Self> {
        Arc::new(Self {
            // Random: it must not be valid in another process.
            handle: format!("run-{}", SessionId::generate().handle()),
            session,
            agent: agent.to_owned(),
            is_continuation,
            phase: watch::Sender::default(),
            cancelled: CancellationToken::new(),
        })
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub(crate) fn note(&self, now: &str) {
        self.phase.send_modify(|phase| {
            phase.updates += 1;
            now.clone_into(&mut phase.now);
        });
    }

    pub(crate) fn outcome(&self) -> Option<Arc<Outcome>> {
        self.phase.borrow().outcome.clone()
    }
}

#[derive(Debug, Default)]
struct JobTable {
    jobs: BTreeMap<String, Arc<Job>>,
    ended: VecDeque<String>,
}

/// All invocations of this process.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) runner: Runner,
    known: Mutex<JobTable>,
    running: watch::Sender<usize>,
}

impl Jobs {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        let (known, running) = (Mutex::default(), watch::Sender::default());
        Arc::new(Self { runner: Runner::new(engine), known, running })
    }

    fn table(&self) -> MutexGuard<'_, JobTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, handle: &str) -> Option<Arc<Job>> {
        self.table().jobs.get(handle).cloned()
    }

    pub(crate) fn may_begin(&self) -> Result<(), Failure> {
        if *self.running.borrow() < MOST {
            return Ok(());
        }
        let what = format!("{MOST} invocations run already");
        Err(Failure::new(what, "wait for one of them with wait_for_agent, or cancel one"))
    }

    /// Runs an invocation to its end, whether or not anybody waits for it.
    pub(crate) fn start(
        self: &Arc<Self>,
        job: &Arc<Job>,
        run: impl Future<Output = Outcome> + Send + 'static,
    ) {
        self.table().jobs.insert(job.handle.clone(), Arc::clone(job));
        self.running.send_modify(|running| *running += 1);
        let (jobs, job) = (Arc::clone(self), Arc::clone(job));
        let run = async move {
            let outcome = Arc::new(run.await);
            job.phase.send_modify(|phase| phase.outcome = Some(outcome));
            jobs.ended(&job.handle);
        };
        tokio::spawn(run.in_current_span());
    }

    fn ended(&self, handle: &str) {
        let mut known = self.table();
        known.ended.push_back(handle.to_owned());
        if known.ended.len() > REMEMBERED
            && let Some(oldest) = known.ended.pop_front()
        {
            known.jobs.remove(&oldest);
        }
        self.running.send_modify(|running| *running -= 1);
    }

    pub(crate) fn cancel_all(&self) {
        let all: Vec<Arc<Job>> = self.table().jobs.values().cloned().collect();
        for job in all {
            job.cancel();
        }
    }

    /// Waits until nothing runs any more.
    pub(crate) async fn drained(&self) {
        let mut running = self.running.subscribe();
        // We own the sender, so the channel does not close.
        drop(running.wait_for(|running| *running == 0).await);
    }
}
