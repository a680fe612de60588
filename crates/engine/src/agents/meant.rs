//! Which conversation of a session is meant, and who goes on with it.

use rethread_domain::{Session, SessionId, conversation, id};

use crate::{Engine, Result};

impl Engine {
    /// The conversation that is meant: the one that is named, another one for `new`, or the one that was last spoken
    /// in.
    pub async fn meant_conversation(&self, id: SessionId, asked: Option<&str>) -> Result<String> {
        let known = self.conversations(id).await?;
        match asked {
            // One more than there are: at most so many names are taken.
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

    /// The session with the agent that answered last in it. Where that cannot be read, the rest is of use all the same.
    pub(crate) async fn with_speaker(&self, mut session: Session) -> Session {
        if session.last_seq > 0 {
            session.answering = self.agent_of(&session, None).await.ok().flatten();
        }
        session
    }

    /// The agent that goes on with the conversation that is meant: who spoke last there, or who last ended a turn, or
    /// whom the session was started with.
    pub async fn agent_of(&self, session: &Session, asked: Option<&str>) -> Result<Option<String>> {
        let name = self.meant_conversation(session.id, asked).await?;
        let own = self.conversations(session.id).await?.into_iter().find(|one| one.name == name);
        let held = self.store.last_agent(session.id, &name).await?;
        Ok(own.and_then(|one| one.running).or(held).or_else(|| session.agent.clone()))
    }
}
