//! Requests to agents that this server carries out: whoever follows one may go, it is finished and saved all the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_domain::SessionId;
use rethread_domain::session::Move;
use rethread_domain::turn::Update;
use rethread_engine::agents::{Answer, Canceller, OpenOptions, Progress, Talk};
use rethread_engine::{Engine, Error};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::metrics::Metrics;
use crate::problem::Problem;

/// How many that have ended are remembered, for those who ask late.
const REMEMBERED: usize = 100;
/// How much of what an agent says is kept for those who follow; the log has all of it.
const MOST_BYTES: usize = 1 << 20;
/// How much of an answer is kept for those who ask late.
const MOST_ANSWER: usize = 1 << 20;
/// How often a cancel is said until the turn has ended.
const SAID_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);
/// How much text is held back at most until a line ends.
const MOST_HELD: usize = 16 << 10;

/// How a turn stands.
#[derive(Debug, Clone)]
pub(crate) enum Stands {
    Running,
    Ended(Box<Answer>),
    Failed(Problem),
    /// Somebody did not want it any more, and the agent had not answered.
    Cancelled,
}

impl Stands {
    fn of(outcome: Result<Answer, Error>, is_cancelled: bool) -> Self {
        match outcome {
            Ok(mut answer) => {
                // The log has all of it.
                answer.answer.truncate(answer.answer.floor_char_boundary(MOST_ANSWER));
                Self::Ended(Box::new(answer))
            }
            Err(Error::Agent { .. }) if is_cancelled => Self::Cancelled,
            Err(error) => Self::Failed(error.into()),
        }
    }
}

/// One request and what came of it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: Uuid,
    pub(crate) session: SessionId,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) conversation: String,
    /// What happened so far, each as a text to be sent.
    steps: Mutex<Steps>,
    /// What is said until its line ends: half a secret is not recognised.
    line: Mutex<Option<Update>>,
    /// How many steps there are, and whether it is over.
    progress: watch::Sender<(usize, bool)>,
    stands: Mutex<Stands>,
    cancelled: CancellationToken,
    canceller: Mutex<Option<Canceller>>,
    /// What another process was asked to send; no number is 0.
    asked: AtomicU64,
}

