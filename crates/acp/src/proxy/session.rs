//! One session of the editor's: what it asks is done in its order, while a prompt runs beside.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread_domain::Session;
use rethread_engine::agents::Talk;
use rethread_engine::program::Fault;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::agent::ProxyLauncher;
use super::binding::{Binding, Prompt};
use super::hub::Hub;
use super::raw::{self, Kind, Raw};
use super::turn::{self, Told};
use super::{commands, editor, forward, replies};
use crate::frame::Fields;
use crate::latch::Latch;

/// How many requests of one session may wait before the editor has to wait.
const QUEUED: usize = 64;
/// How long a turn has to end when the editor is gone.
const LAST_TURN: Duration = Duration::from_secs(10);

/// What the editor asks of a session.
pub(crate) enum Ask {
    Line(String),
    /// What waits is not to be sent any more.
    Cancel,
}

/// Where the editor puts what it asks of a session.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    pub(crate) binding: Arc<Binding>,
    to: mpsc::Sender<Ask>,
    done: Latch,
}

impl SessionHandle {
    /// Starts the task of a session, which may not be known yet.
    pub(crate) fn open(
        hub: &Arc<Hub>,
        binding: Arc<Binding>,
        session: Option<Session>,
    ) -> Arc<Self> {
        let (to, asked) = mpsc::channel(QUEUED);
        let handle = Arc::new(Self { binding: Arc::clone(&binding), to, done: Latch::new() });
        hub.add_session(Arc::clone(&handle));
        let task = SessionTask {
            hub: Arc::clone(hub),
            binding,
            session,
            have: Have::Nothing,
            waiting: VecDeque::new(),
            told: Told::default(),
        };
        let its = Arc::clone(&handle);
        tokio::spawn(async move {
            Box::pin(task.work(asked)).await;
            its.done.set();
        });
        handle
    }

    /// Gives it back if the session is closed.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<(), Ask> {
        self.to.send(ask).await.map_err(|closed| closed.0)
    }

    /// Waits until everything is put away.
    pub(crate) async fn done(&self) {
        self.done.wait().await;
    }
}

/// The conversation, in one of the states that it can be in.
pub(super) enum Have {
    Nothing,
    Talk(Box<Talk>),
    /// It is being opened in the background.
    Opening(JoinHandle<Result<Talk, Fault>>),
    /// A prompt runs.
    Turn(JoinHandle<Option<Box<Talk>>>),
}

pub(super) struct SessionTask {
    pub(super) hub: Arc<Hub>,
    pub(super) binding: Arc<Binding>,
    pub(super) session: Option<Session>,
    pub(super) have: Have,
    /// Prompts that wait for the one before.
    waiting: VecDeque<(String, String)>,
    pub(super) told: Told,
}

/// What is to be done after a request.
#[derive(PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Leave,
}

impl SessionTask {
    async fn work(mut self, mut asked: mpsc::Receiver<Ask>) {
        let gone = self.hub.gone.clone();
        loop {
            tokio::select! {
                biased;
                () = gone.cancelled() => break,
                () = self.changed() => self.go_on().await,
                ask = asked.recv() => match ask {
                    None => break,
                    Some(ask) => if self.handle(ask).await == Next::Leave { break },
                },
            }
        }
        self.hub.remove_session(&self.binding.id);
        asked.close();
        let mut left = Vec::new();
        while let Ok(ask) = asked.try_recv() {
            left.push(ask);
        }
        let hub = Arc::clone(&self.hub);
        self.end().await;
        if gone.is_cancelled() {
            return;
        }
        // What came behind a close is for the session as it is opened next.
        for ask in left {
            if let Ask::Line(line) = ask {
                editor::again(&hub, line).await;
            }
        }
    }

    /// Waits until what runs in the background is done.
    pub(super) async fn changed(&mut self) {
        match &mut self.have {
            Have::Turn(turn) => {
                let talk = turn.await.ok().flatten();
                self.have = talk.map_or(Have::Nothing, Have::Talk);
            }
            Have::Opening(opening) => {
                let opened = opening.await;
                self.have = match opened {
                    Ok(Ok(talk)) => Have::Talk(Box::new(talk)),
                    // The first prompt tries again, and says why.
                    _ => Have::Nothing,
                };
            }
            Have::Nothing | Have::Talk(_) => std::future::pending().await,
        }
    }

    /// Something has ended: what waited for it follows.
    async fn go_on(&mut self) {
        self.flush().await;
        if let Some((id, line)) = self.waiting.pop_front() {
            self.prompt(id, line).await;
        }
    }

    /// The editor knows the session: it gets what came meanwhile.
    pub(super) async fn flush(&mut self) {
        loop {
            let held = self.binding.take_held();
            if held.is_empty() {
                return;
            }
            for line in held {
                self.hub.outbox.say(line).await;
            }
        }
    }

