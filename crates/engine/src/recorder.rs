//! Recording what is said, as it is said.
//!
//! Whoever records claims the session, so that others ask instead of acting behind its back. A second recorder
//! on the same session appends all the same: facts do not conflict.

use rethread_domain::message::NewMessage;
use rethread_domain::session::Move;
use rethread_domain::{Fact, SessionId};
use rethread_store::{Append, Appended, Claim, Command};

use crate::pruning::Pruning;
use crate::{Engine, Error, Result};

/// Messages brought into the index in one idle moment.
const INDEX_STEP: u32 = 500;
/// A recording that ends leaves fewer than these to the next search, which reads so many by itself.
const LEFT_UNINDEXED: u64 = 64;

#[derive(Debug)]
pub struct Recorder {
    engine: Engine,
    session: SessionId,
    claim: Option<Claim>,
    /// Of the store, when what others asked was last looked for.
    version: Option<u64>,
    /// What was asked up to here is done, or was asked of others.
    asked: u64,
    recorded: u64,
    pruning: Pruning,
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    pub messages: u64,
}

impl Recorder {
    /// Begins to record into a session that takes messages.
    pub async fn open(engine: &Engine, session: SessionId, pruning: Pruning) -> Result<Self> {
        engine.store.session(session).await?.accepts_messages()?;
        let claim = engine.store.claim(session).await?;
        let asked = engine.last_asked(session).await?;
        engine.note_repository(session).await?;
        let (engine, version) = (engine.clone(), None);
        Ok(Self { engine, session, claim, version, asked, recorded: 0, pruning })
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Writes messages down, all or none. They are durable when it returns.
    pub async fn record(&mut self, mut messages: Vec<NewMessage>) -> Result<Vec<Appended>> {
        for message in &mut messages {
            self.engine.forget_known_name(&mut message.conversation);
            message.id.iter_mut().for_each(|id| self.engine.forget_secret_id(id));
            self.engine.prepare(message);
        }
        let epoch = self.claim.as_ref().map(|claim| claim.epoch);
        let append = Append { epoch, ..Append::new(self.session, messages) };
        let written = self.engine.store.append(append).await?;
        self.engine.follow_on(self.session).await;
        self.recorded += written.iter().filter(|one| one.is_new).count() as u64;
        Ok(written)
    }

    /// To be called when nothing is being said: does what others ask, and keeps the index close behind.
    ///
    /// Gives whether there is more to do.
    pub async fn idle(&mut self) -> Result<bool> {
        let version = Some(self.engine.store.version().await?);
        if version != self.version {
            self.version = version;
            self.obey().await?;
        }
        self.catch_up().await
    }

    /// Brings some messages into the index. Where that cannot be now, a search does it later.
    async fn catch_up(&self) -> Result<bool> {
        match self.engine.store.index(INDEX_STEP).await {
            Ok(left) => Ok(left > 0),
            Err(error) if error.is_for_now() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what others asked of this session.
    async fn obey(&mut self) -> Result<()> {
        if self.claim.is_none() {
            return Ok(());
        }
        for (no, command) in self.engine.store.asked_since(self.session, self.asked).await? {
            self.asked = no;
            let asked = match command {
                Command::Pause => Move::Pause,
                Command::Complete => Move::Complete,
            };
            let done = self
                .engine
                .change(self.session, |session| Ok(Fact::Moved { to: session.decide(asked)? }))
                .await;
            match done {
                Ok(session) => drop(self.engine.sum_up(session).await?),
                // It does not fit any more: whoever asked sees the status.
                Err(Error::Refused(_)) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the recording: summaries and the state of the repository are brought up to date, and the index where it is
    /// far behind.
    pub async fn finish(mut self) -> Result<Saved> {
        self.obey().await?;
        if self.recorded > 0 {
            self.engine.prune_if_due(self.session, self.pruning).await?;
            self.engine.note_repository(self.session).await?;
        }
        if self.engine.store.index(0).await? >= LEFT_UNINDEXED {
            while self.catch_up().await? {}
        }
        Ok(Saved { messages: self.recorded })
    }
}
