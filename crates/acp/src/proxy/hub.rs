//! What the parts of the proxy share, and what becomes of each line of the agent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_domain::turn::Update;
use rethread_engine::Engine;
use rethread_engine::agents::AgentError;
use rethread_engine::program::Program;
use tokio::process::ChildStdout;
use tokio_util::sync::CancellationToken;

use super::binding::{self, Binding, Taken};
use super::commands;
use super::outbox::{Gate, Outbox};
use super::raw::{self, Edit, Kind, Raw, quoted};
use super::session::SessionHandle;
use super::upstream::{Pending, Upstream};
use crate::connection::lock;
use crate::frame::Fields;
use crate::launch::AcpLauncher;
use crate::lines::{LineError, LineReader};

/// How many updates are kept of sessions that the agent has not named yet.
const MOST_EARLY: usize = 256;
/// How many questions of the agent the editor may leave without an answer.
const MOST_QUESTIONS: usize = 4096;

pub(crate) struct Hub {
    pub(crate) engine: Engine,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) launcher: AcpLauncher,
    /// The name of the agent's entry in the settings.
    pub(crate) agent: String,
    /// Where the agent's process is started.
    pub(crate) folder: PathBuf,
    /// Whether how a conversation was opened is said in it.
    pub(crate) tells: bool,
    pub(crate) outbox: Outbox,
    /// The editor is gone.
    pub(crate) gone: CancellationToken,
    state: Mutex<State>,
    starting: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    upstream: Option<Arc<Upstream>>,
    /// What the agent is greeted with.
    hello: Option<String>,
    /// Whether both sides speak a version that is passed on as it is.
    is_plain: bool,
    sessions: HashMap<String, Arc<SessionHandle>>,
    natives: HashMap<String, Arc<Binding>>,
    questions: HashMap<u64, Question>,
    next: u64,
    /// How many new sessions are being opened, and what came of sessions that have no name yet.
    openings: usize,
    early: Vec<(String, String)>,
    /// Whether the user was told that nothing is recorded.
    has_told: bool,
}

/// A request of the agent that the editor has to answer.
struct Question {
    upstream: Arc<Upstream>,
    /// The agent's id of it.
    id: String,
    method: String,
    params: String,
    binding: Option<Arc<Binding>>,
}

/// What a proxy is made with.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) launcher: AcpLauncher,
    pub(crate) folder: PathBuf,
    pub(crate) tells: bool,
}

impl Hub {
    pub(crate) fn new(parts: Parts, outbox: Outbox) -> Arc<Self> {
        let Parts { engine, program, launcher, folder, tells } = parts;
        Arc::new(Self {
            engine,
            program,
            agent: launcher.entry.name.clone(),
            launcher,
            folder,
            tells,
            outbox,
            gone: CancellationToken::new(),
            state: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
        })
    }

    /// The agent's process, started if there is none.
    pub(crate) async fn process(self: &Arc<Self>) -> Result<Arc<Upstream>, AgentError> {
        let _starting = self.starting.lock().await;
        self.started()
    }

    fn started(self: &Arc<Self>) -> Result<Arc<Upstream>, AgentError> {
        if let Some(known) = self.alive() {
            return Ok(known);
        }
        let (upstream, lines) = Upstream::start(&self.launcher, &self.folder)?;
        lock(&self.state).upstream = Some(Arc::clone(&upstream));
        tokio::spawn(listen(Arc::clone(self), Arc::clone(&upstream), lines));
        Ok(upstream)
    }

    pub(crate) fn alive(&self) -> Option<Arc<Upstream>> {
        lock(&self.state).upstream.clone().filter(|one| !one.is_gone())
    }

    /// The agent's process, started and greeted if there is none. The error is the agent's own where it gave one.
    pub(crate) async fn upstream(
        self: &Arc<Self>,
    ) -> Result<Arc<Upstream>, (AgentError, Option<String>)> {
        let _starting = self.starting.lock().await;
        let upstream = self.started().map_err(|trouble| (trouble, None))?;
        let hello = lock(&self.state).hello.clone();
        if let Some(hello) = hello.filter(|_| upstream.hello.get().is_none()) {
            self.greet(&upstream, &hello).await?;
        }
        Ok(upstream)
    }