    async fn handle(&mut self, ask: Ask) -> Next {
        let line = match ask {
            Ask::Line(line) => line,
            Ask::Cancel => {
                for (id, _) in std::mem::take(&mut self.waiting) {
                    self.hub.outbox.say(replies::ended(&self.binding, &id, false, None)).await;
                }
                return Next::GoOn;
            }
        };
        let Some(raw) = Raw::parse(line.as_bytes()) else { return Next::GoOn };
        let Kind::Request { id, method } = &raw.kind else {
            // The prompt that it means may have been taken up meanwhile.
            let is_cancel =
                matches!(&raw.kind, Kind::Notification { method } if method == "session/cancel");
            if is_cancel && self.binding.cancel(&line) {
                return Next::GoOn;
            }
            forward::to_agent(&self.hub, &raw, Some(&self.binding)).await;
            return Next::GoOn;
        };
        match method.as_ref() {
            "session/new" | "session/fork" => return self.begin(id, &raw).await,
            "session/load" if self.binding.is_second => {
                forward::to_agent(&self.hub, &raw, Some(&self.binding)).await;
            }
            "session/load" | "session/resume" => return self.load(id, method, &raw).await,
            "session/prompt" => {
                let id = (*id).to_owned();
                match self.have {
                    Have::Turn(_) => self.waiting.push_back((id, line)),
                    _ => self.prompt(id, line).await,
                }
            }
            "session/close" => {
                let _running = self.binding.cancel(&line);
                let reply = raw::result(id, "{}");
                self.close().await;
                self.hub.outbox.say(reply).await;
                return Next::Leave;
            }
            _ => {
                if let Err(fault) = self.attached().await {
                    let fault = replies::fault(&self.binding, &fault);
                    self.hub.outbox.say(raw::error(id, &fault)).await;
                    return Next::GoOn;
                }
                forward::to_agent(&self.hub, &raw, Some(&self.binding)).await;
            }
        }
        Next::GoOn
    }

    /// A new session: it is opened in the agent at once.
    async fn begin(&mut self, id: &str, raw: &Raw<'_>) -> Next {
        let opened = self.open().await;
        let answer = match &opened {
            Ok(_) => self.binding.opened().unwrap_or_else(|| "{}".to_owned()),
            Err(fault) => {
                let fault = replies::fault(&self.binding, fault);
                self.hub.outbox.say(raw::error(id, &fault)).await;
                if let Some(session) = &self.session {
                    let erased = self.hub.engine.erase_if_empty(session.id).await;
                    tracing::debug!(is_erased = erased.is_ok(), "a session was not opened");
                }
                return Next::Leave;
            }
        };
        if let Ok(talk) = opened {
            self.have = Have::Talk(Box::new(talk));
        }
        let mut answer = raw::set(&answer, "sessionId", &raw::quoted(&self.binding.id));
        let theirs = Fields::parse(&answer).and_then(|answer| answer.get("availableCommands"));
        if let Some(theirs) = theirs.filter(|all| all.starts_with('[')) {
            answer = raw::set(&answer, "availableCommands", &commands::with_ours(theirs));
        }
        tracing::debug!(params = raw.params.len(), "a session was begun");
        self.hub.outbox.say(raw::result(id, &answer)).await;
        self.flush().await;
        Next::GoOn
    }

    pub(super) fn opening(&self) -> JoinHandle<Result<Talk, Fault>> {
        let (hub, binding) = (Arc::clone(&self.hub), Arc::clone(&self.binding));
        let session = self.session.clone();
        tokio::spawn(async move { open(&hub, &binding, session.as_ref()).await })
    }

    pub(super) async fn open(&mut self) -> Result<Talk, Fault> {
        open(&self.hub, &self.binding, self.session.as_ref()).await
    }

    /// Sees to it that the agent has the session open.
    async fn attached(&mut self) -> Result<(), Fault> {
        if matches!(self.have, Have::Opening(_)) {
            self.changed().await;
        }
        let is_open = self.binding.native().is_some();
        match &mut self.have {
            Have::Turn(_) => return Ok(()),
            Have::Talk(_) if is_open => return Ok(()),
            Have::Talk(talk) => talk.reopen().await?,
            Have::Nothing | Have::Opening(_) => {
                let _ = self.found().await?;
                self.have = Have::Talk(Box::new(self.open().await?));
            }
        }
        self.flush().await;
        Ok(())
    }

