//! A conversation that is open with an agent: sends requests and records turns.

use futures::channel::mpsc;
use rethread_domain::message::{Extras, NewMessage, Role};
use rethread_domain::opening::{Opening, Settings, Underway, Watermark};
use rethread_domain::price::Price;
use rethread_domain::turn::{End, Speaker, Turn, Update};
use rethread_domain::{Fact, Seq, id};
use rethread_store::{Append, Appended, Drive};
use tokio_util::sync::CancellationToken;

use super::attached::Attached;
use super::open::OpenOptions;
use super::port::{AgentError, Block, Ended, Offered};
use super::process_requests::{ProcessRequest, stop_requested};
use super::send::{Answer, Progress};
use super::tell;
use super::turns::Pump;
use super::watermark::{cost, now_held, remembered, watermark};
use crate::{Engine, Error, Result};

/// The bound of the queue of updates; when it is full, the agent waits (backpressure). Each takes a few MiB at most.
const WAITING: usize = 16;

/// A conversation that is open with an agent. It is locked: no other process talks in it meanwhile, but for a [`Talk::rest`].
pub struct Talk {
    pub(super) engine: Engine,
    pub(super) options: OpenOptions,
    /// The lock, but for a rest.
    pub(super) drive: Option<Drive>,
    /// What was known of the agent's native session before a rest.
    pub(super) left: Option<Watermark>,
    pub(super) attached: Option<Attached>,
    /// Facts that are still to be recorded.
    pub(super) facts: Vec<Fact>,
    /// Requests of other processes that came during a turn.
    pub(super) asked: Option<ProcessRequest>,
    /// Requests up to this number are void.
    pub(super) last_asked: u64,
    pub(super) version: u64,
    pub(super) messages: u64,
    /// Whether the prompt of its command was sent.
    tells_prompt: bool,
    /// Whether the conversation is another's, who decides what follows: see [`Talk::looking_on`].
    pub(super) looks_on: bool,
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The result of a turn.
struct Outcome {
    turn: Turn,
    /// The last updates, not shown yet.
    last: Vec<(jiff::Timestamp, Update)>,
    ended: std::result::Result<Ended, AgentError>,
}

impl Talk {
    /// Locks the conversation, ends a turn that an earlier process left in it, starts the agent and opens it.
    pub async fn open(engine: &Engine, options: OpenOptions) -> Result<Self> {
        options.check_mode(&options.settings)?;
        id::check_conversation(&options.conversation)?;
        let (session, conversation) = (options.session, options.conversation.clone());
        let before = engine.store.session(session).await?;
        before.accepts_messages()?;
        let Some(drive) = engine.store.drive(session, &conversation).await? else {
            return Err(Error::Busy { session, conversation });
        };
        engine.settle(session, &conversation).await?;
        if before.repository.is_none() {
            // Later it is recorded at the end: until then the older value tells what has changed meanwhile.
            engine.note_repository(session).await?;
        }
        let version = engine.store.version().await?;
        let last_asked = engine.last_asked(session).await?;
        let mut talk = Self {
            engine: engine.clone(),
            options,
            drive: Some(drive),
            left: None,
            attached: None,
            facts: Vec::new(),
            asked: None,
            last_asked,
            version,
            messages: 0,
            tells_prompt: false,
            looks_on: false,
        };
        if let Some((command, prompt_hash)) = talk.options.changed_prompt.clone() {
            talk.facts.push(Fact::Commanded { command, prompt_hash });
        }
        talk.attach(None).await?;
        Ok(talk)
    }

    /// How the conversation was last opened.
    pub fn opening(&self) -> Option<&Opening> {
        self.attached.as_ref().map(|attached| &attached.opening)
    }

    /// What the agent offers to choose from, and what of it is in use.
    pub fn offered(&self) -> Offered {
        let Some(attached) = &self.attached else { return Offered::default() };
        let (mut offered, set) = (attached.agent.offered(), &attached.settings);
        offered.mode = offered.mode.or_else(|| set.mode.clone());
        offered.model = offered.model.or_else(|| set.model.clone());
        offered
    }

