//! `rethread hook install` and `rethread hook uninstall`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::agents::{self, Agent, Form};
use super::named;
use crate::client_files::edit::Problem;
use crate::client_files::plan::{self, Change, How, Plan, Target};
use crate::config::{self, ClientFolders};
use crate::error::Refused;
use crate::output;

/// Write an agent's hook configuration, so that it calls Rethread
///
/// Keeps everything that is in the file, comments included. Shows what changes and asks before it writes; with --print it
/// changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Install {
    /// The agents: claude, codex, gemini, qwen, copilot, kimi, goose, opencode, kilo, pi
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    print: bool,
}

/// Take Rethread's hooks out of an agent's configuration
///
/// A file that has not changed since is put back byte for byte; from one that has, only our own entries are taken out.
#[derive(Debug, clap::Args)]
pub(super) struct Uninstall {
    /// The agents
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    print: bool,
}

/// An agent's hooks, as they are set up here.
struct Hooks<'a> {
    agent: &'static Agent,
    folders: &'a ClientFolders,
    /// The words that start this program; not needed where hooks go.
    start: Vec<String>,
}

impl Target for Hooks<'_> {
    fn name(&self) -> &'static str {
        self.agent.name
    }

    fn title(&self) -> &'static str {
        self.agent.title
    }

    fn kind(&self) -> &'static str {
        "agent"
    }

    fn kept_in(&self) -> &'static str {
        "hooks"
    }

    fn file(&self) -> PathBuf {
        self.agent.file(self.folders)
    }

    fn is_own_file(&self) -> bool {
        matches!(self.agent.form, Form::OwnFile | Form::Plugin)
    }

    fn is_own_program(&self) -> bool {
        self.agent.form == Form::Plugin
    }

    fn check(&self, text: &str) -> Result<(), Problem> {
        self.agent.check(text)
    }

    fn with_entries(&self, before: &str, _now: &str) -> Result<String, Problem> {
        self.agent.with_entries(before, &self.start)
    }

    fn without_entries(&self, text: &str) -> Result<String, Problem> {
        self.agent.without_entries(text)
    }

    fn companion(&self, file: &Path) -> Option<(PathBuf, &'static str)> {
        let manifest = agents::manifest(file).filter(|_| self.agent.form == Form::OwnFile);
        manifest.map(|manifest| (manifest, agents::MANIFEST))
    }
}

impl Install {
    pub(super) fn run(self, store: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
        let folders = config::client_folders()?;
        let start = super::start(store)?;
        let mut all = Vec::new();
        for agent in named(&self.agents)? {
            if !agent.is_installed(&folders) {
                let hint = format!("install {} first, or start it once", agent.title);
                let message = agent.missing(&folders);
                return Err(Refused { code: "not_installed", message, hint: Some(hint) }.into());
            }
            all.push(Hooks { agent, folders: &folders, start: start.clone() });
        }
        let (yes, print) = (self.yes, self.print);
        carry_out(&all, How { change: Change::Install, what: WHAT, yes, print, json })
    }
}

impl Uninstall {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let folders = config::client_folders()?;
        let hooks = |agent| Hooks { agent, folders: &folders, start: Vec::new() };
        let all: Vec<Hooks<'_>> = named(&self.agents)?.into_iter().map(hooks).collect();
        let (yes, print) = (self.yes, self.print);
        carry_out(&all, How { change: Change::Uninstall, what: WHAT, yes, print, json })
    }
}

const WHAT: &str = "the hooks";

fn carry_out(all: &[Hooks<'_>], how: How) -> anyhow::Result<ExitCode> {
    let plans = all.iter().map(|hooks| Plan::new(hooks, how.change));
    let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;
    if !plan::carry_out(&plans, how)? {
        return Ok(ExitCode::FAILURE);
    }
    if how.json || how.print {
        return Ok(ExitCode::SUCCESS);
    }
    for (hooks, plan) in all.iter().zip(&plans).filter(|(_, plan)| !plan.is_done()) {
        let done = match how.change {
            Change::Install => "the hooks are installed. Restart it to use them.",
            Change::Uninstall => "the hooks were removed. Restart it if it is running.",
        };
        output::note(format_args!("{}: {done}", hooks.agent.title));
        if how.change == Change::Install {
            if hooks.agent.name == "codex" {
                output::note(format_args!("{}", super::status::TRUST));
            }
            if let Some(note) = super::status::switched_off(hooks.agent, plan.text()) {
                output::note(format_args!("note: {note}"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
