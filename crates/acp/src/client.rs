//! A running agent, which speaks version 1 of the protocol.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, EnvVariable, FileSystemCapabilities, Implementation,
    InitializeRequest, LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest,
    PromptRequest,
};
use async_trait::async_trait;
use futures::channel::mpsc;
use jiff::Timestamp;
use rethread_domain::quote;
use rethread_domain::turn::Update;
use rethread_engine::agents::{
    Abilities, Agent, AgentError, Block, Ended, Offered, OpenRequest, Opened, Settings,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::classify::classify;
use crate::connection::{Failure, Peer, lock};
use crate::frame::{self, Fields};
use crate::guard;
use crate::launch::{Errors, Limits, Started};
use crate::presets::{Entry, ToolServer};
use crate::process::{self, Process};
use crate::session::{Running, Shared};
use crate::settings::Offers;
use crate::{abilities, blocks, second, translate};

/// How much of an agent's standard error is shown.
const SHOWN_ERRORS: usize = 4 * 1024;
/// How often to check whether an agent still sends something.
const LONGEST_TICK: Duration = Duration::from_secs(10);
/// How many pages of its list of sessions an agent is asked for, and how long each may take: what is not found there is verified by
/// loading.
const MOST_PAGES: usize = 4;
const LONGEST_LIST: Duration = Duration::from_secs(5);
/// How long to wait for the exit status of an agent that has closed its output.
const POST_MORTEM: Duration = Duration::from_secs(5);

/// An agent that was started.
pub(crate) struct AcpAgent {
    entry: Entry,
    limits: Limits,
    abilities: Abilities,
    folder: PathBuf,
    peer: Arc<Peer>,
    process: Arc<Process>,
    shared: Arc<Shared>,
    errors: Arc<Errors>,
    offers: Offers,
    is_second: bool,
}

impl AcpAgent {
    pub(crate) async fn initialize(
        started: Started,
        entry: Entry,
        limits: Limits,
    ) -> Result<Self, AgentError> {
        let Started { peer, process, shared, errors, folder } = started;
        let (abilities, offers) = (Abilities::default(), Offers::default());
        let asks_second = entry.protocol == Some(2);
        let mut agent = Self {
            entry,
            limits,
            abilities,
            folder,
            peer,
            process,
            shared,
            errors,
            offers,
            is_second: false,
        };
        let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().fs(files).terminal(true))
            .client_info(Implementation::new("rethread", env!("CARGO_PKG_VERSION")));
        let greeted = if asks_second {
            agent.call("initialize", second::greeting(), limits.initialize).await
        } else {
            agent.call("initialize", &request, limits.initialize).await
        };
        match greeted {
            Ok(answer) if asks_second && second::is_answer(answer.get()) => {
                agent.is_second = true;
                agent.shared.be_second();
                agent.abilities = abilities::second(answer.get(), &agent.entry);
            }
            Ok(answer) => agent.abilities = abilities::first(answer.get(), &agent.entry)?,
            Err(trouble) => {
                agent.process.end().await;
                return Err(agent.not_started(trouble));
            }
        }
        Ok(agent)
    }

    /// The guard may not have been able to start the program at all.
    fn not_started(&self, trouble: AgentError) -> AgentError {
        if matches!(trouble, AgentError::Unsupported(_)) {
            // Without this there is no protocol at all: `cat`, for instance, sends our own request back.
            let why = "this program does not speak ACP".to_owned();
            return AgentError::Nonsense { what: "initialize".to_owned(), why };
        }
        let AgentError::Ended { stderr, .. } = &trouble else { return trouble };
        let code = self.process.status().and_then(|status| status.code());
        let codes = [guard::NOT_FOUND, guard::NOT_EXECUTABLE].map(|code| Some(i32::from(code)));
        match stderr.strip_prefix(guard::COMPLAINT) {
            Some(why) if codes.contains(&code) => {
                let program = self.entry.command.first().cloned().unwrap_or_default();
                AgentError::CannotStart { program, why: why.to_owned() }
            }
            _ => trouble,
        }
    }

    async fn call(
        &self,
        method: &str,
        params: impl Serialize,
        after: Duration,
    ) -> Result<Box<RawValue>, AgentError> {
        match timeout(after, self.peer.call(method, params)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => Err(self.trouble(method, failure).await),
            Err(_) => {
                self.abandon();
                Err(AgentError::TimedOut { what: method.to_owned(), after })
            }
        }
    }

    async fn trouble(&self, method: &str, failure: Failure) -> AgentError {
        match failure {
            Failure::Error(error) => classify(method, &error, self.entry.quirks),
            Failure::Closed => self.ended().await,
        }
    }

    /// Why the agent does not answer any more.
    async fn ended(&self) -> AgentError {
        if let Some(most) = self.peer.too_long() {
            self.abandon();
            return AgentError::LineTooLong(most);
        }
        if timeout(self.limits.close, self.process.exited()).await.is_err() {
            // It has closed its output, but still runs.
            self.abandon();
            let _lost = timeout(POST_MORTEM, self.process.exited()).await;
        }
        let _late = timeout(self.limits.close, self.errors.ended.wait()).await;
        let errors = lock(&self.errors.tail).text(SHOWN_ERRORS);
        let (errors, noise) = (quote::safe(errors.trim()), self.peer.noise());
        let said = [errors, noise].into_iter().filter(|said| !said.is_empty()).collect::<Vec<_>>();
        let status = process::describe_exit(self.process.status());
        AgentError::Ended { status, stderr: said.join("\n[and on its output:] ") }
    }

    fn abandon(&self) {
        self.shared.server.terminals.abandon();
        self.process.abandon();
        self.peer.close();
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.entry.quirks.quiet_ms.into())
    }

    fn session(&self) -> Result<String, AgentError> {
        self.shared.native().ok_or_else(|| AgentError::Nonsense {
            what: "the session".to_owned(),
            why: "none is open".to_owned(),
        })
    }

    /// The answer to a prompt: in version 2, the state that ends it.
    async fn asked(&self, request: &PromptRequest) -> Result<Box<RawValue>, Failure> {
        let shared = Arc::clone(&self.shared);
        if !self.is_second {
            let at_once = move || shared.answered();
            return self.peer.call_then("session/prompt", request, at_once).await;
        }
        let (tell, idle) = oneshot::channel();
        let at_once = move || shared.accepted(tell);
        self.peer.call_then("session/prompt", request, at_once).await?;
        let state = tokio::select! {
            biased;
            state = idle => state.map_err(|_| Failure::Closed)?,
            () = self.peer.closed() => return Err(Failure::Closed),
        };
        Ok(RawValue::from_string(state).unwrap_or_default())
    }

    /// Waits for the answer; once cancelled, only for a short time.
    async fn answer(
        &self,
        native: &str,
        request: &PromptRequest,
        running: &Running,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, AgentError> {
        let answer = self.asked(request);
        tokio::pin!(answer);
        let abandoned = Abandoned { peer: &self.peer, native };
        let silent_for = tokio::select! {
            biased;
            answer = &mut answer => {
                std::mem::forget(abandoned);
                return self.answered(answer, running).await;
            }
            () = cancel.cancelled() => None,
            limit = self.silence() => Some(limit),
        };
        std::mem::forget(abandoned);
        running.cancelled.set();
        let cancel = async {
            let request = CancelNotification::new(native.to_owned());
            tokio::join!(self.peer.notify("session/cancel", request), sleep(self.limits.cancel));
        };
        let ended = tokio::select! {
            biased;
            answer = &mut answer => self.answered(answer, running).await,
            () = cancel => {
                self.abandon();
                Err(AgentError::TimedOut { what: "the cancel".to_owned(), after: self.limits.cancel })
            }
        };
        silent_for.map_or(ended, |limit| Err(AgentError::Silent(limit)))
    }

    /// Waits until the agent has been silent for too long. Time in which it waits for us does not count, nor does time in which this
    /// process was stopped: only ticks are counted.
    async fn silence(&self) -> Duration {
        let Some(limit) = self.limits.answer else { return std::future::pending().await };
        let tick = (limit / 10).min(LONGEST_TICK).max(Duration::from_millis(1));
        let (mut heard, mut quiet) = (self.shared.heard(), Duration::ZERO);
        while quiet < limit {
            sleep(tick).await;
            let now = self.shared.heard();
            quiet = if now == heard { quiet + tick } else { Duration::ZERO };
            heard = now;
        }
        limit
    }

    async fn answered(
        &self,
        answer: Result<Box<RawValue>, Failure>,
        running: &Running,
    ) -> Result<Box<RawValue>, AgentError> {
        match answer {
            Ok(answer) => Ok(answer),
            // Some agents report a cancel as an error.
            Err(Failure::Error(_)) if running.cancelled.is_set() => Err(AgentError::Cancelled),
            Err(failure) => Err(self.trouble("session/prompt", failure).await),
        }
    }

    /// The MCP servers that the agent gets.
    fn servers(&self) -> Vec<McpServer> {
        let server = |one: &ToolServer| {
            let (program, args) = one.command.split_first()?;
            let env = one.env.iter().map(|(name, value)| EnvVariable::new(name, value));
            let stdio = McpServerStdio::new(&one.name, program);
            Some(McpServer::Stdio(stdio.args(args.to_vec()).env(env.collect())))
        };
        self.entry.servers.iter().filter_map(server).collect()
    }

    /// A request that opens a session, in the words of the version that is spoken.
    fn worded(&self, request: impl Serialize, door: OpenRequest<'_>) -> Value {
        let mut request = serde_json::to_value(request).unwrap_or_default();
        if self.is_second {
            for server in request["mcpServers"].as_array_mut().into_iter().flatten() {
                server["type"] = "stdio".into();
            }
            if matches!(door, OpenRequest::Load(_)) {
                request["replayFrom"] = json!({ "type": "start" });
            }
        }
        request
    }

    fn check(&self, door: OpenRequest<'_>) -> Result<(), AgentError> {
        let lacks = |method: &str| Err(AgentError::Unsupported(method.to_owned()));
        match door {
            OpenRequest::Load(_) if !self.abilities.load => lacks("session/load"),
            OpenRequest::Resume(_) if !self.abilities.resume => lacks("session/resume"),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn open(&mut self, door: OpenRequest<'_>) -> Result<Opened, AgentError> {
        self.check(door)?;
        self.offers = Offers::default();
        let (method, known) = match door {
            OpenRequest::New => ("session/new", None),
            OpenRequest::Load(native) if !self.is_second => ("session/load", Some(native)),
            OpenRequest::Load(native) | OpenRequest::Resume(native) => {
                ("session/resume", Some(native))
            }
        };
        let opening = self.shared.begin_opening(known);
        let limit = self.limits.open;
        let meta = self.entry.meta.as_ref().and_then(|meta| meta.as_object().cloned());
        let answer = match known {
            None => {
                let mut request = NewSessionRequest::new(&self.folder).mcp_servers(self.servers());
                request.meta = meta;
                self.call(method, self.worded(request, door), limit).await?
            }
            // The parameters of a resume are the same.
            Some(native) => {
                let mut request = LoadSessionRequest::new(native.to_owned(), &self.folder)
                    .mcp_servers(self.servers());
                request.meta = meta;
                self.call(method, self.worded(request, door), limit).await?
            }
        };
        let answer = answer.get();
        let given = Fields::parse(answer).and_then(|answer| answer.text("sessionId"));
        let native = known.map(str::to_owned).or(given).ok_or_else(|| AgentError::Nonsense {
            what: method.to_owned(),
            why: "it has no sessionId".to_owned(),
        })?;
        if matches!(door, OpenRequest::Load(_)) {
            // The replay is examined.
            opening.settled(self.quiet()).await;
        }
        let replayed = opening.finish(&native);
        self.offers = Offers::read(&frame::tree(answer));
        Ok(Opened { native, replayed })
    }

    async fn changed_at(&mut self, native: &str) -> Option<Timestamp> {
        if !self.abilities.list {
            return None;
        }
        let mut cursor = Value::Null;
        for _ in 0..MOST_PAGES {
            let mut request = json!({ "cwd": self.folder });
            if !cursor.is_null() {
                request["cursor"] = cursor;
            }
            // A list that is too slow is given up; the agent is not.
            let answer = self.peer.call("session/list", request);
            let answer = frame::tree(timeout(LONGEST_LIST, answer).await.ok()?.ok()?.get());
            let own = answer["sessions"].as_array()?.iter().find(|one| one["sessionId"] == native);
            if let Some(own) = own {
                return own["updatedAt"].as_str()?.parse().ok();
            }
            cursor = answer["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        None
    }

    async fn set(&mut self, settings: &Settings) -> Result<(), AgentError> {
        let native = self.session()?;
        let mut wanted = settings.clone();
        while let Some(step) = self.offers.next(&mut wanted) {
            let mut step = step?;
            step.params["sessionId"] = Value::String(native.clone());
            self.shared.forget_reported();
            let answer = self.call(step.method, &step.params, self.limits.set).await?;
            let answer = frame::tree(answer.get());
            self.offers.refresh(&answer);
            let mut now = Offers::differs(&step, &answer);
            if let Some(mode) = step.params["modeId"].as_str() {
                // Some report the current value, which may differ from the requested one.
                sleep(self.quiet()).await;
                now = self.shared.mode_now().filter(|now| now != mode);
            }
            if let Some(now) = now {
                let what = step.params["modeId"].as_str().map_or_else(
                    || format!("{} = {}", step.params["configId"], step.params["value"]),
                    |mode| format!("mode {mode}"),
                );
                return Err(AgentError::NotTaken { what, now });
            }
            self.offers.took(&step);
        }
        Ok(())
    }

    fn offered(&self) -> Offered {
        let mut offered = self.offers.offered();
        offered.mode = self.shared.mode_now().or(offered.mode);
        offered.commands = self.shared.commands();
        offered
    }

    async fn reported(&mut self) -> Settings {
        self.shared.settled(self.quiet()).await;
        self.shared.reported()
    }

    async fn prompt(
        &mut self,
        blocks: Vec<Block>,
        updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, AgentError> {
        let native = self.session()?;
        let embeds = self.abilities.embedded;
        let blocks = blocks.into_iter().map(|block| blocks::content(block, embeds)).collect();
        let request = PromptRequest::new(native.clone(), blocks);
        self.shared.settled(self.quiet()).await;
        let turn = self.shared.begin_turn(updates).await;
        let answer = match self.answer(&native, &request, &turn.running, &cancel).await {
            Err(AgentError::Cancelled) => return Ok(Ended { stop: "cancelled".to_owned() }),
            answer => answer?,
        };
        let answer = answer.get();
        if self.is_second {
            if let Some(usage) = translate::usage(answer) {
                turn.running.pass(usage).await;
            }
            let quirks = self.entry.quirks;
            let stop = second::stop(answer).map(|stop| Ended { stop });
            return stop.map_err(|error| classify("session/prompt", &error, quirks));
        }
        let stop = Fields::parse(answer).and_then(|answer| answer.text("stopReason"));
        let stop = stop.ok_or_else(|| AgentError::Nonsense {
            what: "session/prompt".to_owned(),
            why: "it has no stopReason".to_owned(),
        })?;
        if stop == "refusal" && !turn.running.is_answered() {
            let why = "it refused the prompt without a word".to_owned();
            return Err(AgentError::SessionGone(why));
        }
        if let Some(usage) = translate::usage(answer) {
            turn.running.pass(usage).await;
        }
        Ok(Ended { stop })
    }

    fn is_gone(&self) -> bool {
        self.peer.is_closed() || self.process.status().is_some()
    }

    async fn end(self: Box<Self>) {
        self.shared.server.terminals.abandon();
        self.peer.shut();
        if timeout(self.limits.close, self.process.exited()).await.is_err() {
            self.process.end().await;
        }
        self.peer.close();
    }
}

impl Drop for AcpAgent {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Tells the agent to stop if nobody waits for its answer any more.
struct Abandoned<'a> {
    peer: &'a Peer,
    native: &'a str,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let request = CancelNotification::new(self.native.to_owned());
        self.peer.notify_now("session/cancel", request);
    }
}