    /// Sets mode, model or options now and in every future native session.
    pub async fn set(&mut self, settings: &Settings) -> Result<()> {
        self.options.check_mode(settings)?;
        if let Some(attached) = &mut self.attached {
            let set = attached.agent.set(settings).await;
            set.map_err(|trouble| self.options.error(trouble))?;
            attached.settings = attached.settings.with(settings);
            // Stored even if nothing is said any more.
            self.facts.push(remembered(attached));
        }
        self.options.settings = self.options.settings.with(settings);
        Ok(())
    }

    /// With `rejected`, the native session that the agent does not know any more, only a new one is tried.
    async fn attach(&mut self, rejected: Option<&str>) -> Result<()> {
        self.leave().await;
        let mut attached = self.engine.attach(&self.options, rejected).await?;
        self.facts.append(&mut attached.facts);
        self.attached = Some(attached);
        Ok(())
    }

    /// Restarts an agent that has ended, so that a request finds it, and enforces the permission rules again if it has left
    /// them. Reports no more than [`Self::opening`] does.
    pub async fn ready(&mut self) -> Result<()> {
        if self.settle().await? {
            // The store failed in the middle of the previous turn: what the agent has of it is unknown.
            self.leave().await;
        }
        if self.attached.as_ref().is_none_or(|attached| attached.agent.is_gone()) {
            self.attach(None).await?;
        }
        match &mut self.attached {
            Some(attached) => attached.hold_again(&self.options).await,
            None => Ok(()),
        }
    }

