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
/// For a secret that was said by mistake: it leaves the log, the search index, summaries, titles, forks, and the folders
/// of a workspace with their names; it cannot be brought back, and a file that git puts back does not bring it back. A
/// mark stays where it was. Backups and exports made before still have it, and so have git's history and the agents' own
/// sessions: which of them is said.
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
        let is_committed = app.engine.is_committed(id).await?;
        let held = app.engine.held_by(id, seq).await?;
        let is_gone = app.engine.purge(id, seq).await?;
        super::mcp::forget(app, id)?;
        if app.json {
            let held: Vec<_> =
                held.iter().map(|one| json!({"agent": one.agent, "session": one.native})).collect();
            output::json(&json!({
                "session_id": id, "seq": seq, "purged": true, "in_file": !is_gone,
                "in_git": is_committed, "held_by": held,
            }));
        } else {
            output::note(format_args!(
                "Purged message {seq} of {}. Backups and exports made before still have it.",
                id.short()
            ));
        }
        if is_committed {
            output::note(format_args!(
                "Git still has it in earlier commits of its folder. Commit the folder as it is now; to take it out of the history, rewrite that (`git filter-repo --replace-text`), push it, and have others clone anew."
            ));
        }
        for one in &held {
            output::note(format_args!("{}", kept_by(&one.agent, &one.native)));
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

/// That an agent has the text in its own session, and how to remove that.
fn kept_by(agent: &str, native: &str) -> String {
    let native = output::shown(native, false);
    let how = match agent {
        "claude" => format!("delete ~/.claude/projects/*/{native}.jsonl"),
        "codex" => format!("delete ~/.codex/sessions/*/*/*/rollout-*-{native}.jsonl"),
        "gemini" => "delete its file below ~/.gemini/tmp/*/chats".to_owned(),
        "opencode" => format!("`opencode session delete {native}`"),
        "goose" => format!("`goose session remove --id {native}`"),
        _ => "delete that session with the agent's own means".to_owned(),
    };
    format!(
        "{agent} still has it in its own session {native}, and will use it when that is resumed: {how}."
    )
}
