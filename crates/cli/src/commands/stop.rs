//! `rethread stop`

use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::quote::one_line;
use rethread_domain::session::{Move, Refusal};
use rethread_domain::{Session, Status};
use rethread_engine::views::SessionView;
use rethread_engine::{Engine, Error};
use rethread_store::Span;

use super::{named, newest_here, project};
use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// So many sessions of a folder are looked through for one that is active.
const LOOKED_AT: u32 = 100;

/// Save a session and pause it
///
/// A process that has it open ends its turn, saves and leaves. Says how to resume it and where it stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session [default: the last one of this folder, if it is active]
    #[arg(value_name = "ID")]
    session: Option<SessionRef>,
    /// Mark it as completed
    #[arg(long)]
    complete: bool,
    /// Commit its folder to git, whatever the workspace says
    #[arg(long, conflicts_with = "no_commit")]
    commit: bool,
    /// Do not commit its folder
    #[arg(long)]
    no_commit: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let session = match &self.session {
            Some(reference) => app.engine.session(app.session(reference).await?).await?,
            None => active(app).await?,
        };
        let asked = if self.complete { Move::Complete } else { Move::Pause };
        let commit = (self.commit || self.no_commit).then_some(self.commit);
        let session = match app.engine.shift(session.id, asked).await {
            // There is still something to do.
            Err(Error::Refused(Refusal::Already(..))) if self.commit => session,
            session => session?,
        };
        if app.json {
            output::json(&SessionView::from(&session));
        } else {
            output::note(format_args!("{}", where_it_stopped(&app.engine, &session).await?));
        }
        app.commit(&session, commit).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The session of this folder that was last active, if it still is. To stop twice does not stop another one.
async fn active(app: &App) -> anyhow::Result<Session> {
    let here = newest_here(app, LOOKED_AT).await?;
    let mut active = here.iter().filter(|session| session.status() == Status::Active);
    let refused = match (here.first(), active.next()) {
        (Some(newest), Some(first)) if newest.id == first.id => return Ok(first.clone()),
        (Some(newest), Some(first)) => Refused {
            code: "ambiguous",
            message: format!(
                "{}, the last session here, is {} already; {} is active",
                named(newest),
                newest.status(),
                named(first)
            ),
            hint: Some(format!("`rethread stop {}` stops that one", first.id.short())),
        },
        _ => Refused {
            code: "session_not_found",
            message: format!("no session of {} is active", project(None)?.display()),
            hint: Some("`rethread list` shows the others".into()),
        },
    };
    Err(refused.into())
}

/// What is said of a session that was left: its title, how to resume it, and where it stopped.
pub(super) async fn where_it_stopped(engine: &Engine, session: &Session) -> anyhow::Result<String> {
    let short = session.id.short();
    if session.deleted_at.is_some() {
        return Ok(format!(
            "{} was deleted meanwhile. `rethread undelete {short}` brings it back.",
            named(session)
        ));
    }
    let done = if session.status() == Status::Completed { "Completed" } else { "Paused" };
    let mut text = format!("{done} {}.", named(session));
    if session.status() != Status::Completed {
        text.push_str(&format!("\nTo go on: rethread resume {short}"));
        if engine.folder_of(session.id).await?.is_some() {
            text.push_str(", or /workspace.resume inside a conversation");
        }
    }
    let last = engine.messages(session.id, Span::newest(1)).await?;
    if let Some(message) = last.first() {
        let said = one_line(message.body.head(), 120);
        let said =
            if said.is_empty() { ", without a word".to_owned() } else { format!(": {said}") };
        text.push_str(&format!("\nIt stopped at message {}, {}{said}", message.seq, message.role));
    }
    Ok(text)
}
