//! `rethread import`

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rethread_engine::views::SessionView;

use super::named;
use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Take in sessions that were exported
///
/// Reads what `rethread export` writes, JSON lines or JSON. Each session comes in whole, under its own id, or not at
/// all. Sessions that are there already stay as they are, and the others come in all the same.
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
            Box::new(BufReader::new(file))
        };
        let imported = app.engine.import(&mut *input, app.config.record.max_message_bytes).await?;
        if imported.taken.is_empty() {
            return Err(BadInput::new(
                "there was nothing to take in",
                "give what `rethread export` wrote",
            )
            .into());
        }
        for (session, in_file) in &imported.known {
            output::note(format_args!(
                "{} was there already, with {} messages ({in_file} in the file): left as it is.",
                named(session),
                session.last_seq
            ));
        }
        if app.json {
            output::json(&imported.taken.iter().map(SessionView::from).collect::<Vec<_>>());
        } else {
            for session in &imported.taken {
                output::note(format_args!(
                    "Took in {} with {} messages.",
                    named(session),
                    session.last_seq
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
