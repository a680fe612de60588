//! Bounded forms of `engine::views` for clients: shortened texts, and tasks in short.

use rethread_domain::quote::cut_line;
use rethread_domain::{Conversation, Message, Session, SessionId};
use rethread_engine::Error;
use rethread_engine::views::{ConversationView, MessageView, OpeningView, SessionView};
use rethread_workflow::{Question, Status, Workflow};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::server::ServerState;

/// The longest title or summary.
const SUMMARY_BYTES: usize = 2_000;
/// The longest title or note in a list of tasks.
const SHOWN: usize = 200;

/// Cuts a text, and marks where.
fn shorten(text: &mut Option<String>) {
    if let Some(text) = text.as_mut().filter(|text| text.len() > SUMMARY_BYTES) {
        text.truncate(text.floor_char_boundary(SUMMARY_BYTES));
        text.push('…');
    }
}

impl ServerState {
    pub(crate) fn session_view(&self, session: &Session) -> Result<SessionView, Failure> {
        let mut view = self.engine.masked(&SessionView::from(session))?;
        shorten(&mut view.title);
        shorten(&mut view.session_summary);
        Ok(view)
    }

    pub(crate) fn conversation_view(
        &self,
        conversation: &Conversation,
    ) -> Result<ConversationView, Failure> {
        let mut view = self.engine.masked(&ConversationView::from(conversation))?;
        shorten(&mut view.title);
        shorten(&mut view.summary);
        Ok(view)
    }
}

/// A message or a part of it, without further fields that may be long.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Excerpt {
    #[serde(flatten)]
    pub(crate) message: MessageView,
    /// How many bytes were left out at the end of the content: `offset` reads on
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_bytes: Option<usize>,
    /// The message is not whole: its turn ended before the agent had finished
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_interrupted: bool,
}

impl Excerpt {
    /// A message with at most so many bytes of its text, from `offset` on.
    pub(crate) fn of(
        (session, message): (SessionId, &Message),
        offset: usize,
        most: usize,
        state: &ServerState,
    ) -> Self {
        let whole = state.clean(message.body.head());
        let start = whole.floor_char_boundary(offset);
        let end = whole.floor_char_boundary(start.saturating_add(most));
        let view = MessageView::of(session, message);
        Self {
            message: MessageView {
                content: whole[start..end].to_owned(),
                tool_calls: None,
                usage: None,
                extra: None,
                ..view
            },
            omitted_bytes: Some(whole.len() - end).filter(|omitted| *omitted > 0),
            is_interrupted: message.is_cut_short(),
        }
    }
}

/// The outcome of an invocation.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invocation {
    /// completed, cancelled, failed, or running: then `wait_for_agent` with the handle gives the rest
    pub(crate) status: String,
    /// The id to go on with: `continueSessionId` takes it
    pub(crate) session_id: String,
    pub(crate) agent_name: String,
    /// What the agent answered
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// Why the agent stopped: `end_turn`, `max_turns`, cancelled, refusal, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<String>,
    /// What came of it: answered, `no_answer`, `model_error`, `usage_limit`, or the reason to stop
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
    /// What is wrong, where there is no answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// When a usage limit is lifted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resets_at: Option<String>,
    /// Whether an earlier session was gone on with
    pub(crate) is_session_continuation: bool,
    /// How the conversation was opened in the agent
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opened: Option<OpeningView>,
    /// For `wait_for_agent`, while it runs
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handle: Option<String>,
    /// What it does at the moment
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<String>,
    /// How many messages the session has now
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_count: Option<u32>,
    /// The folder with conversation.json, session.log and summary.json
    pub(crate) output_folder: String,
}

/// Fields of a workflow that are only given with `detail`.
const DETAIL: [&str; 8] =
    ["created_at", "diverged", "events", "issue", "plan", "tests", "usage", "user"];
/// Fields of a task in the short form, and those left out even in the detailed form because they may be long.
const TASK_IN_SHORT: [&str; 4] = ["id", "title", "state", "note"];
const TASK_TEXTS: [&str; 2] = ["body", "tests"];

/// A workflow or a snapshot, as much of it as fits.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Bounded(Map<String, Value>);

impl Bounded {
    pub(crate) fn of(view: &impl Serialize, is_detailed: bool) -> Result<Self, Failure> {
        let value = serde_json::to_value(view).map_err(Error::internal)?;
        let Value::Object(mut fields) = value else { return Ok(Self(Map::new())) };
        fields.retain(|name, _| is_detailed || !DETAIL.contains(&name.as_str()));
        let tasks = fields.get_mut("tasks").and_then(Value::as_array_mut);
        for task in tasks.into_iter().flatten().filter_map(Value::as_object_mut) {
            task.retain(|name, _| {
                let name = name.as_str();
                if is_detailed {
                    !TASK_TEXTS.contains(&name)
                } else {
                    TASK_IN_SHORT.contains(&name)
                }
            });
        }
        Ok(Self(fields))
    }
}

/// The state of a workflow, and what can be done next.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WorkflowProgress {
    #[serde(flatten)]
    workflow: Bounded,
    next: String,
    /// After a start: what will be refused, as nobody can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

impl WorkflowProgress {
    pub(crate) async fn of(
        state: &ServerState,
        workflow: &Workflow,
        is_detailed: bool,
    ) -> Result<Self, Failure> {
        let mut view = state.engine.masked_workflow_view(workflow).await?;
        for task in view.tasks.iter_mut().filter(|_| !is_detailed) {
            let is_stuck = matches!(task.state.as_str(), "failed" | "blocked");
            task.title = cut_line(&task.title, SHOWN);
            task.note = task.note.take().filter(|_| is_stuck).map(|note| cut_line(&note, SHOWN));
        }
        let next = next(workflow, view.is_running);
        Ok(Self { workflow: Bounded::of(&view, is_detailed)?, next, warning: None })
    }
}

fn next(workflow: &Workflow, is_running: bool) -> String {
    let text = match workflow.status() {
        Status::Pending => "it is about to begin: workflow_status shows when",
        Status::InProgress if !is_running => {
            "the process running it ended: resume_workflow takes a snapshot and goes on"
        }
        Status::InProgress if workflow.pausing().is_some() => {
            "it pauses when the running task is done: workflow_status shows when"
        }
        Status::InProgress => {
            "it works: workflow_status shows how far it is, pause_workflow stops it"
        }
        Status::Blocked => return answered_by(workflow),
        Status::Paused => "resume_workflow goes on with it",
        Status::Completed | Status::Failed | Status::Cancelled => {
            "nothing: it is over, and its snapshots can be read"
        }
    };
    text.to_owned()
}

/// How a person answers what a workflow waits for.
fn answered_by(workflow: &Workflow) -> String {
    let id = workflow.id.short();
    let by = match workflow.questions.first() {
        Some(Question::Gate { task, .. }) => format!(
            "`rethread workflow approve {id} --task {task}`, `rethread workflow skip {task} {id}` or `rethread workflow reject {id} --task {task}`"
        ),
        Some(Question::TaskFailed { task, .. }) => format!(
            "`rethread workflow retry {task} {id}`, `rethread workflow skip {task} {id}` or `rethread workflow reject {id}`"
        ),
        Some(Question::TaskRefused { task, .. }) => format!(
            "`rethread workflow retry {task} {id} --permissions allow` lets it do this, `rethread workflow approve {id}` counts it as done, `rethread workflow skip {task} {id}` leaves it out"
        ),
        _ => format!("`rethread workflow approve {id}` or `rethread workflow reject {id}`"),
    };
    format!("a person has to answer what it waits for: {by}")
}
