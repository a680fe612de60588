//! Talking to an agent in one conversation: every way to it leads through an open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::{Extras, NewMessage, Role};
use rethread_domain::opening::{Holding, How, Opening, Settings, Underway};
use rethread_domain::price::Price;
use rethread_domain::turn::{End, Speaker, Turn, Update};
use rethread_domain::{Fact, Seq, SessionId, id};
use rethread_store::{Append, Command, Drive};

use super::open::{Attached, OpenOptions};
use super::port::{Block, Canceller, Ended, Trouble};
use super::send::Answer;
use super::tell::{self, Held};
use super::turns::{Pump, priced};
use crate::{Engine, Error, Result};

/// Updates that wait to be written down; when there are more, the agent waits.
const WAITING: usize = 256;
/// How often is looked, during a turn, whether another process asks to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One conversation with one agent. Nobody else talks in it meanwhile.
pub struct Talk {
    engine: Engine,
    options: OpenOptions,
    _drive: Drive,
    attached: Option<Attached>,
    /// What became true, still to be written down.
    facts: Vec<Fact>,
    cancel: Arc<Mutex<Option<Canceller>>>,
    /// What was asked during a turn.
    asked: Option<Asked>,
    version: u64,
    messages: u64,
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").field("options", &self.options).finish_non_exhaustive()
    }
}

/// How a turn came out.
struct Outcome {
    turn: Turn,
    /// The last updates, not shown yet.
    last: Vec<(jiff::Timestamp, Update)>,
    ended: std::result::Result<Ended, Trouble>,
}

impl Talk {
    /// Takes the conversation, ends what an earlier driver left in it, starts the agent and opens it.
    pub async fn open(engine: &Engine, options: OpenOptions) -> Result<Self> {
        id::check_conversation(&options.conversation)?;
        let (session, conversation) = (options.session, options.conversation.clone());
        let before = engine.store.session(session).await?;
        before.accepts_messages()?;
        let Some(drive) = engine.store.drive(session, &conversation).await? else {
            return Err(Error::Busy { session, conversation });
        };
        engine.settle(session, &conversation).await?;
        if before.repository.is_none() {
            // Later it is noted at the end: until then it tells what changed meanwhile.
            engine.note_repository(session).await?;
        }
        let version = engine.store.version().await?;
        let mut talk = Self {
            engine: engine.clone(),
            options,
            _drive: drive,
            attached: None,
            facts: Vec::new(),
            cancel: Arc::default(),
            asked: None,
            version,
            messages: 0,
        };
        talk.attach(None).await?;
        Ok(talk)
    }

    /// How the conversation was opened last.
    pub fn opening(&self) -> Option<&Opening> {
        self.attached.as_ref().map(|attached| &attached.opening)
    }

    /// Cancels the running turn, from anywhere.
    pub fn canceller(&self) -> Canceller {
        let cancel = Arc::clone(&self.cancel);
        Canceller(Arc::new(move || {
            let current = cancel.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(current) = current {
                current.cancel();
            }
        }))
    }

    /// Sets mode, model or options now and in every native session to come.
    pub async fn set(&mut self, settings: &Settings) -> Result<()> {
        if let Some(attached) = &mut self.attached {
            let set = attached.agent.set(settings).await;
            set.map_err(|trouble| self.options.error(trouble))?;
            attached.settings = attached.settings.with(settings);
            if attached.is_resumable {
                // Kept even if nothing is said any more.
                self.facts.push(Fact::Holds(holding(attached)));
            }
        }
        self.options.settings = self.options.settings.with(settings);
        Ok(())
    }

    async fn attach(&mut self, rejected: Option<&'static str>) -> Result<()> {
        self.leave().await;
        let mut attached = self.engine.attach(&self.options, rejected).await?;
        self.facts.append(&mut attached.facts);
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(attached.agent.canceller());
        self.attached = Some(attached);
        Ok(())
    }

    /// Sends a request and gives the answer. What comes in between is shown once it is written down.
    ///
    /// An agent that is gone is started again first. Whatever happens, the session stays resumable.
    pub async fn send(
        &mut self,
        prompt: &str,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> Result<Answer> {
        if self.settle().await? {
            // The store failed in the middle of the turn before: what the agent has of it, nobody knows.
            self.leave().await;
        }
        if self.attached.as_ref().is_none_or(|attached| attached.agent.is_gone()) {
            self.attach(None).await?;
        }
        let request = self.ask(prompt).await?;
        let mut outcome = self.turn(prompt, request, view).await?;
        let is_lost = matches!(outcome.ended, Err(Trouble::SessionGone(_)));
        if is_lost && !outcome.turn.is_answered() {
            // It was open and is not there: told anew, once.
            match self.attach(Some("session_gone")).await {
                Ok(()) => outcome = self.turn(prompt, request, view).await?,
                Err(error) => {
                    // Nobody is left who could end it.
                    self.settle().await?;
                    return Err(error);
                }
            }
        }
        self.end_turn(request, outcome, view).await
    }

    /// Ends a turn that was left under way.
    async fn settle(&self) -> Result<bool> {
        self.engine.settle(self.options.session, &self.options.conversation).await
    }

    async fn leave(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.agent.end().await;
        }
    }

