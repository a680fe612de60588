//! `rethread` alone: what there is here, and what to do next.

use std::process::ExitCode;

use rethread_domain::Session;
use rethread_domain::quote::one_line;

use super::{choice, newest_here};
use crate::cli::App;
use crate::output::table::{self, Narrow};
use crate::output::{self, time};
use crate::{agents, commands};

/// So many sessions are shown.
const SHOWN: usize = 5;

/// Show the last sessions, and what to do next
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let all = choice::resumable(app).await?;
        let here = newest_here(app, u32::try_from(SHOWN).unwrap_or(u32::MAX)).await?;
        let installed: Vec<String> =
            agents::installed(&app.config)?.into_iter().map(|entry| entry.name).collect();
        let mut text = String::new();
        if all.is_empty() {
            text.push_str(&first_start(app, &installed).await?);
        } else if here.is_empty() {
            text.push_str("Nothing was said in this folder yet. The last sessions elsewhere:\n");
            text.push_str(&numbered(app, &all, |_| true));
        } else {
            text.push_str("The last sessions here:\n");
            text.push_str(&numbered(app, &all, |one| here.iter().any(|own| own.id == one.id)));
        }
        let agent = all
            .iter()
            .find_map(|session| session.speaker())
            .filter(|name| installed.iter().any(|one| one == name));
        let agent = agent.or(installed.first().map(String::as_str)).unwrap_or("AGENT");
        text.push('\n');
        text.push_str(&steps(agent, !all.is_empty(), !here.is_empty()));
        output::data(&text);
        Ok(ExitCode::SUCCESS)
    }
}

/// With the numbers that `rethread resume` knows them by.
fn numbered(app: &App, all: &[Session], is_shown: impl Fn(&Session) -> bool) -> String {
    let now = app.engine.clock().now();
    let rows = (1..).zip(all).filter(|(_, session)| is_shown(session)).take(SHOWN);
    let rows = rows.map(|(number, session): (u32, _)| {
        let title = one_line(session.title.as_deref().unwrap_or("-"), 60);
        let fork = if session.forked_from.is_some() { " (fork)" } else { "" };
        vec![
            format!("{number:>3}"),
            session.id.short(),
            title + fork,
            one_line(session.speaker().unwrap_or("-"), 16),
            session.status().to_string(),
            time::ago(session.last_active_at, now),
        ]
    });
    let narrow = Narrow { cut: &["TITLE"], left_out: &["STATUS", "AGENT"] };
    table::fitted(&["  #", "ID", "TITLE", "AGENT", "STATUS", "LAST ACTIVE"], rows.collect(), narrow)
}

async fn first_start(app: &App, installed: &[String]) -> anyhow::Result<String> {
    let mut text = "Rethread records what you and your agents say, and takes it up again later: in the same agent or another.\n\n".to_owned();
    if installed.is_empty() {
        text.push_str("No agent that it knows is installed here: `rethread agents` shows how to install one.\n");
    } else {
        text.push_str(&format!("Installed here: {}.\n", installed.join(", ")));
    }
    let options = commands::watch::options(app, Vec::new(), None)?;
    let found = app.engine.sessions_of_agents(&options).await?;
    if !found.is_empty() {
        let count = found.values().sum::<u64>();
        let sessions = rethread_domain::wording::counted(count, "session");
        text.push_str(&format!(
            "Found {sessions} that your agents keep: `rethread import` takes them in.\n"
        ));
    }
    Ok(text)
}

/// What people want to do, and how.
fn steps(agent: &str, has_sessions: bool, is_here: bool) -> String {
    let run = format!("rethread run {agent}");
    let hook = format!("rethread hook install {agent}");
    let mut steps: Vec<(&str, &str)> = Vec::new();
    if is_here {
        steps.push(("rethread continue", "go on with the last one here"));
    }
    if has_sessions {
        steps.push((
            "rethread resume",
            "pick another one; or give its number, id, folder, or words of it",
        ));
        steps.push(("rethread search WORDS", "find what was said"));
    }
    steps.push((&run, "talk to it in a new session; everything is recorded"));
    if !has_sessions {
        steps.push(("rethread import", "take in the sessions that your agents keep already"));
        steps.push((&hook, "record what you say in the agent's own program"));
        steps.push(("rethread tour", "see it at work, in a minute"));
    }
    steps.push(("rethread serve --open", "all of it in the browser"));
    steps.push(("rethread --help", "every command"));
    let wide = steps.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let lines = steps.iter().map(|(command, what)| format!("  {command:<wide$}  {what}\n"));
    lines.collect::<Vec<_>>().concat()
}
