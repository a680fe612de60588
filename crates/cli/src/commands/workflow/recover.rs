//! `rethread workflow recover`

use std::process::ExitCode;
use std::sync::Arc;

use rethread_domain::workflow::{Status, Trigger, Workflow, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::Nobody;
use rethread_engine::workflows::WorkflowView;
use rethread_store::WorkflowFilter;

use super::crew::Crew;
use super::{drive, told};
use crate::cli::App;
use crate::output;

/// Take up what crashed: workflows in progress whose process is gone
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
        let user = app.config.user(None)?;
        let (mut found, mut is_well) = (Vec::new(), true);
        for id in app.engine.abandoned(Some(&user)).await? {
            match recover(app, id).await {
                Ok(workflow) => found.push(workflow),
                Err(error) => is_well &= is_elsewhere(app, id, &error.into()),
            }
        }
        if app.json {
            output::json(&found.iter().map(WorkflowView::from).collect::<Vec<_>>());
        }
        for workflow in &found {
            if !app.json {
                output::data(&told::rests(workflow));
            }
        }
        let mut any = !found.is_empty();
        if self.resume || app.config.workflow.resumes_after_crash() {
            for id in resting(app, &user).await? {
                match go_on(app, id).await {
                    Ok(gone_on) => any |= gone_on,
                    Err(error) => is_well &= is_elsewhere(app, id, &error),
                }
            }
        }
        if !any && is_well && !app.json {
            output::note(format_args!("Nothing to recover."));
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What a process that runs for long does at its start: takes up what crashed, and goes on with it where that is set.
pub(crate) async fn at_start(app: App) {
    let Ok(user) = app.config.user(None) else { return };
    let crashed = app.engine.abandoned(Some(&user)).await.unwrap_or_default();
    for id in &crashed {
        match recover(&app, *id).await {
            Ok(_) => output::note(format_args!(
                "note: workflow {0} had crashed; `rethread workflow resume {0}` goes on with it",
                id.short()
            )),
            Err(Error::WorkflowBusy(_) | Error::Workflow(_)) => (),
            Err(error) => output::note(format_args!("note: workflow {}: {error}", id.short())),
        }
    }
    if !crashed.is_empty()
        && app.config.workflow.resumes_after_crash()
        && let Err(error) = super::background::recover_all(&app)
    {
        output::note(format_args!("note: what crashed does not go on by itself: {error}"));
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

/// The workflows that may rest because of a crash; the oldest first.
async fn resting(app: &App, user: &str) -> anyhow::Result<Vec<WorkflowId>> {
    let filter = WorkflowFilter {
        user: Some(user.to_owned()),
        statuses: vec![Status::Paused, Status::Pending],
        limit: u32::MAX,
        ..WorkflowFilter::default()
    };
    let mut ids: Vec<_> = app.engine.workflows(&filter).await?.iter().map(|row| row.id).collect();
    ids.sort();
    Ok(ids)
}

/// Runs a workflow that rests because of a crash. `false` where it does not, or not any more.
async fn go_on(app: &App, id: WorkflowId) -> anyhow::Result<bool> {
    let workflow = app.engine.workflow(id).await?;
    let command = match (workflow.status, &workflow.mark) {
        (Status::Pending, _) => app.engine.beginning_of(&workflow),
        (Status::Paused, Some(mark)) if mark.trigger == Trigger::Crash => {
            drive::resumption(app, id, mark.id, None).await?
        }
        _ => return Ok(false),
    };
    if app.engine.is_workflow_driven(id).await? {
        return Ok(false);
    }
    drive(app, id, Some(command), false).await.map(|_| true)
}

/// Takes the snapshot of a workflow that nobody runs any more; nothing of it is run.
pub(super) async fn recover(app: &App, id: WorkflowId) -> rethread_engine::Result<Workflow> {
    let crew =
        Crew::new(app, Arc::new(Nobody)).map_err(|error| Error::Settings(error.to_string()))?;
    let workflow = app.engine.recover_workflow(id, Arc::new(crew)).await?;
    crate::notices::tell(app, id).await;
    Ok(workflow)
}
