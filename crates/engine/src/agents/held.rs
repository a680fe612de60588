//! What an agent's own session holds of a conversation, and what it has cost.

use rethread_domain::Fact;
use rethread_domain::opening::{Holding, How};
use rethread_domain::turn::End;

use super::open::Attached;

/// What the agent's own session holds after a turn: all of it, if the agent ended it by its own word; otherwise the
/// request that it had begun to answer, where it keeps that.
pub(super) fn now_held(
    attached: &mut Attached,
    end: &End,
    is_answered: bool,
    facts: &mut Vec<Fact>,
) -> Option<Holding> {
    if matches!(end, End::Stopped(_)) {
        // What was not told on purpose is not held: the older session stays the one to come back to.
        attached.is_resumable = attached.opening.how != How::Untold;
        return attached.is_resumable.then(|| holding(attached));
    }
    let keeps_request = attached.agent.abilities().keeps_request;
    if attached.is_resumable && keeps_request && is_answered {
        facts.push(Fact::Holds(holding(attached)));
    }
    None
}

/// What the agent's own session holds now.
pub(super) fn holding(attached: &Attached) -> Holding {
    Holding {
        conversation: attached.opening.conversation.clone(),
        agent: attached.opening.agent.clone(),
        native: attached.native.clone(),
        upto: attached.held.upto,
        beyond: attached.held.beyond,
        messages: attached.held.messages,
        settings: attached.settings.clone(),
        spent_usd: attached.spent_usd,
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
        holding(attached)
    } else {
        Holding { settings: attached.settings.clone(), ..attached.kept.clone() }
    })
}
