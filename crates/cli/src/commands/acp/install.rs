//! `rethread acp --install` and `rethread acp --uninstall`

use std::process::ExitCode;

use super::editors::{Editor, Offer, Offered};
use crate::client_files::plan::{self, Change, How, Plan};
use crate::config::{self, Config};
use crate::error::Refused;
use crate::{agents, client_files, output};

/// The agents in an editor's configuration: in, or out again.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Setup {
    /// Offer the installed agents in this editor: keeps everything that is in its configuration, shows what changes, and asks
    /// before it writes
    #[arg(long, value_enum, value_name = "EDITOR", group = "setup")]
    install: Vec<Editor>,
    /// Take them out again: a file that has not changed since is put back byte for byte
    #[arg(long, value_enum, value_name = "EDITOR", group = "setup")]
    uninstall: Vec<Editor>,
    /// Do not ask
    #[arg(long, requires = "setup")]
    yes: bool,
    /// Only show what would change
    #[arg(long, requires = "setup")]
    print: bool,
}

impl Setup {
    pub(super) const fn is_asked_for(&self) -> bool {
        !self.install.is_empty() || !self.uninstall.is_empty()
    }

    pub(super) fn run(self, store: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
        let change = if self.install.is_empty() { Change::Uninstall } else { Change::Install };
        let mut editors = match change {
            Change::Install => self.install,
            Change::Uninstall => self.uninstall,
        };
        editors.sort_unstable();
        editors.dedup();
        let (program, args) = client_files::own_command(store)?;
        let offered = match change {
            Change::Install => offered(json)?,
            Change::Uninstall => Vec::new(),
        };
        let folders = config::client_folders()?;
        let offer = Offer { program, args, agents: offered };
        let targets = editors.into_iter().map(|editor| editor.setup(&folders, &offer));
        let targets: Vec<_> = targets.collect();
        let plans = targets.iter().map(|target| Plan::new(target, change));
        let plans = plans.collect::<anyhow::Result<Vec<_>>>()?;
        let how = How { change, what: "the entries", yes: self.yes, print: self.print, json };
        if !plan::carry_out(&plans, how)? {
            return Ok(ExitCode::FAILURE);
        }
        if !how.json && !how.print {
            for (target, plan) in targets.iter().zip(&plans) {
                target.tell(change, &plan.file, plan.is_done());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The agents that can be started here.
fn offered(json: bool) -> anyhow::Result<Vec<Offered>> {
    let installed = agents::installed(&Config::load()?)?;
    if installed.is_empty() {
        return Err(Refused {
            code: "not_installed",
            message: "no agent is installed that could be offered".to_owned(),
            hint: Some("`rethread agents` says how each is installed".to_owned()),
        }
        .into());
    }
    if !json {
        let names: Vec<&str> = installed.iter().map(|entry| entry.name.as_str()).collect();
        output::note(format_args!("Agents that are installed: {}", names.join(", ")));
    }
    Ok(installed.iter().map(Offered::new).collect())
}
