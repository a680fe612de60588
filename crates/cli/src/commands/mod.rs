//! One file for each command: its arguments, its help, and what it does.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod backup;
pub(crate) mod choice;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod home;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod manual;
pub(crate) mod mcp;
mod native;
pub(crate) mod prune;
pub(crate) mod purge;
pub(crate) mod record;
pub(crate) mod rehome;
pub(crate) mod rename;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod shift;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod token;
pub(crate) mod tour;
pub(crate) mod watch;
pub(crate) mod welcome;
pub(crate) mod workflow;

use std::path::{Path, PathBuf};

use rethread_domain::quote::one_line;
use rethread_domain::{Session, SessionId};
use rethread_engine::program::{may_record, real_folder};
use rethread_engine::views::SessionView;
use rethread_store::ListFilter;

use crate::chat::Left;
use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// A number that has to be at least 1. Taken as any number, so that the error can say so.
pub(crate) fn positive(what: &'static str, given: i64) -> anyhow::Result<u32> {
    if given < 1 {
        return Err(
            rethread_engine::Error::from(rethread_domain::context::NotPositive { what }).into()
        );
    }
    Ok(u32::try_from(given).unwrap_or(u32::MAX))
}

/// A time, or a day, which `rest` completes.
pub(crate) fn moment(text: &str, rest: &str) -> anyhow::Result<jiff::Timestamp> {
    let whole = if text.len() == 10 { format!("{text}{rest}") } else { text.to_owned() };
    whole.parse().map_err(|_| {
        BadInput::new(
            format!("not a time: {text:?}"),
            "for instance 2026-11-15 or 2026-11-15T21:38:00Z",
        )
        .into()
    })
}

/// The folder of a project, as sessions know it.
pub(crate) fn project(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = given.unwrap_or(Path::new("."));
    let unusable = |why: &str| match given {
        Some(folder) => BadInput::new(
            format!("the folder {} {why}", folder.display()),
            "give the path of a folder that exists",
        ),
        // Not every command takes a folder.
        None => BadInput::new(
            format!("the current folder {why}"),
            "change to a folder that exists, with a name in UTF-8",
        ),
    };
    Ok(real_folder(folder).map_err(|why| unusable(&why))?)
}

/// The newest sessions of the current folder, or of the nearest folder above it in the same repository or workspace that has some.
pub(crate) async fn newest_here(app: &App, limit: u32) -> anyhow::Result<Vec<Session>> {
    let folder = project(None)?;
    let workspace = app.engine.workspace().map(|workspace| workspace.root().to_owned());
    let is_root = |folder: &Path| {
        workspace.as_deref() == Some(folder)
            || std::fs::symlink_metadata(folder.join(".git")).is_ok()
    };
    let user = app.config.user(None)?;
    let root = folder.ancestors().find(|folder| is_root(folder)).unwrap_or(&folder);
    for place in folder.ancestors().take_while(|place| place.starts_with(root)) {
        let filter = ListFilter {
            user: Some(user.clone()),
            project: Some(place.to_string_lossy().into_owned()),
            limit,
            ..ListFilter::default()
        };
        let found = app.engine.list(&filter).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// The folder that sessions are looked for by. It may be gone while its sessions are not.
pub(crate) fn project_filter(folder: &Path) -> String {
    project(Some(folder)).unwrap_or_else(|_| folder.to_owned()).to_string_lossy().into_owned()
}

/// How a session is called in a sentence.
pub(crate) fn named(session: &Session) -> String {
    match &session.title {
        Some(title) => format!("{} ({})", session.id.short(), one_line(title, 60)),
        None => session.id.short(),
    }
}

/// Confirms a change: in words, or as the session with `--json`.
pub(crate) fn confirm(session: &Session, json: bool, words: &str) {
    if json {
        output::json(&SessionView::from(session));
    } else {
        output::note(format_args!("{words}"));
    }
}

/// Refuses folders that are set not to be recorded.
pub(crate) fn refuse_excluded(app: &App, folder: &Path) -> anyhow::Result<()> {
    Ok(may_record(app.program().as_ref(), folder)?)
}

/// Says how a conversation in the terminal was left.
pub(crate) async fn leave(app: &App, id: SessionId, left: Left) -> anyhow::Result<()> {
    let session = app.engine.session(id).await?;
    if session.last_seq == 0 || app.json {
        return Ok(());
    }
    if left == Left::Idle {
        let idle = output::time::length(app.config.idle());
        output::note(format_args!("Nothing was said for {idle}."));
    }
    output::note(format_args!("{}", stop::where_it_stopped(&app.engine, &session).await?));
    app.commit(&session, None).await?;
    Ok(())
}
