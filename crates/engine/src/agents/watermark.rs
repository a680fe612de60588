//! What an agent's own session holds of a conversation, and what it has cost.

use rethread_domain::opening::{How, Watermark};
use rethread_domain::{Fact, Seq, SessionId};

use super::open::Attached;
use crate::{Engine, Result};

/// What the agent's own session holds after a turn that the agent ended by its own word: all of it.
pub(super) fn now_held(attached: &mut Attached) -> Option<Watermark> {
    // What was not told on purpose is not held: the older session stays the one to come back to.
    attached.is_resumable = attached.opening.how != How::Untold;
    attached.is_resumable.then(|| watermark(attached))
}

impl Engine {
    /// What an agent's own session holds after a turn that was interrupted. `keeps` says whether it is known to have
    /// kept the request, or to have lost it; a replay can still say otherwise. `assumed` is what it holds if it has.
    pub(super) async fn left_in_doubt(
        &self,
        session: SessionId,
        assumed: Option<Watermark>,
        keeps: Option<bool>,
        request: Seq,
    ) -> Result<Option<Watermark>> {
        let Some(assumed) = assumed else { return Ok(None) };
        let in_doubt = Some(request);
        match keeps {
            Some(true) => Ok(Some(Watermark { in_doubt, ..assumed })),
            Some(false) => Ok(None),
            None => {
                let (conversation, agent) = (&assumed.conversation, &assumed.agent);
                let before = self.store.watermark(session, conversation, agent).await?;
                let before = before.filter(|before| before.native == assumed.native);
                Ok(before.map(|before| Watermark { in_doubt, ..before }))
            }
        }
    }
}

impl Engine {
    /// An agent has ended, and some write to their sessions until then: what changes later, somebody else does.
    pub(super) async fn left(&self, session: SessionId, left: Watermark) -> Result<Option<Fact>> {
        let held = self.store.watermark(session, &left.conversation, &left.agent).await?;
        let held = held.filter(|held| held.native == left.native && held.in_doubt.is_none());
        let (left_at, settings) = (Some(self.clock.now()), left.settings);
        Ok(held.map(|held| Fact::Holds(Watermark { left_at, settings, ..held })))
    }
}

/// What the agent's own session holds now.
pub(super) fn watermark(attached: &Attached) -> Watermark {
    Watermark {
        conversation: attached.opening.conversation.clone(),
        agent: attached.opening.agent.clone(),
        native: attached.native.clone(),
        upto: attached.held.upto,
        beyond: attached.held.beyond,
        messages: attached.held.messages,
        in_doubt: None,
        settings: attached.settings.clone(),
        spent_usd: attached.spent_usd,
        left_at: attached.left_at,
    }
}

/// What a turn cost, when agents tell what the whole session has cost so far.
pub(super) fn cost(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let after = after?;
    let spent = after - before.unwrap_or(0.0);
    Some(if spent < 0.0 { after } else { spent }).filter(|cost| (0.0..=1e6).contains(cost))
}

/// What the user set is remembered, whatever becomes of the native session.
pub(super) fn remembered(attached: &Attached) -> Fact {
    Fact::Holds(if attached.is_resumable {
        watermark(attached)
    } else {
        Watermark { settings: attached.settings.clone(), ..attached.kept.clone() }
    })
}
