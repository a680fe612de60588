//! Housekeeping when the store is opened: ends turns whose process died, finishes purges that were cut off, and
//! pauses idle sessions.

use jiff::SignedDuration;
use rethread_domain::session::Move;
use rethread_domain::{Fact, Seq, Session, SessionId};

use crate::{Engine, Error, Result};

/// How many sessions one opening pauses at most: it must not take long.
const MOST: u32 = 8;

/// How long a reply waits for the process that requested it, which polls many times a second.
const ANSWERS_KEPT_FOR: SignedDuration = SignedDuration::from_mins(1);

/// The result of housekeeping.
#[derive(Debug, Clone, Default)]
pub struct Housekeeping {
    /// Sessions whose last answer was interrupted.
    pub interrupted: Vec<Session>,
    /// Sessions that were paused because they were idle.
    pub paused: Vec<Session>,
    /// Sessions with a turn that cannot be read, and why: they are left unchanged.
    pub unreadable: Vec<(Session, String)>,
    /// Messages whose purge was cut off, and is finished now.
    pub purged: Vec<(SessionId, Seq)>,
}

impl Engine {
    /// Ends what no process drives any more. A store that is read-only at the moment is left unchanged.
    pub async fn tidy(&self, quiet_for: SignedDuration) -> Result<Housekeeping> {
        let mut tidied = Housekeeping::default();
        match self.tidy_into(&mut tidied, quiet_for).await {
            Err(Error::Store(error)) if error.is_for_now() => Ok(tidied),
            outcome => outcome.map(|()| tidied),
        }
    }

    async fn tidy_into(&self, tidied: &mut Housekeeping, quiet_for: SignedDuration) -> Result<()> {
        for (id, conversation) in self.store.underway().await? {
            let Some(_drive) = self.store.drive(id, &conversation).await? else { continue };
            match self.settle(id, &conversation).await {
                Ok(true) => tidied.interrupted.push(self.store.session(id).await?),
                // Another process was faster.
                Ok(false) | Err(Error::Store(rethread_store::Error::LostClaim(_))) => (),
                // One bad turn must not block everything else.
                Err(Error::Store(rethread_store::Error::Damaged(why))) => {
                    tidied.unreadable.push((self.store.session(id).await?, why));
                }
                Err(error) => return Err(error),
            }
        }
        self.store.forget_asked(self.clock.now() - ANSWERS_KEPT_FOR).await?;
        let before = self.clock.now() - quiet_for;
        for id in self.store.quiet_since(before, MOST).await? {
            if self.store.is_claimed(id).await? {
                continue;
            }
            let paused = self
                .change(id, |session| {
                    if session.last_active_at < before {
                        Ok(Fact::Moved { to: session.decide(Move::Pause)? })
                    } else {
                        Err(rethread_domain::session::Refusal::Already(id, session.status()))
                    }
                })
                .await;
            match paused {
                Ok(session) => tidied.paused.push(self.sum_up_quickly(session).await?),
                // Another process was faster.
                Err(Error::Refused(_) | Error::NotFound(_)) => (),
                Err(error) => return Err(error),
            }
        }
        tidied.purged = self.finish_purges().await?;
        self.erase_old().await?;
        Ok(())
    }
}
