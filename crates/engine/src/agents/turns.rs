//! Writing a turn down while it streams, and ending turns that nobody will end.

use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use jiff::Timestamp;
use rethread_domain::opening::Watermark;
use rethread_domain::turn::{End, Speaker, Turn, Update};
use rethread_domain::{Fact, SessionId};
use rethread_store::Append;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::watermark::cost;
use crate::{Clock, Engine, Result};

/// While an answer streams, it is written down, and then shown, so often.
const PACE: Duration = Duration::from_millis(50);
/// The most that is written down at once.
const LARGEST_BATCH: usize = 1_000;
const LARGEST_BATCH_BYTES: usize = 1024 * 1024;

/// Updates with the time at which they came, what belongs together in one piece.
type Batch = Vec<(Timestamp, Update)>;

/// Takes updates as they come. What is shown has been written down before, so what a person saw is kept.
pub(super) struct Pump<'a> {
    pub(super) engine: &'a Engine,
    pub(super) session: SessionId,
    pub(super) conversation: &'a str,
    pub(super) turn: Turn,
    /// What the turn may hold, in bytes, and whether it held more: then the rest was not taken.
    pub(super) most: u64,
    pub(super) is_over: bool,
    /// The last of it: to be shown once the end of the turn is written down.
    pub(super) last: Batch,
    /// What may be the beginning of a secret that goes on in the next piece.
    pub(super) held: Option<(Timestamp, Update)>,
}

impl Pump<'_> {
    pub(super) async fn run(
        &mut self,
        mut updates: mpsc::Receiver<Update>,
        view: &mut (dyn FnMut(&Update) + Send),
        cancel: &CancellationToken,
    ) -> Result<()> {
        let mut next = Instant::now() + PACE;
        while let Some(first) = updates.next().await {
            let mut batch = vec![(self.engine.clock.now(), first)];
            let goes_on = gather(&mut updates, &mut batch, next, self.engine.clock).await;
            let batch = self.clean(batch, goes_on);
            self.take(&batch);
            if !goes_on {
                self.last = batch;
                return Ok(());
            }
            let written = batch.clone();
            self.engine.store.stream(self.session, self.conversation, written).await?;
            next = Instant::now() + PACE;
            for (_, update) in &batch {
                view(update);
            }
            if self.turn.bytes() as u64 > self.most {
                self.is_over = true;
                cancel.cancel();
                // The agent is not to wait for us until it has seen that.
                while updates.next().await.is_some() {}
            }
        }
        self.last = self.clean(Vec::new(), false);
        self.take(&self.last.clone());
        Ok(())
    }

    /// Takes values that we know out of what came, also where they came in pieces.
    fn clean(&mut self, batch: Batch, goes_on: bool) -> Batch {
        let redactor = &self.engine.redactor;
        if !redactor.has_known() {
            return batch;
        }
        let mut cleaned: Batch = self.held.take().into_iter().collect();
        for (at, update) in batch {
            let is_joined = cleaned.last_mut().is_some_and(|(_, last)| last.join(&update));
            if !is_joined {
                cleaned.push((at, update));
            }
        }
        if let Some((at, Update::Text { text } | Update::Thought { text })) = cleaned.last_mut()
            && goes_on
        {
            let rest = text.split_off(text.len() - redactor.held_back(text));
            let at = *at;
            if !rest.is_empty() {
                let held = match &cleaned[cleaned.len() - 1].1 {
                    Update::Thought { .. } => Update::Thought { text: rest },
                    _ => Update::Text { text: rest },
                };
                self.held = Some((at, held));
            }
        }
        for (_, update) in &mut cleaned {
            self.engine.forget_known_in(update);
        }
        cleaned
    }

    fn take(&mut self, batch: &Batch) {
        for (at, update) in batch {
            self.turn.take(update.clone(), *at);
        }
    }
}

/// Adds what comes until `until`; gives whether more may come after that.
async fn gather(
    updates: &mut mpsc::Receiver<Update>,
    batch: &mut Batch,
    until: Instant,
    clock: Clock,
) -> bool {
    let mut at = clock.now();
    let mut bytes: usize = batch.iter().map(|(_, update)| update.bytes()).sum();
    for _ in 1..LARGEST_BATCH {
        if bytes >= LARGEST_BATCH_BYTES {
            break;
        }
        let update = match updates.try_recv() {
            Ok(update) => update,
            Err(mpsc::TryRecvError::Closed) => return false,
            Err(mpsc::TryRecvError::Empty) => {
                match tokio::time::timeout_at(until, updates.next()).await {
                    Err(_) => return true,
                    Ok(None) => return false,
                    Ok(Some(update)) => {
                        at = clock.now();
                        update
                    }
                }
            }
        };
        bytes += update.bytes();
        let is_joined = batch.last_mut().is_some_and(|(_, last)| last.join(&update));
        if !is_joined {
            batch.push((at, update));
        }
    }
    true
}

impl Engine {
    /// Makes messages of a turn that nobody drives any more, marked as interrupted. To be called by whoever drives
    /// the conversation.
    pub(crate) async fn settle(&self, id: SessionId, conversation: &str) -> Result<bool> {
        let Some(begun) = self.store.begun(id, conversation).await? else { return Ok(false) };
        let mut turn = Turn::default();
        let mut latest = begun.at;
        for (at, update) in begun.updates {
            turn.take(update, at);
            latest = at;
        }
        let cost_usd = self.cost_until_cut_off(id, begun.what.watermark.as_ref(), &turn).await?;
        let is_answered = turn.is_answered();
        let keeps = begun.what.keeps_request.filter(|keeps| !keeps || is_answered);
        let watermark =
            self.left_in_doubt(id, begun.what.watermark, keeps, begun.what.request).await?;
        let speaker = Speaker {
            agent: &begun.what.agent,
            model: begun.what.model.as_deref(),
            conversation,
            cost_usd,
        };
        let spent_usd = turn.spent_usd();
        let messages = self.prepared(turn.messages(&speaker, &End::Interrupted, latest));
        let watermark = watermark.map(|watermark| {
            let spent_usd = spent_usd.or(watermark.spent_usd);
            Watermark { spent_usd, ..watermark }
        });
        let append = Append {
            facts: watermark.map(Fact::Holds).into_iter().collect(),
            at: Some(latest),
            ends: Some(conversation.to_owned()),
            ..Append::new(id, messages)
        };
        self.store.append(append).await?;
        self.follow_on(id).await;
        Ok(true)
    }

    /// What a turn cost that was cut off. Agents tell what their whole session has cost: where nobody wrote down what
    /// it had cost before, only the first turn says it.
    async fn cost_until_cut_off(
        &self,
        id: SessionId,
        watermark: Option<&Watermark>,
        turn: &Turn,
    ) -> Result<Option<f64>> {
        let before = watermark.and_then(|watermark| watermark.spent_usd);
        let is_known = watermark.is_some() || self.session(id).await?.counters.cost_nano == 0;
        Ok(cost(before, turn.spent_usd()).filter(|_| is_known))
    }
}
