//! The agent behind the proxy, as the engine drives it: opened by the three tiers, prompted with what the editor wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::mpsc;
use jiff::Timestamp;
use rethread_domain::turn::Update;
use rethread_engine::agents::{
    Abilities, Agent, AgentError, Block, Ended, Launcher, OpenRequest, Opened, PermissionHandler,
    Settings,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::binding::Binding;
use super::hub::Hub;
use super::outbox::Attempt;
use super::raw::{self, quoted};
use super::upstream::{Pending, Reply, Upstream};
use crate::classify::{RpcError, classify};
use crate::frame::{self, Fields};
use crate::session::Running;
use crate::settings::Offers;
use crate::{abilities, second, translate};

/// For the agent's own list: a list that is too slow is given up, the agent is not.
const LONGEST_LIST: Duration = Duration::from_secs(5);
/// How many pages of it are asked for.
const MOST_PAGES: usize = 4;

/// Gives the engine the agent that is there already.
pub(crate) struct ProxyLauncher {
    pub(crate) hub: Arc<Hub>,
    pub(crate) binding: Arc<Binding>,
}

#[async_trait]
impl Launcher for ProxyLauncher {
    async fn launch(
        &self,
        folder: &Path,
        _: Arc<dyn PermissionHandler>,
    ) -> Result<Box<dyn Agent>, AgentError> {
        let backend = self.binding.backend();
        let upstream = backend.upstream(&self.hub).await.map_err(|(trouble, error)| {
            self.binding.set_error(error);
            trouble
        })?;
        let entry = &backend.launcher.entry;
        let abilities = match upstream.hello.get() {
            Some(hello) if self.binding.is_second => {
                if !second::is_answer(hello) {
                    let what = "version 2 of the protocol, which the editor speaks".to_owned();
                    return Err(AgentError::Unsupported(what));
                }
                abilities::second(hello, entry)
            }
            Some(hello) => abilities::first(hello, entry)?,
            None => Abilities::default(),
        };
        let closes =
            self.binding.is_second || upstream.hello.get().is_some_and(|hello| can_close(hello));
        Ok(Box::new(ProxyAgent {
            hub: Arc::clone(&self.hub),
            binding: Arc::clone(&self.binding),
            backend,
            upstream,
            abilities,
            closes,
            folder: folder.to_owned(),
            offers: Offers::default(),
        }))
    }
}

fn can_close(hello: &str) -> bool {
    let hello = frame::tree(hello);
    let close = &hello["agentCapabilities"]["sessionCapabilities"]["close"];
    !matches!(close, Value::Null | Value::Bool(false))
}

/// One session of the agent's.
struct ProxyAgent {
    hub: Arc<Hub>,
    binding: Arc<Binding>,
    backend: Arc<Backend>,
    upstream: Arc<Upstream>,
    abilities: Abilities,
    closes: bool,
    /// The folder of the session, as we know it.
    folder: PathBuf,
    offers: Offers,
}

impl ProxyAgent {
    async fn call(
        &self,
        method: &str,
        params: &str,
        after: Duration,
        at_once: impl FnOnce(&Reply) + Send + 'static,
    ) -> Result<String, AgentError> {
        let call = self.upstream.call(method, params, Box::new(at_once));
        match timeout(after, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Some(error))) => Err(self.refused(method, error)),
            Ok(Err(None)) => Err(self.upstream.ended(self.backend.launcher.limits.close).await),
            Err(_) => Err(AgentError::TimedOut { what: method.to_owned(), after }),
        }
    }

    /// An error of the agent, which the editor gets as it is if nothing helps.
    fn refused(&self, method: &str, error: String) -> AgentError {
        let known = classify(method, &RpcError::parse(&error), self.backend.launcher.entry.quirks);
        self.binding.set_error(Some(error));
        known
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.backend.launcher.entry.quirks.quiet_ms.into())
    }

    /// What the editor opened the session with, for this way of opening it.
    fn params(&self, door: OpenRequest<'_>) -> String {
        let mut params = self.binding.params();
        let native = match door {
            OpenRequest::New => {
                params = raw::without(&params, "sessionId");
                None
            }
            OpenRequest::Load(native) | OpenRequest::Resume(native) => Some(native),
        };
        let fields = Fields::parse(&params).unwrap_or_default();
        let has_servers = fields.get("mcpServers").is_some();
        let cwd = fields.text("cwd").unwrap_or_default();
        // The agent's own session is bound to its folder, which the editor may have left since.
        let is_there = std::fs::canonicalize(&cwd).is_ok_and(|real| real == self.folder);
        if native.is_some() && !is_there {
            params = raw::set(&params, "cwd", &quoted(&self.folder.to_string_lossy()));
        }
        if !has_servers {
            params = raw::set(&params, "mcpServers", "[]");
        }
        if self.binding.is_second {
            params = raw::without(&params, "replayFrom");
            if matches!(door, OpenRequest::Load(_)) {
                params = raw::set(&params, "replayFrom", r#"{"type":"start"}"#);
            }
        }
        match native {
            Some(native) => raw::set(&params, "sessionId", &quoted(native)),
            None => params,
        }
    }

    /// The editor's own words, after what the agent has to be told.
    fn prompt_line(&self, id: u64, native: &str, blocks: &[Block]) -> Option<String> {
        let line = self.binding.with_prompt(|prompt| prompt.line.clone())?;
        let line = raw::Raw::parse(line.as_bytes())?.with(Some(&id.to_string()), Some(native));
        let told = blocks[..blocks.len().saturating_sub(1)].iter();
        let told: Vec<String> = told.map(|block| self.content(block).to_string()).collect();
        if told.is_empty() {
            return Some(line);
        }
        let params = Fields::parse(&line)?.get("params")?;
        let said = Fields::parse(params)?.get("prompt")?;
        let all = frame::elements(said);
        let all: Vec<&str> = told.iter().map(String::as_str).chain(all).collect();
        let mut edit = raw::Edit::new(&line);
        edit.replace(said, &format!("[{}]", all.join(",")));
        Some(edit.finish())
    }

    fn content(&self, block: &Block) -> Value {
        match block {
            Block::Document { uri, text } if self.abilities.embedded => json!({
                "type": "resource",
                "resource": { "uri": uri, "mimeType": "text/markdown", "text": text },
            }),
            Block::Text(text) | Block::Document { text, .. } => {
                json!({ "type": "text", "text": text })
            }
        }
    }

    /// Waits for the answer to a prompt; once it is cancelled, only for a while.
    async fn answer(
        &self,
        id: u64,
        native: &str,
        mut answered: oneshot::Receiver<Reply>,
        cancel: &CancellationToken,
    ) -> Result<String, AgentError> {
        let reply = tokio::select! {
            biased;
            reply = &mut answered => reply,
            () = self.hub.gone.cancelled() => {
                let (status, stderr) = ("the editor is gone".to_owned(), String::new());
                return Err(AgentError::Ended { status, stderr });
            }
            () = cancel.cancelled() => {
                let words = self.binding.cancelled();
                let line = words.as_deref().and_then(|line| {
                    Some(raw::Raw::parse(line.as_bytes())?.with(None, Some(native)))
                });
                let plain = format!("{{\"sessionId\":{}}}", quoted(native));
                let line = line.unwrap_or_else(|| raw::notification("session/cancel", &plain));
                self.upstream.send(line).await;
                let patience = self.backend.launcher.limits.cancel;
                match timeout(patience, &mut answered).await {
                    Ok(reply) => reply,
                    Err(_) => {
                        self.upstream.forget(id);
                        let what = "the cancel".to_owned();
                        return Err(AgentError::TimedOut { what, after: patience });
                    }
                }
            }
        };
        match reply {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) if cancel.is_cancelled() => Err(AgentError::Cancelled),
            Ok(Err(error)) => Err(self.refused("session/prompt", error)),
            Err(_) => Err(self.upstream.ended(self.backend.launcher.limits.close).await),
        }
    }
}

