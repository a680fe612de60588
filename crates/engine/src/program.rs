//! What the doors need of the program that they are part of: its agents, its folders, and who runs workflows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_domain::workflow::{Command, Snapshot, Workflow, WorkflowId};

use crate::Error;
use crate::agents::OpenOptions;

/// The file in a worktree that a plan is written to where none is given.
pub const PLAN: &str = "PLAN.md";

/// What the program could not do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Engine(#[from] Error),
    /// Refused by the program itself, with a code of its own.
    #[error("{message}")]
    Refused { code: &'static str, message: String, hint: Option<String> },
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

/// Who is to go on with a session, and with which tools.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Without it: whoever was last talked to.
    pub agent: Option<String>,
    /// Without it: the one that was last spoken in. `new` begins another.
    pub conversation: Option<String>,
    pub model: Option<String>,
    /// Only these tools, unless it is empty.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
}

/// What is to be worked on. There is no way to approve commands here: that is for a person.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// Under this id, unless it was made before: then it is that one.
    pub id: Option<WorkflowId>,
    /// Whose it is, where that is not the user of the program.
    pub user: Option<String>,
    pub worktree: PathBuf,
    pub plan: Option<PathBuf>,
    /// A text; its first line is the title.
    pub issue: Option<String>,
    pub agent: Option<String>,
    pub jobs: Option<u32>,
    pub pause_after: Option<u32>,
    pub max_minutes: Option<f64>,
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
pub trait Program: Send + Sync + 'static {
    fn agents(&self) -> Result<Vec<AgentInfo>, Fault>;

    /// The agent that works where none is named.
    fn default_agent(&self) -> Option<&str>;

    /// A folder as sessions know it, checked.
    fn project(&self, folder: &str) -> Result<PathBuf, Fault>;

    /// Refuses folders that are set not to be recorded.
    fn may_record(&self, project: &Path) -> Result<(), Fault>;

    /// Everything that it takes to open a session in an agent, where nobody can be asked; and whether the agent itself
    /// is told which tools it has to do without.
    async fn options(
        &self,
        session: &Session,
        choice: &Choice,
    ) -> Result<(OpenOptions, bool), Fault>;

    /// Takes in what came with the workspace meanwhile, by git for example. What is wrong with it is told to the user.
    async fn gather(&self);

    /// Makes a workflow and has it run in the background, until it rests and longer than this process.
    async fn start_workflow(&self, order: Order) -> Result<Workflow, Fault>;

    /// Asks for a pause, and waits at most so long for the boundary.
    async fn pause_workflow(
        &self,
        id: WorkflowId,
        reason: String,
        now: bool,
        wait: Duration,
    ) -> Result<Workflow, Fault>;

    /// Goes on with a workflow in the background.
    async fn resume_workflow(
        &self,
        id: WorkflowId,
        from: Option<&str>,
        with: Option<String>,
    ) -> Result<Resumed, Fault>;

    /// Says something to a workflow, as it was read: approve, reject, retry, skip, cancel. Where it waits and nobody runs it, it goes on
    /// in the background.
    async fn tell_workflow(&self, read: &Workflow, command: Command) -> Result<Workflow, Fault>;
}
