//! The native session as it is right now, and what the agent sends of its own accord about it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use rethread_domain::consent::Intent;
use rethread_domain::replay::Said;
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::{Deed, Desk, Replayed};
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep_until};

use crate::calls::{Call, Calls};
use crate::classify::RpcError;
use crate::connection::{Incoming, lock};
use crate::frame::Fields;
use crate::latch::Latch;
use crate::serve::Server;
use crate::{act, permission, translate};

/// How much is kept of each message of a replay, at its beginning and at its end.
const KEPT_BYTES: usize = 400;
const KEPT_END_BYTES: usize = 16 * 1024;
/// How much is kept of all of it: the first few messages, and the newest.
const KEPT_IN_ALL: usize = 1024 * 1024;
const KEPT_FIRST: usize = 4;
/// How long we wait for an agent to be quiet.
const LONGEST_SETTLE: Duration = Duration::from_secs(2);
/// The longest text that is handed on at once.
const LARGEST_PIECE: usize = 256 * 1024;

/// What a connection and its owner share.
pub(crate) struct Shared {
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) server: Server,
    session: Mutex<Session>,
    /// How much the agent has sent, and how much of it we are at work on.
    heard: AtomicU64,
    working: AtomicU64,
}

/// Something of the agent's that we are at work on, until this is dropped.
struct Work<'a>(&'a Shared);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        // While we were, it may have waited for us.
        self.0.heard.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Session {
    native: Option<String>,
    phase: Phase,
    /// When something last came in of a session that was loaded or resumed, until its first prompt.
    settling: Option<Instant>,
    /// What was told between turns, for the next one.
    title: Option<Update>,
    mode: Option<Update>,
    /// The tool calls of this turn.
    tools: Calls,
    /// Tool calls whose output is that of a terminal, by the terminal.
    terminals: HashMap<String, String>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Opening(Replay),
    Turn(Arc<Running>),
    /// The answer to the prompt is read: nothing that follows belongs to the turn.
    Answered,
}

/// A prompt that is being answered.
pub(crate) struct Running {
    updates: tokio::sync::Mutex<mpsc::Sender<Update>>,
    pub(crate) cancelled: Latch,
    over: Latch,
    answers: AtomicU64,
    /// The very commands and files that were decided on in this turn.
    decided: Mutex<HashMap<String, bool>>,
    /// Of which kinds something was refused by rule.
    refused: Mutex<HashSet<Deed>>,
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl Running {
    fn new(updates: mpsc::Sender<Update>) -> Self {
        Self {
            updates: tokio::sync::Mutex::new(updates),
            cancelled: Latch::new(),
            over: Latch::new(),
            answers: AtomicU64::new(0),
            decided: Mutex::default(),
            refused: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// What was decided on the same command or file, or on all of several.
    pub(crate) fn decided(&self, intent: &Intent) -> Option<bool> {
        let decided = lock(&self.decided);
        let keys = intent.keys();
        let known: Vec<bool> =
            keys.iter().map(|key| decided.get(key).copied()).collect::<Option<_>>()?;
        (!known.is_empty()).then(|| known.iter().all(|yes| *yes))
    }

    pub(crate) fn decide(&self, intent: &Intent, yes: bool) {
        lock(&self.decided).extend(intent.keys().into_iter().map(|key| (key, yes)));
    }

    /// Whether nothing of this kind was refused by rule before: what is refused again and again is told once.
    pub(crate) fn first_refusal(&self, deed: Deed) -> bool {
        lock(&self.refused).insert(deed)
    }

    /// Hands an update on. Waits while the receiver is full, but not beyond the end of the turn.
    ///
    /// The receiver counts updates, so none may be large: long texts go in pieces.
    pub(crate) async fn pass(&self, update: Update) {
        if update.is_answer() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        match update {
            Update::Text { text } if text.len() > LARGEST_PIECE => {
                for text in pieces(&text) {
                    self.hand_on(Update::Text { text }).await;
                }
            }
            Update::Thought { text } if text.len() > LARGEST_PIECE => {
                for text in pieces(&text) {
                    self.hand_on(Update::Thought { text }).await;
                }
            }
            update => self.hand_on(update).await,
        }
    }

    async fn hand_on(&self, update: Update) {
        // One sender for all: each further one would have a place of its own in the channel.
        let mut updates = self.updates.lock().await;
        tokio::select! {
            biased;
            ready = poll_fn(|cx| updates.poll_ready(cx)) => {
                if ready.is_ok() {
                    let _nobody_listens = updates.start_send(update);
                }
            }
            () = self.over.wait() => (),
        }
    }

    /// Whether the agent has said or done anything.
    pub(crate) fn is_answered(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }
}

impl Shared {
    pub(crate) fn new(desk: Arc<dyn Desk>, server: Server) -> Self {
        let (heard, working) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { desk, server, session: Mutex::default(), heard, working }
    }

    fn work(&self) -> Work<'_> {
        self.working.fetch_add(1, Ordering::Relaxed);
        Work(self)
    }

    /// A number that changes when the agent sends something, and each time it is asked while we are at work on that:
    /// a person may think over a question for as long as they like.
    pub(crate) fn heard(&self) -> u64 {
        let is_working = self.working.load(Ordering::Relaxed) > 0;
        self.heard.fetch_add(u64::from(is_working), Ordering::Relaxed) + u64::from(is_working)
    }

    /// From here on, updates are a replay, until what is given back is finished or dropped.
    pub(crate) fn begin_opening(&self, native: Option<&str>) -> Opening<'_> {
        let mut session = lock(&self.session);
        *session = Session { native: native.map(str::to_owned), ..Session::default() };
        session.phase = Phase::Opening(Replay::default());
        session.settling = native.map(|_| Instant::now());
        Opening(self)
    }

    /// Some agents answer before they have replayed everything, after a load and after a resume, too; and what comes
    /// late must not pass for an answer to the next prompt. So wait until it was quiet for as long as this.
    pub(crate) async fn settled(&self, quiet: Duration) {
        let until = Instant::now() + LONGEST_SETTLE;
        let last = || lock(&self.session).settling;
        while let Some(end) = last().map(|last| (last + quiet).min(until)) {
            if end <= Instant::now() {
                break;
            }
            sleep_until(end).await;
        }
        lock(&self.session).settling = None;
    }

    /// The open native session.
    pub(crate) fn native(&self) -> Option<String> {
        let session = lock(&self.session);
        session.native.clone().filter(|_| !matches!(session.phase, Phase::Opening(_)))
    }

    /// From here on, updates are passed on, until what is given back is dropped.
    pub(crate) async fn begin_turn(&self, updates: mpsc::Sender<Update>) -> TurnGuard<'_> {
        let running = Arc::new(Running::new(updates));
        let told = {
            let mut session = lock(&self.session);
            session.phase = Phase::Turn(Arc::clone(&running));
            session.tools.clear();
            [session.title.take(), session.mode.take()]
        };
        let turn = TurnGuard { shared: self, running };
        for update in told.into_iter().flatten() {
            turn.running.pass(update).await;
        }
        turn
    }

