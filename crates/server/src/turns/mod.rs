//! The turns that this server runs. They are finished and saved whether or not anybody follows them.

mod masking;
mod questions;
mod steps;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_domain::SessionId;
use rethread_domain::session::Move;
use rethread_engine::Engine;
use rethread_engine::agents::{Runner, TurnRequest};
use tokio::sync::watch;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::metrics::Metrics;
use crate::problem::Problem;

pub(crate) use questions::Questions;
pub(crate) use turn::{Turn, TurnState};

/// How many ended turns are remembered for late clients.
const REMEMBERED: usize = 100;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct TurnTable {
    turns: BTreeMap<Uuid, Arc<Turn>>,
    ended: VecDeque<Uuid>,
    /// Whether the server is stopping: no turn begins any more.
    is_stopping: bool,
}

/// All turns of this server.
#[derive(Debug)]
pub(crate) struct Turns {
    known: Mutex<TurnTable>,
    runner: Runner,
    running: watch::Sender<usize>,
    most: usize,
}

/// A turn to run.
pub(crate) struct Request {
    pub(crate) id: Uuid,
    pub(crate) engine: Engine,
    pub(crate) turn: TurnRequest,
    /// Where the agent's questions go: the asker in the options of `turn`.
    pub(crate) questions: Arc<Questions>,
    pub(crate) user: String,
    pub(crate) metrics: prometheus_client::metrics::gauge::Gauge,
}

impl Turns {
    pub(crate) fn new(engine: Engine, most: usize) -> Arc<Self> {
        let (runner, running) = (Runner::new(engine), watch::Sender::new(0));
        Arc::new(Self { known: Mutex::default(), runner, running, most })
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<Arc<Turn>> {
        lock(&self.known).turns.get(&id).cloned()
    }

    /// The running turns of a session.
    pub(crate) fn running_in(&self, session: SessionId) -> Vec<Arc<Turn>> {
        let known = lock(&self.known);
        let own = known.turns.values().filter(|turn| turn.session == session);
        own.filter(|turn| !turn.is_over()).cloned().collect()
    }

    /// The most recently ended turn of a session.
    pub(crate) fn last_in(&self, session: SessionId) -> Option<Arc<Turn>> {
        let known = lock(&self.known);
        let is_ours = |turn: &&Arc<Turn>| turn.session == session;
        // A turn that is over may not have been moved to the ended ones yet.
        let mut own = known.turns.values().filter(is_ours);
        let newest = own.find(|turn| turn.is_over() && !known.ended.contains(&turn.id));
        let mut ended = known.ended.iter().rev().filter_map(|id| known.turns.get(id));
        newest.or_else(|| ended.find(is_ours)).cloned()
    }

    /// Begins a turn; the same id twice is one turn.
    pub(crate) fn begin(self: &Arc<Self>, request: Request) -> Result<Arc<Turn>, Problem> {
        let turn = Turn::new(&request);
        {
            let mut known = lock(&self.known);
            if let Some(known) = known.turns.get(&request.id) {
                return Ok(Arc::clone(known));
            }
            if known.is_stopping {
                return Err(crate::live::stopping());
            }
            if *self.running.borrow() >= self.most {
                let what = format!("{} agents are at work already", self.most);
                return Err(Problem::new("too_many_turns", what).after(5));
            }
            self.running.send_modify(|running| *running += 1);
            known.turns.insert(request.id, Arc::clone(&turn));
        }
        let slot = Slot::new(self, request.id, request.metrics.clone());
        let (turns, begun) = (Arc::clone(self), Arc::clone(&turn));
        let run = async move {
            begun.run(&request, &turns.runner).await;
            turns.rest(&request.engine, begun.session).await;
            drop(slot);
        };
        tokio::spawn(run.in_current_span());
        Ok(turn)
    }

    fn ended(&self, id: Uuid) {
        let mut known = lock(&self.known);
        known.ended.push_back(id);
        if known.ended.len() > REMEMBERED
            && let Some(oldest) = known.ended.pop_front()
        {
            known.turns.remove(&oldest);
        }
        self.running.send_modify(|running| *running -= 1);
    }

    /// Cancels all turns and waits until they are saved and their sessions paused.
    pub(crate) async fn stop(&self) {
        let running: Vec<Arc<Turn>> = {
            let mut known = lock(&self.known);
            known.is_stopping = true;
            known.turns.values().filter(|turn| !turn.is_over()).cloned().collect()
        };
        for turn in &running {
            turn.cancel();
        }
        let mut count = self.running.subscribe();
        // We own the sender, so the channel does not close.
        drop(count.wait_for(|running| *running == 0).await);
    }

    /// Pauses the session of a turn that ended because of the shutdown.
    async fn rest(&self, engine: &Engine, session: SessionId) {
        if lock(&self.known).is_stopping {
            engine.settle_if_fit(session, Move::Pause).await;
        }
    }
}

/// Counts a running turn: released however the turn ends.
struct Slot {
    turns: Arc<Turns>,
    id: Uuid,
    metrics: prometheus_client::metrics::gauge::Gauge,
}

impl Slot {
    fn new(
        turns: &Arc<Turns>,
        id: Uuid,
        metrics: prometheus_client::metrics::gauge::Gauge,
    ) -> Self {
        metrics.inc();
        Self { turns: Arc::clone(turns), id, metrics }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.metrics.dec();
        self.turns.ended(self.id);
    }
}

impl Metrics {
    pub(crate) fn turns(&self) -> prometheus_client::metrics::gauge::Gauge {
        self.turns.clone()
    }
}
