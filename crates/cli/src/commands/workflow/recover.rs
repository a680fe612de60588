//! `rethread workflow recover`

use std::process::ExitCode;

use rethread_engine::Error;
use rethread_workflow::WorkflowId;

use super::{drive, render};
use crate::cli::App;
use crate::output;

/// Recover workflows whose process ended unexpectedly
///
/// Each is snapshotted, with the trigger `crash`. With --resume, or as the setting
/// `workflow.after_crash` says, they go on at once, one after the other. What was to pause before the crash is paused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with them, and with those that were recovered or created before and never went on
    #[arg(long)]
    resume: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let (user, program) = (app.config.user(None)?, app.program());
        let (mut found, mut is_well) = (Vec::new(), true);
        for id in app.engine.abandoned(Some(&user)).await? {
            match app.engine.take_up(&program, id).await {
                Ok(workflow) => found.push(workflow),
                Err(error) => is_well &= is_elsewhere(app, id, &error.into()),
            }
        }
        if app.json {
            let mut views = Vec::new();
            for workflow in &found {
                views.push(app.engine.workflow_view(workflow).await?);
            }
            output::json(&views);
        } else {
            for workflow in &found {
                output::data(&render::rests(workflow));
            }
        }
        let mut any = !found.is_empty();
        if self.resume || app.config.workflow.resumes_after_crash() {
            for id in app.engine.resting(&user).await? {
                let Some(first) = app.engine.after_crash(id).await? else { continue };
                any = true;
                if let Err(error) = drive(app, id, Some(first), false).await {
                    is_well &= is_elsewhere(app, id, &error);
                }
            }
        }
        if !any && is_well && !app.json {
            output::note(format_args!("Nothing to recover."));
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Whether this only means that somebody else was faster; otherwise it is told, and the next one is taken.
fn is_elsewhere(app: &App, id: WorkflowId, error: &anyhow::Error) -> bool {
    let is_elsewhere =
        matches!(error.downcast_ref(), Some(Error::WorkflowBusy(_) | Error::Workflow(_)));
    if !is_elsewhere {
        output::note(format_args!("note: workflow {}: {error:#}", id.short()));
    } else if !app.json {
        output::note(format_args!("Workflow {} is run elsewhere.", id.short()));
    }
    is_elsewhere
}
