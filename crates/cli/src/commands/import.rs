//! `rethread import`

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rethread_domain::wording::counted;
use rethread_engine::views::SessionView;

use super::named;
use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Import sessions that were exported
///
/// Reads what `rethread export` writes, JSON lines or JSON. Each session is imported whole, under its own id, or not at
/// all. Sessions that already exist stay as they are; the others are imported all the same.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let mut input: Box<dyn BufRead + Send> = if self.file.as_os_str() == "-" {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file =
                std::fs::File::open(&self.file).with_context(|| self.file.display().to_string())?;
            if file.metadata()?.is_dir() {
                let what = format!("{} is a folder", self.file.display());
                return Err(BadInput::new(what, "give a file that `rethread export` wrote").into());
            }
            Box::new(BufReader::new(file))
        };
        let imported = app.engine.import(&mut *input, app.config.record.max_message_bytes).await?;
        if imported.taken.is_empty() {
            return Err(BadInput::new(
                "there is nothing to import",
                "give a file that `rethread export` wrote",
            )
            .into());
        }
        for (session, in_file) in &imported.known {
            output::note(format_args!(
                "{} already exists, with {} ({in_file} in the file): left as it is.",
                named(session),
                counted(session.last_seq, "message")
            ));
        }
        if app.json {
            output::json(&imported.taken.iter().map(SessionView::from).collect::<Vec<_>>());
        } else {
            for session in &imported.taken {
                output::note(format_args!(
                    "Imported {} with {}.",
                    named(session),
                    counted(session.last_seq, "message")
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
