//! An agent that does what a script says, and remembers what it was told in its own sessions.
//!
//! It keeps a turn when it has ended. Killed before that, or when it refuses to go on, it keeps the request if it says
//! that it does so and had begun to answer, and never what it had answered.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::SinkExt;
use futures::channel::mpsc;
use jiff::Timestamp;
use rethread_domain::Seq;
use rethread_domain::replay::Said;
use rethread_domain::turn::{Tool, Update};
use rethread_engine::agents::{
    Abilities, Agent, AgentError, Block, Ended, Launcher, OpenRequest, Opened, PermissionHandler,
    Replayed, Settings,
};
use rethread_testkit::at;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::watched::Fate;

/// Longer than an answer waits before it is written down.
const LONG: Duration = Duration::from_millis(80);

/// What an agent does in one turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) acts: Vec<Act>,
    pub(crate) end: End,
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Send(Update),
    /// Long enough that everything before is written down and shown.
    Pause,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum End {
    #[default]
    Stop,
    /// Waits until it is cancelled.
    Cancelled,
    /// Refuses to go on, and keeps nothing that it had not begun to answer.
    AgentError(AgentError),
    /// Forgets its session and says so.
    Forgets,
    /// Says that it forgot its session, and has it.
    Denies,
    Dies,
}

impl Script {
    pub(crate) fn saying(texts: &[&str]) -> Self {
        let acts = texts.iter().map(|text| Act::Send(say(text))).collect();
        Self { acts, end: End::Stop }
    }

    pub(crate) fn then(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

pub(crate) fn say(text: &str) -> Update {
    Update::Text { text: text.to_owned() }
}

pub(crate) fn use_tool(title: &str) -> Update {
    Update::Tool(Tool { id: title.to_owned(), title: Some(title.to_owned()), ..Tool::default() })
}

/// What comes of opening one of its sessions.
#[derive(Debug, Clone, Default)]
pub(crate) enum Outcome {
    #[default]
    Fine,
    AgentError(AgentError),
    /// The process ends.
    Dies,
    /// Nothing is replayed.
    Hollow,
    /// Another conversation is replayed.
    Mixed,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Doors {
    pub(crate) resume: Outcome,
    pub(crate) load: Outcome,
    pub(crate) new: Outcome,
}

/// One of the agent's own sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Native {
    pub(crate) known: Vec<Known>,
    /// Where the turn that it was last in began.
    pub(crate) turn_from: usize,
    pub(crate) has_ended: bool,
    /// Somebody talked in it without us since its last turn.
    pub(crate) is_changed: bool,
    /// What was said up to here it is not to be told.
    pub(crate) from: Seq,
}

/// Something that the agent was told, or said itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) text: String,
    pub(crate) is_document: bool,
    pub(crate) is_request: bool,
    /// Nobody but the agent can know that it is known.
    pub(crate) is_doubtful: bool,
}

/// A prompt as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Prompted {
    pub(crate) native: String,
    pub(crate) before: Native,
    pub(crate) blocks: Vec<Block>,
}

impl Prompted {
    pub(crate) fn document(&self) -> Option<&str> {
        self.blocks.iter().find_map(|block| match block {
            Block::Document { text, .. } => Some(text.as_str()),
            Block::Text(_) => None,
        })
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Document { .. } => None,
        });
        texts.collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) natives: BTreeMap<String, Native>,
    named: u32,
    pub(crate) doors: Doors,
    pub(crate) launching: VecDeque<Result<(), AgentError>>,
    pub(crate) setting: Option<AgentError>,
    pub(crate) turns: VecDeque<Script>,
    /// Every way that was tried, in order.
    pub(crate) tried: Vec<String>,
    pub(crate) prompts: Vec<Prompted>,
    pub(crate) sent: Vec<Update>,
    pub(crate) set: Vec<Settings>,
    /// What it reports of its mode and options by itself, until they are set.
    pub(crate) reported: Settings,
    pub(crate) launches: u32,
    pub(crate) alive: u32,
    /// Counts what ended the processes before it.
    killed: u32,
    /// New sessions are told nothing of what was said before this.
    pub(crate) from: Seq,
}

#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) name: &'static str,
    pub(crate) abilities: Abilities,
    state: Arc<Mutex<State>>,
    fate: Arc<Fate>,
    /// Waits to be cancelled.
    pub(crate) waiting: Arc<Notify>,
}