#[async_trait]
impl Agent for ProxyAgent {
    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn open(&mut self, door: OpenRequest<'_>) -> Result<Opened, AgentError> {
        let (method, known) = match door {
            OpenRequest::New => ("session/new", None),
            OpenRequest::Load(native) if !self.binding.is_second => ("session/load", Some(native)),
            OpenRequest::Load(native) | OpenRequest::Resume(native) => {
                ("session/resume", Some(native))
            }
        };
        let params = self.params(door);
        self.binding.begin_opening(known);
        if let Some(native) = known {
            self.hub.bind(native, &self.binding);
        }
        let (hub, binding) = (Arc::clone(&self.hub), Arc::clone(&self.binding));
        let native_of = {
            let known = known.map(str::to_owned);
            move |answer: &str| known.clone().or_else(|| raw::session_of(answer).map(|(_, id)| id))
        };
        let named = native_of.clone();
        let at_once = move |reply: &Reply| {
            if let Ok(answer) = reply
                && let Some(native) = named(answer)
            {
                binding.answered(&native, answer);
                hub.bind(&native, &binding);
            }
        };
        let limit = self.backend.launcher.limits.open;
        let answer = if known.is_none() {
            self.hub.begin_new();
            let answer = self.call(method, &params, limit, at_once).await;
            self.hub.end_new().await;
            answer
        } else {
            self.call(method, &params, limit, at_once).await
        };
        if answer.is_ok() && known.is_some() {
            self.binding.settled(self.quiet()).await;
        }
        let replayed = self.binding.end_opening();
        let answer = match answer {
            Ok(answer) => answer,
            Err(trouble) => {
                self.leave();
                return Err(trouble);
            }
        };
        let native = native_of(&answer).ok_or_else(|| AgentError::Nonsense {
            what: method.to_owned(),
            why: "it has no sessionId".to_owned(),
        })?;
        self.offers = Offers::read(&frame::tree(&answer));
        Ok(Opened { native, replayed })
    }

