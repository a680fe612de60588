//! What the use cases need of the program that they are part of: its settings, starting agents, starting itself, and a
//! word to its user. Everything else is decided in this room.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use rethread_domain::Session;
use rethread_domain::context;
use rethread_domain::opening::{Policy, Settings};
use rethread_workflow::{Command, Limits, Notice, WorkflowId};

pub use crate::agents::choose::Choice;
use crate::agents::{Consent, Holds, Launcher, Rules};
use crate::workflows::{Checker, Extractor};
use crate::{Error, Pruning};

/// What the program could not do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Engine(#[from] Error),
    /// Refused with a code of its own.
    #[error("{message}")]
    Refused { code: &'static str, message: String, hint: Option<String> },
}

impl Fault {
    pub fn refused(
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Refused { code, message: message.into(), hint: Some(hint.into()) }
    }

    /// What was asked for cannot be used.
    pub fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::refused("bad_input", message, hint)
    }
}

/// Where only the engine's own errors are expected, what the program refuses is a matter of its settings.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error,
            Fault::Refused { message, .. } => Self::Settings(message),
        }
    }
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

/// How an agent is to be started for a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fitting<'a> {
    /// Only these tools, unless it is empty.
    pub allowed: &'a [String],
    pub disallowed: &'a [String],
    /// Whether it works on a workflow, and is given what such agents are given.
    pub for_workflow: bool,
}

/// An agent as the settings have it, ready to be started.
pub struct AgentSetup {
    pub launcher: Arc<dyn Launcher>,
    pub system_prompt: Option<String>,
    /// Set unless the user set something else before.
    pub defaults: Settings,
    pub rules: Rules,
    /// What has to be set in the agent so that the rules are kept.
    pub holds: Holds,
    pub policy: Policy,
    pub limits: context::Limits,
    /// The part of the tokens kept back.
    pub margin: f64,
    pub max_turn_bytes: u64,
    pub pruning: Pruning,
    /// Whether the agent itself is told which tools it has to do without.
    pub is_restricted: bool,
}

impl std::fmt::Debug for AgentSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSetup").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// What the settings say of workflows.
#[derive(Debug, Clone, Default)]
pub struct WorkflowSettings {
    /// The agent that works where none is named.
    pub agent: Option<String>,
    pub limits: Limits,
    /// What plans may name as a check.
    pub commands: BTreeMap<String, String>,
    /// How many tokens an agent is told at the beginning of a task, at most.
    pub brief_tokens: u32,
    /// Whether what crashed goes on by itself.
    pub resumes_after_crash: bool,
}

/// Brings notices of workflows to others.
#[async_trait]
pub trait Herald: Send + Sync {
    /// Gives what went wrong, for each receiver that could not be told.
    async fn deliver(&self, notice: &Notice) -> Vec<String>;
}

/// A folder as sessions know it; or why it cannot be used.
pub fn real_folder(given: &Path) -> Result<PathBuf, String> {
    let real = std::fs::canonicalize(given).map_err(|error| format!("cannot be used: {error}"))?;
    if !real.is_dir() {
        return Err("is not a folder".to_owned());
    }
    if real.to_str().is_none() {
        return Err("has a name that is not valid UTF-8".to_owned());
    }
    Ok(real)
}

/// The same, as it is refused.
pub fn project_folder(given: &Path) -> Result<PathBuf, Fault> {
    real_folder(given).map_err(|why| {
        let what = format!("the folder {} {why}", given.display());
        Fault::bad_input(what, "give the path of a folder that exists")
    })
}

/// Refuses folders that are set not to be recorded.
pub fn may_record(program: &dyn Program, folder: &Path) -> Result<(), Fault> {
    program.excluded(folder).map_or(Ok(()), |excluded| Err(not_recorded(&excluded)))
}

/// What is said of a folder that is set not to be recorded.
pub fn not_recorded(folder: &Path) -> Fault {
    let what = format!("sessions in {} are not recorded", folder.display());
    let hint = "the setting record.exclude says so; `rethread config path` shows the file";
    Fault::refused("not_recorded", what, hint)
}

/// The program.
pub trait Program: Send + Sync + 'static {
    /// Whom new workflows belong to where nobody else is named.
    fn user(&self) -> Result<String, Fault>;

    fn agents(&self) -> Result<Vec<AgentInfo>, Fault>;

    /// What the settings say an agent may do without being asked. Refuses names that no agent has.
    fn consent(&self, agent: &str) -> Result<Consent, Fault>;

    /// An agent for a session. `consent` is what the user said of this occasion.
    fn agent(
        &self,
        name: &str,
        session: &Session,
        consent: Option<Consent>,
        fitting: Fitting<'_>,
    ) -> Result<AgentSetup, Fault>;

    /// The MCP servers that agents of workflows are given, by name.
    fn tools(&self) -> Vec<String>;

    /// The folder of the setting by which nothing in this one is recorded, if there is one.
    fn excluded(&self, folder: &Path) -> Option<PathBuf>;

    fn workflows(&self) -> Result<WorkflowSettings, Fault>;

    /// Runs the checks of workflows.
    fn checker(&self) -> Result<Arc<dyn Checker>, Fault>;

    /// Somebody who finds decisions and errors better than the rules do.
    fn extractor(&self) -> Result<Option<Arc<dyn Extractor>>, Fault>;

    /// Who is told of workflows, if anybody is.
    fn herald(&self) -> Result<Option<Arc<dyn Herald>>, Fault>;

    /// Runs a workflow apart from this process and for longer than it lasts; `first` is done before. Ends when that
    /// process does, with what to say where it ended before it had begun.
    fn run_apart(
        &self,
        id: WorkflowId,
        first: &Command,
    ) -> Result<BoxFuture<'static, Fault>, Fault>;

    /// Goes on with all that crashed, apart from this process.
    fn recover_apart(&self) -> Result<(), Fault>;

    /// Says something to the user of the program.
    fn note(&self, text: &str);
}