impl Scripted {
    pub(crate) fn new(name: &'static str, abilities: Abilities, fate: Arc<Fate>) -> Self {
        Self { name, abilities, state: Arc::default(), fate, waiting: Arc::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it does in its next turns.
    pub(crate) fn plays(&self, scripts: impl IntoIterator<Item = Script>) {
        self.state().turns = scripts.into_iter().collect();
    }

    /// Somebody talks in one of its sessions without us.
    pub(crate) fn told_natively(&self, native: &str, request: &str, answer: &str) {
        let mut state = self.state();
        let Some(native) = state.natives.get_mut(native) else { return };
        for (text, is_request) in [(request, true), (answer, false)] {
            let text = text.to_owned();
            // Whether we come to know of it depends on what we look at.
            let (is_document, is_doubtful) = (false, true);
            native.known.push(Known { text, is_document, is_request, is_doubtful });
        }
        native.is_changed = true;
    }

    /// Its processes end between two turns.
    pub(crate) fn kill(&self) {
        self.state().killed += 1;
    }

    pub(crate) fn last_prompt(&self) -> Prompted {
        self.state().prompts.last().unwrap().clone()
    }
}

#[async_trait]
impl Launcher for Scripted {
    async fn launch(
        &self,
        _: &Path,
        _: Arc<dyn PermissionHandler>,
    ) -> Result<Box<dyn Agent>, AgentError> {
        self.fate.step().await;
        let mut state = self.state();
        state.launching.pop_front().unwrap_or(Ok(()))?;
        state.launches += 1;
        state.alive += 1;
        let born = state.killed;
        drop(state);
        Ok(Box::new(Running { agent: self.clone(), born, is_dead: false, native: None }))
    }
}

/// A process.
struct Running {
    agent: Scripted,
    born: u32,
    is_dead: bool,
    native: Option<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agent.state().alive -= 1;
    }
}

fn died() -> AgentError {
    AgentError::Ended { status: "exit status: 3".into(), stderr: String::new() }
}

fn gone(native: &str) -> AgentError {
    AgentError::SessionGone(native.to_owned())
}

impl Running {
    fn known(&self, native: &str) -> Result<Native, AgentError> {
        self.agent.state().natives.get(native).cloned().ok_or_else(|| gone(native))
    }

    fn keep(&self, native: &str, known: impl IntoIterator<Item = Known>) {
        if let Some(native) = self.agent.state().natives.get_mut(native) {
            native.known.extend(known);
        }
    }

    async fn play(
        &mut self,
        script: &Script,
        native: &str,
        request: &mut Vec<Known>,
        mut updates: mpsc::Sender<Update>,
    ) -> Result<Vec<Known>, AgentError> {
        let mut said = Vec::new();
        for act in &script.acts {
            self.agent.fate.step().await;
            let Act::Send(update) = act else {
                tokio::time::sleep(LONG).await;
                continue;
            };
            if update.is_answer() && self.agent.abilities.keeps_request == Some(true) {
                self.keep(native, request.drain(..));
            }
            self.agent.state().sent.push(update.clone());
            if updates.send(update.clone()).await.is_err() {
                break;
            }
            said.extend(heard(update));
        }
        self.agent.fate.step().await;
        Ok(said)
    }
}

/// What stays in mind of an update: thoughts do not.
fn heard(update: &Update) -> Option<Known> {
    let text = match update {
        Update::Text { text } => text.clone(),
        Update::Tool(tool) => tool.title.clone().unwrap_or_default(),
        _ => return None,
    };
    Some(Known { text, is_document: false, is_request: false, is_doubtful: false })
}

#[async_trait]
impl Agent for Running {
    fn abilities(&self) -> &Abilities {
        &self.agent.abilities
    }

