//! What is to become of a file of another program in which entries of ours come or go: shown, asked for, written, and kept for
//! the way back.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::edit::Problem;
use crate::commands::choice;
use crate::config;
use crate::error::{BadInput, Refused};
use crate::output;

/// A program in whose configuration entries of ours come and go.
pub(crate) trait Target {
    /// By which it is named on the command line.
    fn name(&self) -> &'static str;
    /// As people know it.
    fn title(&self) -> &'static str;
    /// What it is, for programs that read our answer: `agent` or `editor`.
    fn kind(&self) -> &'static str;
    /// The folder in ours where the way back is kept.
    fn kept_in(&self) -> &'static str;
    /// The file that is changed, or that is ours.
    fn file(&self) -> PathBuf;
    /// Whether the whole file is ours.
    fn is_own_file(&self) -> bool;
    /// Whether the whole file is a program of ours, which never goes over one of somebody else.
    fn is_own_program(&self) -> bool {
        false
    }
    /// Who may do what with a file of ours that is not there yet.
    fn mode(&self) -> u32 {
        0o600
    }
    /// Refuses a file that the program itself would not read.
    fn check(&self, _text: &str) -> Result<(), Problem> {
        Ok(())
    }
    /// The text of the file with our entries in it: as it is without those of earlier times, and as it is now.
    fn with_entries(&self, before: &str, now: &str) -> Result<String, Problem>;
    fn without_entries(&self, text: &str) -> Result<String, Problem>;
    /// A file of ours that comes and goes with this one.
    fn companion(&self, _file: &Path) -> Option<(PathBuf, &'static str)> {
        None
    }
}

/// What is done with our entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Install,
    Uninstall,
}

/// How it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) change: Change,
    /// What the entries are, in a sentence: `the hooks`.
    pub(crate) what: &'static str,
    /// Without a question.
    pub(crate) yes: bool,
    /// Only shown.
    pub(crate) print: bool,
    pub(crate) json: bool,
}

/// What is to become of one file.
pub(crate) struct Plan<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) file: PathBuf,
    now: Option<String>,
    /// `None`: the file is to go.
    next: Option<String>,
    /// What is kept for the way back.
    kept: Option<Kept>,
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

impl<'a> Plan<'a> {
    pub(crate) fn new(target: &'a dyn Target, change: Change) -> anyhow::Result<Self> {
        match change {
            Change::Install => Self::to_install(target),
            Change::Uninstall => Self::to_uninstall(target),
        }
    }

    fn to_install(target: &'a dyn Target) -> anyhow::Result<Self> {
        let (file, now) = current(target)?;
        let text = now.as_deref().unwrap_or_default();
        target.check(text).map_err(|problem| unusable(&file, &problem))?;
        // As it was before an earlier installation, perhaps of another program.
        let before = without(target, &file, now.as_deref())?;
        if target.is_own_program() && before.is_some() {
            return Err(unusable(&file, &"this file was written by somebody else"));
        }
        let next = target
            .with_entries(before.as_deref().unwrap_or_default(), text)
            .map_err(|problem| unusable(&file, &problem))?;
        let earlier = kept(target)?.filter(|kept| kept.file == file);
        let mut made: Vec<PathBuf> =
            file.ancestors().skip(1).filter(|one| !one.exists()).map(Path::to_owned).collect();
        made.extend(earlier.map(|kept| kept.made).unwrap_or_default());
        let kept = Kept { file: file.clone(), before, after: next.clone(), made };
        Ok(Self { target, file, now, next: Some(next), kept: Some(kept) })
    }

    fn to_uninstall(target: &'a dyn Target) -> anyhow::Result<Self> {
        let (file, now) = current(target)?;
        let next = without(target, &file, now.as_deref())?;
        Ok(Self { target, file, now, next, kept: None })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.now == self.next
    }

    /// The text that the file is to have.
    pub(crate) fn text(&self) -> &str {
        self.next.as_deref().unwrap_or_default()
    }

    /// What changes in the file. A file that is ours alone is shown in full only on request.
    fn shown(&self, in_full: bool) -> String {
        let file = self.file.display();
        let is_own = self.target.is_own_file();
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
                    super::difference(now.unwrap_or_default(), next.unwrap_or_default());
                format!("{file}\n{difference}")
            }
        }
    }

    fn carry_out(&self) -> anyhow::Result<()> {
        // Somebody may have changed it while the question stood there.
        if super::read(&self.file)? != self.now {
            return Err(unusable(&self.file, &"it was changed meanwhile"));
        }
        if let Some(kept) = &self.kept {
            remember(self.target, kept)?;
        }
        match &self.next {
            Some(next) if self.now.is_some() => super::replace(&self.file, next)?,
            Some(next) => super::replace_as(&self.file, next, self.target.mode())?,
            None => std::fs::remove_file(&self.file)?,
        }
        if let Some((beside, text)) = self.target.companion(&self.file) {
            match self.next {
                Some(_) => super::replace(&beside, text)?,
                None => drop(std::fs::remove_file(&beside)), // It may be gone already.
            }
        }
        if self.next.is_none() {
            // Folders that were made for it go with it, unless something else is in them.
            let made = kept(self.target)?.filter(|kept| kept.file == self.file);
            for folder in made.map(|kept| kept.made).unwrap_or_default() {
                drop(std::fs::remove_dir(folder)); // One that is not empty stays.
            }
        }
        if self.kept.is_none() {
            // Nothing is left to go back to; it may never have been there.
            drop(std::fs::remove_file(kept_file(self.target)?));
        }
        Ok(())
    }
}

