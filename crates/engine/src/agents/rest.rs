//! A conversation that rests between two requests: the agent keeps its native session, and others may talk meanwhile.

use rethread_domain::opening::{Settings, Watermark};
use rethread_store::Append;

use super::port::{AgentError, Ended};
use super::talk::Talk;
use super::watermark::remembered;
use crate::{Error, Result};

impl Talk {
    /// Lets other processes talk in the conversation until the next request. The agent stays.
    pub async fn rest(&mut self) -> Result<()> {
        // An opening alone leaves nothing behind: it is recorded with the first request.
        if self.messages > 0 && !self.facts.is_empty() {
            let now = Some(self.engine.clock.now());
            let facts = self.facts.clone();
            let append = Append { facts, at: now, ..Append::new(self.options.session, Vec::new()) };
            self.engine.store.append(append).await?;
            self.facts.clear();
        }
        self.left = self.held_now().await?;
        self.drive = None;
        Ok(())
    }

    /// Ends a rest. Where another process has used the agent's native session meanwhile, this agent does not have what was
    /// said there: it is opened anew.
    pub(super) async fn take_up(&mut self) -> Result<()> {
        if self.drive.is_some() {
            return Ok(());
        }
        let (session, conversation) = (self.options.session, self.options.conversation.clone());
        self.engine.store.session(session).await?.accepts_messages()?;
        let drive = self.engine.store.drive(session, &conversation).await?;
        self.drive = Some(drive.ok_or(Error::Busy { session, conversation })?);
        self.version = self.engine.store.version().await?;
        self.last_asked = self.engine.last_asked(session).await?;
        if self.settle().await? || self.held_now().await? != self.left {
            self.leave().await;
        }
        Ok(())
    }

    /// Opens the conversation again if the agent has lost it, and rests.
    pub async fn reopen(&mut self) -> Result<()> {
        self.take_up().await?;
        let ready = self.ready().await;
        self.rest().await?;
        ready
    }

    /// For those who only look on while somebody else talks to the agent: a turn goes on where the store fails in the middle of
    /// it, and is recorded as a whole at its end; and an error that the agent itself answers with does not end its native session.
    #[must_use]
    pub fn looking_on(mut self) -> Self {
        self.looks_on = true;
        self
    }

    /// Whether the native session is still the one to go on in. After a failed turn it is unknown what it has of it: it is
    /// opened again before the next request, unless it is another's.
    pub(super) fn stays_after(&self, ended: &std::result::Result<Ended, AgentError>) -> bool {
        let is_alive = self.attached.as_ref().is_some_and(|attached| !attached.agent.is_gone());
        match ended {
            Ok(_) => true,
            Err(AgentError::SessionGone(_)) => false,
            Err(trouble) => self.looks_on && is_alive && !trouble.is_fatal(),
        }
    }

    /// Keeps what the user has set in the agent in another way than through [`Talk::set`]: it is set in every future native
    /// session.
    pub fn remember(&mut self, settings: &Settings) {
        self.options.settings = self.options.settings.with(settings);
        if let Some(attached) = &mut self.attached {
            attached.settings = attached.settings.with(settings);
            self.facts.push(remembered(attached));
        }
    }

    async fn held_now(&mut self) -> Result<Option<Watermark>> {
        let options = &self.options;
        let store = &self.engine.store;
        Ok(store.watermark(options.session, &options.conversation, &options.agent).await?)
    }
}
