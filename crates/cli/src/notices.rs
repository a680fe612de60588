//! Telling others of workflows. What was told is noted in the store: nobody is told twice because a process died.

use std::time::Duration;

use rethread_domain::workflow::{Event, EventRecord, TaskState, Trigger, Workflow, WorkflowId};
use rethread_engine::workflows::Report;
use rethread_notify::{Courier, Event as Kind, Hook, Notice, Patience};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cli::App;
use crate::output;

/// How long one notice is tried, whatever the receiver does.
const LONGEST: Duration = Duration::from_secs(15);

/// Whether others may want to know.
pub(crate) fn is_of_interest(report: &Report) -> bool {
    matches!(report, Report::Event(record) if kind(&record.event).is_some())
}

fn kind(event: &Event) -> Option<Kind> {
    match event {
        Event::Began { .. } => Some(Kind::Started),
        Event::Paused(mark) if mark.trigger == Trigger::Crash => Some(Kind::Crashed),
        Event::Paused(_) => Some(Kind::Paused),
        Event::Resumed { .. } => Some(Kind::Resumed),
        Event::Blocked => Some(Kind::Blocked),
        Event::Completed => Some(Kind::Completed),
        Event::Failed { .. } => Some(Kind::Failed),
        Event::Cancelled { .. } => Some(Kind::Cancelled),
        Event::Warned { .. } => Some(Kind::CapacityWarning),
        _ => None,
    }
}

/// Tells, each time that it is woken, until nobody can wake it any more.
pub(crate) async fn keep_telling(app: &App, id: WorkflowId, mut woken: UnboundedReceiver<()>) {
    while woken.recv().await.is_some() {
        tell(app, id).await;
    }
}

/// Tells of what happened since it was last told. What cannot be told does not stop the work.
pub(crate) async fn tell(app: &App, id: WorkflowId) {
    if let Err(error) = try_tell(app, id).await {
        output::note(format_args!("note: {error:#}"));
    }
}

async fn try_tell(app: &App, id: WorkflowId) -> anyhow::Result<()> {
    let hooks = app.config.hooks()?;
    if hooks.is_empty() {
        return Ok(());
    }
    let clock = || rethread_engine::Clock::Wall.now();
    let courier = Courier::new(Patience::default(), clock)?;
    let told = app.engine.told_of(id).await?;
    let events = app.engine.workflow_events(id, 0).await?;
    let mut workflow: Option<Workflow> = None;
    for record in &events {
        match &mut workflow {
            None => workflow = Workflow::create(id, &record.event, record.at),
            Some(workflow) => workflow.apply(&record.event, record.at),
        }
        if record.no > told
            && let (Some(workflow), Some(kind)) = (&workflow, kind(&record.event))
        {
            deliver(app, &courier, &hooks, &notice(app, workflow, record, kind)).await;
            app.engine.set_told(id, record.no).await?;
        }
    }
    Ok(())
}

async fn deliver(app: &App, courier: &Courier, hooks: &[Hook], notice: &Notice) {
    // One that does not answer is in nobody's way.
    let sent = hooks.iter().map(|hook| async move {
        let outcome = tokio::time::timeout(LONGEST, courier.deliver(hook, notice)).await;
        match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("{} did not take a notice in time", hook.shown())),
        }
    });
    for trouble in futures::future::join_all(sent).await.into_iter().flatten() {
        if !app.json {
            output::note(format_args!("note: {trouble}"));
        }
    }
}

fn notice(app: &App, workflow: &Workflow, record: &EventRecord, event: Kind) -> Notice {
    let masked = |text: &str| app.engine.redactor().redact(text).text.into_owned();
    let reason = match &record.event {
        Event::Paused(mark) => Some(mark.reason.clone()),
        Event::Failed { why } | Event::Cancelled { why } => Some(why.clone()),
        Event::Blocked => workflow.questions.first().map(rethread_domain::workflow::Question::told),
        _ => None,
    };
    let snapshot = match &record.event {
        Event::Paused(mark) => Some(mark.id.to_string()),
        Event::Resumed { from, .. } => Some(from.to_string()),
        _ => None,
    };
    let folder = std::path::Path::new(&workflow.charter.worktree).file_name();
    Notice {
        id: format!("{}-{}", workflow.id, record.no),
        event,
        at: record.at,
        workflow_id: workflow.id.to_string(),
        title: masked(&workflow.charter.title),
        status: workflow.status.as_str().to_owned(),
        reason: reason.map(|reason| masked(&reason)),
        snapshot_id: snapshot,
        session_number: workflow.sessions,
        tasks_completed: workflow.count(TaskState::Completed) as usize,
        tasks_total: workflow.tasks.len(),
        worktree: folder.map(|name| name.to_string_lossy().into_owned()),
        resume: Some(format!("rethread workflow resume {}", workflow.id.short())),
    }
}