    async fn prompt(&mut self, id: String, line: String) {
        let text = turn::text_of(&line);
        if let Some(command) = commands::asked(&text) {
            return Box::pin(self.command(&id, command)).await;
        }
        let cancel = CancellationToken::new();
        let (tell, was_sent) = oneshot::channel();
        let prompt = Prompt { id, line, sent: Some(tell) };
        self.binding.ask(prompt, cancel.clone());
        let before = std::mem::replace(&mut self.have, Have::Nothing);
        let (hub, binding, told) =
            (Arc::clone(&self.hub), Arc::clone(&self.binding), self.told.clone());
        let session = self.session.clone();
        let opened = async move {
            match before {
                Have::Talk(talk) => Ok(talk),
                Have::Opening(opening) => match opening.await {
                    Ok(Ok(talk)) => Ok(Box::new(talk)),
                    // Tried once more: who talked in it may have ended, a login may be there.
                    _ => open(&hub, &binding, session.as_ref()).await.map(Box::new),
                },
                _ => open(&hub, &binding, session.as_ref()).await.map(Box::new),
            }
        };
        let (hub, binding) = (Arc::clone(&self.hub), Arc::clone(&self.binding));
        let mut turn = tokio::spawn(async move {
            Box::pin(turn::run(&hub, &binding, opened, &text, &cancel, &told)).await
        });
        // What the editor asks next comes after the prompt.
        tokio::select! {
            _ = was_sent => self.have = Have::Turn(turn),
            talk = &mut turn => self.have = talk.ok().flatten().map_or(Have::Nothing, Have::Talk),
        }
        self.flush().await;
    }

    /// Ends the conversation in the agent.
    pub(super) async fn close(&mut self) {
        match std::mem::replace(&mut self.have, Have::Nothing) {
            Have::Nothing => (),
            Have::Talk(talk) => turn::end(*talk, &self.binding).await,
            Have::Opening(opening) => {
                if let Ok(Ok(talk)) = opening.await {
                    turn::end(talk, &self.binding).await;
                }
            }
            Have::Turn(turn) => {
                if let Ok(Ok(Some(talk))) = timeout(LAST_TURN, turn).await {
                    turn::end(*talk, &self.binding).await;
                }
            }
        }
    }

    async fn end(mut self) {
        if let Have::Opening(opening) = &self.have {
            opening.abort();
            self.have = Have::Nothing;
        }
        self.close().await;
    }
}

/// Opens a session in the agent.
async fn open(
    hub: &Arc<Hub>,
    binding: &Arc<Binding>,
    session: Option<&Session>,
) -> Result<Talk, Fault> {
    let Some(session) = session else {
        let what = format!("there is no session {}", binding.id);
        return Err(Fault::refused("not_found", what, ""));
    };
    let launcher = ProxyLauncher { hub: Arc::clone(hub), binding: Arc::clone(binding) };
    let program = hub.program.as_ref();
    let launcher = Arc::new(launcher);
    let agent = binding.backend().agent.clone();
    let options = hub.engine.options_for_editor(program, session, &agent, launcher).await?;
    let mut talk = Talk::open(&hub.engine, options).await?.looking_on();
    talk.rest().await?;
    Ok(talk)
}

/// A new session: of ours where it can be recorded, of the agent's own otherwise.
pub(crate) async fn begin(hub: Arc<Hub>, line: String) {
    let Some(raw) = Raw::parse(line.as_bytes()) else { return };
    let folder = Fields::parse(raw.params).and_then(|params| params.text("cwd"));
    let folder = PathBuf::from(folder.unwrap_or_default());
    let program = hub.program.as_ref();
    match hub.engine.begin_for_editor(program, &hub.first.agent, &folder).await {
        Ok(session) => {
            let binding = Binding::new(&hub, &session.id.to_string(), raw.params);
            let handle = SessionHandle::open(&hub, binding, Some(session));
            let _nobody_else_knows_it = handle.ask(Ask::Line(line)).await;
        }
        Err(fault) => {
            tracing::warn!(error = %fault, "a session is not recorded");
            forward::to_agent(&hub, &raw, None).await;
            replies::tell_unrecorded(&hub, &fault);
        }
    }
}

/// A fork: a session of ours that goes on from where another one is.
pub(crate) async fn fork(hub: Arc<Hub>, line: String) {
    let Some(raw) = Raw::parse(line.as_bytes()) else { return };
    let (Kind::Request { id, .. }, Some((_, named))) = (&raw.kind, &raw.session) else { return };
    let forked = async {
        let user = hub.program.user()?;
        let source = hub.engine.session_for_editor(&user, &hub.first.agent, named).await?;
        match source {
            Some(source) => Ok::<_, Fault>(Some(hub.engine.fork(source.id, None).await?)),
            None => Ok(None),
        }
    };
    match forked.await {
        Ok(Some(session)) => {
            let binding = Binding::new(&hub, &session.id.to_string(), raw.params);
            let handle = SessionHandle::open(&hub, binding, Some(session));
            let _nobody_else_knows_it = handle.ask(Ask::Line(line)).await;
        }
        Ok(None) => forward::to_agent(&hub, &raw, None).await,
        Err(fault) => {
            let data = Value::Null;
            let fault = raw::fault(-32603, &fault.to_string(), &data);
            hub.outbox.say(raw::error(id, &fault)).await;
        }
    }
}
