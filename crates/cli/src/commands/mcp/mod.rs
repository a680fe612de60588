//! `rethread mcp`

mod clients;
mod install;
mod token;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_mcp::{
    CallerContext, HttpOptions, Limits, ServerState, Streams, serve_http, serve_stdio,
};

use super::project;
use crate::cli::App;
use crate::error::BadInput;
use crate::{config, output, workspace};

/// Let agents remember, and invoke each other, over the Model Context Protocol
///
/// Without arguments it serves the client that started it, on standard input and output. With --http it listens;
/// every request then needs the token that is made at the first start. `rethread mcp install` writes a client's
/// configuration.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Listen on this address instead, such as 127.0.0.1:8765 (port 0: any that is free)
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// A name by which others reach it; needed where ADDR is not loopback, behind a reverse proxy that terminates TLS
    #[arg(long, value_name = "HOST", requires = "http")]
    public_host: Vec<String>,
    /// The folder that new sessions are about [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Install(install::Args),
}

impl Args {
    pub(crate) fn is_install(&self) -> bool {
        self.command.is_some()
    }

    pub(crate) fn install(self, store: Option<&str>) -> anyhow::Result<ExitCode> {
        match self.command {
            Some(Command::Install(args)) => args.run(store),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    pub(crate) async fn run(self, app: App) -> anyhow::Result<ExitCode> {
        let project = project(self.project.as_deref())?;
        let workspace = workspace::around(&project, &app.config);
        let app = App { engine: app.engine.with_workspace(workspace), ..app };
        let caller = CallerContext {
            user: app.config.user(None)?,
            project,
            parent: config::parent(),
            depth: config::depth(),
        };
        let mcp = &app.config.mcp;
        let limits = Limits {
            wait: Duration::from_secs(mcp.wait_seconds),
            prompt_bytes: mcp.max_prompt_bytes,
            message_bytes: app.config.record.max_message_bytes,
            depth: mcp.max_depth,
            context: app.config.limits(),
            idle: app.config.idle(),
            pruning: app.config.pruning(),
        };
        let streams = Streams::new(app.config.output_streams()?);
        let engine = app.engine.clone();
        let program = app.program();
        // Beside the serving: a client is answered at once.
        let (beside, own) = (engine.clone(), Arc::clone(&program));
        tokio::spawn(async move { beside.take_up_all(&own).await });
        let state =
            ServerState::new(engine, program, caller, limits, streams, env!("CARGO_PKG_VERSION"));
        match self.http {
            Some(address) => listen(state, address, &self.public_host).await?,
            None => serve_stdio(state).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn listen(
    state: Arc<ServerState>,
    address: SocketAddr,
    public: &[String],
) -> anyhow::Result<()> {
    if !address.ip().is_loopback() && public.is_empty() {
        return Err(BadInput::new(
            format!("{address} can be reached from elsewhere"),
            "listen on 127.0.0.1, or give the name that others use with --public-host, behind a reverse proxy that terminates TLS",
        )
        .into());
    }
    let listener = tokio::net::TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let port = bound.port();
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")];
    let by_name = public.iter().map(|name| format!("https://{name}:443"));
    let origins = own.iter().map(|host| format!("http://{host}")).chain(by_name).collect();
    let hosts = own.into_iter().chain(public.iter().cloned()).collect();
    let (token, file) = token::open()?;
    output::note(format_args!("Listening on http://{bound}/mcp"));
    output::note(format_args!("The token is in {}", file.display()));
    Ok(serve_http(state, HttpOptions { listener, hosts, origins, token }).await?)
}
