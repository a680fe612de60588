//! Asks an agent for its capabilities, and ends it.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rethread_engine::agents::{
    Abilities, Action, Agent, AgentError, Choice, PermissionHandler, Question,
};

use crate::launch::AcpLauncher;

/// Allows nothing: an empty conversation needs no permissions.
struct NoDesk;

#[async_trait]
impl PermissionHandler for NoDesk {
    async fn permit(&self, _: &Question) -> Option<Choice> {
        None
    }

    fn may(&self, _: &Action) -> Option<bool> {
        Some(false)
    }
}

/// Starts the agent, asks and ends it. No session is opened and no model is called.
pub async fn probe(launcher: &AcpLauncher, folder: &Path) -> Result<Abilities, AgentError> {
    let agent = launcher.connect(folder, Arc::new(NoDesk)).await?;
    let abilities = agent.abilities().clone();
    Box::new(agent).end().await;
    Ok(abilities)
}
