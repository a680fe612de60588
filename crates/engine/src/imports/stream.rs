//! Sessions of agents that stream: what their plugin hands over while it is said.
//!
//! A turn is under way in the store from its prompt on, as in a conversation that Rethread holds itself; what the model says
//! is written down as it comes. When the turn is over, the agent's own record of it takes the place of what was streamed. If
//! the agent is killed before, or we are, what was streamed becomes an interrupted answer.

use std::collections::HashMap;

use rethread_domain::context::Limits;
use rethread_domain::conversation::DEFAULT;
use rethread_domain::message::Role;
use rethread_domain::turn::Update;
use rethread_domain::{Seq, SessionId};
use rethread_import::hook::{Call, Moment};
use rethread_store::{Append, Drive, Order, Span};

use super::{ImportOptions, Injection};
use crate::{Engine, Logged as _, Result};

/// So many messages of a turn are looked at for its answer.
const LOOKED_AT: u32 = 200;

/// What one agent's program hands over, of all its sessions.
pub struct LiveStream {
    engine: Engine,
    options: ImportOptions,
    inject: Option<Limits>,
    /// The turns that are under way, by the agent's own sessions.
    turns: HashMap<String, Turn>,
}

impl std::fmt::Debug for LiveStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveStream").field("turns", &self.turns.len()).finish_non_exhaustive()
    }
}

struct Turn {
    session: SessionId,
    /// The prompt's call: its session is looked up once more at the end.
    prompt: Call,
    request: Seq,
    streamed: usize,
    /// Nobody else ends the turn while this is held.
    _drive: Drive,
}

impl LiveStream {
    pub fn new(engine: Engine, options: ImportOptions, inject: Option<Limits>) -> Self {
        Self { engine, options, inject, turns: HashMap::new() }
    }

    /// Takes in what happened; gives what a first prompt is to be answered with.
    pub async fn hear(&mut self, call: &Call) -> Result<Option<Injection>> {
        match call.moment {
            Moment::Stop => {
                if let Some(turn) = self.turns.remove(&call.native) {
                    self.drop_streamed(&turn).await?;
                }
            }
            // The turn before was left without a word.
            Moment::Prompt | Moment::End => {
                if let Some(turn) = self.turns.remove(&call.native) {
                    self.close(turn).await?;
                }
            }
            Moment::Start | Moment::Step | Moment::Compact => (),
        }
        let heard = self.engine.hear_hook_of(call, &self.options, self.inject, true).await?;
        if let (Some(session), Some(drive)) = (heard.session, heard.drive) {
            self.begin(session, call, drive).await?;
        }
        Ok(heard.injection)
    }

    async fn begin(&mut self, session: SessionId, call: &Call, drive: Drive) -> Result<()> {
        let Some(begun) = self.engine.store.begun(session, DEFAULT).await? else { return Ok(()) };
        let (prompt, request) = (call.clone(), begun.what.request);
        let turn = Turn { session, prompt, request, streamed: 0, _drive: drive };
        self.turns.insert(call.native.clone(), turn);
        Ok(())
    }

    /// Writes down what the model says.
    pub async fn say(&mut self, native: &str, mut update: Update) -> Result<()> {
        let Some(turn) = self.turns.get_mut(native) else { return Ok(()) };
        if let Update::Text { text } = &update {
            turn.streamed += text.len();
        }
        self.engine.forget_known_in(&mut update);
        let at = self.engine.clock.now();
        Ok(self.engine.store.stream(turn.session, DEFAULT, vec![(at, update)]).await?)
    }

    /// The agent is gone: what it did not finish is kept as it is.
    pub async fn end(mut self) {
        for (_, turn) in std::mem::take(&mut self.turns) {
            self.close(turn).await.or_log("end a turn that an agent left");
        }
    }

    /// The agent's own record takes the place of what was streamed, unless that says more.
    async fn close(&self, turn: Turn) -> Result<()> {
        let step = Call { moment: Moment::Step, prompt: None, ..turn.prompt.clone() };
        self.engine.hear_hook_of(&step, &self.options, None, true).await?;
        let span = Span {
            from: turn.request + 1,
            to: Seq::MAX,
            order: Order::OldestFirst,
            limit: LOOKED_AT,
        };
        let written = self.engine.store.heads(turn.session, span).await?;
        let is_said = written.iter().filter(|message| message.role == Role::Assistant);
        let bytes: u64 = is_said.map(|message| message.body.bytes()).sum();
        if bytes >= turn.streamed as u64 {
            self.drop_streamed(&turn).await
        } else {
            self.engine.settle(turn.session, DEFAULT).await.map(drop)
        }
    }

    /// Ends a turn without what was streamed of it.
    async fn drop_streamed(&self, turn: &Turn) -> Result<()> {
        let ends = Some(DEFAULT.to_owned());
        let append = Append { ends, ..Append::new(turn.session, Vec::new()) };
        self.engine.store.append(append).await?;
        Ok(())
    }
}
