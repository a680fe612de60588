//! A session of the editor's: which of the agent's own it is now, and what the agent sends of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rethread_domain::turn::{Permission, Tool, Update};
use rethread_engine::agents::{Replayed, Settings};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::backend::Backend;
use super::hub::Hub;
use super::outbox::Attempt;
use super::raw;
use super::upstream::Reply;
use crate::connection::lock;
use crate::foreground::{Foreground, Told};
use crate::frame::{self, Fields};
use crate::second;
use crate::session::{Replay, Running};
use crate::translate::{self, SplitCharacters};

/// How long to wait for an agent to become silent after it has opened a session.
const LONGEST_SETTLE: Duration = Duration::from_secs(2);
/// How many updates of a session are kept until the editor knows it.
const MOST_HELD: usize = 1024;
/// How many reports are kept for the next turn.
const MOST_STANDING: usize = 64;

/// A session of the editor's.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The id that the editor knows it by.
    pub(crate) id: String,
    /// Whether version 2 is spoken.
    pub(crate) is_second: bool,
    backend: Mutex<Arc<Backend>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    native: Option<String>,
    phase: Phase,
    /// What the editor opened it with: its folder, MCP servers and the like. May hold secrets.
    params: String,
    /// What the agent answered to the opening.
    opened: Option<String>,
    /// The last error of the agent to a request of ours.
    error: Option<String>,
    /// The prompt that is to be sent, under the editor's id.
    prompt: Option<Prompt>,
    attempt: Option<Arc<Attempt>>,
    cancel: Option<CancellationToken>,
    /// The cancel, as the editor worded it.
    cancelled: Option<String>,
    /// What came since the session was last opened, until the editor has been told that it is open.
    held: Vec<String>,
    holds: bool,
    /// What was reported between turns, for the next one.
    standing: Vec<Update>,
    /// What the editor has set since the last turn began.
    set: Settings,
    split: SplitCharacters,
    /// What version 2 adds: messages and terminals that are followed, and the prompt that is worked on.
    translator: second::Translator,
    foreground: Foreground,
    /// The last output of each terminal, and the tool call that shows it.
    outputs: HashMap<String, String>,
    terminals: HashMap<String, String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("native", &self.native).finish_non_exhaustive()
    }
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Opening {
        replay: Replay,
        last: Instant,
        /// There is no history in a new one.
        is_new: bool,
    },
    Turn(Arc<Running>, Arc<Attempt>),
}

/// A prompt of the editor's.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    /// As the editor wrote it.
    pub(crate) line: String,
    /// Told when it was sent: what the editor asks next may follow.
    pub(crate) sent: Option<oneshot::Sender<()>>,
}

/// What is to be done with an update.
pub(crate) enum Taken {
    Shown,
    /// It is history that the editor has already.
    Swallowed,
    Held,
    Recorded(Arc<Running>, Arc<Attempt>, Option<Box<Update>>),
    /// It ends the turn.
    Ended(Arc<Attempt>),
}

impl Binding {
    pub(crate) fn new(hub: &Hub, id: &str, params: &str) -> Arc<Self> {
        let state = State { params: params.to_owned(), holds: true, ..State::default() };
        Arc::new(Self {
            id: id.to_owned(),
            is_second: hub.is_second(),
            backend: Mutex::new(Arc::clone(&hub.first)),
            state: Mutex::new(state),
        })
    }

    /// The agent that has the session.
    pub(crate) fn backend(&self) -> Arc<Backend> {
        Arc::clone(&lock(&self.backend))
    }

    /// From now on another agent has it.
    pub(crate) fn switch(&self, backend: &Arc<Backend>) {
        *lock(&self.backend) = Arc::clone(backend);
        let mut state = lock(&self.state);
        state.opened = None;
        state.set = Settings::default();
        state.standing.clear();
    }

    pub(crate) fn native(&self) -> Option<String> {
        lock(&self.state).native.clone()
    }

    pub(crate) fn params(&self) -> String {
        lock(&self.state).params.clone()
    }

    pub(crate) fn set_params(&self, params: &str) {
        params.clone_into(&mut lock(&self.state).params);
    }

    pub(crate) fn opened(&self) -> Option<String> {
        lock(&self.state).opened.clone()
    }

    /// What the editor had set before is set again: the answer to the opening says so too.
    pub(crate) fn set_again(&self, params: &Value, answer: &str) {
        let mut state = lock(&self.state);
        let Some(opened) = &state.opened else { return };
        let known = Fields::parse(opened).unwrap_or_default();
        let options = Fields::parse(answer).and_then(|answer| answer.get("configOptions"));
        let named = |list: &str, current: &str, value: &Value| {
            let list = known.get(list).filter(|list| list.starts_with('{'))?;
            Some(raw::set(list, current, &value.to_string()))
        };
        let changed = if let Some(options) = options {
            Some(raw::set(opened, "configOptions", options))
        } else if params["modeId"].is_string() {
            let list = named("modes", "currentModeId", &params["modeId"]);
            list.map(|list| raw::set(opened, "modes", &list))
        } else {
            let list = named("models", "currentModelId", &params["modelId"]);
            list.map(|list| raw::set(opened, "models", &list))
        };
        if let Some(changed) = changed {
            state.opened = Some(changed);
        }
    }

