//! The command line: what can be said, and what every command shares.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use rethread_domain::SessionId;
use rethread_domain::id::SessionRef;
use rethread_engine::{Clock, Engine, Summariser};
use rethread_store::StoreUrl;

use crate::commands;
use crate::config::Config;
use crate::error::Refused;
use crate::output;

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
    Backup(commands::backup::Args),
    Restore(commands::backup::Restore),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Tour(commands::tour::Args),
    Completions(commands::manual::Completions),
    Man(commands::manual::Man),
    /// An agent for trials: remembers what it is told, and fails in every way that is asked for
    #[command(hide = true)]
    ReferenceAgent(rethread_reference::Flags),
}

/// What commands work with.
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
                "there is no store at {url}: the folder {} is not there",
                folder.display()
            ),
            hint: Some("check the path; `rethread record` makes a new store".to_owned()),
        }
        .into()),
        _ => Ok(()),
    }
}

impl Cli {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { store, json, command } = self;
        match command {
            Command::Config(args) => return args.run(json),
            Command::Completions(args) => return Ok(args.run()),
            Command::Man(args) => return args.run(),
            Command::ReferenceAgent(flags) => return Ok(rethread_reference::run(flags)),
            Command::Tour(args) => return args.run().await,
            _ => (),
        }
        let config = Config::load()?;
        let url = config.store_url(store.as_deref())?;
        if let Command::Restore(args) = command {
            return args.run(&url);
        }
        if !matches!(command, Command::Record(_) | Command::Import(_) | Command::Run(_)) {
            refuse_missing_folder(&url, &config)?;
        }
        let summariser = config.summariser()?;
        let engine = Engine::new(rethread_store::open(&url).await?, Clock::Wall)
            .with_summariser(summariser.map(|one| Arc::new(one) as Arc<dyn Summariser>));
        let app = App { engine, config, url, json };
        if !matches!(command, Command::Doctor(_)) {
            app.tidy().await?;
        }
        match command {
            Command::Run(args) => args.run(&app).await,
            Command::Resume(args) => args.run(&app).await,
            Command::Continue(args) => args.run(&app).await,
            Command::Send(args) => args.run(&app).await,
            Command::Stop(args) => args.run(&app).await,
            Command::Agents(args) => args.run(&app).await,
            Command::Record(args) => args.run(&app).await,
            Command::List(args) => args.run(&app).await,
            Command::Show(args) => args.run(&app).await,
            Command::Search(args) => args.run(&app).await,
            Command::Context(args) => args.run(&app).await,
            Command::Pause(args) => args.run(&app).await,
            Command::Complete(args) => args.run(&app).await,
            Command::Activate(args) => args.run(&app).await,
            Command::Archive(args) => args.run(&app).await,
            Command::Unarchive(args) => args.run(&app).await,
            Command::Rename(args) => args.run(&app).await,
            Command::Fork(args) => args.run(&app).await,
            Command::Prune(args) => args.run(&app).await,
            Command::Export(args) => args.run(&app).await,
            Command::Import(args) => args.run(&app).await,
            Command::Delete(args) => args.run(&app).await,
            Command::Undelete(args) => args.run(&app).await,
            Command::Purge(args) => args.run(&app).await,
            Command::Backup(args) => args.run(&app).await,
            Command::Doctor(args) => args.run(&app).await,
            Command::Config(_)
            | Command::Restore(_)
            | Command::Tour(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::ReferenceAgent(_) => Ok(ExitCode::SUCCESS),
        }
    }
}
