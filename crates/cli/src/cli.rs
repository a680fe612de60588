//! The command line: what can be said, and what every command shares.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args as _, FromArgMatches as _, Parser, Subcommand};
use rethread_domain::id::SessionRef;
use rethread_domain::quote::safe;
use rethread_domain::{Seq, SessionId};
use rethread_engine::{Clock, Engine, Error, Summariser};
use rethread_store::{Store, StoreUrl};

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
    #[command(flatten)]
    pub(crate) shared: Shared,

    #[command(subcommand)]
    command: Command,
}

// What every command can be told. (No description: clap would take it for that of the program.)
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct Shared {
    /// Where sessions are kept (`sqlite:PATH` or `postgres://USER@HOST/DATABASE`)
    #[arg(long, global = true, env = "RETHREAD_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,

    /// Answer in JSON, errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Args),
    Resume(commands::resume::Args),
    Continue(commands::resume::Continue),
    Send(commands::resume::Send),
    Stop(commands::stop::Args),
    Agents(commands::agents::Args),
    Acp(commands::acp::Args),
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
    Watch(commands::watch::Args),
    Hook(commands::hook::Args),
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
    #[command(hide = true)]
    Home(commands::home::Args),
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
        tell_purged(&tidied.purged);
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

fn tell_purged(purged: &[(SessionId, Seq)]) {
    for (id, seq) in purged {
        output::note(format_args!(
            "note: the purge of message {seq} of {} had been cut off; it is finished now",
            id.short()
        ));
    }
}

/// A store in a folder that is not there is a typo, unless it is to be written to or is the usual one.
fn refuse_missing_folder(url: &StoreUrl, config: &Config) -> anyhow::Result<()> {
    let path = url.file().and_then(Path::parent);
    let folder = path.filter(|folder| !folder.as_os_str().is_empty());
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

/// Whether only the version is asked for.
pub(crate) fn is_version_asked() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_asked = arguments.next().is_some_and(|first| first == "--version" || first == "-V");
    is_asked && arguments.next().is_none()
}

/// Where nothing at all is asked for, what there is is shown, and what to do next.
fn is_home_asked() -> bool {
    std::env::args_os().len() <= 1
}

/// The command that the arguments name, where no option that needs a value stands before it but `--store`.
fn asked_for() -> Option<String> {
    let mut arguments = std::env::args_os().skip(1).map(|one| one.into_string().ok());
    loop {
        match arguments.next()??.as_str() {
            "--json" => (),
            "--store" => drop(arguments.next()?),
            other if other.starts_with("--store=") => (),
            other => return Some(other.to_owned()),
        }
    }
}

/// Whether an agent calls its hook: `hook run` or `hook stream`, with or without a store before it.
pub(crate) fn is_hook_called() -> bool {
    let mut arguments = std::env::args_os().skip(1).skip_while(|one| one != "hook");
    arguments.next().is_some()
        && arguments.next().is_some_and(|next| next == "run" || next == "stream")
}

/// Reads the arguments of one command; nothing where they are not in order.
fn one_command<A: clap::Args>(name: &'static str, make: fn(A) -> Command) -> Option<Cli> {
    let whole = Shared::augment_args(clap::Command::new("rethread"));
    let whole = whole.subcommand(A::augment_args(clap::Command::new(name)));
    let matches = whole.try_get_matches().ok()?;
    let shared = Shared::from_arg_matches(&matches).ok()?;
    let (_, own) = matches.subcommand()?;
    Some(Cli { shared, command: make(A::from_arg_matches(own).ok()?) })
}

impl Cli {
    /// The commands that programs call at every prompt, without setting up what all the others can be told, which takes
    /// longer than their work. Nothing where it is another command, and where help is asked for or something is wrong: then
    /// all is set up, and says so.
    pub(crate) fn quickly() -> Option<Self> {
        if is_home_asked() {
            return Self::try_parse_from(["rethread", "home"]).ok();
        }
        match asked_for()?.as_str() {
            "record" => one_command("record", Command::Record),
            "context" => one_command("context", Command::Context),
            "list" => one_command("list", Command::List),
            "show" => one_command("show", Command::Show),
            "search" => one_command("search", Command::Search),
            "hook" => one_command("hook", Command::Hook),
            _ => None,
        }
    }

    /// Whether it only reads and writes files, unless a model is asked.
    pub(crate) const fn is_quick(&self) -> bool {
        matches!(
            self.command,
            Command::Record(_)
                | Command::Context(_)
                | Command::List(_)
                | Command::Show(_)
                | Command::Search(_)
        )
    }

    /// Whether an agent calls its hook: then it must not fail, whatever happens.
    pub(crate) const fn is_hook(&self) -> bool {
        matches!(&self.command, Command::Hook(args) if args.is_called_by_an_agent())
    }

    /// Whether it serves many at once, on all cores.
    pub(crate) const fn is_server(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }

    /// Runs the command; its settings may have been read already.
    pub(crate) async fn run(
        self,
        config: Option<anyhow::Result<Config>>,
    ) -> anyhow::Result<ExitCode> {
        let Self { shared: Shared { store, json }, command } = self;
        match command {
            Command::Config(args) => return args.run(json),
            Command::Logs(args) => return args.run(json),
            Command::Completions(args) => return Ok(args.run()),
            Command::Man(args) => return args.run(),
            Command::ReferenceAgent(flags) => return Ok(rethread_reference::run(flags)),
            Command::Tour(args) => return args.run(json).await,
            Command::Hook(args) => return args.run(store.as_deref(), json).await,
            Command::Acp(args) if args.is_setup() => return args.set_up(store.as_deref(), json),
            Command::Mcp(args) if args.is_install() => return args.install(store.as_deref()),
            _ => (),
        }
        let config = config.unwrap_or_else(Config::load)?;
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
        if !command.may_make_a_store() {
            refuse_missing_folder(&url, &config)?;
        }
        let summariser = config.endpoint()?.map(crate::model::Model);
        let store = command.open_store(&url).await?;
        if let Some(warning) = store.warning().await.map_err(Error::from)? {
            output::note(format_args!("warning: {}", output::shown(&warning, false)));
        }
        let engine = Engine::new(store, Clock::Wall)
            .with_summariser(summariser.map(|one| Arc::new(one) as Arc<dyn Summariser>))
            .with_redactor(redactor, config.redact.at_rest)
            .with_workspace(workspace::find(&config))
            .with_output_streams(config.output_streams()?);
        let app = App { engine, config, url, json };
        command.put_in_order(&app).await?;
        if let Command::Mcp(args) = command {
            return Box::pin(args.run(app)).await;
        }
        if let Command::Serve(args) = command {
            return Box::pin(args.run(app)).await;
        }
        if command.is_for_people() {
            commands::welcome::offer(&app).await?;
        }
        let outcome = Box::pin(command.run(&app)).await;
        app.tell_notes().await?;
        if app.engine.leave() {
            // Where nothing is left to be done, freeing piece by piece what the system frees at once would only take time.
            std::mem::forget(app);
        }
        outcome
    }
}

impl Command {
    /// Brings in and puts right what the command has to find in order.
    async fn put_in_order(&self, app: &App) -> anyhow::Result<()> {
        if matches!(self, Self::Doctor(_)) {
            // What is wrong with the store must not keep it from being looked at.
            match app.engine.finish_purges().await {
                Ok(purged) => tell_purged(&purged),
                Err(error) => output::note(format_args!(
                    "note: a purge that had been cut off could not be finished: {}",
                    safe(&error.to_string())
                )),
            }
        } else {
            app.tidy().await?;
        }
        if self.reads() {
            app.gather().await?;
        }
        Ok(())
    }

    async fn open_store(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, Error> {
        let opened = match self {
            Self::Record(args) if !args.confirms() => rethread_store::open_briefly(url).await,
            _ => rethread_store::open(url).await,
        };
        opened.map_err(Error::from)
    }

    /// Whether there may be no store yet: then it is made, in a folder that is made too.
    const fn may_make_a_store(&self) -> bool {
        matches!(
            self,
            Self::Record(_)
                | Self::Import(_)
                | Self::Watch(_)
                | Self::Run(_)
                | Self::Acp(_)
                | Self::Mcp(_)
                | Self::Serve(_)
        )
    }

    /// Whether it is what somebody begins with who wants to see or take up sessions.
    const fn is_for_people(&self) -> bool {
        matches!(
            self,
            Self::List(_) | Self::Search(_) | Self::Resume(_) | Self::Continue(_) | Self::Run(_)
        )
    }

    /// Whether it looks for sessions: what came with the workspace has to be there.
    fn reads(&self) -> bool {
        !matches!(
            self,
            Self::Record(_)
                | Self::Import(_)
                | Self::Watch(_)
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
            Self::Run(args) => Box::pin(args.run(app)).await,
            Self::Resume(args) => args.run(app).await,
            Self::Continue(args) => args.run(app).await,
            Self::Send(args) => args.run(app).await,
            Self::Stop(args) => args.run(app).await,
            Self::Agents(args) => args.run(app).await,
            Self::Acp(args) => Box::pin(args.run(app)).await,
            Self::Workflow(args) => Box::pin(args.run(app)).await,
            Self::Token(args) => args.run(app).await,
            Self::Login(args) => args.run(app).await,
            Self::Init(args) => args.run(app).await,
            Self::Record(args) => args.run(app).await,
            Self::Home(args) => args.run(app).await,
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
            Self::Watch(args) => args.run(app).await,
            Self::Delete(args) => args.run(app).await,
            Self::Undelete(args) => args.run(app).await,
            Self::Purge(args) => args.run(app).await,
            Self::Scan(args) => args.run(app).await,
            Self::Rehome(args) => args.run(app).await,
            Self::Backup(args) => args.run(app).await,
            Self::Doctor(args) => args.run(app).await,
            Self::Config(_)
            | Self::Logs(_)
            | Self::Hook(_)
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
