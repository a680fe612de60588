//! The state of the native session, and what the agent sends about it on its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::channel::mpsc;
use rethread_domain::consent::Intent;
use rethread_domain::replay::{Excerpt, Said};
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::{ActionKind, Named, PermissionHandler, Replayed, Settings};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep_until};

use crate::calls::{Call, Calls};
use crate::classify::RpcError;
use crate::connection::{Incoming, lock};
use crate::foreground::{self, Foreground, Told};
use crate::frame::{Fields, SplitCharacter};
use crate::latch::Latch;
use crate::serve::{Server, ServiceRequest};
use crate::translate::SplitCharacters;
use crate::{act, permission, second, translate};

/// How long to wait for an agent to become silent.
const LONGEST_SETTLE: Duration = Duration::from_secs(2);
/// The longest text that is passed on at once.
const LARGEST_PIECE: usize = 256 * 1024;

/// What a connection and its owner share.
pub(crate) struct Shared {
    pub(crate) permissions: Arc<dyn PermissionHandler>,
    pub(crate) server: Server,
    session: Mutex<Session>,
    /// How many messages the agent has sent, and how many of them are being handled.
    heard: AtomicU64,
    working: AtomicU64,
    is_second: AtomicBool,
}

/// A message of the agent that is being handled, until this is dropped.
struct Work<'a>(&'a Shared);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        // The agent may have waited for us meanwhile.
        self.0.heard.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Session {
    native: Option<String>,
    phase: Phase,
    /// When something last arrived for a session that was loaded or resumed, until its first prompt.
    settling: Option<Instant>,
    /// What was reported between turns, for the next one.
    title: Option<Update>,
    mode: Option<Update>,
    /// The values of options that were reported since they were last set.
    options: BTreeMap<String, String>,
    /// The agent's own commands.
    commands: Vec<Named>,
    /// The tool calls of this turn.
    tools: Calls,
    split: SplitCharacters,
    /// Tool calls whose output is that of a terminal, by the terminal.
    terminals: HashMap<String, String>,
    /// What version 2 adds: messages and terminals that are followed, and the prompt that is worked on.
    translator: second::Translator,
    foreground: Foreground,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Opening(Replay),
    Turn(Arc<Running>),
    /// The response to the prompt has arrived: nothing that follows belongs to the turn.
    Answered,
}

/// A prompt that is being answered.
pub(crate) struct Running {
    updates: tokio::sync::Mutex<mpsc::Sender<Update>>,
    pub(crate) cancelled: Latch,
    pub(crate) over: Latch,
    answers: AtomicU64,
    /// How many updates were handed on.
    handed_on: AtomicU64,
    /// The exact commands and files that were decided on in this turn.
    decided: Mutex<HashMap<String, bool>>,
    /// Kinds of which something was refused by a rule.
    refused: Mutex<HashSet<ActionKind>>,
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl Running {
    pub(crate) fn new(updates: mpsc::Sender<Update>) -> Self {
        Self {
            updates: tokio::sync::Mutex::new(updates),
            cancelled: Latch::new(),
            over: Latch::new(),
            answers: AtomicU64::new(0),
            handed_on: AtomicU64::new(0),
            decided: Mutex::default(),
            refused: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The decision about the same command or file, or about all of several.
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

    /// Whether nothing of this kind was refused by a rule before: repeated refusals are reported once.
    pub(crate) fn first_refusal(&self, kind: ActionKind) -> bool {
        lock(&self.refused).insert(kind)
    }

    /// Passes an update on. Waits while the receiver is full, but not beyond the end of the turn.
    ///
    /// The receiver counts updates, so none may be large: long texts are split.
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
        // One sender for all: each further one would have a slot of its own in the channel.
        let mut updates = self.updates.lock().await;
        tokio::select! {
            biased;
            ready = poll_fn(|cx| updates.poll_ready(cx)) => {
                if ready.is_ok() {
                    self.handed_on.fetch_add(1, Ordering::Relaxed);
                    let _nobody_listens = updates.start_send(update);
                }
            }
            () = self.over.wait() => (),
        }
    }

    /// How many updates were handed on.
    pub(crate) fn handed_on(&self) -> u64 {
        self.handed_on.load(Ordering::Relaxed)
    }

    /// Whether the agent has said or done anything.
    pub(crate) fn is_answered(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }
}

impl Shared {
    pub(crate) fn new(permissions: Arc<dyn PermissionHandler>, server: Server) -> Self {
        let (heard, working, is_second) = Default::default();
        Self { permissions, server, session: Mutex::default(), heard, working, is_second }
    }

    /// The agent speaks version 2.
    pub(crate) fn be_second(&self) {
        self.is_second.store(true, Ordering::Relaxed);
    }

    /// The agent has accepted the prompt, as version 2 has it: who waits is told the state that ends it.
    pub(crate) fn accepted(&self, waits: oneshot::Sender<String>) {
        lock(&self.session).foreground.accepted(foreground::over(waits));
    }

    fn work(&self) -> Work<'_> {
        self.working.fetch_add(1, Ordering::Relaxed);
        Work(self)
    }

    /// A number that changes when the agent sends something, and with each call while that is being handled: a person may think about
    /// a question for as long as they like.
    pub(crate) fn heard(&self) -> u64 {
        let is_working = self.working.load(Ordering::Relaxed) > 0;
        self.heard.fetch_add(u64::from(is_working), Ordering::Relaxed) + u64::from(is_working)
    }

    /// From here on, updates are a replay, until the result is finished or dropped.
    pub(crate) fn begin_opening(&self, native: Option<&str>) -> Opening<'_> {
        let mut session = lock(&self.session);
        *session = Session { native: native.map(str::to_owned), ..Session::default() };
        session.phase = Phase::Opening(Replay::default());
        session.settling = native.map(|_| Instant::now());
        Opening(self)
    }

