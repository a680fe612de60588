//! `rethread delete`, `undelete`

use std::path::Path;
use std::process::ExitCode;

use rethread_domain::id::SessionRef;

use super::{choice, confirm, named};
use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// Delete a session
///
/// It can be brought back with `rethread undelete` for 30 days; then it is gone for good. Forks keep what they share. In a
/// workspace its folder goes too, and comes back with it; what git has of it stays in git's history.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// Gone for good, now
    #[arg(long)]
    permanently: bool,
    /// Do not ask, also where git has the folder of the session
    #[arg(long, short, requires = "permanently")]
    yes: bool,
}

/// Bring a deleted session back
#[derive(Debug, clap::Args)]
pub(crate) struct Undelete {
    /// The session; `rethread list --deleted` shows which there are
    #[arg(value_name = "ID")]
    session: SessionRef,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let folder = app.engine.folder_of(id).await?;
        let folder = folder.filter(|folder| folder.is_dir());
        let is_committed = folder.is_some() && app.engine.is_committed(id).await?;
        if self.permanently {
            let session = app.engine.session(id).await?;
            if is_committed && !self.yes && !ask(&named(&session), folder.as_deref())? {
                output::note(format_args!("Nothing was deleted."));
                return Ok(ExitCode::FAILURE);
            }
            app.engine.erase(id).await?;
            let words = format!("{} is gone for good{}", named(&session), with(folder.as_deref()));
            confirm(&session, app.json, &words);
        } else {
            let session = app.engine.delete(id).await?;
            let words = format!(
                "Deleted {}{} `rethread undelete {}` brings it back within 30 days.",
                named(&session),
                with(folder.as_deref()),
                id.short()
            );
            confirm(&session, app.json, &words);
        }
        if is_committed {
            output::note(format_args!(
                "Git still has its folder in earlier commits, and others have it in their clones; commit the removal with `git add -A conversations`."
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How a sentence about a session that is gone ends.
fn with(folder: Option<&Path>) -> String {
    folder.map_or_else(
        || ".".to_owned(),
        |folder| format!(", and so is its folder {}.", folder.display()),
    )
}

/// Asks whether a session may go of which git has the folder.
fn ask(session: &str, folder: Option<&Path>) -> anyhow::Result<bool> {
    let folder = folder.unwrap_or(Path::new("")).display();
    if !choice::is_asked() {
        return Err(Refused {
            code: "confirmation_needed",
            message: format!("git has the folder of {session}: {folder}"),
            hint: Some(
                "`--yes` removes session and folder without asking; what git has in earlier commits stays there"
                    .to_owned(),
            ),
        }
        .into());
    }
    choice::confirm(&format!(
        "Git has its folder {folder}. Remove session and folder for good? Earlier commits keep it."
    ))
}

impl Undelete {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let session = app.engine.undelete(id).await?;
        confirm(&session, app.json, &format!("{} is back.", named(&session)));
        if !app.json && session.can_resume().is_err() {
            output::note(format_args!("It is archived: `rethread unarchive {}`.", id.short()));
        }
        Ok(ExitCode::SUCCESS)
    }
}
