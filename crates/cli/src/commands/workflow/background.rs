//! Work that is left to a process of its own.

use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rethread_domain::workflow::{Workflow, WorkflowId};
use rethread_engine::workflows::WorkflowView;

use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// How long the process may take until it has written something.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Leaves the work to a process of its own, and says so.
pub(super) async fn detached(
    app: &App,
    id: WorkflowId,
    how: &[String],
) -> anyhow::Result<ExitCode> {
    let workflow = in_background(app, id, how).await?;
    if app.json {
        output::json(&WorkflowView::from(&workflow));
    } else {
        output::note(format_args!(
            "Workflow {0} goes on in the background.\n`rethread workflow status {0}` shows how it stands, `rethread workflow logs -f {0}` follows it.",
            id.short()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves the work to a process of its own, and waits until that has begun.
pub(crate) async fn in_background(
    app: &App,
    id: WorkflowId,
    how: &[String],
) -> anyhow::Result<Workflow> {
    let before = app.engine.workflow(id).await?.events;
    let own = id.to_string();
    let words: Vec<&str> =
        ["run", own.as_str()].into_iter().chain(how.iter().map(String::as_str)).collect();
    let mut child = spawn(app, &words)?;
    let begun = Instant::now();
    loop {
        let ended = child.try_wait()?;
        let workflow = app.engine.workflow(id).await?;
        if workflow.events > before || begun.elapsed() > BEGINS_WITHIN {
            // Whoever started it may live long, and is its parent.
            std::thread::spawn(move || child.wait());
            return Ok(workflow);
        }
        if let Some(status) = ended {
            return Err(Refused {
                code: "workflow_not_begun",
                message: format!("the process that was to run workflow {id} ended: {status}"),
                hint: Some(format!(
                    "`rethread workflow run {id} {}` shows why",
                    how.first().map_or("--start", String::as_str)
                )),
            }
            .into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Goes on with all that crashed, in a process of its own.
pub(super) fn recover_all(app: &App) -> std::io::Result<()> {
    let mut child = spawn(app, &["recover", "--resume"])?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// A process of ours that outlives us, with words for `rethread workflow`.
fn spawn(app: &App, words: &[&str]) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(["--store", &app.url.to_string(), "workflow"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn()
}
