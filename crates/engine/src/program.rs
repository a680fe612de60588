//! The port to the program around the engine: its settings, starting agents, starting itself, and messages to its user.
//! Everything else is decided in the engine.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use rethread_domain::Session;
use rethread_domain::context;
use rethread_domain::opening::{Policy, Settings};
use rethread_workflow::{Command, Limits, Notice, WorkflowId};

pub use crate::agents::choose::Choice;
use crate::agents::{Consent, Holds, Launcher, OwnSessions, Rules};
use crate::workflows::{Checker, Extractor};
use crate::{Error, Pruning};

/// Why the program could not do something.
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

    /// The input cannot be used.
    pub fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::refused("bad_input", message, hint)
    }
}

/// If only errors of the engine are expected, what the program refuses counts as a problem of its settings.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error,
            Fault::Refused { message, .. } => Self::Settings(message),
        }
    }
}

/// An agent in the list.
#[derive(Debug, Clone)]
pub struct AgentInfo {
    pub name: String,
    pub is_installed: bool,
    pub install: Option<String>,
    /// Why tool restrictions cannot be enforced; `None` if they can.
    pub unrestrictable: Option<String>,
}

/// How to start an agent for a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentNeeds<'a> {
    /// Only these tools; all if it is empty.
    pub allowed: &'a [String],
    pub disallowed: &'a [String],
    /// Whether it works on a workflow, and gets the tools of such agents.
    pub for_workflow: bool,
}

/// An agent as configured, ready to be started.
pub struct AgentSetup {
    pub launcher: Arc<dyn Launcher>,
    /// Where the agent keeps its own sessions, if they can be read.
    pub own_sessions: Option<OwnSessions>,
    pub system_prompt: Option<String>,
    /// Defaults, set unless the user chose otherwise before.
    pub defaults: Settings,
    pub rules: Rules,
    /// What must be set in the agent so that the rules are enforced.
    pub holds: Holds,
    pub policy: Policy,
    pub limits: context::Limits,
    /// The share of the token budget that is kept in reserve.
    pub margin: f64,
    pub max_turn_bytes: u64,
    pub pruning: Pruning,
    /// Whether the agent itself enforces the tool restrictions.
    pub is_restricted: bool,
}

impl std::fmt::Debug for AgentSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSetup").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The settings of workflows.
#[derive(Debug, Clone, Default)]
pub struct WorkflowSettings {
    /// The default agent.
    pub agent: Option<String>,
    pub limits: Limits,
    /// The checks that plans may name.
    pub commands: BTreeMap<String, String>,
    /// The token limit of the brief at the beginning of a task.
    pub brief_tokens: u32,
    /// How many tokens of what earlier workflows learnt are offered.
    pub lesson_tokens: u32,
    /// Whether crashed workflows are resumed automatically.
    pub resumes_after_crash: bool,
}

/// Delivers notices of workflows.
#[async_trait]
pub trait Notifier: Send + Sync {
    /// Returns the errors, one for each receiver that failed.
    async fn deliver(&self, notice: &Notice) -> Vec<String>;
}

/// The canonical path of a folder; or why it cannot be used.
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

/// The same, as an error.
pub fn project_folder(given: &Path) -> Result<PathBuf, Fault> {
    real_folder(given).map_err(|why| {
        let what = format!("the folder {} {why}", given.display());
        Fault::bad_input(what, "give the path of a folder that exists")
    })
}

/// Whether a folder is one of those that are not to be recorded, or lies in one, whatever way it is spelled: through links, by `..`, or
/// with a part that is not there any more.
pub fn is_excluded(folder: &Path, excluded: &Path) -> bool {
    folder.starts_with(excluded) || without_links(folder).starts_with(excluded)
}

/// A path without links and `..`, as far as it exists.
pub fn without_links(path: &Path) -> PathBuf {
    followed(path, MOST_LINKS)
}

/// As many links as the system itself follows.
const MOST_LINKS: usize = 40;

