//! What a newcomer is offered once: the sessions that other agents have left on this machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use rethread_domain::wording::counted;

use super::{import, watch};
use crate::cli::App;
use crate::{config, output};

/// The file that says that somebody was asked. What is in it does not matter.
const ASKED: &str = "asked-to-import";

/// Asks whether to import what is there: at a terminal alone, and only until it was answered or anything was imported.
pub(crate) async fn offer(app: &App) -> anyhow::Result<()> {
    let is_watched = std::io::stdin().is_terminal() && output::is_error_terminal();
    if app.json || !is_watched || !output::is_terminal() {
        return Ok(());
    }
    let Ok(asked) = asked() else { return Ok(()) };
    if asked.exists() || app.engine.has_imported().await? {
        return Ok(());
    }
    let options = watch::options(app, Vec::new(), None)?;
    let found = app.engine.sessions_of_agents(&options).await?;
    if found.is_empty() || !remember(&asked) {
        return Ok(());
    }
    if ask(&question(&found)) {
        import::import(&options, app).await?;
    } else {
        output::note(format_args!("`rethread import` imports them later."));
    }
    Ok(())
}

fn asked() -> anyhow::Result<PathBuf> {
    Ok(config::data_folder()?.join(ASKED))
}

/// Whether it is remembered: otherwise it would be asked each time.
fn remember(asked: &PathBuf) -> bool {
    let folder = asked.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| std::fs::write(asked, b"")).is_ok()
}

fn question(found: &BTreeMap<&'static str, u64>) -> String {
    let count = found.values().sum::<u64>();
    let names: Vec<&str> = found.keys().map(|agent| name(agent)).collect();
    let names = match names.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        all => all.concat(),
    };
    format!("Found {} of {names}. Import them? [Y/n] ", counted(count, "session"))
}

/// The answer of somebody at a terminal. Nothing is yes; the end of the input is no.
fn ask(question: &str) -> bool {
    // Nobody to ask is no error: there will be no answer either.
    drop(write!(std::io::stderr(), "{question}"));
    drop(std::io::stderr().flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).unwrap_or(0);
    let answer = answer.trim().to_lowercase();
    read > 0 && matches!(answer.as_str(), "" | "y" | "yes")
}

/// What people call an agent.
fn name(agent: &str) -> &str {
    match agent {
        "claude" => "Claude Code",
        "codex" => "Codex",
        "gemini" => "Gemini",
        "copilot" => "Copilot",
        "goose" => "Goose",
        "qwen" => "Qwen Code",
        "pi" => "Pi",
        "kilo" => "Kilo",
        "kimi" => "Kimi",
        "vibe" => "Vibe",
        "cline" => "Cline",
        "cursor" => "Cursor",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_agents_as_people_do() {
        let found = BTreeMap::from([("claude", 140), ("codex", 73), ("gemini", 1)]);
        assert_eq!(
            question(&found),
            "Found 214 sessions of Claude Code, Codex and Gemini. Import them? [Y/n] "
        );
        let one = BTreeMap::from([("aider", 1)]);
        assert_eq!(question(&one), "Found 1 session of aider. Import them? [Y/n] ");
    }
}
