//! `rethread serve`

mod key;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rethread_domain::access::{Pass, Role};
use rethread_engine::imports::ImportReport;
use rethread_engine::{NewToken, shutdown_signal};
use rethread_server::{Bounds, Server, Settings, tls};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::project;
use crate::cli::App;
use crate::config::Config;
use crate::diagnostics::Output;
use crate::error::{BadInput, Refused};
use crate::{output, workspace};

pub(super) use key::ensure as own_token;

/// How long a link into the dashboard can be used.
const LINK_LASTS: SignedDuration = SignedDuration::from_mins(5);

/// Serve an API and a dashboard: sessions and workflows in a browser, and for programs
///
/// Listens on this machine alone, and lets nobody in without a token or a login: --open logs your browser in, and so
/// does `rethread login` later. For other machines it needs a certificate, or a reverse proxy that terminates TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen (port 0: any that is free) [default: 127.0.0.1:8617]
    #[arg(long, value_name = "ADDR")]
    addr: Option<SocketAddr>,
    /// Open the dashboard in the browser, logged in
    #[arg(long)]
    open: bool,
    /// A name by which others reach it, beside 127.0.0.1 and localhost; with its port where that is not the usual one
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The certificate to show, with its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A reverse proxy terminates TLS and passes on requests from other machines
    #[arg(long, conflicts_with = "tls_cert", requires = "host")]
    behind_proxy: bool,
    /// The folder that new sessions are about [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// The log on standard error: as lines of JSON, as text for people, or off: then `rethread logs` has it [default:
    /// text at a terminal, otherwise json]
    #[arg(long, value_name = "json|text|off")]
    log: Option<String>,
}

/// Log a browser in: print a link into the dashboard that works once, for five minutes
#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// Open it in the browser
    #[arg(long)]
    open: bool,
    /// Where the server listens, such as <http://127.0.0.1:8617> [default: the one of this store that was started last]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// What the browser may do: read, write or admin
    #[arg(long, default_value = "admin")]
    role: Role,
}

impl Login {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let known = match &self.url {
            Some(url) => Some(url.trim_end_matches('/').to_owned()),
            None => key::addresses(&app.url).into_iter().next(),
        };
        let base = known.ok_or_else(|| {
            let message = "no server runs on this store".to_owned();
            let hint = Some("start one: `rethread serve --open`".to_owned());
            Refused { code: "refused", message, hint }
        })?;
        let link = link(app, &base, self.role).await?;
        if app.json {
            output::json(&serde_json::json!({ "url": link }));
        } else {
            output::data(&format!("{link}\n"));
            output::note(format_args!("It works once, within five minutes."));
        }
        if self.open {
            browse(&link);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A link that logs a browser in, once. The code stands behind the `#`: it reaches no log.
async fn link(app: &App, base: &str, role: Role) -> anyhow::Result<String> {
    let new = NewToken {
        name: "login".to_owned(),
        role,
        user: app.config.user(None)?,
        pass: Pass::Link,
        lasts: Some(LINK_LASTS),
        parent: None,
    };
    let (_, secret) = app.engine.issue(new).await?;
    Ok(format!("{base}/login#{secret}"))
}

/// Opens the user's browser, if there is one.
fn browse(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = std::process::Command::new(program);
    let null = std::process::Stdio::null;
    let begun = command.arg(link).stdin(null()).stdout(null()).stderr(null()).spawn();
    match begun {
        // It is waited for, so that it does not stay as a zombie.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(_) => output::note(format_args!("No browser was found; open this link: {link}")),
    }
}

/// Imports what other agents write while the server runs.
fn watch(app: &App, stop: &CancellationToken) -> anyhow::Result<JoinHandle<()>> {
    let options = super::watch::options(app, Vec::new(), None)?;
    let (engine, stop) = (app.engine.clone(), stop.clone());
    Ok(tokio::spawn(async move {
        let mut each = |report: rethread_engine::Result<ImportReport>| match report {
            Ok(report) => {
                let total = report.total();
                if total.messages > 0 {
                    let (messages, sessions) = (total.messages, total.new + total.grown);
                    tracing::info!(messages, sessions, "imported from other agents");
                }
            }
            Err(error) => tracing::warn!(%error, "the sessions of other agents were not imported"),
        };
        engine.watch_sessions(&options, &stop, &mut each).await;
    }))
}

impl Args {
    pub(crate) async fn run(self, app: App) -> anyhow::Result<ExitCode> {
        let project = project(self.project.as_deref())?;
        let workspace = workspace::around(&project, &app.config);
        let app = App { engine: app.engine.with_workspace(workspace), ..app };
        let address = self.address(&app)?;
        let tls = self.certificate()?;
        let listener = match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => return self.is_taken(&app, address, &error).await,
        };
        let bound = listener.local_addr()?;
        // A request that fails is told to whoever asked; the others are served on.
        std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panic")));
        let settings = self.settings(&app, bound, project, tls.is_some());
        let base = self.base(bound, tls.is_some());
        // Before anybody hears that it is there: who does may also end it.
        let ended = shutdown_signal()?;
        let _place = key::Place::write(&app.url, bound.port(), &base)?;
        let token = key::ensure(&app).await?;
        output::note(format_args!("Listening on {base}"));
        self.greet(&app, &base).await?;
        output::note(format_args!("A token for programs is in {}", token.display()));
        let engine = app.engine.clone();
        let is_quiet = self.log(&app.config)? == Output::File;
        let program = app.program();
        let (beside, own) = (engine.clone(), Arc::clone(&program));
        tokio::spawn(async move { beside.take_up_all(&own).await });
        let stop = CancellationToken::new();
        let watching = app.config.serve.watch.then(|| watch(&app, &stop)).transpose()?;
        let server = Server { engine, program, settings, tls };
        let outcome = server.run(listener, ended).await;
        stop.cancel();
        if let Some(watching) = watching {
            // A panic in it was noted in the log.
            drop(watching.await);
        }
        outcome?;
        if is_quiet {
            output::note(format_args!("Stopped."));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Somebody listens there. Where it is a server of this store, that is the one to go to.
    async fn is_taken(
        &self,
        app: &App,
        address: SocketAddr,
        error: &std::io::Error,
    ) -> anyhow::Result<ExitCode> {
        let port = format!(":{}", address.port());
        let own = key::addresses(&app.url).into_iter().find(|base| base.ends_with(&port));
        let what = format!("cannot listen on {address}: {error}");
        match own {
            Some(base) if self.open => {
                output::note(format_args!("Rethread already serves this store at {base}."));
                self.greet(app, &base).await?;
                Ok(ExitCode::SUCCESS)
            }
            Some(base) => {
                let hint = format!(
                    "Rethread already serves this store at {base}: `rethread login --open`"
                );
                Err(BadInput::new(what, hint).into())
            }
            None => {
                let hint = "another program may listen there; --addr 127.0.0.1:0 takes a free port";
                Err(BadInput::new(what, hint).into())
            }
        }
    }

    async fn greet(&self, app: &App, base: &str) -> anyhow::Result<()> {
        if !self.open {
            output::note(format_args!(
                "`rethread login` gives a browser a link into the dashboard."
            ));
            return Ok(());
        }
        let link = link(app, base, Role::Admin).await?;
        output::note(format_args!("The dashboard opens in your browser; otherwise: {link}"));
        browse(&link);
        Ok(())
    }

    /// Where the log goes, and in which form.
    pub(crate) fn log(&self, config: &Config) -> Result<Output, BadInput> {
        match self.log.as_deref().unwrap_or(&config.serve.log) {
            "auto" if output::is_error_terminal() => Ok(Output::Text),
            "auto" | "json" => Ok(Output::Json),
            "text" => Ok(Output::Text),
            "off" => Ok(Output::File),
            other => Err(BadInput::new(
                format!("the log cannot be {other:?}"),
                "give json, text or off, as --log or as the setting serve.log",
            )),
        }
    }

    /// Nobody elsewhere reaches it unless their words are kept from others on the way.
    fn address(&self, app: &App) -> anyhow::Result<SocketAddr> {
        let address = match self.addr {
            Some(address) => address,
            None => app.config.serve.address()?,
        };
        if !address.ip().is_loopback() && self.tls_cert.is_none() && !self.behind_proxy {
            return Err(BadInput::new(
                format!("{address} can be reached from elsewhere, and nothing would be encrypted"),
                "give --tls-cert and --tls-key, or --behind-proxy with --host NAME where a reverse proxy terminates TLS; or listen on 127.0.0.1",
            )
            .into());
        }
        Ok(address)
    }

    fn certificate(&self) -> anyhow::Result<Option<Arc<rethread_server::TlsConfig>>> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| {
                let what = format!("{} cannot be read: {error}", path.display());
                BadInput::new(what, "give a file in PEM form")
            })
        };
        let config = tls(&read(cert)?, &read(key)?);
        Ok(Some(config.map_err(|why| {
            BadInput::new(why, "give --tls-cert and --tls-key that belong together")
        })?))
    }

