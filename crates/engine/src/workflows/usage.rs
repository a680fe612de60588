//! Usage of an attempt, from what agents report.

use std::time::Duration;

use rethread_domain::quote::one_line;
use rethread_domain::turn::Update;
use rethread_workflow::{Measure, Used, WINDOW};

/// Watches one session of an agent.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The cost up to the previous turn.
    spent_before: f64,
    spent: Option<f64>,
    reported: Option<(u64, u64)>,
    context: Option<(u64, u64)>,
    tools: std::collections::BTreeSet<String>,
    total: Used,
    refused: Vec<String>,
}

/// How many refused requests of an attempt are listed.
const MOST_REFUSED: usize = 20;

impl Watch {
    pub(super) fn see(&mut self, update: &Update) {
        match update {
            Update::Usage { input_tokens, output_tokens } => {
                self.reported = Some((*input_tokens, *output_tokens));
            }
            Update::Context { used, size, spent_usd } => {
                if *size > 0 {
                    self.context = Some((*used, *size));
                }
                self.spent = spent_usd.or(self.spent);
            }
            Update::Permission(asked) if asked.is_refused() => {
                let what = one_line(&format!("{}: {}", asked.kind, asked.title), 200);
                if self.refused.len() < MOST_REFUSED && !self.refused.contains(&what) {
                    self.refused.push(what);
                }
            }
            Update::Tool(tool) => {
                self.tools.insert(tool.id.clone());
            }
            _ => (),
        }
    }

    /// What the agent asked for and was refused.
    pub(super) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// How full the context is, as the agent reports.
    pub(super) fn context_use(&self) -> Option<f64> {
        Used { context: self.context, ..Used::default() }.context_use()
    }

    /// From here on it is another session.
    pub(super) fn forget_context(&mut self) {
        (self.context, self.spent, self.spent_before) = (None, None, 0.0);
    }

    /// A turn has ended; `counted` are its tokens by our own count.
    pub(super) fn turn_ended(&mut self, took: Duration, counted: u64) {
        let cost = self.spent.map(|spent| (spent - self.spent_before).max(0.0));
        let (tokens, measure) = match (self.reported.take(), cost) {
            (Some((input, output)), _) if input + output > 0 => (input + output, Measure::Exact),
            _ if counted > 0 => (counted, Measure::Counted),
            (_, Some(cost)) => (Used::tokens_for(cost), Measure::Estimated),
            _ => (0, Measure::Counted),
        };
        let calls = u32::try_from(self.tools.len()).unwrap_or(u32::MAX);
        self.tools.clear();
        self.spent_before = self.spent.unwrap_or(self.spent_before);
        self.total.add(&Used {
            tokens,
            measure,
            context: self.context,
            // Each result of a tool leads to one more call of the model.
            model_calls: calls.saturating_add(1),
            tool_calls: calls,
            turns: 1,
            cost_usd: cost,
            seconds: took.as_secs(),
        });
    }

    /// Adds the usage of another session, which does not affect this one's context.
    pub(super) fn take_beside(&mut self, other: &Self) {
        self.total.add(&Used { context: None, ..other.total });
    }

    /// The total usage. If the context use is unknown it is estimated from the cost, which only leads to a warning.
    pub(super) fn used(&self) -> Used {
        let mut used = self.total;
        if used.context.is_none()
            && let Some(cost) = used.cost_usd
        {
            used.context = Some((Used::tokens_for(cost).min(WINDOW), WINDOW));
            used.measure = Measure::Estimated;
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(used: u64, spent_usd: Option<f64>) -> Update {
        Update::Context { used, size: 1_000, spent_usd }
    }

    #[test]
    fn what_the_agent_says_is_exact_and_summed_over_turns() {
        let mut watch = Watch::default();
        watch.see(&Update::Usage { input_tokens: 100, output_tokens: 20 });
        watch.see(&context(700, Some(0.5)));
        watch.turn_ended(Duration::from_secs(3), 9);
        watch.see(&Update::Usage { input_tokens: 10, output_tokens: 5 });
        watch.see(&context(800, Some(0.75)));
        watch.turn_ended(Duration::from_secs(4), 9);
        let used = watch.used();
        assert_eq!(
            (used.tokens, used.measure, used.turns, used.seconds),
            (135, Measure::Exact, 2, 7)
        );
        assert_eq!((used.cost_usd, used.context_use()), (Some(0.75), Some(0.8)));
    }

    #[test]
    fn without_a_report_it_is_counted_and_from_cost_alone_estimated() {
        let mut watch = Watch::default();
        watch.turn_ended(Duration::ZERO, 50);
        assert_eq!((watch.used().tokens, watch.used().measure), (50, Measure::Counted));
        let mut watch = Watch::default();
        watch.see(&Update::Context { used: 0, size: 0, spent_usd: Some(0.9) });
        watch.turn_ended(Duration::ZERO, 0);
        let used = watch.used();
        assert_eq!((used.tokens, used.measure), (100_000, Measure::Estimated));
        assert_eq!(used.context_use(), Some(0.5));
    }
}
