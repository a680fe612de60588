//! `rethread rehome`

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_domain::wording::counted;
use serde_json::json;

use super::project;
use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// Point sessions to the new place of a project
///
/// For projects that were moved or renamed: the sessions about OLD, and about folders in it, are about NEW from now on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the project was
    #[arg(value_name = "OLD")]
    from: PathBuf,
    /// Where it is [default: the current folder]
    #[arg(value_name = "NEW")]
    to: Option<PathBuf>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let to = project(self.to.as_deref())?;
        let from = std::path::absolute(&self.from)?;
        let from = from.to_string_lossy();
        let from = from.trim_end_matches('/');
        let moved = app.engine.rehome(from, &to.to_string_lossy()).await?;
        if moved == 0 {
            return Err(Refused {
                code: "session_not_found",
                message: format!("no session is about {from}"),
                hint: Some("`rethread list --json` shows the project of each session".into()),
            }
            .into());
        }
        if app.json {
            output::json(&json!({ "from": from, "to": to, "sessions": moved }));
        } else {
            let verb = if moved == 1 { "belongs" } else { "belong" };
            let sessions = counted(moved, "session");
            output::note(format_args!("{sessions} now {verb} to {}.", to.display()));
        }
        Ok(ExitCode::SUCCESS)
    }
}