/// A link to what does not exist yet is followed, too: whoever writes through it makes what it leads to.
fn followed(path: &Path, links: usize) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        if part == Component::ParentDir {
            so_far.pop();
            return so_far;
        }
        let folder = so_far.clone();
        so_far.push(part);
        if let Ok(real) = std::fs::canonicalize(&so_far) {
            return real;
        }
        match std::fs::read_link(&so_far) {
            Ok(link) if links > 0 => followed(&folder.join(link), links - 1),
            _ => so_far,
        }
    })
}

/// Refuses folders that the settings exclude from recording.
pub fn may_record(program: &dyn Program, folder: &Path) -> Result<(), Fault> {
    program.excluded(folder).map_or(Ok(()), |excluded| Err(not_recorded(&excluded)))
}

/// The error for a folder that is excluded from recording.
pub fn not_recorded(folder: &Path) -> Fault {
    let what = format!("sessions in {} are not recorded", folder.display());
    let hint = "the setting record.exclude says so; `rethread config path` shows the file";
    Fault::refused("not_recorded", what, hint)
}

/// Refuses an agent that is unknown, or not installed here, with how to install it.
pub fn check_installed(program: &dyn Program, agent: &str) -> Result<(), Fault> {
    program.consent(agent)?;
    let mut known = program.agents()?.into_iter();
    let Some(missing) = known.find(|known| known.name == agent && !known.is_installed) else {
        return Ok(());
    };
    let how = match missing.install {
        Some(install) => format!("to install it: {install}; or choose another agent"),
        None => "check its command in `rethread config show`, or choose another agent".to_owned(),
    };
    Err(Fault::refused(
        "not_installed",
        format!("{agent} is not installed here, or not on the PATH"),
        how,
    ))
}

/// The program around the engine.
pub trait Program: Send + Sync + 'static {
    /// The default owner of new workflows.
    fn user(&self) -> Result<String, Fault>;

    fn agents(&self) -> Result<Vec<AgentInfo>, Fault>;

    /// What an agent may do without asking, by the settings. Fails for unknown agents.
    fn consent(&self, agent: &str) -> Result<Consent, Fault>;

    /// Prepares an agent for a session. `consent` overrides the settings.
    fn agent(
        &self,
        name: &str,
        session: &Session,
        consent: Option<Consent>,
        needs: AgentNeeds<'_>,
    ) -> Result<AgentSetup, Fault>;

    /// The names of the MCP servers that agents of workflows get.
    fn tools(&self) -> Vec<String>;

    /// The folder in the settings that excludes this one from recording, if any.
    fn excluded(&self, folder: &Path) -> Option<PathBuf>;

    fn workflows(&self) -> Result<WorkflowSettings, Fault>;

    /// Runs the checks of workflows.
    fn checker(&self) -> Result<Arc<dyn Checker>, Fault>;

    /// A model that finds decisions and errors better than the rules do.
    fn extractor(&self) -> Result<Option<Arc<dyn Extractor>>, Fault>;

    /// Delivers notices, if anybody wants them.
    fn notifier(&self) -> Result<Option<Arc<dyn Notifier>>, Fault>;

    /// Runs a workflow in a separate process that outlives this one; `first` is applied before. Resolves when that process
    /// ends, with what to say if it ended before it had begun.
    fn run_apart(
        &self,
        id: WorkflowId,
        first: &Command,
    ) -> Result<BoxFuture<'static, Fault>, Fault>;

    /// Resumes all crashed workflows in a separate process.
    fn recover_apart(&self) -> Result<(), Fault>;

    /// Shows a message to the user of the program.
    fn note(&self, text: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_excluded_whatever_way_leads_to_it() {
        let home = tempfile::TempDir::new().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("private/deep")).unwrap();
        std::fs::create_dir(home.join("public")).unwrap();
        std::os::unix::fs::symlink("../private", home.join("public/link")).unwrap();
        for (name, expected) in [
            ("private", true),
            ("private/deep", true),
            ("private/gone", true),
            ("public", false),
            ("public/link", true),
            ("public/link/deep", true),
            ("public/link/gone", true),
            ("public/../private", true),
            ("public/link/../public", false),
            ("private-not", false),
        ] {
            assert_eq!(is_excluded(&home.join(name), &home.join("private")), expected, "{name}");
        }
    }
}
