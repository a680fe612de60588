//! `rethread hook stream`: what a plugin of ours in an agent starts, and speaks to while the agent runs.

use std::io::{BufRead as _, Read as _};

use rethread_domain::turn::Update;
use rethread_engine::imports::LiveStream;
use rethread_engine::imports::hook::{self, Call, Moment, Said};
use rethread_engine::{Clock, Engine};
use serde_json::json;

use super::run;
use crate::config::Config;
use crate::diagnostics::{self, Output};
use crate::output;

/// A longer line is not taken in.
const LONGEST_LINE: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which agent speaks
    agent: String,
}

impl Args {
    /// Takes in lines until the agent ends. Whatever goes wrong is noted in the log.
    pub(super) async fn run(self, store: Option<&str>) {
        // Without settings nobody knows where the log is either.
        let Ok(config) = Config::load() else { return };
        if diagnostics::start(Output::File, config.redactor()).is_err() {
            return;
        }
        if let Err(error) = self.listen(&config, store).await {
            let (agent, error) = (self.agent.as_str(), format!("{error:#}"));
            tracing::warn!(agent, error, "a plugin could not record what happened");
        }
    }

    async fn listen(&self, config: &Config, store: Option<&str>) -> anyhow::Result<()> {
        let options = run::options(config)?;
        let url = config.store_url(store)?;
        let store = rethread_store::open(&url).await.map_err(rethread_engine::Error::from)?;
        let engine =
            Engine::new(store, Clock::Wall).with_redactor(config.redactor(), config.redact.at_rest);
        let mut stream = LiveStream::new(engine, options, config.hooks.limits(config));
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            if count == 0 {
                break;
            }
            if !line.ends_with(b"\n") && count as u64 == LONGEST_LINE {
                tracing::warn!(agent = self.agent, "a line is longer than {LONGEST_LINE} bytes");
                input.skip_until(b'\n')?;
                continue;
            }
            if let Err(error) = self.take(&mut stream, config, &line).await {
                let (agent, error) = (self.agent.as_str(), format!("{error:#}"));
                tracing::warn!(agent, error, "a plugin could not record what happened");
            }
        }
        stream.end().await;
        Ok(())
    }

    async fn take(
        &self,
        stream: &mut LiveStream,
        config: &Config,
        line: &[u8],
    ) -> anyhow::Result<()> {
        match hook::read_line(&self.agent, line).map_err(anyhow::Error::msg)? {
            Ok(Said { native, text, is_thought }) => {
                let update =
                    if is_thought { Update::Thought { text } } else { Update::Text { text } };
                Ok(stream.say(&native, update).await?)
            }
            Err(call) => {
                let heard = hear(stream, config, &call).await;
                if call.moment == Moment::Prompt {
                    // The plugin waits for it, whatever came of the rest.
                    let context = heard.as_ref().ok().cloned().flatten();
                    output::try_write(format!("{}\n", json!({"context": context})).as_bytes())?;
                }
                heard.map(drop)
            }
        }
    }
}

async fn hear(
    stream: &mut LiveStream,
    config: &Config,
    call: &Call,
) -> anyhow::Result<Option<String>> {
    if config.excludes_call(call.folder.as_deref()) {
        return Ok(None);
    }
    Ok(stream.hear(call).await?.map(|injection| injection.context))
}
