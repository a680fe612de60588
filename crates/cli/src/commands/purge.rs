//! `rethread purge`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use serde_json::json;

use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// Remove the text of one message everywhere
///
/// For a secret that was said by mistake: it leaves the log, the search index, summaries, titles and forks, and cannot
/// be brought back. A mark stays where it was. Backups and exports made before still have it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// The number of the message, or its id
    message: String,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let seq = match self.message.parse() {
            Ok(seq) => seq,
            Err(_) => {
                rethread_domain::id::check_message_id(&self.message)
                    .map_err(rethread_engine::Error::from)?;
                app.engine.message_by_id(id, &self.message).await?.ok_or_else(|| Refused {
                    code: "message_not_found",
                    message: format!("session {id} has no message with the id {:?}", self.message),
                    hint: Some(
                        "`rethread show ID --all` shows every message with its number".to_owned(),
                    ),
                })?
            }
        };
        app.engine.purge(id, seq).await?;
        if app.json {
            output::json(&json!({"session_id": id, "seq": seq, "purged": true}));
        } else {
            output::note(format_args!(
                "Purged message {seq} of {}. Backups and exports made before still have it.",
                id.short()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