    async fn changed_at(&mut self, native: &str) -> Option<Timestamp> {
        if !self.abilities.list {
            return None;
        }
        let mut request = json!({ "cwd": self.folder });
        for _ in 0..MOST_PAGES {
            let params = request.to_string();
            let answer = self.upstream.call("session/list", &params, Box::new(|_| ()));
            let answer = frame::tree(&timeout(LONGEST_LIST, answer).await.ok()?.ok()?);
            let own = answer["sessions"].as_array()?.iter().find(|one| one["sessionId"] == native);
            if let Some(own) = own {
                return own["updatedAt"].as_str()?.parse().ok();
            }
            request["cursor"] = answer["nextCursor"].clone();
            if request["cursor"].is_null() {
                break;
            }
        }
        None
    }

    async fn set(&mut self, settings: &Settings) -> Result<(), AgentError> {
        let native = self.binding.native().unwrap_or_default();
        let mut wanted = settings.clone();
        while let Some(step) = self.offers.next(&mut wanted) {
            // What the agent does not offer any more is no reason to fail.
            let Ok(mut step) = step else { continue };
            step.params["sessionId"] = Value::String(native.clone());
            let (params, limit) = (step.params.to_string(), self.backend.launcher.limits.set);
            match self.call(step.method, &params, limit, |_| ()).await {
                Ok(answer) => {
                    self.offers.refresh(&frame::tree(&answer));
                    self.binding.set_again(&step.params, &answer);
                }
                Err(trouble) if trouble.is_fatal() => return Err(trouble),
                Err(trouble) => tracing::warn!(error = %trouble, "a setting was not made again"),
            }
        }
        Ok(())
    }

    async fn reported(&mut self) -> Settings {
        Settings::default()
    }

    async fn prompt(
        &mut self,
        blocks: Vec<Block>,
        updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, AgentError> {
        let Some(native) = self.binding.native() else {
            // The agent ended after it was found alive.
            return Err(self.upstream.ended(self.backend.launcher.limits.close).await);
        };
        if let Some(before) = self.binding.attempt() {
            before.void();
        }
        let (running, attempt) = (Arc::new(Running::new(updates)), Attempt::new());
        for update in self.binding.begin_turn(&running, &attempt) {
            running.pass(update).await;
        }
        let _turn = TurnGuard { binding: &self.binding, running: &running };
        let id = self.binding.with_prompt(|prompt| prompt.id.clone()).unwrap_or_default();
        let (answer, answered) = oneshot::channel();
        let pending = Pending::Prompt { id, attempt, answer, binding: Arc::clone(&self.binding) };
        let gone = self.backend.launcher.limits.close;
        let Ok(id) = self.upstream.expect(pending) else {
            return Err(self.upstream.ended(gone).await);
        };
        let line = self.prompt_line(id, &native, &blocks).unwrap_or_default();
        if !self.upstream.send(line).await {
            return Err(self.upstream.ended(gone).await);
        }
        self.binding.with_prompt(|prompt| prompt.sent.take().map(|sent| sent.send(())));
        let answer = match self.answer(id, &native, answered, &cancel).await {
            Err(AgentError::Cancelled) => return Ok(Ended { stop: "cancelled".to_owned() }),
            answer => answer?,
        };
        if self.binding.is_second {
            if let Some(usage) = translate::usage(&answer) {
                running.pass(usage).await;
            }
            let quirks = self.backend.launcher.entry.quirks;
            let stop = second::stop(&answer);
            return stop
                .map(|stop| Ended { stop })
                .map_err(|error| classify("session/prompt", &error, quirks));
        }
        let stop = Fields::parse(&answer).and_then(|answer| answer.text("stopReason"));
        let stop = stop.ok_or_else(|| AgentError::Nonsense {
            what: "session/prompt".to_owned(),
            why: "it has no stopReason".to_owned(),
        })?;
        if stop == "refusal" && !running.is_answered() {
            let why = "it refused the prompt without a word".to_owned();
            return Err(AgentError::SessionGone(why));
        }
        if let Some(usage) = translate::usage(&answer) {
            running.pass(usage).await;
        }
        Ok(Ended { stop })
    }

    fn is_gone(&self) -> bool {
        self.upstream.is_gone() || self.binding.native().is_none()
    }

    /// The process serves other sessions too: only this one is left.
    async fn end(self: Box<Self>) {
        let native = self.binding.native();
        if let Some(native) = native.filter(|_| self.closes && !self.upstream.is_gone()) {
            let params = format!("{{\"sessionId\":{}}}", quoted(&native));
            let close = self.upstream.call("session/close", &params, Box::new(|_| ()));
            let _slow = timeout(self.backend.launcher.limits.close, close).await;
        }
        self.leave();
        // What the agent still says of it must not be taken for the next opening.
        sleep(Duration::ZERO).await;
    }
}

impl ProxyAgent {
    fn leave(&self) {
        if let Some(native) = self.binding.lose() {
            self.hub.unbind(&native, &self.binding);
        }
    }
}

/// The turn while it runs.
struct TurnGuard<'a> {
    binding: &'a Binding,
    running: &'a Running,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.running.over.set();
        self.binding.end_turn();
    }
}
