//! What the server needs of the program that it is part of: its user, its agents, its kinds.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use rethread_domain::workflow::{Snapshot, Workflow, WorkflowId};
use rethread_domain::{Session, SessionId, context};
use rethread_engine::Pruning;
use rethread_engine::agents::OpenOptions;

use crate::error::Failure;

/// Where a server stands: whom it works for, and who started it.
#[derive(Debug, Clone)]
pub struct Place {
    /// Whom sessions belong to. Those of others are not found.
    pub user: String,
    /// The folder that new sessions are about.
    pub project: PathBuf,
    /// The session whose agent uses this server.
    pub parent: Option<SessionId>,
    /// How many agents have invoked each other down to here.
    pub depth: u32,
}

/// Bounds of what a client may ask for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long an invocation is waited for before a handle is given.
    pub wait: Duration,
    pub prompt_bytes: usize,
    pub message_bytes: u64,
    /// How many agents may invoke each other, one below the other.
    pub depth: u32,
    pub context: context::Limits,
    /// After so long without a word a session is paused.
    pub idle: SignedDuration,
    pub pruning: Pruning,
}

/// An agent, as it is listed.
#[derive(Debug, Clone)]
pub struct AgentInfo {
    pub name: String,
    pub is_installed: bool,
    pub install: Option<String>,
    /// Why a restriction on tools cannot be held; `None` where it can.
    pub unrestrictable: Option<String>,
}

/// What is asked of an agent beside the prompt.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub agent: String,
    /// Only these, unless it is empty.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    pub max_turns: Option<u32>,
}

impl Asked {
    pub fn is_restricted(&self) -> bool {
        !self.allowed.is_empty() || !self.disallowed.is_empty()
    }
}

/// A kind of session that a command starts.
#[derive(Debug, Clone)]
pub struct Kind {
    pub name: String,
    pub description: String,
    pub prompt: String,
}

/// What is to be worked on. There is no way to approve commands here: that is for a person.
#[derive(Debug, Clone, Default)]
pub struct Order {
    pub worktree: PathBuf,
    pub plan: Option<PathBuf>,
    pub issue: Option<String>,
    pub agent: Option<String>,
    pub jobs: Option<u32>,
    pub pause_after: Option<u32>,
    pub max_minutes: Option<u64>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<f64>,
}

/// A workflow that goes on.
#[derive(Debug, Clone)]
pub struct Resumed {
    pub workflow: Workflow,
    /// Where it was resumed from.
    pub snapshot: Snapshot,
    /// How the repository differs from then.
    pub diverged: Vec<String>,
}

/// The program.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    fn agents(&self) -> Result<Vec<AgentInfo>, Failure>;

    /// A folder as sessions know it, checked.
    fn project(&self, folder: &str) -> Result<PathBuf, Failure>;

    /// Refuses folders that are set not to be recorded.
    fn may_record(&self, project: &std::path::Path) -> Result<(), Failure>;

    /// The agent that goes on with a session, unless another is asked for.
    async fn agent_of(&self, session: &Session) -> Result<Option<String>, Failure>;

    /// Everything that it takes to open a session in an agent, and whether the agent itself is told of the
    /// restriction.
    async fn options(
        &self,
        session: &Session,
        asked: &Asked,
    ) -> Result<(OpenOptions, bool), Failure>;

    /// Takes in what came with the workspace meanwhile, by git for example. What is wrong with it is told to the user.
    async fn gather(&self);

    /// Makes a workflow and has it run in the background, until it rests and longer than this process.
    async fn start_workflow(&self, order: Order) -> Result<Workflow, Failure>;

    /// Asks for a pause, and waits at most so long for the boundary.
    async fn pause_workflow(
        &self,
        id: WorkflowId,
        reason: String,
        now: bool,
        wait: Duration,
    ) -> Result<Workflow, Failure>;

    /// Goes on with a workflow in the background.
    async fn resume_workflow(
        &self,
        id: WorkflowId,
        from: Option<&str>,
        with: Option<String>,
    ) -> Result<Resumed, Failure>;

    /// Commands that start a session of their kind.
    fn kinds(&self) -> Vec<Kind>;
}