/// The file, and what is in it now.
fn current(target: &dyn Target) -> anyhow::Result<(PathBuf, Option<String>)> {
    let file = target.file();
    // Where it is a link, what it leads to is changed, and it stays a link.
    let file = std::fs::canonicalize(&file).unwrap_or(file);
    if file.is_symlink() {
        return Err(unusable(&file, &"it is a link that leads nowhere"));
    }
    let now = super::read(&file).map_err(|error| unusable(&file, &error))?;
    Ok((file, now))
}

/// The file without our entries: how it was byte for byte, if it has not changed since. As it is where there are none of ours.
fn without(target: &dyn Target, file: &Path, now: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(now) = now else { return Ok(None) };
    if let Some(kept) = kept(target)?.filter(|kept| kept.file == file && kept.after == now) {
        return Ok(kept.before);
    }
    let cleaned = target.without_entries(now).map_err(|problem| unusable(file, &problem))?;
    // A file that is ours alone is gone when nothing of ours is left in it.
    let left: String = cleaned.split_whitespace().collect();
    let is_over = target.is_own_file() && (left.is_empty() || left == "{}");
    let is_over = is_over && cleaned != now;
    Ok(Some(cleaned).filter(|_| !is_over))
}

/// What was kept of a file; nothing where it cannot be read.
fn kept(target: &dyn Target) -> anyhow::Result<Option<Kept>> {
    let kept = std::fs::read(kept_file(target)?).ok();
    Ok(kept.and_then(|kept| serde_json::from_slice(&kept).ok()))
}

fn kept_file(target: &dyn Target) -> anyhow::Result<PathBuf> {
    Ok(config::data_folder()?.join(target.kept_in()).join(format!("{}.json", target.name())))
}

fn remember(target: &dyn Target, kept: &Kept) -> anyhow::Result<()> {
    let path = kept_file(target)?;
    if let Some(folder) = path.parent() {
        // Configurations hold keys at times.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    super::replace(&path, &serde_json::to_string(kept)?)
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> anyhow::Error {
    BadInput::new(
        format!("{} is left as it is: {why}", file.display()),
        "correct the file and try again; nothing was changed",
    )
    .into()
}

/// Shows what changes, asks, and writes. False: the user does not want it.
pub(crate) fn carry_out(plans: &[Plan<'_>], how: How) -> anyhow::Result<bool> {
    let changing: Vec<&Plan<'_>> = plans.iter().filter(|plan| !plan.is_done()).collect();
    if !how.json {
        for plan in plans.iter().filter(|plan| plan.is_done()) {
            output::note(format_args!("{}: nothing to do.", plan.target.title()));
        }
        for plan in &changing {
            output::data(&plan.shown(how.print));
        }
    }
    if !how.print && !changing.is_empty() && !how.yes && !is_wanted(how)? {
        output::note(format_args!("Nothing was changed."));
        return Ok(false);
    }
    if !how.print {
        for plan in plans {
            super::sweep(&plan.file);
        }
        for plan in &changing {
            plan.carry_out()?;
        }
    }
    if how.json {
        output::json(&plans.iter().map(|plan| answer(plan, how.print)).collect::<Vec<_>>());
    }
    Ok(true)
}

fn answer(plan: &Plan<'_>, is_printed: bool) -> serde_json::Value {
    let is_changing = !plan.is_done();
    let mut answer = json!({"file": plan.file, "changed": is_changing && !is_printed});
    answer[plan.target.kind()] = json!(plan.target.name());
    if is_printed {
        answer["would_change"] = json!(is_changing);
    }
    answer
}

fn is_wanted(how: How) -> anyhow::Result<bool> {
    if how.json || !choice::is_asked() {
        let why = if how.json { "--json does not ask" } else { "there is no terminal to ask on" };
        let verb = match how.change {
            Change::Install => "installs",
            Change::Uninstall => "removes",
        };
        return Err(Refused {
            code: "confirmation_needed",
            message: format!("nothing was changed: {why}"),
            hint: Some(format!(
                "`--yes` {verb} {} without asking; `--print` shows what would change",
                how.what
            )),
        }
        .into());
    }
    choice::confirm("Write this?")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Settings(PathBuf);

    impl Target for Settings {
        fn name(&self) -> &'static str {
            "settings"
        }
        fn title(&self) -> &'static str {
            "Settings"
        }
        fn kind(&self) -> &'static str {
            "editor"
        }
        fn kept_in(&self) -> &'static str {
            "tests"
        }
        fn file(&self) -> PathBuf {
            self.0.clone()
        }
        fn is_own_file(&self) -> bool {
            false
        }
        fn with_entries(&self, before: &str, _now: &str) -> Result<String, Problem> {
            Ok(before.to_owned())
        }
        fn without_entries(&self, text: &str) -> Result<String, Problem> {
            Ok(text.to_owned())
        }
    }

    #[test]
    fn what_was_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        let target = Settings(file.clone());
        let (now, next) = (Some("{}".to_owned()), Some("{\"hooks\": {}}".to_owned()));
        let plan = Plan { target: &target, file: file.clone(), now, next, kept: None };
        std::fs::write(&file, "{\"model\": \"opus\"}").unwrap();
        let refused = plan.carry_out().unwrap_err().to_string();
        assert!(refused.contains("changed meanwhile"), "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"model\": \"opus\"}");
    }
}
