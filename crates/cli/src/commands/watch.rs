//! `rethread watch`

use std::process::ExitCode;

use rethread_domain::quote::one_line;
use rethread_domain::wording::counted;
use rethread_engine::imports::{ImportOptions, ImportReport};
use tokio_util::sync::CancellationToken;

use super::import::{known_agents, tell_troubles};
use crate::cli::App;
use crate::output;

/// Import what other agents write, while they write it
///
/// Imports all that is new, and then goes on: whenever Claude Code, Codex or another agent writes to its sessions, that is
/// imported within seconds. Ctrl-C ends it. Nothing of the agents' is changed, and it may run several times at once.
/// `rethread serve` does the same with the setting serve.watch.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only sessions of this agent; may be given several times
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Whose the sessions are
    #[arg(long)]
    user: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        known_agents(&self.agent)?;
        let options = options(app, self.agent, self.user.as_deref())?;
        let stop = CancellationToken::new();
        let ended = rethread_engine::shutdown_signal()?;
        let (own, is_json) = (stop.clone(), app.json);
        tokio::spawn(async move {
            ended.await;
            own.cancel();
        });
        let mut is_first = true;
        let mut each = |report: rethread_engine::Result<ImportReport>| {
            match report {
                // What could not be read is told once, not with every look.
                Ok(report) if !is_first && report.total().messages == 0 => (),
                Ok(report) if is_json => output::json_line(&report),
                Ok(report) => tell(&report),
                Err(error) => {
                    output::note(format_args!("warning: {}", one_line(&error.to_string(), 500)));
                }
            }
            if std::mem::take(&mut is_first) && !is_json {
                output::note(format_args!("Watching for more. Ctrl-C ends it."));
            }
        };
        app.engine.watch_sessions(&options, &stop, &mut each).await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Everything that agents keep, with the settings of this program.
pub(crate) fn options(
    app: &App,
    agents: Vec<String>,
    user: Option<&str>,
) -> anyhow::Result<ImportOptions> {
    let options = app.config.import_options(app.config.user(user)?)?;
    Ok(ImportOptions { agents, ..options })
}

/// What came, a line for each agent.
fn tell(report: &ImportReport) {
    tell_troubles(report);
    for (agent, tally) in report.agents.iter().filter(|(_, tally)| tally.messages > 0) {
        let (messages, sessions) = (counted(tally.messages, "message"), tally.new + tally.grown);
        output::data(&format!("{agent}: {messages} of {}\n", counted(sessions, "session")));
    }
}
