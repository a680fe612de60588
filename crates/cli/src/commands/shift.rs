//! `rethread pause`, `complete`, `activate`, `archive`, `unarchive`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::session::Move;

use super::{confirm, named};
use crate::cli::App;

/// Pause a session
///
/// Everything said so far is kept and summed up. A process that records the session is asked to save first.
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
}

/// Mark a session as completed
#[derive(Debug, clap::Args)]
pub(crate) struct Complete {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
}

/// Take a session up again
///
/// Its status becomes active, and it counts as active now.
#[derive(Debug, clap::Args)]
pub(crate) struct Activate {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// Even if it was completed
    #[arg(long)]
    yes: bool,
}

/// Put a session away
///
/// It is not listed and cannot be resumed until it is unarchived.
#[derive(Debug, clap::Args)]
pub(crate) struct Archive {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
}

/// Bring an archived session back
#[derive(Debug, clap::Args)]
pub(crate) struct Unarchive {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
}

impl Pause {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        shift(app, &self.session, Move::Pause).await
    }
}

impl Complete {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        shift(app, &self.session, Move::Complete).await
    }
}

impl Activate {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        shift(app, &self.session, if self.yes { Move::Reopen } else { Move::Activate }).await
    }
}

impl Archive {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        shift(app, &self.session, Move::Archive).await
    }
}

impl Unarchive {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        shift(app, &self.session, Move::Unarchive).await
    }
}

async fn shift(app: &App, reference: &SessionRef, asked: Move) -> anyhow::Result<ExitCode> {
    let id = app.session(reference).await?;
    let session = app.engine.shift(id, asked).await?;
    let words = match asked {
        Move::Pause => {
            let short = id.short();
            format!(
                "Paused {} at message {}. `rethread context {short}` gives back what matters.",
                named(&session),
                session.last_seq
            )
        }
        Move::Complete => format!("Completed {}.", named(&session)),
        Move::Activate | Move::Reopen => format!("{} is active.", named(&session)),
        Move::Archive => format!(
            "Archived {}. `rethread unarchive {}` brings it back.",
            named(&session),
            id.short()
        ),
        Move::Unarchive => format!("{} is back: {}.", named(&session), session.status()),
    };
    confirm(&session, app.json, &words);
    Ok(ExitCode::SUCCESS)
}
