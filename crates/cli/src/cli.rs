//! The command line: what can be said, and what every command shares.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use rethread_domain::SessionId;
use rethread_domain::id::SessionRef;
use rethread_domain::quote::safe;
use rethread_engine::{Clock, Engine, Error, Summariser};
use rethread_store::StoreUrl;

use crate::commands;
use crate::config::Config;
use crate::diagnostics::{self, Output};
use crate::error::Refused;
use crate::output;
use crate::workspace;

/// Session continuity for AI agents
///
/// Records what people and agents say and do, finds it again, and gives back the context that matters, within a
/// token budget. Everything is kept in one file; `rethread tour` shows it at work.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Where sessions are kept (`sqlite:PATH`)
    #[arg(long, global = true, env = "RETHREAD_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,

    /// Answer in JSON, errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Args),
    Resume(commands::resume::Args),
    Continue(commands::resume::Continue),
    Send(commands::resume::Send),
    Stop(commands::stop::Args),
    Agents(commands::agents::Args),
    Workflow(commands::workflow::Args),
    Mcp(commands::mcp::Args),
    Serve(commands::serve::Args),
    Login(commands::serve::Login),
    Token(commands::token::Args),
    Init(commands::init::Args),
    Record(commands::record::Args),
    List(commands::list::Args),
    Show(commands::show::Args),
    Search(commands::search::Args),
    Context(commands::context::Args),
    Pause(commands::shift::Pause),
    Complete(commands::shift::Complete),
    Activate(commands::shift::Activate),
    Archive(commands::shift::Archive),
    Unarchive(commands::shift::Unarchive),
    Rename(commands::rename::Args),
    Fork(commands::fork::Args),
    Prune(commands::prune::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    Delete(commands::delete::Args),
    Undelete(commands::delete::Undelete),
    Purge(commands::purge::Args),
    Scan(commands::scan::Args),
    Rehome(commands::rehome::Args),
    Backup(commands::backup::Args),
    Restore(commands::backup::Restore),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Logs(commands::logs::Args),
    Tour(commands::tour::Args),
    Completions(commands::manual::Completions),
    Man(commands::manual::Man),
    /// An agent for trials: remembers what it is told, and fails in every way that is asked for
    #[command(hide = true)]
    ReferenceAgent(rethread_reference::Flags),
}

/// What commands work with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    pub(crate) url: StoreUrl,
    pub(crate) json: bool,
}

impl App {
    /// The one session that a shortened id means.
    pub(crate) async fn session(&self, reference: &SessionRef) -> anyhow::Result<SessionId> {
        Ok(self.engine.resolve(reference).await?)
    }

    /// Ends what nobody drives any more, and says so.
    async fn tidy(&self) -> anyhow::Result<()> {
        let tidied = self.engine.tidy(self.config.idle()).await?;
        for session in &tidied.interrupted {
            output::note(format_args!(
                "note: the last answer in {} was interrupted; what had been said is kept",
                commands::named(session)
            ));
        }
        for (session, why) in &tidied.unreadable {
            output::note(format_args!(
                "note: the answer that was under way in {} cannot be read ({}); what came before it is kept",
                commands::named(session),
                safe(why)
            ));
        }
        let idle = output::time::length(self.config.idle());
        match tidied.paused.as_slice() {
            [] => (),
            [one] => output::note(format_args!(
                "note: paused {}: nothing was said for {idle}",
                commands::named(one)
            )),
            several => output::note(format_args!(
                "note: paused {} sessions in which nothing was said for {idle}",
                several.len()
            )),
        }
        Ok(())
    }
}

/// A store in a folder that is not there is a typo, unless it is to be written to or is the usual one.
fn refuse_missing_folder(url: &StoreUrl, config: &Config) -> anyhow::Result<()> {
    let StoreUrl::Sqlite(path) = url;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.exists()) {
        Some(folder) if config.store_url(None).ok().as_ref() != Some(url) => Err(Refused {
            code: "store_not_open",
            message: format!(
                "there is no store at {url}: the folder {} does not exist",
                folder.display()
            ),
            hint: Some("check the path; `rethread record` makes a new store".to_owned()),
        }
        .into()),
        _ => Ok(()),
    }
}

