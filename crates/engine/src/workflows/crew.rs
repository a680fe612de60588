//! What a workflow needs from whoever runs it.

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_workflow::Charter;
use serde_json::Value;

use super::port::Checker;
use crate::Result;
use crate::agents::OpenOptions;

/// Agents, commands and a model, as the user has set them up.
#[async_trait]
pub trait Crew: Send + Sync {
    /// Everything that opens a conversation of this session in this agent.
    async fn options(
        &self,
        charter: &Charter,
        session: &Session,
        agent: &str,
    ) -> Result<OpenOptions>;

    /// The MCP servers that they are given, by name.
    fn tools(&self) -> Vec<String>;

    /// A command of the user's own settings.
    fn command(&self, name: &str) -> Option<String>;

    /// Runs checks.
    fn checker(&self) -> &dyn Checker;

    /// Somebody who finds decisions and errors better than the rules do.
    fn extractor(&self) -> Option<&dyn Extractor>;

    /// How many tokens an agent is told at the beginning of a task, at most.
    fn brief_tokens(&self) -> u32;
}

/// Why a model gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It may do better when it is asked again.
    Nonsense(String),
    /// It cannot be had.
    Silence(String),
}

/// A model that answers as a schema wants it.
#[async_trait]
pub trait Extractor: Send + Sync {
    /// The answer, as JSON text, or why there is none.
    async fn extract(&self, prompt: &str, schema: &Value) -> std::result::Result<String, NoAnswer>;
}
