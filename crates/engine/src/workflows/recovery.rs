//! Takes over a workflow whose process has died.

use rethread_domain::session::Move;
use rethread_domain::{Session, SessionId};
use rethread_workflow::{Command, Ended, Measure, Outcome, Status, Task, Used};

use super::drive::{Driver, LEASE, RENEW_EVERY};
use crate::{Engine, Result};

impl Driver<'_> {
    /// Takes a snapshot of work in progress that no process runs, as after a pause.
    pub(super) async fn recover(&mut self) -> Result<()> {
        if self.workflow.status() != Status::InProgress {
            return Ok(());
        }
        // First, so that the end of its running time is known even if this process is killed too.
        let now = self.engine.clock.now();
        let renewed = self.claim.lease_before.and_then(|until| until.checked_sub(LEASE).ok());
        let seen =
            renewed.and_then(|at| at.checked_add(RENEW_EVERY).ok()).map_or(now, |at| at.min(now));
        self.command(&Command::Abandon { seen }).await?;
        let running: Vec<Task> = self.workflow.running().cloned().collect();
        for task in running {
            self.settle_attempt(&task).await?;
        }
        // Work beside tasks: the plan.
        for (on, session) in self.workflow.run.beside.clone() {
            let used = self.engine.left_in(&[session]).await?;
            self.command(&Command::Spend { on, used }).await?;
        }
        self.command(&Command::Recover).await?;
        if self.workflow.pausing().is_some() {
            self.snapshot().await?;
        }
        Ok(())
    }

    /// Ends an attempt whose process has died, with what its session shows.
    async fn settle_attempt(&mut self, task: &Task) -> Result<()> {
        let id = &task.spec.id;
        let beside = self.workflow.run.beside.iter().filter(|(on, _)| on == id);
        let mut sessions: Vec<SessionId> = beside.map(|(_, session)| *session).collect();
        sessions.extend(task.sessions.iter().skip(task.first_session));
        let used = self.engine.left_in(&sessions).await?;
        if let Some(session) = task.sessions.last().copied()
            && self.engine.session(session).await.is_ok()
        {
            let (events, _) = self.engine.extracted(session, id, self.crew.as_ref()).await?;
            for event in events {
                self.note(event).await?;
            }
        }
        let why = "the process running it ended".to_owned();
        let ended = Ended {
            task: id.clone(),
            attempt: task.attempts,
            outcome: Outcome::Interrupted { why },
            used,
            tests: None,
        };
        self.command(&Command::EndTask(ended)).await
    }
}

impl Engine {
    /// Ends the turns of sessions whose process has died; returns their usage.
    async fn left_in(&self, sessions: &[SessionId]) -> Result<Used> {
        let mut used = Used::default();
        for session in sessions {
            // A session may have been deleted while its workflow remains.
            if self.session(*session).await.is_err() {
                continue;
            }
            for conversation in self.conversations(*session).await? {
                // A stalled process still holds the lock; whoever opens the store settles the turn too.
                let name = &conversation.name;
                if let Some(_drive) = self.store.drive(*session, name).await? {
                    self.settle(*session, name).await?;
                }
            }
            used.add(&taken(&self.session(*session).await?));
            self.settle_if_fit(*session, Move::Pause).await;
        }
        Ok(used)
    }
}

/// The usage of a session, from its log.
#[expect(clippy::cast_precision_loss, reason = "an amount of money")]
fn taken(session: &Session) -> Used {
    let counters = &session.counters;
    let reported = counters.input_tokens.saturating_add(counters.output_tokens);
    // The interrupted turn reported nothing, so it is counted.
    let (tokens, measure) = if reported > counters.tokens {
        (reported, Measure::Exact)
    } else {
        (counters.tokens, Measure::Counted)
    };
    Used {
        tokens,
        measure,
        turns: 1,
        cost_usd: (counters.cost_nano > 0).then(|| counters.cost_nano as f64 / 1e9),
        ..Used::default()
    }
}