    async fn greet(
        &self,
        upstream: &Arc<Upstream>,
        hello: &str,
    ) -> Result<(), (AgentError, Option<String>)> {
        let limits = &self.launcher.limits;
        let call = upstream.call("initialize", hello, Box::new(|_| ()));
        match tokio::time::timeout(limits.initialize, call).await {
            Ok(Ok(answer)) => {
                let _first = upstream.hello.set(answer);
                Ok(())
            }
            Ok(Err(Some(error))) => {
                let known = crate::classify::RpcError::parse(&error);
                let quirks = self.launcher.entry.quirks;
                Err((crate::classify::classify("initialize", &known, quirks), Some(error)))
            }
            Ok(Err(None)) => Err((upstream.ended(limits.close).await, None)),
            Err(_) => {
                upstream.abandon();
                let (what, after) = ("initialize".to_owned(), limits.initialize);
                Err((AgentError::TimedOut { what, after }, None))
            }
        }
    }

    /// Greets the agent as the editor does; every later process is greeted in the same way.
    pub(crate) async fn initialize(
        self: &Arc<Self>,
        hello: &str,
    ) -> Result<String, (AgentError, Option<String>)> {
        lock(&self.state).hello = Some(hello.to_owned());
        let upstream = self.upstream().await?;
        let answer = upstream.hello.get().cloned();
        answer.ok_or((AgentError::Cancelled, None))
    }

    pub(crate) fn is_plain(&self) -> bool {
        lock(&self.state).is_plain
    }

    pub(crate) fn be_plain(&self) {
        lock(&self.state).is_plain = true;
    }

    /// Whether this is the first time that the user has to be told that nothing is recorded.
    pub(crate) fn tells_unrecorded(&self) -> bool {
        !std::mem::replace(&mut lock(&self.state).has_told, true)
    }

    pub(crate) fn recorded_again(&self) -> bool {
        std::mem::take(&mut lock(&self.state).has_told)
    }

    pub(crate) fn handle(&self, id: &str) -> Option<Arc<SessionHandle>> {
        lock(&self.state).sessions.get(id).cloned()
    }

    pub(crate) fn add_session(&self, handle: Arc<SessionHandle>) {
        lock(&self.state).sessions.insert(handle.binding.id.clone(), handle);
    }

