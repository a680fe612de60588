//! `rethread acp`

mod editors;
mod install;
mod own_files;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rethread_acp::AcpLauncher;
use rethread_acp::proxy::{Launchers, Proxy};
use rethread_engine::shutdown_signal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::project;
use crate::cli::App;
use crate::config;
use crate::host::fault;

/// Be an agent for an editor: an agent with a memory
///
/// An editor that speaks the Agent Client Protocol starts this instead of the agent. Everything passes between the two as
/// it is, and is recorded; the editor can list, load and resume sessions, also those from a terminal, from another editor
/// or with another agent. With --install each agent that is installed is offered in an editor once more, started so, as
/// "NAME (Rethread)".
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent: one of `rethread agents`
    #[arg(required_unless_present = "setup", conflicts_with = "setup")]
    agent: Option<String>,
    /// More arguments for the agent
    #[arg(last = true, value_name = "ARGS", conflicts_with = "setup")]
    more: Vec<String>,
    #[command(flatten)]
    setup: install::Setup,
}

impl Args {
    pub(crate) const fn is_setup(&self) -> bool {
        self.setup.is_asked_for()
    }

    pub(crate) fn set_up(self, store: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
        self.setup.run(store, json)
    }

    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let mut entry = app.agent(self.agent.as_deref().unwrap_or_default())?;
        entry.command.extend(self.more);
        entry.env.extend(config::driven());
        let proxy = Proxy {
            engine: app.engine.clone(),
            program: app.program(),
            launcher: app.launcher(entry)?,
            others: others(app.clone()),
            folder: project(None)?,
            tells: app.config.editors.show_opening,
        };
        let stop = shutdown_signal()?;
        proxy.serve(input()?, output()?, stop).await;
        Ok(ExitCode::SUCCESS)
    }
}

/// How another agent is started that goes on in a session.
fn others(app: App) -> Launchers {
    Box::new(move |name| {
        let launcher = || -> anyhow::Result<AcpLauncher> {
            let mut entry = app.agent(name)?;
            entry.env.extend(config::driven());
            app.launcher(entry)
        };
        launcher().map_err(fault)
    })
}

/// Standard input: a pipe, or the socket that some editors use instead.
fn input() -> std::io::Result<Box<dyn AsyncRead + Unpin>> {
    let own = std::io::stdin().as_fd().try_clone_to_owned()?;
    if let Ok(pipe) = pipe::Receiver::from_owned_fd(own.try_clone()?) {
        return Ok(Box::new(pipe));
    }
    match socket(own) {
        Ok(socket) => Ok(Box::new(socket)),
        Err(_) => Ok(Box::new(tokio::io::stdin())),
    }
}

/// Standard output, in the same way.
fn output() -> std::io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let own = std::io::stdout().as_fd().try_clone_to_owned()?;
    if let Ok(pipe) = pipe::Sender::from_owned_fd(own.try_clone()?) {
        return Ok(Box::new(pipe));
    }
    match socket(own) {
        Ok(socket) => Ok(Box::new(socket)),
        Err(_) => Ok(Box::new(tokio::io::stdout())),
    }
}

fn socket(own: OwnedFd) -> std::io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(own);
    // Only a socket has an address.
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
