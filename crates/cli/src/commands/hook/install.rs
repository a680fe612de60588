//! `rethread hook install` and `rethread hook uninstall`

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agents::{self, Agent, Form};
use super::named;
use crate::commands::choice;
use crate::config::{self, ClientFolders};
use crate::error::{BadInput, Refused};
use crate::{client_files, output};

/// Write an agent's hook configuration, so that it calls Rethread
///
/// Keeps everything that is in the file, comments included. Shows what changes and asks before it writes; with --print it
/// changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Install {
    /// The agents: claude, codex, gemini, qwen, copilot, kimi, goose, opencode, kilo, pi
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    print: bool,
}

/// Take Rethread's hooks out of an agent's configuration
///
/// A file that has not changed since is put back byte for byte; from one that has, only our own entries are taken out.
#[derive(Debug, clap::Args)]
pub(super) struct Uninstall {
    /// The agents
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only show what would change
    #[arg(long)]
    print: bool,
}

/// How a file was before our entries came into it, and how they left it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    file: PathBuf,
    before: Option<String>,
    after: String,
    /// The folders that were made for it, the innermost first.
    #[serde(default)]
    made: Vec<PathBuf>,
}

/// What is done with the hooks.
#[derive(Debug, Clone, Copy)]
enum Change {
    Install,
    Uninstall,
}

/// What is to become of one agent's file.
struct Plan {
    agent: &'static Agent,
    file: PathBuf,
    now: Option<String>,
    /// `None`: the file is to go.
    next: Option<String>,
    /// What is kept for the way back.
    kept: Option<Kept>,
}

impl Install {
    pub(super) fn run(self, store: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
        let folders = config::client_folders()?;
        let start = super::start(store)?;
        let mut plans = Vec::new();
        for agent in named(&self.agents)? {
            if !agent.is_installed(&folders) {
                let hint = format!("install {} first, or start it once", agent.title);
                let message = agent.missing(&folders);
                return Err(Refused { code: "not_installed", message, hint: Some(hint) }.into());
            }
            plans.push(Plan::to_install(agent, &folders, &start)?);
        }
        carry_out(&plans, Change::Install, self.yes, self.print, json)
    }
}

impl Uninstall {
    pub(super) fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        let folders = config::client_folders()?;
        let mut plans = Vec::new();
        for agent in named(&self.agents)? {
            plans.push(Plan::to_uninstall(agent, &folders)?);
        }
        carry_out(&plans, Change::Uninstall, self.yes, self.print, json)
    }
}

impl Plan {
    fn to_install(
        agent: &'static Agent,
        folders: &ClientFolders,
        start: &[String],
    ) -> anyhow::Result<Self> {
        let (file, now) = current(agent, folders)?;
        agent
            .check(now.as_deref().unwrap_or_default())
            .map_err(|problem| unusable(&file, &problem))?;
        // As it was before an earlier installation, perhaps of another program.
        let before = match without(agent, &file, now.as_deref())? {
            Some((before, _)) => before,
            None => now.clone(),
        };
        if agent.form == Form::Plugin && before.is_some() {
            return Err(unusable(&file, &"there is a plugin of somebody else in this file"));
        }
        let next = agent
            .with_entries(before.as_deref().unwrap_or_default(), start)
            .map_err(|problem| unusable(&file, &problem))?;
        let earlier = kept(agent)?.filter(|kept| kept.file == file);
        let mut made: Vec<PathBuf> =
            file.ancestors().skip(1).filter(|one| !one.exists()).map(Path::to_owned).collect();
        made.extend(earlier.map(|kept| kept.made).unwrap_or_default());
        let kept = Kept { file: file.clone(), before, after: next.clone(), made };
        Ok(Self { agent, file, now, next: Some(next), kept: Some(kept) })
    }