#[derive(Debug, Default)]
struct Steps {
    texts: Vec<Arc<str>>,
    bytes: usize,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turn {
    fn new(id: Uuid, options: &OpenOptions, user: &str) -> Arc<Self> {
        Arc::new(Self {
            id,
            session: options.session,
            user: user.to_owned(),
            agent: options.agent.clone(),
            conversation: options.conversation.clone(),
            steps: Mutex::default(),
            line: Mutex::default(),
            progress: watch::Sender::new((0, false)),
            stands: Mutex::new(Stands::Running),
            cancelled: CancellationToken::new(),
            canceller: Mutex::default(),
            asked: AtomicU64::new(0),
        })
    }

    pub(crate) fn stands(&self) -> Stands {
        held(&self.stands).clone()
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
        let canceller = held(&self.canceller).clone();
        if let Some(canceller) = canceller {
            canceller.cancel();
        }
    }

    fn step(&self, what: &Value) {
        let mut steps = held(&self.steps);
        if steps.bytes > MOST_BYTES {
            return;
        }
        let mut text = what.to_string();
        steps.bytes += text.len();
        if steps.bytes > MOST_BYTES {
            text = json!({"is": "more"}).to_string();
        }
        steps.texts.push(text.into());
        let count = steps.texts.len();
        drop(steps);
        self.progress.send_modify(|progress| progress.0 = count);
    }

    fn end(&self, stands: Stands) {
        *held(&self.stands) = stands;
        self.progress.send_modify(|progress| progress.1 = true);
    }

    /// The steps from `from` on, once there is one more, and whether that is all.
    pub(crate) async fn steps(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        let mut progress = self.progress.subscribe();
        // The sender is ours: it does not close.
        let seen = progress.wait_for(|(count, is_over)| *count > from || *is_over).await;
        let is_over = seen.is_ok_and(|seen| seen.1);
        let texts = held(&self.steps).texts.iter().skip(from).cloned().collect();
        (texts, is_over)
    }
}

#[derive(Debug, Default)]
struct Known {
    turns: BTreeMap<Uuid, Arc<Turn>>,
    ended: VecDeque<Uuid>,
    /// Nothing begins any more.
    is_stopping: bool,
    /// Who is served first in which session.
    queues: BTreeMap<SessionId, Arc<tokio::sync::Mutex<()>>>,
}

/// All turns of this server.
#[derive(Debug)]
pub(crate) struct Turns {
    known: Mutex<Known>,
    running: watch::Sender<usize>,
    most: usize,
}

/// What it takes to carry a request out.
pub(crate) struct Request {
    pub(crate) id: Uuid,
    pub(crate) engine: Engine,
    pub(crate) options: OpenOptions,
    pub(crate) prompt: String,
    pub(crate) user: String,
    pub(crate) metrics: prometheus_client::metrics::gauge::Gauge,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), running: watch::Sender::new(0), most })
    }

    pub(crate) fn find(&self, id: Uuid) -> Option<Arc<Turn>> {
        held(&self.known).turns.get(&id).cloned()
    }

    /// Those of a session that run now.
    pub(crate) fn running_in(&self, session: SessionId) -> Vec<Arc<Turn>> {
        let known = held(&self.known);
        let own = known.turns.values().filter(|turn| turn.session == session);
        own.filter(|turn| !turn.progress.borrow().1).cloned().collect()
    }

    fn queue(&self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut known = held(&self.known);
        // Nobody waits in those that only we know of.
        known.queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(known.queues.entry(session).or_default())
    }

    /// Begins a turn; the same id twice is one turn.
    pub(crate) fn begin(self: &Arc<Self>, request: Request) -> Result<Arc<Turn>, Problem> {
        let turn = Turn::new(request.id, &request.options, &request.user);
        {
            let mut known = held(&self.known);
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
        tokio::spawn(async move {
            let queue = turns.queue(begun.session);
            let outcome = {
                let _first = queue.lock().await;
                begun.carry_out(&request).await
            };
            begun.flush(&request);
            begun.end(Stands::of(outcome, begun.cancelled.is_cancelled()));
            turns.rest(&request.engine, begun.session).await;
            drop(slot);
        });
        Ok(turn)
    }

    fn ended(&self, id: Uuid) {
        let mut known = held(&self.known);
        known.ended.push_back(id);
        if known.ended.len() > REMEMBERED
            && let Some(oldest) = known.ended.pop_front()
        {
            known.turns.remove(&oldest);
        }
        self.running.send_modify(|running| *running -= 1);
    }

    /// Ends what runs, and waits until it is saved and its sessions are paused.
    pub(crate) async fn stop(&self) {
        let running: Vec<Arc<Turn>> = {
            let mut known = held(&self.known);
            known.is_stopping = true;
            known.turns.values().filter(|turn| !turn.progress.borrow().1).cloned().collect()
        };
        for turn in &running {
            turn.cancel();
        }
        let mut count = self.running.subscribe();
        drop(count.wait_for(|running| *running == 0).await);
    }

    /// Pauses the session of a turn that ended because the server does.
    async fn rest(&self, engine: &Engine, session: SessionId) {
        if held(&self.known).is_stopping {
            // One that somebody else has ended or deleted needs no pause.
            drop(engine.settle_as(session, Move::Pause).await);
        }
    }
}

/// One of the turns that run: given back however it ends.
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

impl Turn {
    async fn carry_out(&self, request: &Request) -> Result<Answer, Error> {
        if self.cancelled.is_cancelled() {
            return Err(cancelled(&request.options));
        }
        let opened = tokio::select! {
            opened = Talk::open(&request.engine, request.options.clone()) => opened,
            () = self.cancelled.cancelled() => return Err(cancelled(&request.options)),
        };
        match opened {
            Ok(talk) => self.say(talk, request).await,
            Err(Error::Busy { .. }) => self.ask_elsewhere(request).await,
            Err(error) => Err(error),
        }
    }