    /// How a browser reaches it.
    fn base(&self, bound: SocketAddr, is_tls: bool) -> String {
        let scheme = if is_tls || self.behind_proxy { "https" } else { "http" };
        match self.host.first() {
            Some(host) if self.behind_proxy => format!("https://{host}"),
            Some(host) if !bound.ip().is_loopback() => {
                format!("{scheme}://{}", with_port(host, bound))
            }
            _ if bound.ip().is_unspecified() => format!("{scheme}://localhost:{}", bound.port()),
            _ => format!("{scheme}://{bound}"),
        }
    }

    fn settings(&self, app: &App, bound: SocketAddr, project: PathBuf, is_tls: bool) -> Settings {
        let port = bound.port();
        let own = [
            bound.to_string(),
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            format!("[::1]:{port}"),
        ];
        let given = self.host.iter().flat_map(|host| [host.clone(), with_port(host, bound)]);
        let mut hosts: Vec<String> = own.into_iter().chain(given).collect();
        hosts.sort();
        hosts.dedup();
        let is_secure = is_tls || self.behind_proxy;
        let scheme = if is_secure { "https" } else { "http" };
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        let serve = &app.config.serve;
        Settings {
            hosts,
            origins,
            is_secure,
            is_behind_proxy: self.behind_proxy,
            port,
            project,
            store: app.url.file().map(Path::to_owned),
            version: env!("CARGO_PKG_VERSION"),
            context: app.config.limits(),
            pruning: app.config.pruning(),
            idle: app.config.idle(),
            message_bytes: app.config.record.max_message_bytes,
            bounds: Bounds {
                body_bytes: serve.max_body_bytes,
                connections: serve.max_connections,
                connections_each: if self.behind_proxy {
                    serve.max_connections
                } else {
                    (serve.max_connections / 2).max(1)
                },
                streams: serve.max_streams,
                streams_each: (serve.max_streams / 2).max(1),
                requests: serve.requests_per_second,
                // Whoever has no token has a fiftieth of what one has.
                strangers: (serve.requests_per_second / 50).max(1),
                turns: serve.max_turns,
                patience: Duration::from_secs(serve.patience_seconds),
                login: SignedDuration::from_hours(serve.login_hours),
                ..Bounds::default()
            },
        }
    }
}

fn with_port(host: &str, bound: SocketAddr) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{}", bound.port()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_before_anybody_waits_for_it_is_heard() {
        let ended = shutdown_signal().unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        ended.await;
    }
}