    fn to_uninstall(agent: &'static Agent, folders: &ClientFolders) -> anyhow::Result<Self> {
        let (file, now) = current(agent, folders)?;
        let next = match without(agent, &file, now.as_deref())? {
            Some((next, _)) => next,
            None => now.clone(),
        };
        Ok(Self { agent, file, now, next, kept: None })
    }

    fn is_done(&self) -> bool {
        self.now == self.next
    }

    /// What changes in the file. A file that is ours alone is shown in full only on request.
    fn shown(&self, in_full: bool) -> String {
        let file = self.file.display();
        let is_own = matches!(self.agent.form, Form::OwnFile | Form::Plugin);
        match (&self.now, &self.next) {
            (None, Some(next)) if is_own && !in_full => {
                format!("new file {file}, {} lines\n", next.lines().count())
            }
            (Some(now), None) if is_own && !in_full => {
                format!("remove file {file}, {} lines\n", now.lines().count())
            }
            (now, next) => {
                let (now, next) = (now.as_deref(), next.as_deref());
                let difference =
                    client_files::difference(now.unwrap_or_default(), next.unwrap_or_default());
                format!("{file}\n{difference}")
            }
        }
    }

    fn carry_out(&self) -> anyhow::Result<()> {
        // Somebody may have changed it while the question stood there.
        if client_files::read(&self.file)? != self.now {
            return Err(unusable(&self.file, &"it was changed meanwhile"));
        }
        if let Some(kept) = &self.kept {
            remember(self.agent, kept)?;
        }
        match &self.next {
            Some(next) => client_files::replace(&self.file, next)?,
            None => std::fs::remove_file(&self.file)?,
        }
        if self.agent.form == Form::OwnFile
            && let Some(manifest) = agents::manifest(&self.file)
        {
            match self.next {
                Some(_) => client_files::replace(&manifest, agents::MANIFEST)?,
                None => drop(std::fs::remove_file(&manifest)), // It may be gone already.
            }
        }
        if self.next.is_none() && matches!(self.agent.form, Form::OwnFile | Form::Plugin) {
            // Folders that were made for it go with it, unless something else is in them.
            let made = kept(self.agent)?.filter(|kept| kept.file == self.file);
            for folder in made.map(|kept| kept.made).unwrap_or_default() {
                drop(std::fs::remove_dir(folder)); // One that is not empty stays.
            }
        }
        if self.kept.is_none() {
            // Nothing is left to go back to; it may never have been there.
            drop(std::fs::remove_file(kept_in(self.agent)?));
        }
        Ok(())
    }
}

/// The file, and what is in it now.
fn current(agent: &Agent, folders: &ClientFolders) -> anyhow::Result<(PathBuf, Option<String>)> {
    let file = agent.file(folders);
    // Where it is a link, what it leads to is changed, and it stays a link.
    let file = std::fs::canonicalize(&file).unwrap_or(file);
    if file.is_symlink() {
        return Err(unusable(&file, &"it is a link that leads nowhere"));
    }
    let now = client_files::read(&file).map_err(|error| unusable(&file, &error))?;
    Ok((file, now))
}

/// The file without our entries, and whether that is how it was byte for byte. Nothing where there are none of ours.
fn without(
    agent: &Agent,
    file: &Path,
    now: Option<&str>,
) -> anyhow::Result<Option<(Option<String>, bool)>> {
    let Some(now) = now else { return Ok(None) };
    if let Some(kept) = kept(agent)?.filter(|kept| kept.file == file && kept.after == now) {
        return Ok(Some((kept.before, true)));
    }
    let cleaned = agent.without_entries(now).map_err(|problem| unusable(file, &problem))?;
    if cleaned == now {
        return Ok(None);
    }
    // A file that is ours alone is gone when nothing of ours is left in it.
    let left: String = cleaned.split_whitespace().collect();
    let is_own = matches!(agent.form, Form::OwnFile | Form::Plugin);
    let is_over = is_own && (left.is_empty() || left == "{}");
    Ok(Some((Some(cleaned).filter(|_| !is_over), false)))
}