    pub(crate) fn answered(&self) {
        let mut session = lock(&self.session);
        if matches!(session.phase, Phase::Turn(_)) {
            session.phase = Phase::Answered;
        }
    }

    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        match &lock(&self.session).phase {
            Phase::Turn(running) => Some(Arc::clone(running)),
            _ => None,
        }
    }

    /// A tool call, as it was told of before.
    pub(crate) fn tool(&self, id: &str) -> Option<Call> {
        lock(&self.session).tools.get(id)
    }

    /// The mode that the agent told of since, outside of a turn.
    pub(crate) fn mode_now(&self) -> Option<String> {
        match &lock(&self.session).mode {
            Some(Update::Mode { mode }) => Some(mode.clone()),
            _ => None,
        }
    }

    pub(crate) fn forget_mode(&self) {
        lock(&self.session).mode = None;
    }

    fn is_foreign(&self, params: &Fields<'_>) -> bool {
        let session = lock(&self.session);
        match (&session.native, params.text("sessionId")) {
            (Some(native), Some(meant)) => *native != meant,
            _ => false,
        }
    }

    /// Does what has to be done at once; what is given back has to be passed on.
    fn take(&self, update: &str) -> Option<(Arc<Running>, Update)> {
        let mut session = lock(&self.session);
        let session = &mut *session;
        if let Phase::Turn(running) = &session.phase {
            let terminals = |id: &str| self.server.terminals.output(id);
            let translated = translate::translate(update, &terminals)?;
            if matches!(translated, Update::Tool(_)) {
                session.tools.note(update);
                if let Some((terminal, tool)) = translate::terminal(update) {
                    session.terminals.insert(terminal, tool);
                }
            }
            return Some((Arc::clone(running), translated));
        }
        match translate::standing(update) {
            Some(title @ Update::Title { .. }) => session.title = Some(title),
            Some(mode) => session.mode = Some(mode),
            None => (),
        }
        if let Some(last) = &mut session.settling {
            *last = Instant::now();
        }
        if let Phase::Opening(replay) = &mut session.phase {
            replay.take(update);
        }
        None
    }

    /// The whole output of a terminal belongs to the tool call that showed it.
    async fn conclude(&self, terminal: &str, output: String) {
        let (running, tool) = {
            let mut session = lock(&self.session);
            let Some(tool) = session.terminals.remove(terminal) else { return };
            let Phase::Turn(running) = &session.phase else { return };
            (Arc::clone(running), tool)
        };
        let tool = Tool { id: tool, output: Some(output), ..Tool::default() };
        running.pass(Update::Tool(tool)).await;
    }
}