    /// Writes the request down; its turn begins.
    async fn ask(&mut self, prompt: &str) -> Result<Seq> {
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let now = self.engine.clock.now();
        let keeps_request = attached.agent.abilities().keeps_request;
        let holding = (attached.is_resumable && keeps_request).then(|| holding(attached));
        let request = NewMessage {
            id: None,
            role: Role::User,
            content: prompt.to_owned(),
            at: now,
            conversation: self.options.conversation.clone(),
            extras: Extras::default(),
            price: Price::of(prompt),
        };
        let append = Append {
            facts: self.facts.clone(),
            at: Some(now),
            begins: Some(Underway {
                conversation: self.options.conversation.clone(),
                agent: self.options.agent.clone(),
                model: attached.settings.model.clone(),
                request: 0,
                holding,
            }),
            ..Append::new(self.options.session, vec![request])
        };
        let written = self.engine.store.append(append).await?;
        self.facts.clear();
        self.messages += 1;
        Ok(written.last().map_or(0, |written| written.seq))
    }

    async fn turn(
        &mut self,
        prompt: &str,
        request: Seq,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> Result<Outcome> {
        let blocks = self.blocks(prompt, request).await?;
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut pump = Pump {
            engine: &self.engine,
            session: self.options.session,
            conversation: &self.options.conversation,
            turn: Turn::default(),
            last: Vec::new(),
        };
        let canceller = attached.agent.canceller();
        let watched = async {
            let pumped = pump.run(receiver, view).await;
            if pumped.is_err() {
                // What cannot be kept is not asked for.
                canceller.cancel();
            }
            pumped
        };
        let prompted = attached.agent.prompt(blocks, sender);
        let (ended, pumped) = {
            let mut talked = std::pin::pin!(futures::future::join(prompted, watched));
            tokio::select! {
                outcome = &mut talked => outcome,
                asked = asked_to_leave(&self.engine, self.options.session) => {
                    canceller.cancel();
                    self.asked = Some(asked);
                    talked.await
                }
            }
        };
        pumped?;
        Ok(Outcome { turn: pump.turn, last: pump.last, ended })
    }

    /// System prompt, history, request.
    async fn blocks(&mut self, prompt: &str, request: Seq) -> Result<Vec<Block>> {
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let options = &self.options;
        let mut blocks = Vec::new();
        if let Some(text) = options.system_prompt.as_ref().filter(|_| attached.is_new) {
            blocks.push(Block::Text(text.clone()));
        }
        if request > attached.held.upto + 1 {
            let limits = options.limits.with_margin(options.margin);
            let told = self
                .engine
                .tell(
                    options.session,
                    &options.conversation,
                    attached.held,
                    request,
                    limits,
                    prompt,
                )
                .await?;
            if let Some(told) = told {
                attached.held.messages += told.messages;
                let uri = format!("rethread://session/{}", options.session);
                blocks.push(Block::Document { uri, text: told.text });
            }
        }
        if request > attached.held.upto {
            attached.held.upto = request;
            attached.held.messages += 1;
        }
        attached.is_new = false;
        blocks.push(Block::Text(prompt.to_owned()));
        Ok(blocks)
    }

    /// Writes the end of the turn down, whatever it was.
    async fn end_turn(
        &mut self,
        request: Seq,
        outcome: Outcome,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> Result<Answer> {
        let Outcome { turn, last, ended } = outcome;
        let Some(attached) = &mut self.attached else { return Err(Error::Interrupted) };
        let end = ended_how(attached, &ended);
        let cost_usd = cost(attached.spent_usd, turn.spent_usd());
        attached.spent_usd = turn.spent_usd().or(attached.spent_usd);
        let mut facts = std::mem::take(&mut self.facts);
        facts.extend(retitled(attached, &turn));
        let is_answered = turn.is_answered();
        let mut answer = Answer::new(&self.options, attached.opening.clone(), &turn, &end);
        let speaker = Speaker {
            agent: &self.options.agent,
            model: attached.settings.model.as_deref(),
            conversation: &self.options.conversation,
            cost_usd,
        };
        let now = self.engine.clock.now();
        let messages = priced(turn.messages(&speaker, &end, now));
        let count = u32::try_from(messages.len()).unwrap_or(0);
        let holds = now_held(attached, &end, is_answered, &mut facts);
        let append = Append {
            facts,
            at: Some(now),
            ends: Some(self.options.conversation.clone()),
            holds,
            ..Append::new(self.options.session, messages)
        };
        let written = self.engine.store.append(append).await?;
        self.messages += u64::from(count);
        let newest = written.last().map_or(request, |written| written.seq);
        answer.upto = newest;
        if end != End::Interrupted {
            attached.held = Held { upto: newest, messages: attached.held.messages + count };
        }
        for (_, update) in &last {
            view(update);
        }
        match ended {
            Ok(_) => Ok(answer),
            Err(trouble) => {
                if end == End::Interrupted {
                    self.leave().await;
                }
                Err(self.options.error(trouble))
            }
        }
    }

    /// What other processes ask, when nothing is being said: prompts to send, or to stop.
    pub async fn asked(&mut self) -> Result<Option<Asked>> {
        if let Some(asked) = self.asked.take() {
            return Ok(Some(asked));
        }
        let version = self.engine.store.version().await?;
        if version == self.version {
            return Ok(None);
        }
        let (session, conversation) = (self.options.session, &self.options.conversation);
        if let Some((no, prompt)) = self.engine.store.take_prompt(session, conversation).await? {
            return Ok(Some(Asked::Prompt { no, prompt }));
        }
        self.version = version;
        Ok(self.engine.store.take_asked(session).await?.last().copied().map(Asked::from))
    }

    /// Whether somebody else has put the session away meanwhile.
    pub async fn is_over(&self) -> Result<bool> {
        Ok(self.engine.store.session(self.options.session).await?.accepts_messages().is_err())
    }

    /// Ends the agent, and brings index, summaries and the state of the repository up to date.
    pub async fn end(mut self) -> Result<u64> {
        let session = self.options.session;
        self.leave().await;
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

/// What another process asks of whoever talks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Prompt { no: u64, prompt: String },
    Pause,
    Complete,
}

impl From<Command> for Asked {
    fn from(command: Command) -> Self {
        match command {
            Command::Pause => Self::Pause,
            Command::Complete => Self::Complete,
        }
    }
}

/// Waits until another process asks to stop, while something is being said.
async fn asked_to_leave(engine: &Engine, session: SessionId) -> Asked {
    while let Ok(commands) = engine.store.take_asked(session).await {
        if let Some(command) = commands.last() {
            return Asked::from(*command);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // The turn itself will meet with what is wrong.
    std::future::pending().await
}

fn ended_how(attached: &Attached, ended: &std::result::Result<Ended, Trouble>) -> End {
    let is_alive = !attached.agent.is_gone();
    match ended {
        Ok(ended) => End::Stopped(ended.stop.clone()),
        Err(trouble) if is_alive && !trouble.is_fatal() => End::Failed(trouble.to_string()),
        Err(_) => End::Interrupted,
    }
}

/// The title that the agent gave. What was told anew has one already, and many agents would name it after the
/// telling.
fn retitled(attached: &Attached, turn: &Turn) -> Option<Fact> {
    let is_titled = attached.opening.how == How::Retold;
    let title = turn.title().filter(|title| id::check_title(title).is_ok());
    let title = title.filter(|title| !is_titled && !tell::is_telling(title))?;
    Some(Fact::Titled { title: title.to_owned(), from: TitleFrom::Agent })
}

/// What the agent's own session holds after the turn: all of it, or the request that it had begun to answer.
fn now_held(
    attached: &mut Attached,
    end: &End,
    is_answered: bool,
    facts: &mut Vec<Fact>,
) -> Option<Holding> {
    match end {
        End::Stopped(_) => {
            attached.is_resumable = true;
            Some(holding(attached))
        }
        End::Failed(_) => attached.is_resumable.then(|| holding(attached)),
        End::Interrupted => {
            let keeps_request = attached.agent.abilities().keeps_request;
            if attached.is_resumable && keeps_request && is_answered {
                facts.push(Fact::Holds(holding(attached)));
            }
            None
        }
    }
}

/// What the agent's own session holds now.
fn holding(attached: &Attached) -> Holding {
    Holding {
        conversation: attached.opening.conversation.clone(),
        agent: attached.opening.agent.clone(),
        native: attached.native.clone(),
        upto: attached.held.upto,
        messages: attached.held.messages,
        settings: attached.settings.clone(),
        spent_usd: attached.spent_usd,
    }
}

/// What a turn cost, when agents tell what the whole session has cost so far.
fn cost(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let after = after?;
    let spent = after - before.unwrap_or(0.0);
    Some(if spent < 0.0 { after } else { spent }).filter(|cost| (0.0..=1e6).contains(cost))
}
