//! `rethread delete`, `undelete`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;

use super::{confirm, named};
use crate::cli::App;
use crate::output;

/// Delete a session
///
/// It can be brought back with `rethread undelete` for 30 days; then it is gone for good. Forks keep what they share.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// Gone for good, now
    #[arg(long)]
    permanently: bool,
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
        if self.permanently {
            let session = app.engine.session(id).await?;
            app.engine.erase(id).await?;
            super::mcp::forget(app, id)?;
            confirm(&session, app.json, &format!("{} is gone for good.", named(&session)));
            return Ok(ExitCode::SUCCESS);
        }
        let session = app.engine.delete(id).await?;
        super::mcp::forget(app, id)?;
        let words = format!(
            "Deleted {}. `rethread undelete {}` brings it back within 30 days.",
            named(&session),
            id.short()
        );
        confirm(&session, app.json, &words);
        Ok(ExitCode::SUCCESS)
    }
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