    pub(crate) fn set_error(&self, error: Option<String>) {
        lock(&self.state).error = error;
    }

    pub(crate) fn take_error(&self) -> Option<String> {
        lock(&self.state).error.take()
    }

    /// From here on its updates are a replay, until it is open.
    pub(crate) fn begin_opening(&self, native: Option<&str>) {
        let mut state = lock(&self.state);
        state.native = native.map(str::to_owned);
        let (last, is_new) = (Instant::now(), native.is_none());
        state.phase = Phase::Opening { replay: Replay::default(), last, is_new };
        state.holds = true;
        state.error = None;
    }

    /// The agent has opened it.
    pub(crate) fn answered(&self, native: &str, opened: &str) {
        let mut state = lock(&self.state);
        state.native = Some(native.to_owned());
        state.opened = Some(opened.to_owned());
        if let Phase::Opening { last, .. } = &mut state.phase {
            *last = Instant::now();
        }
    }

    /// Some agents answer before they have replayed everything. Waits until it has been silent for this long.
    pub(crate) async fn settled(&self, quiet: Duration) {
        let until = Instant::now() + LONGEST_SETTLE;
        loop {
            let end = match &lock(&self.state).phase {
                Phase::Opening { last, .. } => (*last + quiet).min(until),
                _ => return,
            };
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }

    /// It is open, or could not be opened.
    pub(crate) fn end_opening(&self) -> Replayed {
        let mut state = lock(&self.state);
        match std::mem::take(&mut state.phase) {
            Phase::Opening { replay, .. } => replay.finish(),
            other => {
                state.phase = other;
                Replayed::default()
            }
        }
    }

    /// The agent does not have it any more.
    pub(crate) fn lose(&self) -> Option<String> {
        let mut state = lock(&self.state);
        state.phase = Phase::Idle;
        state.foreground.leave();
        state.native.take()
    }

    pub(crate) fn begin_turn(&self, running: &Arc<Running>, attempt: &Arc<Attempt>) -> Vec<Update> {
        let mut state = lock(&self.state);
        state.phase = Phase::Turn(Arc::clone(running), Arc::clone(attempt));
        state.attempt = Some(Arc::clone(attempt));
        state.split = SplitCharacters::default();
        state.translator = second::Translator::default();
        state.foreground = Foreground::default();
        state.outputs.clear();
        state.terminals.clear();
        std::mem::take(&mut state.standing)
    }

    /// Nothing that follows belongs to the turn.
    pub(crate) fn end_turn(&self) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Turn(..)) {
            state.phase = Phase::Idle;
        }
        state.foreground.leave();
    }

    /// The agent has accepted the prompt, as version 2 has it: whoever waits for the turn is told when it has ended.
    pub(crate) fn accepted(&self, attempt: Arc<Attempt>, waits: oneshot::Sender<Reply>) {
        let tell = move |state| {
            attempt.answered();
            let _nobody_waits = waits.send(Ok(state));
        };
        lock(&self.state).foreground.accepted(Box::new(tell));
    }

    /// Whether the editor's request was answered already, as version 2 has it.
    pub(crate) fn is_accepted(&self) -> bool {
        lock(&self.state).foreground.is_accepted()
    }

    /// The attempt to send the prompt, if there was one.
    pub(crate) fn attempt(&self) -> Option<Arc<Attempt>> {
        lock(&self.state).attempt.clone()
    }

    /// A prompt is to be sent.
    pub(crate) fn ask(&self, prompt: Prompt, cancel: CancellationToken) {
        let mut state = lock(&self.state);
        state.prompt = Some(prompt);
        state.attempt = None;
        state.cancelled = None;
        state.error = None;
        state.foreground = Foreground::default();
        state.cancel = Some(cancel);
    }

    /// The prompt is over.
    pub(crate) fn asked(&self) {
        let mut state = lock(&self.state);
        state.prompt = None;
        state.cancel = None;
    }

    pub(crate) fn with_prompt<T>(&self, with: impl FnOnce(&mut Prompt) -> T) -> Option<T> {
        lock(&self.state).prompt.as_mut().map(with)
    }

    /// The editor wants the turn to end, in these words; `false` if there is none.
    pub(crate) fn cancel(&self, line: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(cancel) = state.cancel.clone() else { return false };
        state.cancelled.get_or_insert_with(|| line.to_owned());
        cancel.cancel();
        true
    }

    pub(crate) fn cancelled(&self) -> Option<String> {
        lock(&self.state).cancelled.take()
    }

    pub(crate) fn hold(&self, line: String) {
        let mut state = lock(&self.state);
        if state.held.len() < MOST_HELD {
            state.held.push(line);
        }
    }

    /// What is to be said to the editor now that it knows the session. Once that is nothing, nothing is held any more.
    pub(crate) fn take_held(&self) -> Vec<String> {
        let mut state = lock(&self.state);
        state.holds = !state.held.is_empty();
        std::mem::take(&mut state.held)
    }

    pub(crate) fn remember(&self, settings: &Settings) {
        let mut state = lock(&self.state);
        state.set = state.set.with(settings);
    }

    /// What the editor has set since this was asked last.
    pub(crate) fn take_set(&self) -> Settings {
        std::mem::take(&mut lock(&self.state).set)
    }

    /// What follows from an update.
    pub(crate) fn take(&self, update: &str) -> Taken {
        let mut state = lock(&self.state);
        let state = &mut *state;
        match &mut state.phase {
            Phase::Turn(running, attempt) if self.is_second => {
                let (running, attempt) = (Arc::clone(running), Arc::clone(attempt));
                if state.foreground.told(update) == Told::Ended {
                    state.phase = Phase::Idle;
                    return Taken::Ended(attempt);
                }
                let update = state.translator.translate(update).map(Box::new);
                return Taken::Recorded(running, attempt, update);
            }
            Phase::Turn(running, attempt) => {
                let outputs = |id: &str| state.outputs.get(id).cloned();
                let translated = translate::translate(update, &outputs, &mut state.split);
                if matches!(translated, Some(Update::Tool(_)))
                    && let Some((terminal, tool)) = translate::terminal(update)
                {
                    state.terminals.insert(terminal, tool);
                }
                let update = translated.map(Box::new);
                return Taken::Recorded(Arc::clone(running), Arc::clone(attempt), update);
            }
            Phase::Opening { is_new: true, .. } => return Taken::Held,
            Phase::Opening { replay, last, .. } => {
                *last = Instant::now();
                replay.take(update);
                let fields = Fields::parse(update).unwrap_or_default();
                return match fields.text("sessionUpdate").as_deref() {
                    // These are not what was said.
                    Some(
                        "available_commands_update"
                        | "current_mode_update"
                        | "config_option_update"
                        | "session_info_update"
                        | "usage_update",
                    ) => Taken::Held,
                    _ => Taken::Swallowed,
                };
            }
            Phase::Idle => (),
        }
        state.standing.extend(translate::standing(update));
        let over = state.standing.len().saturating_sub(MOST_STANDING);
        state.standing.drain(..over);
        if state.holds { Taken::Held } else { Taken::Shown }
    }

    /// The turn that runs.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        match &lock(&self.state).phase {
            Phase::Turn(running, _) => Some(Arc::clone(running)),
            _ => None,
        }
    }

    /// The editor has answered the agent's question about a terminal.
    pub(crate) fn printed(&self, terminal: &str, result: &str) {
        let output = Fields::parse(result).and_then(|result| result.text("output"));
        if let Some(output) = output {
            lock(&self.state).outputs.insert(terminal.to_owned(), output);
        }
    }

    /// A terminal is given back: its output belongs to the tool call that showed it.
    pub(crate) fn concluded(&self, terminal: &str) -> Option<Update> {
        let mut state = lock(&self.state);
        let output = state.outputs.get(terminal).cloned()?;
        let id = state.terminals.remove(terminal)?;
        Some(Update::Tool(Tool { id, output: Some(output), ..Tool::default() }))
    }
}

/// What the editor's answer to a permission question was.
pub(crate) fn permission(question: &str, reply: Result<&str, &str>) -> Option<Permission> {
    let question = Fields::parse(question)?;
    let subject = question.get("subject").and_then(Fields::parse);
    let call = question.get("toolCall").or_else(|| subject?.get("toolCall"));
    let call = Fields::parse(call?)?;
    let outcome =
        reply.ok().and_then(|result| Fields::parse(Fields::parse(result)?.get("outcome")?));
    let chosen = outcome.and_then(|outcome| outcome.text("optionId"));
    let options = frame::elements(question.get("options").unwrap_or("[]"));
    let kind = options.into_iter().filter_map(Fields::parse).find_map(|option| {
        let is_chosen = option.text("optionId") == chosen && chosen.is_some();
        if is_chosen { option.text("kind") } else { None }
    });
    Some(Permission {
        tool: translate::name(&call, "toolCallId")?,
        title: translate::name(&call, "title")
            .or_else(|| translate::name(&question, "title"))
            .unwrap_or_default(),
        kind: translate::name(&call, "kind").unwrap_or_else(|| "other".to_owned()),
        answer: kind.unwrap_or_else(|| "cancelled".to_owned()),
        by: "user".to_owned(),
    })
}