/// What was kept of an agent's file; nothing where it cannot be read.
fn kept(agent: &Agent) -> anyhow::Result<Option<Kept>> {
    let kept = std::fs::read(kept_in(agent)?).ok();
    Ok(kept.and_then(|kept| serde_json::from_slice(&kept).ok()))
}

fn kept_in(agent: &Agent) -> anyhow::Result<PathBuf> {
    Ok(config::data_folder()?.join("hooks").join(format!("{}.json", agent.name)))
}

fn remember(agent: &Agent, kept: &Kept) -> anyhow::Result<()> {
    let path = kept_in(agent)?;
    if let Some(folder) = path.parent() {
        // Configurations hold keys at times.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    client_files::replace(&path, &serde_json::to_string(kept)?)
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> anyhow::Error {
    BadInput::new(
        format!("{} is left as it is: {why}", file.display()),
        "correct the file and try again; nothing was changed",
    )
    .into()
}

/// Shows what changes, asks, and writes.
fn carry_out(
    plans: &[Plan],
    change: Change,
    yes: bool,
    print: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let changing: Vec<&Plan> = plans.iter().filter(|plan| !plan.is_done()).collect();
    if !json {
        for plan in plans.iter().filter(|plan| plan.is_done()) {
            output::note(format_args!("{}: nothing to do.", plan.agent.title));
        }
        for plan in &changing {
            output::data(&plan.shown(print));
        }
    }
    if !print && !changing.is_empty() && !yes && !is_wanted(change, json)? {
        output::note(format_args!("Nothing was changed."));
        return Ok(ExitCode::FAILURE);
    }
    if !print {
        for plan in plans {
            client_files::sweep(&plan.file);
        }
        for plan in &changing {
            plan.carry_out()?;
        }
    }
    if json {
        let about = plans.iter().map(|plan| {
            let (agent, file, is_changing) = (plan.agent.name, &plan.file, !plan.is_done());
            if print {
                json!({"agent": agent, "file": file, "changed": false, "would_change": is_changing})
            } else {
                json!({"agent": agent, "file": file, "changed": is_changing})
            }
        });
        output::json(&about.collect::<Vec<_>>());
    } else if !print {
        for plan in &changing {
            let done = match change {
                Change::Install => "the hooks are installed. Restart it to use them.",
                Change::Uninstall => "the hooks were removed. Restart it if it is running.",
            };
            output::note(format_args!("{}: {done}", plan.agent.title));
            if matches!(change, Change::Install) && plan.agent.name == "codex" {
                output::note(format_args!("{}", super::status::TRUST));
            }
            let text = plan.next.as_deref().unwrap_or_default();
            let off = super::status::switched_off(plan.agent, text);
            if let (Change::Install, Some(note)) = (change, off) {
                output::note(format_args!("note: {note}"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_wanted(change: Change, json: bool) -> anyhow::Result<bool> {
    if json || !choice::is_asked() {
        let why = if json { "--json does not ask" } else { "there is no terminal to ask on" };
        let verb = match change {
            Change::Install => "installs",
            Change::Uninstall => "removes",
        };
        return Err(Refused {
            code: "confirmation_needed",
            message: format!("nothing was changed: {why}"),
            hint: Some(format!(
                "`--yes` {verb} the hooks without asking; `--print` shows what would change"
            )),
        }
        .into());
    }
    choice::confirm("Write this?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        let agent = Agent::named("claude").unwrap();
        let (now, next) = (Some("{}".to_owned()), Some("{\"hooks\": {}}".to_owned()));
        let plan = Plan { agent, file: file.clone(), now, next, kept: None };
        std::fs::write(&file, "{\"model\": \"opus\"}").unwrap();
        let refused = plan.carry_out().unwrap_err().to_string();
        assert!(refused.contains("changed meanwhile"), "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"model\": \"opus\"}");
    }
}
