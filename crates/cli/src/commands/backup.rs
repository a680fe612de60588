//! `rethread backup`, `restore`

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_store::StoreUrl;
use serde_json::json;

use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Copy the store to a file, while it is in use
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to make
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// Put a backup in place of the store
///
/// What was there is kept beside it, with .before-restore.bak at the end of its name. To move a store, back it up and
/// restore it elsewhere with --store.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    from: PathBuf,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if self.to.exists() && !self.force {
            let message = format!("{} is there already", self.to.display());
            return Err(BadInput::new(message, "give a new file, or --force to replace it").into());
        }
        let StoreUrl::Sqlite(store) = &app.url;
        if std::fs::canonicalize(&self.to)
            .ok()
            .is_some_and(|to| std::fs::canonicalize(store).ok() == Some(to))
        {
            return Err(
                BadInput::new("the store cannot be its own backup", "give another file").into()
            );
        }
        app.engine.backup(&self.to).await?;
        if app.json {
            let bytes = std::fs::metadata(&self.to)?.len();
            output::json(&json!({"path": self.to, "bytes": bytes}));
        } else {
            output::note(format_args!("Backed up to {}.", self.to.display()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Restore {
    pub(crate) fn run(self, url: &StoreUrl) -> anyhow::Result<ExitCode> {
        rethread_store::restore(&self.from, url)?;
        output::note(format_args!("Restored {} from {}.", url, self.from.display()));
        Ok(ExitCode::SUCCESS)
    }
}
