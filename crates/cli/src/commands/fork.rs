//! `rethread fork`

use std::process::ExitCode;

use rethread_domain::Seq;
use rethread_domain::id::SessionRef;
use rethread_domain::wording::counted;
use rethread_engine::views::SessionView;

use super::named;
use crate::cli::App;
use crate::output;

/// Start a new session that goes on from another one
///
/// It shares the messages up to that point: nothing is copied, and neither changes the other. Prints the new id.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session to go on from
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// The last message to share [default: the last one]
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    at: Option<Seq>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let fork = app.engine.fork(id, self.at).await?;
        if app.json {
            output::json(&SessionView::from(&fork));
        } else {
            output::data(&format!("{}\n", fork.id));
            output::note(format_args!(
                "{} shares {} with {}.",
                named(&fork),
                counted(fork.last_seq, "message"),
                id.short()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
