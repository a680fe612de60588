//! What the parts of the proxy share, and what becomes of each line of the agent.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_engine::Engine;
use rethread_engine::program::{Fault, Program};
use tokio::process::ChildStdout;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::backend::{Backend, Unusable};
use super::binding::{Binding, Taken};
use super::commands;
use super::outbox::{Gate, Outbox};
use super::questions::Question;
use super::raw::{self, Edit, Kind, Raw, quoted};
use super::session::SessionHandle;
use super::upstream::{Pending, Upstream};
use super::{LONGEST_LINE, Launchers, Proxy};
use crate::connection::lock;
use crate::frame::Fields;
use crate::lines::{LineError, LineReader};

/// How many updates are kept of sessions that the agent has not named yet.
const MOST_EARLY: usize = 256;
/// How many requests beside those of open sessions are worked on before the editor has to wait.
const MOST_BESIDE: usize = 64;

pub(crate) struct Hub {
    pub(crate) engine: Engine,
    pub(crate) program: Arc<dyn Program>,
    /// The agent that the editor has started; another one may go on in a session.
    pub(crate) first: Arc<Backend>,
    launchers: Launchers,
    /// Where agents are started.
    pub(crate) folder: PathBuf,
    /// Whether how a conversation was opened is said in it.
    pub(crate) tells: bool,
    pub(crate) outbox: Outbox,
    /// The editor is gone.
    pub(crate) gone: CancellationToken,
    /// Room for requests that are worked on beside the others.
    pub(crate) beside: Arc<Semaphore>,
    pub(super) state: Mutex<State>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("first", &self.first).finish_non_exhaustive()
    }
}

#[derive(Default)]
pub(crate) struct State {
    others: BTreeMap<String, Arc<Backend>>,
    /// What the agent is greeted with.
    hello: Option<String>,
    /// Whether both sides speak version 2.
    is_second: bool,
    sessions: HashMap<String, Arc<SessionHandle>>,
    /// By the name of the agent, and its own name of the session.
    natives: HashMap<(String, String), Arc<Binding>>,
    pub(super) questions: HashMap<u64, Question>,
    pub(super) next: u64,
    /// How many new sessions are being opened, and what came of sessions that have no name yet.
    openings: usize,
    early: Vec<(String, String)>,
    /// Whether the user was told that nothing is recorded.
    has_told: bool,
}

impl Hub {
    pub(crate) fn new(proxy: Proxy, outbox: Outbox) -> Arc<Self> {
        let Proxy { engine, program, mut launcher, others, folder, tells } = proxy;
        launcher.limits.line = LONGEST_LINE;
        Arc::new(Self {
            engine,
            program,
            first: Backend::new(launcher),
            launchers: others,
            folder,
            tells,
            outbox,
            gone: CancellationToken::new(),
            beside: Arc::new(Semaphore::new(MOST_BESIDE)),
            state: Mutex::default(),
        })
    }

    /// The agent of this name.
    pub(crate) fn backend(&self, name: &str) -> Result<Arc<Backend>, Fault> {
        if name == self.first.agent {
            return Ok(Arc::clone(&self.first));
        }
        if let Some(known) = lock(&self.state).others.get(name) {
            return Ok(Arc::clone(known));
        }
        let mut launcher = (self.launchers)(name)?;
        launcher.limits.line = LONGEST_LINE;
        let backend = Backend::new(launcher);
        lock(&self.state).others.insert(name.to_owned(), Arc::clone(&backend));
        Ok(backend)
    }

    /// The processes of all agents.
    pub(crate) fn alive(&self) -> Vec<Arc<Upstream>> {
        let others: Vec<_> = lock(&self.state).others.values().cloned().collect();
        [&self.first].into_iter().chain(&others).filter_map(|one| one.alive()).collect()
    }

    /// What agents are greeted with.
    pub(crate) fn hello(&self) -> Option<String> {
        lock(&self.state).hello.clone()
    }

    /// Greets the agent as the editor does; every later process is greeted in the same way.
    pub(crate) async fn initialize(self: &Arc<Self>, hello: &str) -> Result<String, Unusable> {
        lock(&self.state).hello = Some(hello.to_owned());
        let upstream = self.first.upstream(self).await?;
        let answer = upstream.hello.get().cloned();
        answer.ok_or((rethread_engine::agents::AgentError::Cancelled, None))
    }

    pub(crate) fn is_second(&self) -> bool {
        lock(&self.state).is_second
    }

    pub(crate) fn be_second(&self) {
        lock(&self.state).is_second = true;
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
        let agent = binding.backend().agent.clone();
        let mut state = lock(&self.state);
        state.natives.insert((agent, native.to_owned()), Arc::clone(binding));
        let (own, others) =
            std::mem::take(&mut state.early).into_iter().partition(|(of, _)| of == native);
        state.early = others;
        let own: Vec<(String, String)> = own;
        for (_, line) in own {
            if let Some(raw) = Raw::parse(line.as_bytes()) {
                let update = Fields::parse(raw.params).and_then(|params| params.get("update"));
                let line = commands::in_update(update.unwrap_or("null"), &raw, &binding.id);
                binding.hold(line);
            }
        }
    }