    async fn open(&mut self, door: OpenRequest<'_>) -> Result<Opened, AgentError> {
        self.agent.fate.step().await;
        let mut state = self.agent.state();
        let (tried, asked, outcome) = match door {
            OpenRequest::Resume(native) => ("resume", Some(native), state.doors.resume.clone()),
            OpenRequest::Load(native) => ("load", Some(native), state.doors.load.clone()),
            OpenRequest::New => ("new", None, state.doors.new.clone()),
        };
        state.tried.push(asked.map_or(tried.to_owned(), |native| format!("{tried} {native}")));
        let Some(native) = asked else {
            match outcome {
                Outcome::AgentError(trouble) => return Err(trouble),
                Outcome::Dies => {
                    self.is_dead = true;
                    return Err(died());
                }
                Outcome::Fine | Outcome::Hollow | Outcome::Mixed => (),
            }
            state.named += 1;
            let native = format!("{}-{}", self.agent.name, state.named);
            let from = state.from;
            state.natives.insert(native.clone(), Native { from, ..Native::default() });
            self.native = Some(native.clone());
            return Ok(Opened { native, replayed: Replayed::default() });
        };
        match &outcome {
            Outcome::AgentError(trouble) => return Err(trouble.clone()),
            Outcome::Dies => {
                self.is_dead = true;
                return Err(died());
            }
            Outcome::Fine | Outcome::Hollow | Outcome::Mixed => (),
        }
        let known = state.natives.get(native).ok_or_else(|| gone(native))?;
        let said = known.known.iter().filter(|known| !known.is_document);
        let said: Vec<Said> = said
            .map(|known| Said { is_user: known.is_request, text: known.text.clone() })
            .collect();
        self.native = Some(native.to_owned());
        let replayed = match (tried, outcome) {
            ("load", Outcome::Hollow) | ("resume", _) => Replayed::default(),
            (_, Outcome::Mixed) => {
                let said = vec![Said { is_user: true, text: "paint the fence".to_owned() }];
                Replayed { updates: 2, said }
            }
            _ => Replayed { updates: known.known.len() as u64, said },
        };
        Ok(Opened { native: native.to_owned(), replayed })
    }

    async fn changed_at(&mut self, native: &str) -> Option<Timestamp> {
        self.agent.fate.step().await;
        if !self.agent.abilities.list {
            return None;
        }
        let is_changed = self.agent.state().natives.get(native)?.is_changed;
        Some(at(i64::from(is_changed)))
    }

    async fn set(&mut self, settings: &Settings) -> Result<(), AgentError> {
        self.agent.fate.step().await;
        let mut state = self.agent.state();
        state.set.push(settings.clone());
        state.setting.clone().map_or(Ok(()), Err)?;
        state.reported = Settings::default();
        Ok(())
    }

    async fn reported(&mut self) -> Settings {
        self.agent.state().reported.clone()
    }

    async fn prompt(
        &mut self,
        blocks: Vec<Block>,
        updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, AgentError> {
        self.agent.fate.step().await;
        let native = self.native.clone().unwrap_or_default();
        let before = self.known(&native)?;
        let last = blocks.len() - 1;
        let mut request: Vec<Known> = (0..)
            .zip(&blocks)
            .map(|(at, block)| {
                let (text, is_document) = match block {
                    Block::Text(text) => (text.clone(), false),
                    Block::Document { text, .. } => (text.clone(), true),
                };
                Known { text, is_document, is_request: at == last, is_doubtful: false }
            })
            .collect();
        let script = {
            let mut state = self.agent.state();
            if let Some(native) = state.natives.get_mut(&native) {
                (native.turn_from, native.has_ended) = (native.known.len(), false);
                native.is_changed = false;
            }
            state.prompts.push(Prompted { native: native.clone(), before, blocks });
            state.turns.pop_front().unwrap_or_default()
        };
        if matches!(script.end, End::Forgets) {
            self.agent.state().natives.remove(&native);
        }
        let said = self.play(&script, &native, &mut request, updates).await?;
        let stop = |reason: &str| Ok(Ended { stop: reason.to_owned() });
        let ended = match script.end {
            End::Stop => stop("end_turn"),
            End::Cancelled => {
                self.agent.waiting.notify_one();
                cancel.cancelled().await;
                stop("cancelled")
            }
            End::AgentError(trouble) => return Err(trouble),
            End::Forgets | End::Denies => return Err(gone(&native)),
            End::Dies => {
                self.is_dead = true;
                return Err(died());
            }
        };
        self.keep(&native, request.into_iter().chain(said));
        if let Some(native) = self.agent.state().natives.get_mut(&native) {
            native.has_ended = true;
        }
        ended
    }

    fn is_gone(&self) -> bool {
        self.is_dead || self.born != self.agent.state().killed
    }

    async fn end(self: Box<Self>) {}
}
