//! The workspace that the program runs in: what is said of it, and what its kinds of sessions add.

use std::path::Path;
use std::sync::Arc;

use rethread_domain::Session;
use rethread_domain::near::{is_slip, near};
use rethread_domain::wording::counted;
use rethread_engine::agents::KIND_COMMAND;
use rethread_engine::folders::{Consent, FolderHealth, FolderReport, Kind, Saved, Workspace};

use crate::cli::App;
use crate::commands::{choice, named};
use crate::config::Config;
use crate::error::{BadInput, Refused};
use crate::output;

/// The workspace of the current folder, unless it is not to be recorded.
pub(crate) fn find(config: &Config) -> Option<Arc<Workspace>> {
    around(&std::env::current_dir().ok()?, config)
}

/// The same, of another folder.
pub(crate) fn around(folder: &Path, config: &Config) -> Option<Arc<Workspace>> {
    match Workspace::find(folder) {
        Ok(found) => found.filter(|found| config.excluded(found.root()).is_none()).map(Arc::new),
        Err(error) => {
            output::note(format_args!("note: the workspace cannot be used: {error}"));
            None
        }
    }
}

/// Why the workspace of the current folder cannot be used, if there is one that cannot.
pub(crate) fn unusable() -> Option<FolderHealth> {
    let folder = std::env::current_dir().ok()?;
    let error = Workspace::find(&folder).err()?;
    Some(FolderHealth {
        path: folder.display().to_string(),
        troubles: vec![format!("the workspace cannot be used: {error}")],
        ..FolderHealth::default()
    })
}

/// Says what was put right in folders, and what is not as it should be.
fn tell_repairs(followed: &FolderReport) {
    for (id, seq) in &followed.purged {
        output::note(format_args!(
            "note: message {seq} of {} was purged elsewhere, and is purged here now",
            id.short()
        ));
    }
    for id in &followed.purged_again {
        output::note(format_args!(
            "note: an old folder of {} had come back with a text that was purged: it is removed, its other lines are in the session's folder; commit that",
            id.short()
        ));
    }
    for (id, folder) in &followed.separated {
        output::note(format_args!(
            "note: {} shared its folder with another session; it has one of its own now: {folder}",
            id.short()
        ));
    }
    for (id, count) in &followed.healed {
        output::note(format_args!(
            "note: {}, missing from the folder of {} until now, back in place",
            counted(*count, "message"),
            id.short()
        ));
    }
    for trouble in &followed.troubles {
        output::note(format_args!("note: {}", output::shown(trouble, false)));
    }
    if !followed.masked.is_empty() {
        let masked: Vec<String> =
            followed.masked.iter().map(|(what, count)| format!("{count} × {what}")).collect();
        output::note(format_args!("note: masked in the folder: {}", masked.join(", ")));
    }
}

impl App {
    /// Looks through the workspace for what came and what changed.
    pub(crate) async fn gather(&self) -> anyhow::Result<()> {
        if self.engine.workspace().is_some() {
            let followed = self.engine.gather(&self.config.user(None)?).await?;
            self.tell(followed).await?;
        }
        Ok(())
    }

    /// Says what happened to folders meanwhile.
    pub(crate) async fn tell_notes(&self) -> anyhow::Result<()> {
        self.tell(self.engine.take_notes()).await
    }

    async fn tell(&self, followed: FolderReport) -> anyhow::Result<()> {
        match followed.arrived.as_slice() {
            [] => (),
            [one] => output::note(format_args!(
                "note: {} came with the workspace",
                named(&self.engine.session(*one).await?)
            )),
            several => output::note(format_args!(
                "note: {} sessions came with the workspace",
                several.len()
            )),
        }
        for (id, count) in &followed.went_on {
            output::note(format_args!(
                "note: {} went on elsewhere: imported {}",
                named(&self.engine.session(*id).await?),
                counted(*count, "message")
            ));
        }
        for (fork, source) in &followed.forked {
            output::note(format_args!(
                "note: {} went on elsewhere at the same time: what was said there is {}",
                named(&self.engine.session(*source).await?),
                fork.short()
            ));
        }
        tell_repairs(&followed);
        Ok(())
    }

    /// The kind that a new session is to be of.
    pub(crate) fn kind(&self, name: &str) -> anyhow::Result<Kind> {
        let Some(workspace) = self.engine.workspace() else {
            return Err(BadInput::new(
                "this folder is in no workspace",
                "`rethread init` makes it one",
            )
            .into());
        };
        let found = workspace.kind(name).map_err(rethread_engine::Error::from)?;
        found.ok_or_else(|| {
            let known = workspace.kinds().unwrap_or_default();
            let known: Vec<&str> = known.iter().map(|kind| kind.name.as_str()).collect();
            Refused {
                code: "unknown_kind",
                message: format!("this workspace has no kind {name:?}"),
                hint: Some(format!(
                    "there are {}; a file {name}.md in .rethread/kinds adds it",
                    known.join(", ")
                )),
            }
            .into()
        })
    }

