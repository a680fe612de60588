//! What Tab completes: commands of ours and of the agent at the beginning, what can follow them, and files after `@`.

use rethread_engine::agents::Offered;

use super::{files, slash};
use crate::cli::App;
use crate::terminal::window::Completer;

pub(super) fn completer(project: &str, app: &App, offered: Offered) -> Completer {
    let own = offered.commands.iter().map(|command| format!("/{}", command.id));
    let mut commands: Vec<String> = slash::completed().map(str::to_owned).chain(own).collect();
    commands.extend(app.workspace_commands());
    commands.sort();
    commands.dedup();
    let agents: Vec<String> =
        app.config.agents().map(|all| all.into_keys().collect()).unwrap_or_default();
    let project = project.to_owned();
    Box::new(move |text, at| {
        let typed = text.get(..at).unwrap_or_default();
        let from = typed.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let word = &typed[from..];
        if let Some(path) = word.strip_prefix('@') {
            let found = files::beginning_with(&project, path);
            return (from, found.into_iter().map(|path| format!("@{path}")).collect());
        }
        if from == 0 && typed.starts_with('/') {
            return (0, fitting(word, commands.iter().map(String::as_str)));
        }
        let ids = |all: &[rethread_engine::agents::Named]| {
            fitting(word, all.iter().map(|one| one.id.as_str()))
        };
        let found = match typed[..from].trim_end() {
            "/model" => ids(&offered.models),
            "/mode" => ids(&offered.modes),
            "/switch" => fitting(word, agents.iter().map(String::as_str)),
            _ => Vec::new(),
        };
        (from, found)
    })
}

fn fitting<'a>(typed: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    all.filter(|one| one.starts_with(typed)).map(str::to_owned).collect()
}