    pub(crate) fn unbind(&self, native: &str, binding: &Binding) {
        let key = (binding.backend().agent.clone(), native.to_owned());
        let mut state = lock(&self.state);
        if state.natives.get(&key).is_some_and(|one| one.id == binding.id) {
            state.natives.remove(&key);
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

    fn binding_of(&self, agent: &str, native: &str) -> Option<Arc<Binding>> {
        lock(&self.state).natives.get(&(agent.to_owned(), native.to_owned())).cloned()
    }

    async fn from_agent(self: &Arc<Self>, agent: &str, upstream: &Arc<Upstream>, line: &[u8]) {
        let Some(raw) = Raw::parse(line) else {
            if !line.iter().all(u8::is_ascii_whitespace) {
                lock(&upstream.noise).take(line);
            }
            return;
        };
        let binding = raw.session.as_ref().and_then(|(_, native)| self.binding_of(agent, native));
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
                let question = Question {
                    upstream: Arc::clone(upstream),
                    id: (*id).to_owned(),
                    method: method.clone().into_owned(),
                    params: raw.params.to_owned(),
                    binding: binding.clone(),
                };
                let Some(ours) = self.ask(question) else {
                    let reason = "the editor has too many questions to answer";
                    let fault =
                        raw::fault(-32603, reason, &serde_json::json!({ "reason": reason }));
                    upstream.send(raw::error(id, &fault)).await;
                    return;
                };
                let line =
                    raw.with(Some(&ours.to_string()), binding.as_deref().map(|s| s.id.as_str()));
                self.outbox.say(line).await;
            }
            Kind::Result { id, result } => {
                self.replied(agent, upstream, &raw, id, Ok(result)).await;
            }
            Kind::Error { id, error } => {
                self.replied(agent, upstream, &raw, id, Err(error)).await;
            }
        }
    }

    async fn updated(&self, raw: &Raw<'_>, binding: Option<Arc<Binding>>) {
        if self.gone.is_cancelled() {
            return;
        }
        let Some(binding) = binding else {
            if !self.is_early(raw) {
                self.outbox.say(raw.with(None, None)).await;
            }
            return;
        };
        let fields = Fields::parse(raw.params).unwrap_or_default();
        let update = fields.get("update").unwrap_or("null");
        let line = commands::in_update(update, raw, &binding.id);
        match binding.take(update) {
            Taken::Shown => self.outbox.say(line).await,
            Taken::Swallowed => (),
            Taken::Held => binding.hold(line),
            Taken::Recorded(running, attempt, update) => {
                if let Some(update) = update {
                    running.pass(*update).await;
                }
                if self.gone.is_cancelled() {
                    // The turn is being ended: what comes now is not recorded any more, and not shown.
                    return;
                }
                self.outbox.push(line, Gate::Recorded(attempt, running.handed_on())).await;
            }
            Taken::Ended(attempt) => self.outbox.push(line, Gate::End(attempt)).await,
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
        agent: &str,
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
                let line = self.renamed(agent, raw, &id, reply);
                self.outbox.say(line).await;
            }
            Some(Pending::Prompt { id, attempt, answer, binding })
                if binding.is_second && reply.is_ok() =>
            {
                self.outbox.say(self.renamed(agent, raw, &id, reply)).await;
                binding.accepted(attempt, answer);
            }
            Some(Pending::Prompt { id, attempt, answer, binding }) => {
                let line = self.renamed(agent, raw, &id, reply);
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
    fn renamed(&self, agent: &str, raw: &Raw<'_>, id: &str, reply: Result<&str, &str>) -> String {
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
            && let Some(binding) = self.binding_of(agent, &native)
        {
            edit.replace(old, &quoted(&binding.id));
        }
        edit.finish()
    }

    /// The agent is gone: whoever waits for it hears that.
    async fn lost(&self, backend: &Backend, upstream: &Arc<Upstream>) {
        let waiting = upstream.close();
        let natives = {
            let mut state = lock(&self.state);
            state.questions.retain(|_, one| !Arc::ptr_eq(&one.upstream, upstream));
            state.early.clear();
            let (own, others): (HashMap<_, _>, HashMap<_, _>) = std::mem::take(&mut state.natives)
                .into_iter()
                .partition(|((agent, _), _)| *agent == backend.agent);
            state.natives = others;
            own
        };
        for binding in natives.into_values() {
            binding.lose();
        }
        let mut error = None;
        for pending in waiting {
            if let Pending::Editor { id, .. } = pending {
                if error.is_none() {
                    let trouble = upstream.ended(backend.launcher.limits.close).await.to_string();
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
pub(crate) async fn listen(
    hub: Arc<Hub>,
    backend: Arc<Backend>,
    upstream: Arc<Upstream>,
    mut lines: LineReader<ChildStdout>,
) {
    loop {
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            () = upstream.closed.wait() => break,
        };
        match line {
            Ok(Some(line)) => hub.from_agent(&backend.agent, &upstream, line).await,
            Err(LineError::TooLong(most)) => {
                tracing::warn!(most, "the agent sent a line that is too long");
                upstream.abandon();
                break;
            }
            Ok(None) | Err(LineError::Broken) => break,
        }
    }
    hub.lost(&backend, &upstream).await;
}