fn pieces(mut text: &str) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(LARGEST_PIECE));
        text = rest;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

impl Incoming for Shared {
    async fn notified(&self, method: &str, params: &str) {
        let _work = self.work();
        if method != "session/update" {
            return;
        }
        let Some(params) = Fields::parse(params) else { return };
        let Some(update) = params.get("update").filter(|_| !self.is_foreign(&params)) else {
            return;
        };
        if let Some((running, update)) = self.take(update) {
            running.pass(update).await;
        }
    }

    async fn asked(&self, method: &str, raw: &str) -> Result<Value, RpcError> {
        let _work = self.work();
        let params = Fields::parse(raw).unwrap_or_default();
        if self.is_foreign(&params) {
            return Err(RpcError::new(-32602, "there is no such session"));
        }
        if method == "session/request_permission" {
            return permission::answer(self, &params).await;
        }
        let mut is_cleared = false;
        if let Some(act) = act::read(method, &params, &self.server) {
            act::allow(self, &act, &params).await?;
            is_cleared = !act.intent.guarded.is_empty();
        }
        let answer = self.server.serve(method, raw, is_cleared).await?;
        if let (Some(terminal), Some(output)) = (params.text("terminalId"), answer.last_output) {
            self.conclude(&terminal, output).await;
        }
        Ok(answer.result)
    }
}

/// The session while it is being opened.
pub(crate) struct Opening<'a>(&'a Shared);

impl Opening<'_> {
    /// Waits for the end of what is replayed.
    pub(crate) async fn settled(&self, quiet: Duration) {
        lock(&self.0.session).settling = Some(Instant::now());
        self.0.settled(quiet).await;
    }

    /// The session is open. Gives what was replayed.
    pub(crate) fn finish(self, native: &str) -> Replayed {
        let mut session = lock(&self.0.session);
        session.native = Some(native.to_owned());
        // Quiet is what follows the answer.
        session.settling = session.settling.map(|_| Instant::now());
        match std::mem::take(&mut session.phase) {
            Phase::Opening(replay) => replay.finish(),
            _ => Replayed::default(),
        }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut session = lock(&self.0.session);
        if matches!(session.phase, Phase::Opening(_)) {
            *session = Session::default();
        }
    }
}

/// The turn while it runs.
pub(crate) struct TurnGuard<'a> {
    shared: &'a Shared,
    pub(crate) running: Arc<Running>,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.running.over.set();
        self.running.cancelled.set();
        let mut session = lock(&self.shared.session);
        session.phase = Phase::Idle;
        session.terminals.clear();
    }
}

/// What is replayed while a session is loaded, in bounds.
#[derive(Debug, Default)]
struct Replay {
    updates: u64,
    said: VecDeque<Said>,
    bytes: usize,
    /// The message that the last chunk belongs to, where the agent names it.
    message: Option<String>,
    /// Whether something else came after the last chunk of text.
    is_ended: bool,
}

impl Replay {
    fn take(&mut self, update: &str) {
        self.updates += 1;
        let Some(translate::Chunk { is_user, text, message }) = translate::chunk(update) else {
            self.is_ended = true;
            return;
        };
        let is_same = message == self.message && !std::mem::take(&mut self.is_ended);
        self.message = message;
        match self.said.back_mut().filter(|last| last.is_user == is_user && is_same) {
            Some(last) => {
                self.bytes -= last.text.len();
                if is_user {
                    // Each part of a prompt is a chunk of its own.
                    last.text.push('\n');
                }
                last.text.push_str(&text);
            }
            None => self.said.push_back(Said { is_user, text }),
        }
        self.shorten();
    }

    /// What we told before a request stands in the same text with some agents, so of its end more is kept.
    fn shorten(&mut self) {
        if let Some(last) = self.said.back_mut() {
            let begins = last.text.floor_char_boundary(KEPT_BYTES);
            let ends = last.text.len().saturating_sub(KEPT_END_BYTES);
            let ends = last.text.ceil_char_boundary(ends);
            if begins < ends {
                last.text.replace_range(begins..ends, "\n");
            }
            self.bytes += last.text.len();
        }
        while self.said.len() > KEPT_FIRST + 1 && self.bytes > KEPT_IN_ALL {
            let dropped = self.said.remove(KEPT_FIRST);
            self.bytes -= dropped.map_or(0, |dropped| dropped.text.len());
        }
    }

    fn finish(self) -> Replayed {
        Replayed { updates: self.updates, said: self.said.into() }
    }
}