    /// Some agents respond before they have replayed everything, both to a load and to a resume; what comes late must not be taken for
    /// the answer to the next prompt. So wait until it has been silent for this long.
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

    /// From here on, updates are passed on, until the result is dropped.
    pub(crate) async fn begin_turn(&self, updates: mpsc::Sender<Update>) -> TurnGuard<'_> {
        let running = Arc::new(Running::new(updates));
        let told = {
            let mut session = lock(&self.session);
            session.phase = Phase::Turn(Arc::clone(&running));
            session.tools.clear();
            session.split = SplitCharacters::default();
            session.translator = second::Translator::default();
            session.foreground = Foreground::default();
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

    /// A tool call, as reported before.
    pub(crate) fn tool(&self, id: &str) -> Option<Call> {
        lock(&self.session).tools.get(id)
    }

    /// The mode that the agent reported since, outside of a turn.
    pub(crate) fn mode_now(&self) -> Option<String> {
        match &lock(&self.session).mode {
            Some(Update::Mode { mode }) => Some(mode.clone()),
            _ => None,
        }
    }

    /// The mode that the agent reported since, outside of a turn, and the options, at any time.
    pub(crate) fn reported(&self) -> Settings {
        let (mode, options) = (self.mode_now(), lock(&self.session).options.clone());
        Settings { mode, options, ..Settings::default() }
    }

    /// The agent's own commands, as it last told of them.
    pub(crate) fn commands(&self) -> Vec<Named> {
        lock(&self.session).commands.clone()
    }

    pub(crate) fn forget_reported(&self) {
        let mut session = lock(&self.session);
        session.mode = None;
        session.options.clear();
    }

    fn is_foreign(&self, params: &Fields<'_>) -> bool {
        let session = lock(&self.session);
        match (&session.native, params.text("sessionId")) {
            (Some(native), Some(meant)) => *native != meant,
            _ => false,
        }
    }

    /// Handles what has to be handled at once; the result has to be passed on.
    fn take(&self, update: &str) -> Option<(Arc<Running>, Update)> {
        let mut session = lock(&self.session);
        let session = &mut *session;
        session.options.extend(translate::options(update));
        if let Some(commands) = translate::commands(update) {
            session.commands = commands;
            return None;
        }
        if let Phase::Turn(running) = &session.phase
            && self.is_second.load(Ordering::Relaxed)
        {
            if session.foreground.told(update) == Told::Ended {
                session.phase = Phase::Answered;
                return None;
            }
            let running = Arc::clone(running);
            let translated = session.translator.translate(update)?;
            if matches!(translated, Update::Tool(_)) {
                session.tools.note(update);
            }
            return Some((running, translated));
        }
        if let Phase::Turn(running) = &session.phase {
            let terminals = |id: &str| self.server.terminals.output(id);
            let translated = translate::translate(update, &terminals, &mut session.split)?;
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
        let request = ServiceRequest::parse(method, raw)?;
        let mut is_cleared = false;
        if let Some(act) = act::read(&request, &self.server) {
            act::allow(self, &act, &request).await?;
            is_cleared = !act.intent.guarded.is_empty();
        }
        let answer = self.server.serve(request, is_cleared).await?;
        if let (Some(terminal), Some(output)) = (params.text("terminalId"), answer.last_output) {
            self.conclude(&terminal, output).await;
        }
        Ok(answer.result)
    }
}

/// The session while it is being opened.
pub(crate) struct Opening<'a>(&'a Shared);

impl Opening<'_> {
    /// Waits for the end of the replay.
    pub(crate) async fn settled(&self, quiet: Duration) {
        lock(&self.0.session).settling = Some(Instant::now());
        self.0.settled(quiet).await;
    }

    /// The session is open. Returns what was replayed.
    pub(crate) fn finish(self, native: &str) -> Replayed {
        let mut session = lock(&self.0.session);
        session.native = Some(native.to_owned());
        // The silence is counted from the response.
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
        session.foreground.leave();
        session.terminals.clear();
    }
}

/// What is replayed while a session is loaded, bounded.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    updates: u64,
    kept: Excerpt,
    /// The message that the last chunk belongs to, if the agent names it.
    message: Option<String>,
    /// Whether something else came after the last chunk of text.
    is_ended: bool,
    split: SplitCharacter,
}

impl Replay {
    pub(crate) fn take(&mut self, update: &str) {
        self.updates += 1;
        let chunk = translate::chunk(update, &mut self.split);
        let Some(translate::Chunk { is_user, text, message, is_whole }) = chunk else {
            self.is_ended = true;
            return;
        };
        if is_whole && (text.is_empty() || message == self.message) {
            // It follows in pieces, or has come in them.
            return;
        }
        let is_same = message == self.message && !std::mem::take(&mut self.is_ended);
        self.message = message;
        if !is_same || !self.kept.go_on(is_user, &text) {
            self.kept.push(Said { is_user, text });
        }
    }

    pub(crate) fn finish(self) -> Replayed {
        Replayed { updates: self.updates, said: self.kept.finish() }
    }
}
