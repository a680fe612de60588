//! `rethread hook`

mod agents;
mod install;
mod run;
mod status;
mod stream;

use std::process::ExitCode;

use crate::error::{BadInput, Refused};
use agents::Agent;

/// Record sessions while they go on in an agent's own program
///
/// An agent that has hooks calls Rethread at each prompt, tool result and end of a turn: the session is in the store while
/// it goes on, and survives whatever happens to the agent. With the first prompt of a session the agent is told where the
/// last one in the folder stopped (settings hooks.inject and hooks.tokens).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Install(install::Install),
    Uninstall(install::Uninstall),
    Status(status::Args),
    /// Called by agents: reads what happened on standard input. Never fails, so that it never stops an agent
    #[command(hide = true)]
    Run(run::Args),
    /// Called by plugins in agents: reads what happens, a line for each, until the agent ends
    #[command(hide = true)]
    Stream(stream::Args),
}

impl Args {
    /// Whether an agent has called it.
    pub(crate) const fn is_called_by_an_agent(&self) -> bool {
        matches!(self.command, Command::Run(_) | Command::Stream(_))
    }

    pub(crate) async fn run(self, store: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Install(args) => args.run(store, json),
            Command::Uninstall(args) => args.run(json),
            Command::Status(args) => args.run(json),
            Command::Run(args) => {
                args.run(store).await;
                Ok(ExitCode::SUCCESS)
            }
            Command::Stream(args) => {
                args.run(store).await;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// The agents that were named, or a word about those that cannot be.
fn named(names: &[String]) -> anyhow::Result<Vec<&'static Agent>> {
    let mut found: Vec<&'static Agent> = Vec::new();
    for name in names {
        let Some(agent) = Agent::named(name) else { return Err(unknown(name)) };
        if !found.iter().any(|one| one.name == agent.name) {
            found.push(agent);
        }
    }
    Ok(found)
}

fn unknown(name: &str) -> anyhow::Error {
    let known: Vec<&str> = agents::AGENTS.iter().map(|agent| agent.name).collect();
    let known = known.join(", ");
    let presets = rethread_acp::entries(&toml::Table::new());
    if presets.is_ok_and(|presets| presets.contains_key(name)) {
        return BadInput::new(
            format!("{name} has no hooks that Rethread can use"),
            format!(
                "`rethread import` takes in what it keeps of its sessions; hooks can be installed for {known}"
            ),
        )
        .into();
    }
    let name = rethread_domain::quote::one_line(name, 60);
    Refused {
        code: "unknown_agent",
        message: format!("no agent is called {name}"),
        hint: Some(format!("hooks can be installed for {known}")),
    }
    .into()
}

/// The words that start this program.
fn start(store: Option<&str>) -> anyhow::Result<Vec<String>> {
    let (program, args) = crate::client_files::own_command(store)?;
    Ok(std::iter::once(program).chain(args).collect())
}
