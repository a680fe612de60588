//! `rethread hook run`: what an agent calls.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rethread_engine::imports::hook::{self, Call};
use rethread_engine::imports::{ImportOptions, Injection};
use rethread_engine::{Clock, Engine};

use crate::config::{self, Config};
use crate::diagnostics::{self, Output};
use crate::output;

/// More than this is not read: agents pass whole results of tools.
const MOST_BYTES: u64 = 64 << 20;

/// Less than agents wait for a hook.
const LONGEST_RUN: Duration = Duration::from_secs(8);

/// After a call that came too early, the session is looked at again, each time so much later.
const LATER: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(900), Duration::from_millis(2_400)];

/// So much fits into a pipe that nobody reads yet.
const MOST_HANDED_ON: usize = 60_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which agent calls
    agent: String,
    /// What happened, by the agent's own name for it
    event: String,
    /// Called by the hook itself: looks a little later, when the agent has written down the rest
    #[arg(long)]
    later: bool,
}

impl Args {
    /// Takes in what happened. Whatever goes wrong is noted in the log.
    pub(super) async fn run(self, store: Option<&str>) {
        let (agent, event) = (self.agent.as_str(), self.event.as_str());
        end_in_time(self.agent.clone(), self.event.clone());
        // Without settings nobody knows where the log is either.
        let Ok(config) = Config::load() else { return };
        if diagnostics::start(Output::File, config.redactor()).is_err() {
            return;
        }
        match self.hear(config, store).await {
            Ok(Some(answer)) => {
                if let Err(error) = output::try_write(answer.as_bytes()) {
                    tracing::warn!(agent, event, %error, "the agent does not take the context");
                }
            }
            Ok(None) => (),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(agent, event, error, "a hook could not record what happened");
            }
        }
    }

    async fn hear(&self, config: Config, store: Option<&str>) -> anyhow::Result<Option<String>> {
        let input = Self::read()?;
        let call = hook::read(&self.agent, &self.event, &input).map_err(anyhow::Error::msg)?;
        if config.excludes_call(call.folder.as_deref()) {
            return Ok(None);
        }
        let options = options(&config)?;
        if hook::comes_early(&call) && !self.later {
            self.look_later(store, &input)?;
        }
        let url = config.store_url(store)?;
        let store =
            rethread_store::open_briefly(&url).await.map_err(rethread_engine::Error::from)?;
        let engine =
            Engine::new(store, Clock::Wall).with_redactor(config.redactor(), config.redact.at_rest);
        if self.later {
            for pause in LATER {
                tokio::time::sleep(pause).await;
                engine.hear_hook(&call, &options, None).await?;
            }
            return Ok(None);
        }
        let injection = engine.hear_hook(&call, &options, config.hooks.limits(&config)).await?;
        Ok(injection.and_then(|injection| answer(&call, &injection)))
    }

    /// Has another process look at the session a little later: the agent waits for this one before it writes on.
    fn look_later(&self, store: Option<&str>, input: &[u8]) -> anyhow::Result<()> {
        if input.len() > MOST_HANDED_ON {
            return Ok(());
        }
        let mut later = Command::new(std::env::current_exe()?)
            .args(["hook", "run", &self.agent, &self.event, "--later"])
            // Others can read command lines, which passwords do not belong on.
            .envs(store.map(|url| (config::STORE_VARIABLE, url)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the agent does not end it.
            .process_group(0)
            .spawn()?;
        if let Some(mut stdin) = later.stdin.take() {
            stdin.write_all(input)?;
        }
        Ok(())
    }

    fn read() -> anyhow::Result<Vec<u8>> {
        let stdin = std::io::stdin();
        anyhow::ensure!(!stdin.is_terminal(), "only agents call this");
        let mut input = Vec::new();
        let count = stdin.lock().take(MOST_BYTES + 1).read_to_end(&mut input)?;
        anyhow::ensure!(count as u64 <= MOST_BYTES, "more than {MOST_BYTES} bytes were passed");
        Ok(input)
    }
}

/// Ends this process before the agent loses its patience, whatever it waits for: its input, the store, a huge session. What
/// is written by then stays, and the next hook or import takes in the rest.
fn end_in_time(agent: String, event: String) {
    let watch = move || {
        std::thread::sleep(LONGEST_RUN);
        tracing::warn!(agent, event, "a hook took too long: what is missing is taken in later");
        diagnostics::flush();
        std::process::exit(0);
    };
    // Without it, the agent has to end us itself.
    drop(std::thread::Builder::new().name("patience".to_owned()).spawn(watch));
}

/// How what agents keep is read.
pub(super) fn options(config: &Config) -> anyhow::Result<ImportOptions> {
    config.import_options(config.user(None)?)
}

/// What the agent takes as an answer, with a line for its user.
fn answer(call: &Call, injection: &Injection) -> Option<String> {
    let (id, tokens) = (injection.session.short(), injection.tokens);
    let note = format!(
        "Rethread told the agent where session {id} stopped ({tokens} tokens; `rethread config set hooks.inject false` turns this off)"
    );
    hook::injection(call, &injection.context, &note)
}
