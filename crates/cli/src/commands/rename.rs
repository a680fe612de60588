//! `rethread rename`

use std::process::ExitCode;

use rethread_domain::conversation::TitleFrom;
use rethread_domain::id::SessionRef;

use super::{confirm, named};
use crate::cli::App;

/// Give a session a title of your own
///
/// It stays, whatever title an agent gives later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// The title
    title: String,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let session = app.engine.retitle(id, &self.title, TitleFrom::Person).await?;
        confirm(&session, app.json, &format!("Renamed {}.", named(&session)));
        Ok(ExitCode::SUCCESS)
    }
}
