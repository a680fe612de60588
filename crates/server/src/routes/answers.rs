//! What a person says to a workflow; and that nobody approves a command that they were not shown.

use rethread_engine::views::QuestionView;
use rethread_workflow::{Command, Question, Workflow};

use super::workflows::reason;
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// What a person may say to a workflow.
#[derive(Debug)]
pub(crate) enum Said {
    Cancel(Option<String>),
    /// With the question, as it was read.
    Approve(Option<String>),
    Reject(Option<String>),
    Retry(String),
    Skip(String),
}

/// Says it to a workflow, whoever runs it.
pub(crate) async fn say(
    app: &App,
    caller: &Caller,
    id: &str,
    said: Said,
) -> Result<Workflow, Problem> {
    let workflow = app.workflow(caller, id).await?;
    let command = match said {
        Said::Cancel(why) => {
            Command::Cancel { why: reason(why).unwrap_or_else(|| "requested".to_owned()) }
        }
        Said::Reject(why) => Command::Reject { why: reason(why) },
        Said::Retry(task) => Command::Retry { task, permissions: None },
        Said::Skip(task) => Command::Skip { task },
        Said::Approve(read) => {
            is_still_asked(app, &workflow, read.as_deref())?;
            // Refused before a command is let run: approval of nothing allows nothing.
            workflow.decide(&Command::Approve).map_err(rethread_engine::Error::from)?;
            Command::Approve
        }
    };
    Ok(app.engine.answer_workflow(app.program.as_ref(), &workflow, command).await?)
}

/// Who approves a command approves the one that they have read, and all of it.
fn is_still_asked(app: &App, workflow: &Workflow, read: Option<&str>) -> Result<(), Problem> {
    let Some(question) = workflow.questions.first() else { return Ok(()) };
    let shown = QuestionView::masked(question, app.engine.redactor());
    let is_command = matches!(question, Question::Command { .. });
    // What is masked alike is not the same.
    if is_command && !shown.is_whole {
        let short = workflow.id.short();
        let detail = "a part of the command is masked here: nobody approves what they do not see";
        return Err(Problem::new("command_hidden", detail).hint(format!(
            "`rethread workflow status {short}` shows it whole in a terminal, `rethread workflow approve {short}` lets it run"
        )));
    }
    // Forms send line ends of their own; a command has none but `\n`.
    match read {
        Some(read) if shown.question.replace("\r\n", "\n") != read.replace("\r\n", "\n") => {
            Err(Problem::new("refused", "the workflow asks something else now")
                .hint("read it again"))
        }
        _ => Ok(()),
    }
}