    async fn say(&self, mut talk: Talk, request: &Request) -> Result<Answer, Error> {
        let canceller = talk.canceller();
        if let Some(opening) = talk.opening() {
            self.step(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
        }
        *held(&self.canceller) = Some(canceller.clone());
        let mut view = |update: &Update| self.take(request, update);
        let answer = {
            let sent = talk.send(&request.prompt, &mut view);
            tokio::pin!(sent);
            loop {
                tokio::select! {
                    answer = &mut sent => break answer,
                    // A cancel that comes before the agent has the request reaches nobody: it is said again.
                    () = tokio::time::sleep(SAID_AGAIN), if self.cancelled.is_cancelled() => canceller.cancel(),
                    () = self.cancelled.cancelled(), if !self.cancelled.is_cancelled() => canceller.cancel(),
                }
            }
        };
        talk.end().await?;
        answer
    }

    /// Passes on what is said, in whole lines: a secret that comes in pieces is recognised by none of them.
    fn take(&self, request: &Request, update: &Update) {
        let mut line = held(&self.line);
        let mut next = Some(update.clone());
        if let Some(before) = line.as_mut()
            && before.join(update)
        {
            next = line.take();
        } else if let Some(before) = line.take() {
            self.pass(request, &before);
        }
        let Some(next) = next else { return };
        let (whole, rest) = split(next);
        *line = rest;
        if let Some(whole) = whole {
            self.pass(request, &whole);
        }
    }

    fn pass(&self, request: &Request, update: &Update) {
        let mut value = serde_json::to_value(update).unwrap_or_default();
        request.engine.redactor().redact_json(&mut value);
        self.step(&value);
    }

    /// Passes on what was held back.
    fn flush(&self, request: &Request) {
        let rest = held(&self.line).take();
        if let Some(rest) = rest {
            self.pass(request, &rest);
        }
    }

    async fn ask_elsewhere(&self, request: &Request) -> Result<Answer, Error> {
        let mut view = |progress: Progress<'_>| match progress {
            Progress::Asked(number) => self.asked.store(number, Ordering::SeqCst),
            Progress::Opened(opening) => {
                self.step(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
            }
            Progress::Elsewhere => self.step(&json!({"is": "elsewhere"})),
            Progress::Update(update) => self.take(request, update),
        };
        let sent = request.engine.send(&request.options, &request.prompt, &mut view);
        tokio::select! {
            answer = sent => answer,
            () = self.cancelled.cancelled() => {
                let asked = self.asked.load(Ordering::SeqCst);
                if asked == 0 || request.engine.take_back(asked).await? {
                    return Err(cancelled(&request.options));
                }
                let why = "the process that has the conversation open had begun with it, and goes on";
                Err(Error::Elsewhere(why.to_owned()))
            }
        }
    }
}

/// Where a text can be cut without cutting a secret: after its last whole line, and before a key that has not ended.
fn cut(text: &str) -> usize {
    if text.len() > MOST_HELD {
        return text.len();
    }
    let end = text.rfind('\n').map_or(0, |place| place + 1);
    match text[..end].rfind("-----BEGIN") {
        Some(begin) if !text[begin..end].contains("-----END") => begin,
        _ => end,
    }
}

/// What can be passed on of an update, and what has to wait.
fn split(update: Update) -> (Option<Update>, Option<Update>) {
    let (text, is_thought) = match update {
        Update::Text { text } => (text, false),
        Update::Thought { text } => (text, true),
        other => return (Some(other), None),
    };
    let (whole, rest) = text.split_at(cut(&text));
    let part = |text: &str| {
        let text = Some(text.to_owned()).filter(|text| !text.is_empty())?;
        Some(if is_thought { Update::Thought { text } } else { Update::Text { text } })
    };
    (part(whole), part(rest))
}

fn cancelled(options: &OpenOptions) -> Error {
    let trouble = rethread_engine::agents::Trouble::Cancelled;
    Error::Agent { agent: options.agent.clone(), trouble }
}

impl Metrics {
    pub(crate) fn turns(&self) -> prometheus_client::metrics::gauge::Gauge {
        self.turns.clone()
    }
}
