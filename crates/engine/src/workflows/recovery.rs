//! Taking over a workflow whose process is gone.

use std::time::Duration;

use rethread_domain::session::Move;
use rethread_domain::workflow::{Command, Ended, Outcome, Status, Task};

use super::drive::Driver;
use super::usage::Watch;
use crate::Result;

impl Driver<'_> {
    /// What was in progress has nobody who ran it: a snapshot is taken, as after a pause.
    pub(super) async fn recover(&mut self) -> Result<()> {
        if self.workflow.status != Status::InProgress {
            return Ok(());
        }
        let running: Vec<Task> = self.workflow.running().cloned().collect();
        for task in running {
            self.settle_attempt(&task).await?;
        }
        self.command(&Command::Recover).await?;
        if self.workflow.pausing.is_some() {
            self.snapshot().await?;
        }
        Ok(())
    }

    /// Ends an attempt whose process is gone, with what its session shows of it.
    async fn settle_attempt(&mut self, task: &Task) -> Result<()> {
        let mut watch = Watch::default();
        let mut events = Vec::new();
        if let Some(session) = task.sessions.last().copied()
            && self.engine.session(session).await.is_ok()
        {
            for conversation in self.engine.conversations(session).await? {
                // Who is stalled still drives it, and who opens the store settles it, too.
                let name = &conversation.name;
                if let Some(_drive) = self.engine.store.drive(session, name).await? {
                    self.engine.settle(session, name).await?;
                }
            }
            let kept = self.engine.session(session).await?;
            watch.turn_ended(Duration::ZERO, kept.counters.tokens);
            (events, _) = self.engine.extracted(session, &task.spec.id, self.crew.as_ref()).await?;
            self.engine.settle_if_fit(session, Move::Pause).await;
        }
        for event in events {
            self.note(event).await?;
        }
        let why = "whoever ran it was gone".to_owned();
        let ended = Ended {
            task: task.spec.id.clone(),
            attempt: task.attempts,
            outcome: Outcome::Interrupted { why },
            used: watch.used(),
            tests: None,
        };
        self.command(&Command::EndTask(ended)).await
    }
}
