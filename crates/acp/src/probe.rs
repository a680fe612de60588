//! Asks an agent what it can do, and ends it.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rethread_engine::agents::{Abilities, Act, Agent, Choice, Desk, Question, Trouble};

use crate::launch::AcpLauncher;

/// Allows nothing: there is nothing to be allowed in an empty conversation.
struct NoDesk;

#[async_trait]
impl Desk for NoDesk {
    async fn permit(&self, _: &Question) -> Option<Choice> {
        None
    }

    fn may(&self, _: &Act) -> Option<bool> {
        Some(false)
    }
}

/// Starts the agent, asks and ends it. No session is opened and no model is called.
pub async fn probe(launcher: &AcpLauncher, folder: &Path) -> Result<Abilities, Trouble> {
    let agent = launcher.connect(folder, Arc::new(NoDesk)).await?;
    let abilities = agent.abilities().clone();
    Box::new(agent).end().await;
    Ok(abilities)
}
