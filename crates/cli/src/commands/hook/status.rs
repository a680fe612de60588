//! `rethread hook status`

use std::path::Path;
use std::process::ExitCode;

use rethread_engine::imports::hook;
use serde::Serialize;

use super::agents::{AGENTS, Agent, Form};
use super::named;
use crate::config::{self, ClientFolders};
use crate::output::table;
use crate::{client_files, output};

/// What has to be done in Codex: trust is its user's to give.
pub(super) const TRUST: &str =
    "Codex runs hooks only once they are trusted: start codex, type /hooks, and press t on each.";

/// Say which agents call Rethread, and what is missing
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these agents
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    agent: &'static str,
    /// `installed`, `switched_off` (by a setting of the agent), `incomplete`, `program_missing`, `off`, `unreadable`, or
    /// `not_installed` (the agent itself).
    state: &'static str,
    file: String,
    note: String,
}

impl Args {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let folders = config::client_folders()?;
        let named = named(&self.agents)?;
        let agents = if named.is_empty() { AGENTS.iter().collect() } else { named };
        let rows: Vec<Row> = agents.into_iter().map(|agent| row(agent, &folders)).collect();
        if json {
            output::json(&rows);
            return Ok(ExitCode::SUCCESS);
        }
        let cells = rows.iter().map(|row| {
            vec![
                row.agent.to_owned(),
                match row.state {
                    "not_installed" => "agent not installed".to_owned(),
                    "off" => "not installed".to_owned(),
                    state => state.replace('_', " "),
                },
                row.file.clone(),
                row.note.clone(),
            ]
        });
        output::data(&table::render(&["AGENT", "HOOKS", "FILE", "NOTE"], cells.collect()));
        Ok(ExitCode::SUCCESS)
    }
}

fn row(agent: &'static Agent, folders: &ClientFolders) -> Row {
    let file = agent.file(folders);
    let (state, note) = state(agent, &file, folders);
    Row { agent: agent.name, state, file: file.display().to_string(), note }
}

fn state(agent: &Agent, file: &Path, folders: &ClientFolders) -> (&'static str, String) {
    let text = match client_files::read(file) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return ("unreadable", error.to_string()),
    };
    let checked = agent
        .check(&text)
        .and_then(|()| Ok((agent.without_entries(&text)?, agent.programs(&text)?)));
    let (cleaned, programs) = match checked {
        Ok(checked) => checked,
        Err(problem) => return ("unreadable", problem.to_string()),
    };
    if cleaned == text {
        let is_here = agent.is_installed(folders);
        return if is_here { ("off", String::new()) } else { ("not_installed", String::new()) };
    }
    if let Some(gone) = programs.iter().find(|program| !is_program(program, folders)) {
        let note = format!(
            "{gone} does not exist any more; run `rethread hook install {}` again",
            agent.name
        );
        return ("program_missing", note);
    }
    if agent.form == Form::Plugin {
        return ("installed", String::new());
    }
    let is_there = |event: &str| text.contains(&format!(" hook run {} {event}", agent.name));
    let missing = hook::events(agent.name).iter().filter(|(event, _)| !is_there(event));
    let missing: Vec<&str> = missing.map(|(event, _)| *event).collect();
    if !missing.is_empty() {
        let note = format!("missing: {}; install them again", missing.join(", "));
        return ("incomplete", note);
    }
    if let Some(note) = switched_off(agent, &text) {
        return ("switched_off", note);
    }
    if agent.name == "codex" && !is_trusted(file, &folders.codex_settings()) {
        return ("installed", TRUST.to_owned());
    }
    ("installed", String::new())
}

/// What to do where a setting of the agent keeps it from running any hook.
pub(super) fn switched_off(agent: &Agent, text: &str) -> Option<String> {
    let setting = agent.switched_off_by(text)?;
    Some(format!("{} runs no hook while its settings have {setting}: remove that", agent.title))
}

fn is_program(program: &str, folders: &ClientFolders) -> bool {
    if program.contains('/') { Path::new(program).is_file() } else { folders.has_program(program) }
}

/// Whether Codex has been told to trust hooks of this file. Only its user may say so, in Codex itself.
fn is_trusted(file: &Path, settings: &Path) -> bool {
    let Ok(Some(text)) = client_files::read(settings) else { return false };
    let Ok(settings) = text.parse::<toml::Table>() else { return false };
    let states = settings.get("hooks").and_then(|hooks| hooks.get("state"));
    let Some(states) = states.and_then(toml::Value::as_table) else { return false };
    let own = format!("{}:", file.display());
    let trusted = states
        .iter()
        .filter(|(key, state)| key.starts_with(&own) && state.get("trusted_hash").is_some());
    trusted.count() >= hook::events("codex").len()
}
