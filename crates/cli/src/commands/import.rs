//! `rethread import`

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use rethread_domain::quote::one_line;
use rethread_domain::wording::counted;
use rethread_engine::imports::{
    AGENTS, ImportOptions, ImportReport, Progress, is_archive, is_session_of_agent,
};
use rethread_engine::views::SessionView;

use super::watch::options;
use super::{moment, named};
use crate::cli::App;
use crate::error::BadInput;
use crate::output::{self, table};

/// So many of the things that could not be read are shown.
const SHOWN_TROUBLES: usize = 10;

/// Import sessions: those that agents keep on this machine, or exported ones
///
/// Without a file: all sessions that Claude Code, Codex and other agents keep in their own folders. Nothing of theirs is
/// changed. Run it again at any time: only what is new is read. An imported session is found, shown and resumed like any
/// other, in its own agent where it left off, or in another one.
///
/// A file, a folder or an archive (.tar, .tar.gz, .tar.zst, .zip) is read in the same way, wherever it came from. What `rethread export` wrote, JSON lines or JSON, is
/// imported under its own ids; sessions that already exist then stay as they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, folders and archives with sessions; - is an export on standard input
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only sessions of this agent; may be given several times
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Only what has changed since then (2026-11-15 or 2026-11-15T21:38:00Z)
    #[arg(long)]
    since: Option<String>,
    /// Say what would be imported, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Whose the sessions are
    #[arg(long)]
    user: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if let [path] = self.paths.as_slice()
            && self.is_export(path)
        {
            return exported(path, app).await;
        }
        if let Some(missing) = self.paths.iter().find(|path| !path.exists()) {
            std::fs::metadata(missing).with_context(|| missing.display().to_string())?;
        }
        known_agents(&self.agent)?;
        let paths =
            self.paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
        let options = ImportOptions {
            paths: paths.collect(),
            since: self.since.as_deref().map(|text| moment(text, "T00:00:00Z")).transpose()?,
            dry_run: self.dry_run,
            ..options(app, self.agent.clone(), self.user.as_deref())?
        };
        import(&options, app).await
    }

    /// Whether it can only be something that Rethread wrote.
    fn is_export(&self, path: &Path) -> bool {
        let is_plain = self.agent.is_empty() && self.since.is_none() && !self.dry_run;
        path.as_os_str() == "-"
            || is_plain && path.is_file() && !is_session_of_agent(path) && !is_archive(path)
            || is_plain && !path.exists()
    }
}

/// Refuses agents whose sessions cannot be read.
pub(super) fn known_agents(agents: &[String]) -> anyhow::Result<()> {
    match agents.iter().find(|agent| !AGENTS.contains(&agent.as_str())) {
        Some(agent) => {
            let what = format!("sessions of {} cannot be imported", one_line(agent, 60));
            Err(BadInput::new(what, format!("known are {}", AGENTS.join(", "))).into())
        }
        None => Ok(()),
    }
}

/// Takes in what other agents keep, and says what became of it.
pub(crate) async fn import(options: &ImportOptions, app: &App) -> anyhow::Result<ExitCode> {
    let is_shown = output::is_error_terminal() && !app.json;
    let mut shown = |now: Progress<'_>| {
        if is_shown {
            show(now);
        }
    };
    let report = app.engine.import_sessions(options, &mut shown).await;
    if is_shown {
        // The line is written over by what comes next; nobody to tell is no error.
        drop(write!(std::io::stderr(), "\r\x1b[K"));
    }
    let report = report?;
    if app.json {
        output::json(&report);
        return Ok(ExitCode::SUCCESS);
    }
    tell_troubles(&report);
    let total = report.total();
    if total.found == 0 {
        let agents = match options.agents.as_slice() {
            [] => AGENTS.join(", "),
            asked => asked.join(", "),
        };
        output::note(format_args!("No sessions were found. Looked for those of {agents}."));
        return Ok(ExitCode::SUCCESS);
    }
    output::data(&render(&report));
    let what = if options.dry_run { "Would import" } else { "Imported" };
    if total.messages == 0 {
        output::note(format_args!("Nothing new in {}.", counted(total.found, "session")));
        return Ok(ExitCode::SUCCESS);
    }
    output::note(format_args!(
        "{what} {} from {} new and {} known sessions.",
        counted(total.messages, "message"),
        total.new,
        total.grown
    ));
    Ok(ExitCode::SUCCESS)
}

fn show(now: Progress<'_>) {
    let (done, of) = (now.done, now.of.max(1));
    let filled = done * 20 / of;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(20 - filled));
    let text = format!("{bar} {done}/{of} {} {}", now.agent, counted(now.messages, "message"));
    // Nobody to tell is no error.
    drop(write!(std::io::stderr(), "\r\x1b[K{text}"));
}

pub(super) fn tell_troubles(report: &ImportReport) {
    for trouble in report.troubles.iter().take(SHOWN_TROUBLES) {
        let at = trouble.at.map(|at| format!(" at byte {at}")).unwrap_or_default();
        let (path, why) = (one_line(&trouble.path, 300), one_line(&trouble.why, 300));
        output::note(format_args!("warning: {path}{at}: {why}"));
    }
    let more = report.troubles.len().saturating_sub(SHOWN_TROUBLES) as u64 + report.more_troubles;
    if more > 0 {
        output::note(format_args!("warning: {more} more could not be read"));
    }
}

fn render(report: &ImportReport) -> String {
    let rows = report.agents.iter().map(|(agent, tally)| {
        let left = [
            (tally.recorded, "recorded by Rethread"),
            (tally.put_away, "deleted or archived here"),
            (tally.excluded, "in folders that are not recorded"),
            (tally.empty, "empty"),
            (tally.older, "older"),
            (tally.failed, "not readable"),
            (tally.forked, "forked"),
            (tally.gone, "deleted by the agent, kept here"),
        ];
        let left = left.iter().filter(|(count, _)| *count > 0);
        let left: Vec<String> = left.map(|(count, what)| format!("{count} {what}")).collect();
        vec![
            agent.clone(),
            tally.found.to_string(),
            tally.new.to_string(),
            tally.grown.to_string(),
            tally.unchanged.to_string(),
            tally.messages.to_string(),
            left.join(", "),
        ]
    });
    let headings = ["AGENT", "SESSIONS", "NEW", "GROWN", "UNCHANGED", "MESSAGES", ""];
    table::render(&headings, rows.collect())
}

/// Takes in what `rethread export` wrote.
async fn exported(path: &Path, app: &App) -> anyhow::Result<ExitCode> {
    let mut input: Box<dyn BufRead + Send> = if path.as_os_str() == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        Box::new(BufReader::new(file))
    };
    let imported = app.engine.import(&mut *input, app.config.record.max_message_bytes).await?;
    if imported.taken.is_empty() && imported.known.is_empty() {
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
