//! `rethread init`

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_engine::folders::{CommitPolicy, Workspace};
use serde_json::json;

use super::project;
use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Make a folder a workspace, whose sessions live in it
///
/// Each session gets a folder `conversations/<date>/<number>-<kind>-<topic>-<short id>` with what was said, readable for
/// people and for programs. The kinds of sessions, and their prompts, are files in `.rethread/kinds`. What is there already stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder [default: the current one]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// When a session stops, commit its folder to git: ask, auto or never
    #[arg(long, value_name = "WHEN")]
    commit: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let root = project(self.folder.as_deref())?;
        super::refuse_excluded(app, &root)?;
        let wish: Option<CommitPolicy> = match &self.commit {
            Some(text) => Some(text.parse().map_err(|_| {
                BadInput::new(format!("--commit cannot be {text:?}"), "one of ask, auto, never")
            })?),
            None => None,
        };
        let made = Workspace::init(&root, wish).map_err(rethread_engine::Error::from)?;
        if let Some(wish) = wish {
            // Whoever says it here means it: the workspace alone could have come from anybody.
            let user = app.config.user(None)?;
            app.engine.consent_to_commits(&user, &root, wish == CommitPolicy::Auto).await?;
        }
        let created: Vec<String> =
            made.created.iter().map(|path| path.display().to_string()).collect();
        if app.json {
            output::json(&json!({ "workspace": made.workspace.root(), "created": created }));
            return Ok(ExitCode::SUCCESS);
        }
        if !created.is_empty() {
            output::note(format_args!("Created:"));
        }
        for path in &created {
            output::data(&format!("{path}\n"));
        }
        let kinds = made.workspace.kinds().map_err(rethread_engine::Error::from)?;
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        output::note(format_args!(
            "{} is a workspace. Kinds of sessions: {}.\nTo begin: rethread run AGENT --kind {} --topic \"…\"",
            root.display(),
            kinds.join(", "),
            kinds.first().unwrap_or(&"chat"),
        ));
        Ok(ExitCode::SUCCESS)
    }
}