    /// Says what else is not as it was when the session was held.
    pub(crate) fn tell_differences(&self, session: &Session, model: Option<&str>) {
        if let (Some(before), Some(now)) = (&session.model, model)
            && before != now
        {
            output::note(format_args!("note: the model was {before}, and is {now} now"));
        }
        let known = self.config.tools();
        let missing: Vec<&str> = session
            .tools
            .iter()
            .map(String::as_str)
            .filter(|tool| !known.contains_key(*tool))
            .collect();
        if !missing.is_empty() {
            output::note(format_args!(
                "note: tools that the session had are not there now: {}",
                missing.join(", ")
            ));
        }
    }

    /// What was typed, with the workspace's own commands replaced by what they stand for; or a sentence about the command
    /// that there is not.
    pub(crate) fn expand(&self, line: &str) -> Result<String, String> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match command.strip_prefix(KIND_COMMAND) {
            Some("resume") => Ok("/resume".to_owned()),
            Some("stop-conversation") => Ok("/stop".to_owned()),
            Some(name) => match self.kind(name) {
                Ok(kind) if rest.trim().is_empty() => Ok(kind.prompt),
                Ok(kind) => Ok(format!("{}\n\n{}", kind.prompt.trim_end(), rest.trim())),
                Err(error) => Err(self.no_such_command(name, &error)),
            },
            None => match self.workspace_commands().iter().find(|meant| is_slip(command, meant)) {
                Some(meant) => Err(format!("Did you mean {meant}?")),
                None => Ok(line.to_owned()),
            },
        }
    }

    /// The workspace's own commands, if there is a workspace.
    pub(crate) fn workspace_commands(&self) -> Vec<String> {
        let Some(workspace) = self.engine.workspace() else { return Vec::new() };
        let kinds = workspace.kinds().unwrap_or_default().into_iter().map(|kind| kind.command);
        let others = ["resume", "stop-conversation"].map(|name| format!("{KIND_COMMAND}{name}"));
        kinds.chain(others).collect()
    }

    fn no_such_command(&self, name: &str, error: &anyhow::Error) -> String {
        let commands = self.workspace_commands();
        if let Some(meant) = near(&format!("{KIND_COMMAND}{name}"), commands.iter()) {
            return format!("Did you mean {meant}?");
        }
        let error = output::shown(&error.to_string(), false);
        if commands.is_empty() {
            return format!("{error}.");
        }
        format!("{error}: there are {}.", commands.join(", "))
    }

    /// Commits the session's folder where the user has said that this is to be done each time; asks and says nothing.
    pub(crate) async fn commit_if_automatic(
        &self,
        session: &Session,
    ) -> rethread_engine::Result<()> {
        if self.engine.commit_consent(session).await? == Consent::Yes {
            self.engine.commit(session.id).await?;
        }
        Ok(())
    }

    /// Commits the folder of a session that was left, by the user's setting or word.
    pub(crate) async fn commit(
        &self,
        session: &Session,
        asked: Option<bool>,
    ) -> anyhow::Result<Option<Saved>> {
        let is_wanted = match (asked, self.engine.commit_consent(session).await?) {
            (Some(asked), _) => asked,
            (None, Consent::No) => false,
            (None, Consent::Yes) => true,
            (None, Consent::Ask) => choice::confirm("Commit its folder to git?")?,
            (None, Consent::AskForAuto) => self.ask_for_auto(session).await?,
        };
        if !is_wanted {
            return Ok(None);
        }
        let saved = self.engine.commit(session.id).await?;
        match &saved {
            Saved::Committed { id, message } => output::note(format_args!(
                "Committed {}: {}",
                id.get(..10).unwrap_or(id),
                output::shown(message, false)
            )),
            Saved::Unchanged => output::note(format_args!("Git has its folder as it is.")),
            Saved::Not(why) => output::note(format_args!(
                "The session is saved, but not committed: {}",
                output::shown(why, false)
            )),
        }
        Ok(Some(saved))
    }

    /// A workspace may have come from anybody: that it commits by itself is agreed to once.
    async fn ask_for_auto(&self, session: &Session) -> anyhow::Result<bool> {
        if !choice::is_asked() {
            output::note(format_args!(
                "not committed: the workspace asks for it, you have not agreed; `rethread init --commit auto` does, `rethread stop --commit` commits once"
            ));
            return Ok(false);
        }
        let agreed = choice::confirm(
            "This workspace wants session folders committed by itself, with the repository's own hooks. Agree for good?",
        )?;
        if let Some(folder) = self.engine.home_root(session.id).await? {
            self.engine.consent_to_commits(&session.user, &folder, agreed).await?;
        }
        Ok(agreed)
    }
}
