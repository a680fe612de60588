//! What is done at an open: turns whose driver died are ended, and sessions in which nothing happens are paused.

use jiff::SignedDuration;
use rethread_domain::session::Move;
use rethread_domain::{Fact, Session};

use crate::{Engine, Error, Result};

/// The most sessions that one open pauses: it must not take long.
const MOST: u32 = 8;

/// How long an answer waits for whoever asked for it. They look many times a second.
const ANSWERS_KEPT_FOR: SignedDuration = SignedDuration::from_mins(1);

/// What had been left behind.
#[derive(Debug, Clone, Default)]
pub struct Tidied {
    /// Sessions whose last answer was interrupted.
    pub interrupted: Vec<Session>,
    /// Sessions that were paused because nothing happened in them.
    pub paused: Vec<Session>,
    /// Sessions with a turn that cannot be read, and why: they are left as they are.
    pub unreadable: Vec<(Session, String)>,
}

impl Engine {
    /// Ends what nobody drives any more. A store that cannot be written to now is left as it is.
    pub async fn tidy(&self, quiet_for: SignedDuration) -> Result<Tidied> {
        let mut tidied = Tidied::default();
        match self.tidy_into(&mut tidied, quiet_for).await {
            Err(Error::Store(error)) if error.is_for_now() => Ok(tidied),
            outcome => outcome.map(|()| tidied),
        }
    }

    async fn tidy_into(&self, tidied: &mut Tidied, quiet_for: SignedDuration) -> Result<()> {
        for (id, conversation) in self.store.underway().await? {
            let Some(_drive) = self.store.drive(id, &conversation).await? else { continue };
            match self.settle(id, &conversation).await {
                Ok(true) => tidied.interrupted.push(self.store.session(id).await?),
                // Somebody was quicker.
                Ok(false) | Err(Error::Store(rethread_store::Error::LostClaim(_))) => (),
                // One bad turn must not be in the way of everything else.
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
                // Somebody was quicker.
                Err(Error::Refused(_) | Error::NotFound(_)) => (),
                Err(error) => return Err(error),
            }
        }
        self.erase_old().await?;
        Ok(())
    }
}
