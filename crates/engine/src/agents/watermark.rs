//! The watermark: how much of a conversation an agent's native session holds, and what the session has cost.

use rethread_domain::opening::{How, Watermark};
use rethread_domain::{Fact, Seq, SessionId};

use super::attached::Attached;
use crate::{Engine, Result};

/// The watermark after a turn that the agent ended itself: the session holds everything.
pub(super) fn now_held(attached: &mut Attached) -> Option<Watermark> {
    // What was deliberately not told is not held: the older native session stays the one to return to.
    attached.is_resumable = attached.opening.how != How::Untold;
    attached.is_resumable.then(|| watermark(attached))
}

impl Engine {
    /// The watermark after an interrupted turn. `keeps` says whether the agent is known to have kept or lost the request; a replay
    /// can still prove otherwise. `assumed` is the watermark if it has kept it.
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
    /// Some agents write to their sessions until they end: what changes after that, somebody else did.
    pub(super) async fn left(&self, session: SessionId, left: Watermark) -> Result<Option<Fact>> {
        let held = self.store.watermark(session, &left.conversation, &left.agent).await?;
        let held = held.filter(|held| held.native == left.native && held.in_doubt.is_none());
        let (left_at, settings) = (Some(self.clock.now()), left.settings);
        Ok(held.map(|held| Fact::Holds(Watermark { left_at, settings, ..held })))
    }
}

/// The current watermark.
pub(super) fn watermark(attached: &Attached) -> Watermark {
    Watermark {
        conversation: attached.opening.conversation.clone(),
        agent: attached.opening.agent.clone(),
        native: attached.native.clone(),
        upto: attached.held.upto,
        beyond: attached.held.beyond.clone(),
        messages: attached.held.messages,
        in_doubt: None,
        settings: attached.settings.clone(),
        spent_usd: attached.spent_usd,
        left_at: attached.left_at,
    }
}

/// The cost of a turn, from the cost of the whole session before and after it.
pub(super) fn cost(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let after = after?;
    let spent = after - before.unwrap_or(0.0);
    Some(if spent < 0.0 { after } else { spent }).filter(|cost| (0.0..=1e6).contains(cost))
}

/// The user's settings are remembered, whatever becomes of the native session.
pub(super) fn remembered(attached: &Attached) -> Fact {
    Fact::Holds(if attached.is_resumable {
        watermark(attached)
    } else {
        Watermark { settings: attached.settings.clone(), ..attached.kept.clone() }
    })
}