impl Cli {
    /// Whether it serves many at once, on all cores.
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }

    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { store, json, command } = self;
        match command {
            Command::Config(args) => return args.run(json),
            Command::Logs(args) => return args.run(json),
            Command::Completions(args) => return Ok(args.run()),
            Command::Man(args) => return args.run(),
            Command::ReferenceAgent(flags) => return Ok(rethread_reference::run(flags)),
            Command::Tour(args) => return args.run(json).await,
            Command::Mcp(args) if args.is_install() => return args.install(store.as_deref()),
            _ => (),
        }
        let config = Config::load()?;
        let redactor = config.redactor();
        let output = match &command {
            Command::Serve(args) => args.log(&config)?,
            _ => Output::File,
        };
        diagnostics::start(output, redactor.clone())?;
        let url = config.store_url(store.as_deref())?;
        if let Command::Restore(args) = command {
            return args.run(&url, json);
        }
        if !matches!(
            command,
            Command::Record(_)
                | Command::Import(_)
                | Command::Run(_)
                | Command::Mcp(_)
                | Command::Serve(_)
        ) {
            refuse_missing_folder(&url, &config)?;
        }
        let summariser = config.endpoint()?.map(crate::model::Model);
        let store = rethread_store::open(&url).await.map_err(Error::from)?;
        if let Some(warning) = store.warning().await.map_err(Error::from)? {
            output::note(format_args!("warning: {}", output::shown(&warning, false)));
        }
        let engine = Engine::new(store, Clock::Wall)
            .with_summariser(summariser.map(|one| Arc::new(one) as Arc<dyn Summariser>))
            .with_redactor(redactor, config.redact.at_rest)
            .with_workspace(workspace::find(&config))
            .with_output_streams(config.output_streams()?);
        let app = App { engine, config, url, json };
        if !matches!(command, Command::Doctor(_)) {
            app.tidy().await?;
        }
        if command.reads() {
            app.gather().await?;
        }
        if let Command::Mcp(args) = command {
            return Box::pin(args.run(app)).await;
        }
        if let Command::Serve(args) = command {
            return Box::pin(args.run(app)).await;
        }
        let outcome = command.run(&app).await;
        app.tell_notes().await?;
        outcome
    }
}

impl Command {
    /// Whether it looks for sessions: what came with the workspace has to be there.
    fn reads(&self) -> bool {
        !matches!(
            self,
            Self::Record(_)
                | Self::Import(_)
                | Self::Init(_)
                | Self::Doctor(_)
                | Self::Backup(_)
                | Self::Token(_)
                // Its server looks whenever it is asked.
                | Self::Mcp(_)
                | Self::Serve(_)
                | Self::Login(_)
        )
    }

    async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        match self {
            Self::Run(args) => args.run(app).await,
            Self::Resume(args) => args.run(app).await,
            Self::Continue(args) => args.run(app).await,
            Self::Send(args) => args.run(app).await,
            Self::Stop(args) => args.run(app).await,
            Self::Agents(args) => args.run(app).await,
            Self::Workflow(args) => Box::pin(args.run(app)).await,
            Self::Token(args) => args.run(app).await,
            Self::Login(args) => args.run(app).await,
            Self::Init(args) => args.run(app).await,
            Self::Record(args) => args.run(app).await,
            Self::List(args) => args.run(app).await,
            Self::Show(args) => args.run(app).await,
            Self::Search(args) => args.run(app).await,
            Self::Context(args) => args.run(app).await,
            Self::Pause(args) => args.run(app).await,
            Self::Complete(args) => args.run(app).await,
            Self::Activate(args) => args.run(app).await,
            Self::Archive(args) => args.run(app).await,
            Self::Unarchive(args) => args.run(app).await,
            Self::Rename(args) => args.run(app).await,
            Self::Fork(args) => args.run(app).await,
            Self::Prune(args) => args.run(app).await,
            Self::Export(args) => args.run(app).await,
            Self::Import(args) => args.run(app).await,
            Self::Delete(args) => args.run(app).await,
            Self::Undelete(args) => args.run(app).await,
            Self::Purge(args) => args.run(app).await,
            Self::Scan(args) => args.run(app).await,
            Self::Rehome(args) => args.run(app).await,
            Self::Backup(args) => args.run(app).await,
            Self::Doctor(args) => args.run(app).await,
            Self::Config(_)
            | Self::Logs(_)
            | Self::Mcp(_)
            | Self::Serve(_)
            | Self::Restore(_)
            | Self::Tour(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::ReferenceAgent(_) => Ok(ExitCode::SUCCESS),
        }
    }
}
