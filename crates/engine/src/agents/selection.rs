//! Selects the conversation of a session, and the agent that continues it.

use rethread_domain::{Session, SessionId, conversation, id};
use rethread_store::Span;

use crate::{Engine, Result};

/// Among so many messages the last answer is looked for.
const LATEST: u32 = 20;

impl Engine {
    /// The selected conversation: the one that is named, a new one for `new`, or the most recent one.
    pub async fn selected_conversation(
        &self,
        id: SessionId,
        asked: Option<&str>,
    ) -> Result<String> {
        let known = self.conversations(id).await?;
        match asked {
            // One more than there are: so many names at most are taken.
            Some("new") => Ok((2..=known.len() + 2)
                .map(|n| format!("conversation-{n}"))
                .find(|name| !known.iter().any(|one| one.name == *name))
                .unwrap_or_default()),
            Some(name) => {
                id::check_conversation(name)?;
                Ok(name.to_owned())
            }
            None => {
                let last = known.iter().max_by_key(|one| one.turn);
                Ok(last.map_or_else(|| conversation::DEFAULT.to_owned(), |one| one.name.clone()))
            }
        }
    }

    /// Sets the agent that answered last, and its model. If that cannot be read, the session is returned as it is.
    pub(crate) async fn with_speaker(&self, mut session: Session) -> Session {
        if session.last_seq > 0 {
            session.answering = self.agent_of(&session, None).await.ok().flatten();
            session.imported_from = self.store.imported_from(session.id).await.ok().flatten();
            if session.answering.is_some() && session.answering != session.agent {
                // What the session began with is the model of another agent.
                session.model = self.last_model(&session).await;
            }
        }
        session
    }

    /// The model of the last answer, if it is of the agent that answers now.
    async fn last_model(&self, session: &Session) -> Option<String> {
        let latest = self.store.heads(session.id, Span::newest(LATEST)).await.ok()?;
        let answer = latest.into_iter().find(|message| message.extras.agent.is_some())?;
        let extras = answer.extras;
        extras.model.filter(|_| extras.agent == session.answering)
    }

    /// The agent that continues the selected conversation: the one that answered last there, or that last ended a turn, or that
    /// the session was started with.
    pub async fn agent_of(&self, session: &Session, asked: Option<&str>) -> Result<Option<String>> {
        let name = match asked {
            Some(_) => Some(self.selected_conversation(session.id, asked).await?),
            None => None,
        };
        let last = self.store.last_agent(session.id, name.as_deref()).await?;
        Ok(last.or_else(|| session.agent.clone()))
    }
}