    /// Sends a request and returns the answer. Updates are shown once they are recorded.
    ///
    /// An agent that has ended is restarted first. Whatever happens, the session stays resumable. A cancel is sticky: before the
    /// request is recorded nothing remains of it ([`AgentError::Cancelled`]), afterwards the turn is ended.
    #[tracing::instrument(
        name = "turn",
        skip_all,
        fields(
            session = %self.options.session,
            conversation = self.options.conversation,
            agent = self.options.agent
        )
    )]
    pub async fn say(
        &mut self,
        prompt: &str,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        tracing::debug!("turn begun");
        let answer = self.say_once(prompt, cancel, view).await;
        match &answer {
            Ok(Answer { stop, outcome, upto, .. }) => {
                tracing::info!(stop, outcome, upto, "turn ended");
            }
            Err(error) => tracing::warn!(error = error as &dyn std::error::Error, "turn failed"),
        }
        answer
    }

    async fn say_once(
        &mut self,
        prompt: &str,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        let before = self.opening().cloned();
        self.take_up().await?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(self.options.error(AgentError::Cancelled)),
            ready = self.ready() => ready?,
        }
        if let Some(opening) = self.opening().filter(|opening| Some(*opening) != before.as_ref()) {
            view(Progress::Opened(opening));
        }
        let request = self.ask(prompt).await?;
        let mut outcome = self.turn(prompt, request, cancel, view).await?;
        let is_lost = matches!(outcome.ended, Err(AgentError::SessionGone(_)));
        if is_lost && !outcome.turn.is_answered() {
            // The native session was open and has disappeared: retell the conversation in a new one, once.
            if let Err(error) = self.open_anew(request).await {
                // Nobody is left who could end it.
                self.settle().await?;
                return Err(error);
            }
            if let Some(opening) = self.opening() {
                view(Progress::Opened(opening));
            }
            outcome = self.turn(prompt, request, cancel, view).await?;
        }
        self.end_turn(request, outcome, view).await
    }

    /// Ends a turn that was left under way.
    pub(super) async fn settle(&mut self) -> Result<bool> {
        self.engine.settle(self.options.session, &self.options.conversation).await
    }

    pub(super) async fn leave(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.agent.end().await;
        }
    }

    /// Repeats a recorded request in a new native session.
    async fn open_anew(&mut self, request: Seq) -> Result<()> {
        let rejected = self.attached.as_ref().map(|attached| attached.native.clone());
        self.attach(rejected.as_deref()).await?;
        // If this process dies from here on, the rejected session must not count as having the request.
        let append = Append {
            facts: self.facts.clone(),
            at: Some(self.engine.clock.now()),
            begins: Some(self.underway(request, None)),
            ..Append::new(self.options.session, Vec::new())
        };
        self.engine.store.append(append).await?;
        self.facts.clear();
        Ok(())
    }

    fn underway(&self, request: Seq, watermark: Option<Watermark>) -> Underway {
        Underway {
            conversation: self.options.conversation.clone(),
            agent: self.options.agent.clone(),
            model: self.attached.as_ref().and_then(|attached| attached.settings.model.clone()),
            request,
            watermark,
            keeps_request: self
                .attached
                .as_ref()
                .and_then(|one| one.agent.abilities().keeps_request),
        }
    }

    /// Records the request; its turn begins.
    async fn ask(&mut self, prompt: &str) -> Result<Seq> {
        let Some(attached) = &self.attached else { return Err(Error::Interrupted) };
        let now = self.engine.clock.now();
        let watermark = attached.is_resumable.then(|| watermark(attached));
        let mut request = NewMessage {
            id: self.options.request_id.map(|id| id.to_string()),
            role: Role::User,
            content: prompt.to_owned(),
            at: now,
            conversation: self.options.conversation.clone(),
            extras: Extras::default(),
            price: Price::default(),
        };
        self.engine.prepare(&mut request);
        let append = Append {
            facts: self.facts.clone(),
            at: Some(now),
            begins: Some(self.underway(0, watermark)),
            ..Append::new(self.options.session, vec![request])
        };
        let written = self.engine.store.append(append).await?;
        self.engine.follow_on(self.options.session).await;
        self.facts.clear();
        self.messages += 1;
        Ok(written.last().map_or(0, |written| written.seq))
    }

    async fn turn(
        &mut self,
        prompt: &str,
        request: Seq,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Outcome> {
        let blocks = self.blocks(prompt, request).await?;
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut pump = Pump {
            engine: &self.engine,
            session: self.options.session,
            conversation: &self.options.conversation,
            turn: Turn::default(),
            most: self.options.max_turn_bytes,
            is_over: false,
            holds: &self.options.holds,
            left_for: None,
            last: Vec::new(),
            held: None,
            taken: 0,
            outlives_store: self.looks_on,
        };
        let cancel = cancel.child_token();
        let watched = async {
            let pumped = pump.run(receiver, view, &cancel).await;
            if pumped.is_err() {
                // A setting that cannot be stored is not made.
                cancel.cancel();
            }
            pumped
        };
        let prompted = attached.agent.prompt(blocks, sender, cancel.clone());
        let leaving = stop_requested(&self.engine, self.options.session, self.last_asked);
        let (ended, pumped) = {
            let mut talked = std::pin::pin!(futures::future::join(prompted, watched));
            tokio::select! {
                outcome = &mut talked => outcome,
                (no, command) = leaving => {
                    cancel.cancel();
                    (self.last_asked, self.asked) = (no, Some(command.into()));
                    talked.await
                }
            }
        };
        pumped?;
        let ended = pump.judged(ended);
        Ok(Outcome { turn: pump.turn, last: pump.last, ended })
    }

    /// System prompt, history, request.
    async fn blocks(&mut self, prompt: &str, request: Seq) -> Result<Vec<Block>> {
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let options = &self.options;
        let mut blocks = Vec::new();
        let is_changed = options.changed_prompt.is_some() && !self.tells_prompt;
        if let Some(text) = options.system_prompt.as_ref().filter(|_| attached.is_new || is_changed)
        {
            blocks.push(Block::Text(text.clone()));
            self.tells_prompt = true;
        }
        if request > attached.held.upto + 1 {
            let limits = options.limits.with_margin(options.margin);
            let told = self
                .engine
                .tell(
                    options.session,
                    &options.conversation,
                    &attached.held,
                    request,
                    limits,
                    prompt,
                )
                .await?;
            if let Some(told) = told {
                attached.held.messages += told.messages;
                if std::mem::take(&mut attached.may_repeat) {
                    blocks.push(Block::Text(tell::MAY_REPEAT.to_owned()));
                }
                let uri = format!("rethread://session/{}", options.session);
                blocks.push(Block::Document { uri, text: told.text });
            }
        }
        if request > attached.held.upto {
            attached.held.upto = request;
            attached.held.beyond.clear();
            attached.held.messages += 1;
        }
        attached.is_new = false;
        blocks.push(Block::Text(prompt.to_owned()));
        attached.sent = tell::beginnings(&blocks);
        Ok(blocks)
    }

    /// Records the end of the turn, however it ended.
    async fn end_turn(
        &mut self,
        request: Seq,
        outcome: Outcome,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        let Outcome { turn, last, ended } = outcome;
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let end = ended_how(attached, &ended);
        let cost_usd = cost(attached.spent_usd, turn.spent_usd());
        attached.spent_usd = turn.spent_usd().or(attached.spent_usd);
        let mut facts = std::mem::take(&mut self.facts);
        facts.extend(tell::retitled(&self.engine, &self.options, attached, &turn));
        let is_answered = turn.is_answered();
        let (opening, now) = (attached.opening.clone(), self.engine.clock.now());
        let came = (&end, ended.as_ref().err());
        let mut answer = Answer::new(&self.options, opening, &turn, came, now);
        let speaker = Speaker {
            agent: &self.options.agent,
            model: attached.settings.model.as_deref(),
            conversation: &self.options.conversation,
            cost_usd,
        };
        let mut messages = turn.messages(&speaker, &end, now);
        answer.note(messages.last_mut());
        let messages = self.engine.prepared(messages);
        let count = u32::try_from(messages.len()).unwrap_or(0);
        attached.left_at = Some(now);
        let holds = if matches!(end, End::Stopped(_)) {
            now_held(attached)
        } else {
            let keeps =
                attached.agent.abilities().keeps_request.filter(|keeps| !keeps || is_answered);
            let assumed = attached.is_resumable.then(|| watermark(attached));
            let left = self.engine.left_in_doubt(self.options.session, assumed, keeps, request);
            facts.extend(left.await?.map(Fact::Holds));
            None
        };
        let append = Append {
            facts,
            at: Some(now),
            ends: Some(self.options.conversation.clone()),
            holds,
            ..Append::new(self.options.session, messages)
        };
        let written = self.engine.store.append(append).await?;
        self.engine.follow_on(self.options.session).await;
        self.messages += u64::from(count);
        let newest = written.last().map_or(request, |written| written.seq);
        answer.upto = newest;
        let stays = self.stays_after(&ended);
        if stays {
            self.answered(request, &written).await?;
        }
        for (_, update) in &last {
            view(Progress::Update(update));
        }
        if !stays {
            self.leave().await;
        }
        match ended {
            Ok(_) => Ok(answer),
            Err(trouble) => self.failed(trouble, answer),
        }
    }

    /// The native session holds its own answer. Others may have said something meanwhile, in this conversation or in another one.
    async fn answered(&mut self, request: Seq, written: &[Appended]) -> Result<()> {
        let is_alone = written.first().is_none_or(|first| first.seq == request + 1);
        let own = if is_alone { None } else { self.engine.conversation(&self.options).await? };
        if let Some(attached) = &mut self.attached {
            attached.held.answered(written, own.map(|own| own.messages));
        }
        Ok(())
    }

    fn failed(&self, trouble: AgentError, answer: Answer) -> Result<Answer> {
        match trouble {
            AgentError::LimitReached { .. } | AgentError::ModelFailed(_) => Ok(answer),
            trouble => Err(self.options.error(trouble)),
        }
    }

    /// Ends the agent, and updates index, summaries and the state of the repository.
    pub async fn end(mut self) -> Result<u64> {
        let session = self.options.session;
        let left = self.attached.as_ref().filter(|one| one.left_at.is_some() && self.messages > 0);
        let left = left.map(watermark);
        self.leave().await;
        if let Some(left) = left {
            self.facts.extend(self.engine.left(session, left).await?);
        }
        if !self.facts.is_empty() {
            let now = Some(self.engine.clock.now());
            let facts = std::mem::take(&mut self.facts);
            let append = Append { facts, at: now, ..Append::new(session, Vec::new()) };
            self.engine.store.append(append).await.map(drop).or_else(|error| {
                // A session that was archived meanwhile needs no statistics.
                if matches!(error, rethread_store::Error::Refused(_)) { Ok(()) } else { Err(error) }
            })?;
        }
        if self.messages > 0 {
            self.engine.prune_if_due(session, self.options.pruning).await?;
            self.engine.note_repository(session).await?;
        }
        Ok(self.messages)
    }
}

fn ended_how(attached: &Attached, ended: &std::result::Result<Ended, AgentError>) -> End {
    let is_alive = !attached.agent.is_gone();
    match ended {
        Ok(ended) => End::Stopped(ended.stop.clone()),
        Err(trouble) if is_alive && !trouble.is_fatal() => End::Failed(trouble.to_string()),
        Err(_) => End::Interrupted,
    }
}
