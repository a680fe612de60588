//! Answers of people to workflows. Nobody can approve a command that they were not shown.

use rethread_engine::program::check_installed;
use rethread_engine::views::QuestionView;
use rethread_workflow::{Answer as Said, Command, Question, Workflow};

use super::workflows::{filled, reason};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// An answer to a workflow.
#[derive(Debug)]
pub(crate) enum Answer {
    Cancel(Option<String>),
    Approve {
        /// The question as it was shown.
        read: Option<String>,
        /// The task that it is about, where several things are asked.
        task: Option<String>,
        why: Option<String>,
    },
    Reject {
        why: Option<String>,
        task: Option<String>,
    },
    Retry {
        task: String,
        /// Another agent to continue with.
        with: Option<String>,
    },
    Skip(String),
}

/// Gives an answer to a workflow, whichever process runs it.
pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    id: &str,
    said: Answer,
) -> Result<Workflow, Problem> {
    let workflow = app.workflow(caller, id).await?;
    let by = Some(caller.user().to_owned());
    let told = |task: Option<String>| filled(task.as_deref()).map(str::to_owned);
    let command = match said {
        Answer::Cancel(why) => {
            Command::Cancel { why: reason(why).unwrap_or_else(|| "requested".to_owned()) }
        }
        Answer::Reject { why, task } => {
            Command::Reject(Said { task: told(task), why: reason(why), by })
        }
        Answer::Retry { task, with } => {
            let agent = filled(with.as_deref()).map(str::to_owned);
            if let Some(agent) = &agent {
                check_installed(app.program.as_ref(), agent)?;
            }
            Command::Retry { task, agent, permissions: None }
        }
        Answer::Skip(task) => Command::Skip { task },
        Answer::Approve { read, task, why } => {
            let task = told(task);
            check_question(app, &workflow, task.as_deref(), read.as_deref())?;
            let approve = Command::Approve(Said { task, why: reason(why), by });
            // Checked before a command is approved: an approval of nothing allows nothing.
            workflow.decide(&approve).map_err(rethread_engine::Error::from)?;
            approve
        }
    };
    Ok(app.engine.answer_workflow(app.program.as_ref(), &workflow, command).await?)
}

/// Whoever approves a command must have seen this very command, and all of it.
fn check_question(
    app: &App,
    workflow: &Workflow,
    task: Option<&str>,
    read: Option<&str>,
) -> Result<(), Problem> {
    let Some(question) = workflow.question_for(task, true) else { return Ok(()) };
    let shown = QuestionView::masked(&question, app.engine.redactor());
    let is_command = matches!(question, Question::Command { .. });
    // Two different commands may look the same once masked, so the masked texts are not compared.
    if is_command && !shown.is_whole {
        let short = workflow.id.short();
        let detail = "a part of the command is masked here: nobody approves what they do not see";
        return Err(Problem::new("command_hidden", detail).hint(format!(
            "`rethread workflow status {short}` shows it whole in a terminal, `rethread workflow approve {short}` lets it run"
        )));
    }
    // Forms submit CRLF line ends; a command has only `\
    // `.
    match read {
        Some(read) if shown.question.replace("\r\n", "\n") != read.replace("\r\n", "\n") => {
            Err(Problem::new("refused", "the workflow asks something else now")
                .hint("read it again"))
        }
        _ => Ok(()),
    }
}
