//! `rethread purge`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::{Seq, SessionId};
use serde_json::json;

use crate::cli::App;
use crate::error::Refused;
use crate::output::{self, time};

/// Remove the text of one message everywhere
///
/// For a secret that was said by mistake: it leaves the log, the search index, summaries, titles, forks, what workflows
/// quote of it, the files of invoked sessions, and the folders of a workspace with their names; it cannot be brought back,
/// and a file that git puts back does not bring it back. A mark stays where it was. Backups and exports made before still
/// have it, and so have git's history, the agents' own sessions, and the plan it was taken from: which of them is said.
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
        let purge = app.engine.purge(id, seq).await?;
        let remarks = purge.remarks();
        if app.json {
            let held = purge.held_by.iter();
            let held: Vec<_> =
                held.map(|one| json!({"agent": one.agent, "session": one.native})).collect();
            output::json(&json!({
                "session_id": id, "seq": seq, "purged": true,
                "purged_before": purge.purged_before, "in_file": !purge.has_left_files,
                "in_git": purge.is_in_git, "held_by": held, "in_workflows": purge.in_workflows,
            }));
        } else {
            let first = remarks.first().map_or("", String::as_str);
            let id = id.short();
            match purge.purged_before {
                None => output::note(format_args!("Purged message {seq} of {id}. {first}")),
                Some(at) => output::note(format_args!(
                    "Message {seq} of {id} was purged already, on {}. {first}",
                    time::minute(at)
                )),
            }
        }
        for remark in remarks.iter().skip(1) {
            output::note(format_args!("{remark}"));
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
