//! Records a turn while it streams, and ends turns that nobody drives any more.

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

use super::port::{AgentError, Ended};
use super::rules::Holds;
use super::send::Progress;
use super::watermark::cost;
use crate::{Clock, Engine};

/// How often a streaming answer is recorded, and then shown.
const PACE: Duration = Duration::from_millis(50);
/// The largest batch that is recorded at once.
const LARGEST_BATCH: u64 = 1_000;
const LARGEST_BATCH_BYTES: usize = 1024 * 1024;

/// Updates with their times; adjacent pieces are joined.
type Batch = Vec<(Timestamp, Update)>;

/// Takes updates as they come. They are shown only after they are recorded, so that what a person has seen is kept.
pub(super) struct Pump<'a> {
    pub(super) engine: &'a Engine,
    pub(super) session: SessionId,
    pub(super) conversation: &'a str,
    pub(super) turn: Turn,
    /// The most bytes of the turn, and whether it exceeded them: then the rest was not taken.
    pub(super) most: u64,
    pub(super) is_over: bool,
    /// The modes in which the permission rules are enforced, and the one that the agent switched to by itself.
    pub(super) holds: &'a Holds,
    pub(super) left_for: Option<String>,
    /// The last updates, to be shown once the end of the turn is recorded.
    pub(super) last: Batch,
    /// What may be the beginning of a secret that continues in the next piece.
    pub(super) held: Option<(Timestamp, Update)>,
    /// How many updates were taken.
    pub(super) taken: u64,
    /// Whether the turn goes on where the store fails: it is recorded as a whole at its end.
    pub(super) outlives_store: bool,
}

impl Pump<'_> {
    pub(super) async fn run(
        &mut self,
        mut updates: mpsc::Receiver<Update>,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
        cancel: &CancellationToken,
    ) -> crate::Result<()> {
        let mut next = Instant::now() + PACE;
        while let Some(first) = updates.next().await {
            let mut batch = vec![(self.engine.clock.now(), first)];
            let (goes_on, more) = gather(&mut updates, &mut batch, next, self.engine.clock).await;
            self.taken += 1 + more;
            let batch = self.clean(batch, goes_on);
            self.take(&batch);
            if !goes_on {
                self.last = batch;
                return Ok(());
            }
            let written = batch.clone();
            let streamed = self.engine.store.stream(self.session, self.conversation, written).await;
            match streamed {
                Err(error) if self.outlives_store => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "a part of a turn is not durable yet");
                }
                streamed => streamed?,
            }
            next = Instant::now() + PACE;
            for (_, update) in &batch {
                view(Progress::Update(update));
            }
            view(Progress::Recorded(self.taken));
            self.is_over = self.turn.bytes() as u64 > self.most;
            if self.is_over || self.left_for.is_some() {
                cancel.cancel();
                // The agent must not be blocked until it has noticed that.
                while updates.next().await.is_some() {}
            }
        }
        self.last = self.clean(Vec::new(), false);
        self.take(&self.last.clone());
        Ok(())
    }

    /// Masks known values in what came, also across pieces.
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

    /// How the turn ended: what we ended it for counts more than what the agent says then.
    pub(super) fn judged(&mut self, ended: Result<Ended, AgentError>) -> Result<Ended, AgentError> {
        if self.is_over {
            return Err(AgentError::TurnTooLarge(self.most));
        }
        match self.left_for.take() {
            Some(now) => {
                let what = format!("mode {}", self.holds.modes.join(" or "));
                Err(AgentError::NotTaken { what, now })
            }
            None => ended,
        }
    }

    fn take(&mut self, batch: &Batch) {
        for (at, update) in batch {
            if let Update::Mode { mode } = update
                && !self.holds.fits(mode)
            {
                self.left_for.get_or_insert_with(|| mode.clone());
            }
            self.turn.take(update.clone(), *at);
        }
    }
}

/// Adds what comes until `until`; returns whether more may follow, and how many came.
async fn gather(
    updates: &mut mpsc::Receiver<Update>,
    batch: &mut Batch,
    until: Instant,
    clock: Clock,
) -> (bool, u64) {
    let mut at = clock.now();
    let mut bytes: usize = batch.iter().map(|(_, update)| update.bytes()).sum();
    let mut more = 0;
    while more + 1 < LARGEST_BATCH && bytes < LARGEST_BATCH_BYTES {
        let update = match updates.try_recv() {
            Ok(update) => update,
            Err(mpsc::TryRecvError::Closed) => return (false, more),
            Err(mpsc::TryRecvError::Empty) => {
                match tokio::time::timeout_at(until, updates.next()).await {
                    Err(_) => return (true, more),
                    Ok(None) => return (false, more),
                    Ok(Some(update)) => {
                        at = clock.now();
                        update
                    }
                }
            }
        };
        more += 1;
        bytes += update.bytes();
        let is_joined = batch.last_mut().is_some_and(|(_, last)| last.join(&update));
        if !is_joined {
            batch.push((at, update));
        }
    }
    (true, more)
}

impl Engine {
    /// Makes messages of a turn that nobody drives any more, marked as interrupted. Only for the process that holds the lock of the
    /// conversation.
    pub(crate) async fn settle(&self, id: SessionId, conversation: &str) -> crate::Result<bool> {
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

    /// The cost of a turn that was cut off. Agents report the cost of their whole session: unless the cost before the turn is known,
    /// only the first turn's can be told.
    async fn cost_until_cut_off(
        &self,
        id: SessionId,
        watermark: Option<&Watermark>,
        turn: &Turn,
    ) -> crate::Result<Option<f64>> {
        let before = watermark.and_then(|watermark| watermark.spent_usd);
        let is_known = watermark.is_some() || self.session(id).await?.counters.cost_nano == 0;
        Ok(cost(before, turn.spent_usd()).filter(|_| is_known))
    }
}
