//! `rethread prune`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::wording::counted;
use serde_json::json;

use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Fold old messages into summaries
///
/// Nothing is deleted: a context uses the summary where the messages do not fit. This also happens by itself when a
/// conversation has grown past a threshold (settings prune.keep and prune.threshold).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// The newest messages of each conversation that stay as they are [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    keep: Option<i64>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let keep = match self.keep {
            None => app.config.prune.keep,
            Some(keep) => u32::try_from(keep)
                .map_err(|_| BadInput::new(format!("--keep cannot be {keep}"), "give 0 or more"))?,
        };
        let id = app.session(&self.session).await?;
        let pruned = app.engine.prune(id, keep).await?;
        if app.json {
            output::json(&json!({
                "session_id": id,
                "summarised_messages": pruned.messages,
                "conversations": pruned.conversations,
            }));
        } else if pruned.messages == 0 {
            output::note(format_args!("Nothing to fold."));
        } else {
            output::note(format_args!(
                "Folded {} of {} into summaries.",
                counted(pruned.messages, "message"),
                counted(pruned.conversations, "conversation")
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
