//! `rethread purge`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::{Seq, SessionId};
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
        let seq = match self.message.parse::<Seq>() {
            Ok(seq) => self.number(app, id, seq).await?,
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
        let is_gone = app.engine.purge(id, seq).await?;
        super::mcp::forget(app, id)?;
        if app.json {
            output::json(
                &json!({"session_id": id, "seq": seq, "purged": true, "in_file": !is_gone}),
            );
        } else {
            output::note(format_args!(
                "Purged message {seq} of {}. Backups and exports made before still have it.",
                id.short()
            ));
        }
        if !is_gone {
            output::note(format_args!(
                "warning: another process reads an older state, so the text is still in the file; when that process \
                 has ended, `rethread doctor --compact` takes it out"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A number is that of the message, unless another message has it as its id: then nobody can tell.
    async fn number(&self, app: &App, id: SessionId, seq: Seq) -> anyhow::Result<Seq> {
        match app.engine.message_by_id(id, &self.message).await? {
            Some(other) if other != seq => Err(Refused {
                code: "ambiguous_id",
                message: format!(
                    "{} is the number of one message and the id of message {other}",
                    self.message
                ),
                hint: Some(format!(
                    "give the whole id: {} or {}",
                    id.message(seq),
                    id.message(other)
                )),
            }
            .into()),
            _ => Ok(seq),
        }
    }
}