    pub(crate) fn remove_session(&self, id: &str) {
        lock(&self.state).sessions.remove(id);
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<SessionHandle>> {
        lock(&self.state).sessions.values().cloned().collect()
    }

    /// The agent's own session of that id is now this session of the editor's.
    pub(crate) fn bind(&self, native: &str, binding: &Arc<Binding>) {
        let mut state = lock(&self.state);
        state.natives.insert(native.to_owned(), Arc::clone(binding));
        let (own, others) =
            std::mem::take(&mut state.early).into_iter().partition(|(of, _)| of == native);
        state.early = others;
        let own: Vec<(String, String)> = own;
        for (_, line) in own {
            if let Some(raw) = Raw::parse(line.as_bytes()) {
                binding.hold(raw.with(None, Some(&binding.id)));
            }
        }
    }

    pub(crate) fn unbind(&self, native: &str, binding: &Binding) {
        let mut state = lock(&self.state);
        if state.natives.get(native).is_some_and(|one| one.id == binding.id) {
            state.natives.remove(native);
        }
    }

    /// A new session is being opened: what comes of a session without a name may be of that one.
    pub(crate) fn begin_new(&self) {
        lock(&self.state).openings += 1;
    }

    pub(crate) async fn end_new(&self) {
        let early = {
            let mut state = lock(&self.state);
            state.openings = state.openings.saturating_sub(1);
            if state.openings == 0 { std::mem::take(&mut state.early) } else { Vec::new() }
        };
        for (_, line) in early {
            self.outbox.say(line).await;
        }
    }

    fn binding_of(&self, native: &str) -> Option<Arc<Binding>> {
        lock(&self.state).natives.get(native).cloned()
    }

    async fn from_agent(self: &Arc<Self>, upstream: &Arc<Upstream>, line: &[u8]) {
        let Some(raw) = Raw::parse(line) else {
            if !line.iter().all(u8::is_ascii_whitespace) {
                lock(&upstream.noise).take(line);
            }
            return;
        };
        let binding = raw.session.as_ref().and_then(|(_, native)| self.binding_of(native));
        match &raw.kind {
            Kind::Notification { method } if method == "session/update" => {
                self.updated(&raw, binding).await;
            }
            Kind::Notification { method } => {
                let mut line =
                    raw.with(None, binding.as_deref().map(|binding| binding.id.as_str()));
                if method == "$/cancel_request" {
                    line = self.cancel_question(upstream, &raw).unwrap_or(line);
                }
                self.outbox.say(line).await;
            }
            Kind::Request { id, method } => {
                if let Some(binding) = binding.as_deref().filter(|_| method == "terminal/release") {
                    conclude(binding, raw.params).await;
                }
                let ours = {
                    let mut state = lock(&self.state);
                    state.next += 1;
                    let ours = state.next;
                    if state.questions.len() < MOST_QUESTIONS {
                        let question = Question {
                            upstream: Arc::clone(upstream),
                            id: (*id).to_owned(),
                            method: method.clone().into_owned(),
                            params: raw.params.to_owned(),
                            binding: binding.clone(),
                        };
                        state.questions.insert(ours, question);
                    }
                    ours
                };
                let line =
                    raw.with(Some(&ours.to_string()), binding.as_deref().map(|s| s.id.as_str()));
                self.outbox.say(line).await;
            }
            Kind::Result { id, result } => self.replied(upstream, &raw, id, Ok(result)).await,
            Kind::Error { id, error } => self.replied(upstream, &raw, id, Err(error)).await,
        }
    }

    async fn updated(&self, raw: &Raw<'_>, binding: Option<Arc<Binding>>) {
        let Some(binding) = binding else {
            if !self.is_early(raw) {
                self.outbox.say(raw.with(None, None)).await;
            }
            return;
        };
        let fields = Fields::parse(raw.params).unwrap_or_default();
        let update = fields.get("update").unwrap_or("null");
        let line = commands::offered(update).map_or_else(
            || raw.with(None, Some(&binding.id)),
            |commands| commands.in_place_of(raw, &binding.id),
        );
        match binding.take(update) {
            Taken::Shown => self.outbox.say(line).await,
            Taken::Swallowed => (),
            Taken::Held => binding.hold(line),
            Taken::Recorded(running, attempt, update) => {
                if let Some(update) = update {
                    running.pass(*update).await;
                }
                self.outbox.push(line, Gate::Recorded(attempt, running.handed_on())).await;
            }
        }
    }

    /// Keeps what may be of a session that is being opened and has no name yet.
    fn is_early(&self, raw: &Raw<'_>) -> bool {
        let Some((_, native)) = &raw.session else { return false };
        let mut state = lock(&self.state);
        let is_early = state.openings > 0 && state.early.len() < MOST_EARLY;
        if is_early {
            state.early.push((native.clone(), raw.line.to_owned()));
        }
        is_early
    }

    /// Hands an answer of the agent to whoever waits for it.
    async fn replied(
        &self,
        upstream: &Arc<Upstream>,
        raw: &Raw<'_>,
        id: &str,
        reply: Result<&str, &str>,
    ) {
        let owned = || reply.map(str::to_owned).map_err(str::to_owned);
        match upstream.take(id) {
            Some(Pending::Own { answer, at_once }) => {
                let reply = owned();
                at_once(&reply);
                let _nobody_waits = answer.send(reply);
            }
            Some(Pending::Editor { id, binding, sets }) => {
                if let (Some(binding), Ok(_)) = (&binding, reply) {
                    binding.remember(&sets);
                }
                let line = self.renamed(raw, &id, reply);
                self.outbox.say(line).await;
            }
            Some(Pending::Prompt { id, attempt, answer, binding }) => {
                let line = self.renamed(raw, &id, reply);
                binding.end_turn();
                attempt.answered();
                let _nobody_waits = answer.send(owned());
                self.outbox.push(line, Gate::End(attempt)).await;
            }
            // An answer that nobody asked for, or that nobody waits for any more.
            None => lock(&upstream.noise).take(raw.line.as_bytes()),
        }
    }

    /// An answer with the editor's id, and with the editor's name of the session.
    fn renamed(&self, raw: &Raw<'_>, id: &str, reply: Result<&str, &str>) -> String {
        let mut edit = Edit::new(raw.line);
        if let Kind::Result { id: old, .. } | Kind::Error { id: old, .. } = &raw.kind {
            edit.replace(old, id);
        }
        let named = match reply {
            Ok(result) => raw::session_of(result),
            Err(error) => {
                Fields::parse(error).and_then(|error| raw::session_of(error.get("data")?))
            }
        };
        if let Some((old, native)) = named
            && let Some(binding) = self.binding_of(&native)
        {
            edit.replace(old, &quoted(&binding.id));
        }
        edit.finish()
    }

    /// The editor has answered a question of the agent.
    pub(crate) async fn answered(&self, raw: &Raw<'_>, id: &str, reply: Result<&str, &str>) {
        let ours: Option<u64> = id.trim_matches('"').parse().ok();
        let question = ours.and_then(|ours| lock(&self.state).questions.remove(&ours));
        let Some(Question { upstream, id, method, params, binding }) = question else { return };
        if let Some(binding) = &binding {
            let terminal = || Fields::parse(&params)?.text("terminalId");
            match (method.as_str(), reply) {
                ("session/request_permission", reply) => {
                    let permission = binding::permission(&params, reply).map(Update::Permission);
                    if let (Some(permission), Some(running)) = (permission, binding.running()) {
                        running.pass(permission).await;
                    }
                }
                ("terminal/output", Ok(result)) => {
                    if let Some(terminal) = terminal() {
                        binding.printed(&terminal, result);
                    }
                }
                _ => (),
            }
        }
        upstream.send(raw.with(Some(&id), None)).await;
    }

    /// The agent takes back a question: the editor knows it by another id.
    fn cancel_question(&self, upstream: &Arc<Upstream>, raw: &Raw<'_>) -> Option<String> {
        let meant = Fields::parse(raw.params)?.get("requestId")?;
        let state = lock(&self.state);
        let ours = state
            .questions
            .iter()
            .find(|(_, one)| one.id == meant && Arc::ptr_eq(&one.upstream, upstream))?;
        let mut edit = Edit::new(raw.line);
        edit.replace(meant, &ours.0.to_string());
        Some(edit.finish())
    }

    /// The agent is gone: whoever waits for it hears that.
    async fn lost(&self, upstream: &Arc<Upstream>) {
        let waiting = upstream.close();
        let natives = {
            let mut state = lock(&self.state);
            state.questions.retain(|_, one| !Arc::ptr_eq(&one.upstream, upstream));
            state.early.clear();
            std::mem::take(&mut state.natives)
        };
        for binding in natives.into_values() {
            binding.lose();
        }
        let mut error = None;
        for pending in waiting {
            if let Pending::Editor { id, .. } = pending {
                if error.is_none() {
                    let trouble = upstream.ended(self.launcher.limits.close).await.to_string();
                    let data = serde_json::json!({ "reason": trouble });
                    error = Some(raw::fault(-32603, &trouble, &data));
                }
                self.outbox.say(raw::error(&id, error.as_deref().unwrap_or("null"))).await;
            }
        }
    }
}

async fn conclude(binding: &Binding, params: &str) {
    let terminal = Fields::parse(params).and_then(|params| params.text("terminalId"));
    let concluded = terminal.and_then(|terminal| binding.concluded(&terminal));
    if let (Some(update), Some(running)) = (concluded, binding.running()) {
        running.pass(update).await;
    }
}

/// Reads what the agent says until it ends.
async fn listen(hub: Arc<Hub>, upstream: Arc<Upstream>, mut lines: LineReader<ChildStdout>) {
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = upstream.closed.wait() => break,
        };
        match line {
            Ok(Some(line)) => hub.from_agent(&upstream, line).await,
            Err(LineError::TooLong(most)) => {
                tracing::warn!(most, "the agent sent a line that is too long");
                upstream.abandon();
                break;
            }
            Ok(None) | Err(LineError::Broken) => break,
        }
    }
    hub.lost(&upstream).await;
}
