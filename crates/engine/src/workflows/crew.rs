//! The port to agents, checks and models that a workflow needs.

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_workflow::{Charter, TaskSpec};
use serde_json::Value;

use super::port::Checker;
use crate::Result;
use crate::agents::OpenOptions;

/// Agents, commands and a model, as the user has configured them.
#[async_trait]
pub trait Crew: Send + Sync {
    /// The options that open a conversation of this session in this agent, with the model that the task is to be done with.
    async fn options(
        &self,
        charter: &Charter,
        session: &Session,
        agent: &str,
        task: Option<&TaskSpec>,
    ) -> Result<OpenOptions>;

    /// The names of the MCP servers that agents get.
    fn tools(&self) -> Vec<String>;

    /// A command of the user's own settings.
    fn command(&self, name: &str) -> Option<String>;

    /// Runs checks.
    fn checker(&self) -> &dyn Checker;

    /// A model that finds decisions and errors better than the rules do.
    fn extractor(&self) -> Option<&dyn Extractor>;

    /// The token limit of the brief at the beginning of a task.
    fn brief_tokens(&self) -> u32;

    /// How many tokens of what earlier workflows learnt are offered.
    fn lesson_tokens(&self) -> u32;
}

/// Why a model gave no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It may do better on another attempt.
    Nonsense(String),
    /// It is not available.
    Silence(String),
}

/// A model that answers according to a schema.
#[async_trait]
pub trait Extractor: Send + Sync {
    /// The answer as JSON text, or why there is none.
    async fn extract(&self, prompt: &str, schema: &Value) -> std::result::Result<String, NoAnswer>;
}
