//! `rethread backup`, `restore`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rethread_domain::shell;
use rethread_engine::{Clock, Error};
use rethread_store::{Restored, StoreUrl};
use serde_json::json;

use crate::cli::App;
use crate::error::{BadInput, Refused};
use crate::output;

/// Copy the store to a file, while it is in use
///
/// The copy is a store of SQLite, also where the store is on a PostgreSQL server.
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
/// What was there is kept in a new file beside it, each time another, and the command that brings it back is shown. To
/// move a store, back it up and restore it elsewhere with --store. Only a store of SQLite can be put back.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    from: PathBuf,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if self.to.exists() && !self.force {
            let message = format!("{} already exists", self.to.display());
            let hint = Some("give a new file, or --force to replace it".to_owned());
            return Err(Refused { code: "refused", message, hint }.into());
        }
        let canonical = |path: &Path| std::fs::canonicalize(path).ok();
        let own = app.url.file().and_then(canonical);
        if own.is_some() && own == canonical(&self.to) {
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
    pub(crate) fn run(self, url: &StoreUrl, json: bool) -> anyhow::Result<ExitCode> {
        let to = url.file().ok_or_else(|| {
            let message = format!("{url} is a database of a PostgreSQL server, not a file");
            let hint = "use the backup where it is, with `--store sqlite:FILE`; what `pg_dump` made is put back by `pg_restore`";
            Refused { code: "refused", message, hint: Some(hint.to_owned()) }
        })?;
        let kept = rethread_store::restore(&self.from, to, Clock::Wall.now());
        let Restored { kept, earlier } = kept.map_err(|error| self.refused(error.into()))?;
        if let Some(earlier) = earlier {
            output::note(format_args!("warning: {}", output::shown(&earlier, false)));
        }
        if json {
            output::json(&json!({"store": url.to_string(), "from": self.from, "kept": kept}));
            return Ok(ExitCode::SUCCESS);
        }
        output::note(format_args!("Restored {} from {}.", url, self.from.display()));
        if let Some(kept) = kept {
            output::note(format_args!(
                "The store as it was is kept in {kept}. To go back: rethread --store {} restore {}",
                shell::word(&url.to_string()),
                shell::word(&kept.to_string_lossy()),
                kept = kept.display(),
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Restore {
    /// What is wrong with the backup is told as that: the usual words and hints are about the store.
    fn refused(&self, error: Error) -> anyhow::Error {
        let told = error.to_string();
        let what = told.strip_prefix("the store could not be opened: ").unwrap_or(&told);
        if !what.starts_with(&self.from.display().to_string()) {
            return error.into();
        }
        let hint = Some("give a file that `rethread backup` made".to_owned());
        Refused { code: error.code(), message: what.to_owned(), hint }.into()
    }
}
