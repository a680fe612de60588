//! The tools: their names, what they take and give, and who carries them out.

mod agents;
mod sessions;
mod snapshots;
mod workflows;
mod writing;

use std::sync::OnceLock;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Failure;
use crate::invoke::InvokeArgs;
use crate::server::{Office, Server};
use crate::{bounded, schema};

/// What a tool does to what there is.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    Adds,
    /// Agents do what they are asked.
    Acts,
}

fn tool<In: JsonSchema + 'static>(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
) -> Tool {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Acts))
        .open_world(matches!(effect, Effect::Acts));
    Tool::new(name, description, schema::of::<In>()).with_title(title).with_annotations(annotations)
}

/// Every tool there is.
pub(crate) fn list() -> Vec<Tool> {
    static TOOLS: OnceLock<Vec<Tool>> = OnceLock::new();
    let all = || {
        let sessions = [about_agents(), about_sessions(), about_writing()].concat();
        [sessions, about_workflows(), about_snapshots()].concat()
    };
    TOOLS.get_or_init(all).clone()
}

fn about_agents() -> Vec<Tool> {
    use Effect::{Acts, Reads};
    vec![
        tool::<InvokeArgs>(
            "invoke_agent",
            "Invoke an agent",
            "Ask another agent to do something, in a session that can be gone on with later: the sessionId that it \
             returns is what continueSessionId takes. Answers with the result, or after 45 seconds with a handle for \
             wait_for_agent.",
            Acts,
        ),
        tool::<agents::WaitArgs>(
            "wait_for_agent",
            "Wait for an agent",
            "Wait for an invocation that was still running, by its handle; with cancel, end its turn.",
            Acts,
        ),
        tool::<agents::NoArgs>(
            "list_agents",
            "List agents",
            "The agents that can be invoked, and which of them are installed.",
            Reads,
        ),
    ]
}

fn about_sessions() -> Vec<Tool> {
    use Effect::Reads;
    vec![
        tool::<sessions::ListArgs>(
            "list_sessions",
            "List sessions",
            "The sessions of this project, the most recent first.",
            Reads,
        ),
        tool::<sessions::SearchArgs>(
            "search_sessions",
            "Search sessions",
            "Find what was said before, in messages, titles and summaries: \"what did we decide about the cookie?\"",
            Reads,
        ),
        tool::<sessions::GetArgs>(
            "get_session",
            "Show a session",
            "A session with its conversations and last messages. Reads further back with before, and a long message \
             piece by piece with seq and offset.",
            Reads,
        ),
        tool::<sessions::ResumeArgs>(
            "resume_session",
            "Resume a session here",
            "The context that it takes to go on with a session in this conversation, within a token limit. With the \
             next prompt, older messages that matter to it are brought in.",
            Reads,
        ),
    ]
}

fn about_writing() -> Vec<Tool> {
    use Effect::Adds;
    vec![
        tool::<writing::RecordArgs>(
            "record_messages",
            "Record messages",
            "Write down what was said, in a new session or at the end of one. Durable when it returns.",
            Adds,
        ),
        tool::<writing::SaveArgs>(
            "save_session",
            "Save a session",
            "Save and pause a session, optionally with a title; tells where it stopped and how to resume it.",
            Adds,
        ),
        tool::<writing::SessionArgs>(
            "complete_session",
            "Complete a session",
            "Mark a session as completed.",
            Adds,
        ),
        tool::<writing::ForkArgs>(
            "fork_session",
            "Fork a session",
            "Start a new session that goes on from a message of another one. Neither changes the other.",
            Adds,
        ),
    ]
}

fn about_workflows() -> Vec<Tool> {
    use Effect::{Acts, Adds, Reads};
    vec![
        tool::<workflows::StartArgs>(
            "start_workflow",
            "Start a workflow",
            "Begin long work in the background: a plan of tasks, each in a fresh session of an agent, checked and \
             reviewed, that can be paused and resumed. Use it for work that takes longer than one conversation; for \
             a single question use invoke_agent. Returns at once; workflow_status shows how far it is. Commands in \
             the plan that nobody has approved, and plans that an agent writes, wait for a person. Started by an \
             agent that Rethread runs, it runs no longer than that agent, and can be resumed then.",
            Acts,
        ),
        tool::<workflows::StatusArgs>(
            "workflow_status",
            "Show a workflow",
            "How a workflow stands: its tasks, what it waits for, and whether somebody runs it; with detail also its \
             snapshots, tests and usage. Use it to follow one that you started, or to see which task of which workflow \
             you work on.",
            Reads,
        ),
        tool::<workflows::PauseArgs>(
            "pause_workflow",
            "Pause a workflow",
            "Pause a workflow at the end of its running task and take a snapshot. Use it when the work should stop \
             cleanly, for example because something has to be decided first. Waits up to 40 seconds; the status is \
             still in_progress, with is_pausing, where the task takes longer.",
            Adds,
        ),
        tool::<workflows::ResumeArgs>(
            "resume_workflow",
            "Resume a workflow",
            "Go on with a paused or crashed workflow, in the background, from its latest snapshot or another one, also \
             with another agent. Finished tasks are not run again. Says how the repository differs from the snapshot: \
             look at that before you rely on it.",
            Acts,
        ),
    ]
}

fn about_snapshots() -> Vec<Tool> {
    use Effect::Reads;
    vec![
        tool::<snapshots::SnapshotArgs>(
            "get_snapshot",
            "Show a snapshot",
            "All that was known when a workflow paused: tasks, decisions, errors, reviews, tests, git, usage. Use it \
             when you go on with work that others began.",
            Reads,
        ),
        tool::<snapshots::PartArgs>(
            "get_decisions",
            "Show decisions",
            "What was decided in a workflow, and why. Ask before you choose an approach or a library that an earlier \
             task may have chosen already.",
            Reads,
        ),
        tool::<snapshots::PartArgs>(
            "get_errors",
            "Show errors",
            "What went wrong in a workflow, and how it was solved. Ask when something fails: it may have failed before.",
            Reads,
        ),
        tool::<snapshots::PartArgs>(
            "get_reviewer_feedback",
            "Show reviewer feedback",
            "What reviewers said of the tasks of a workflow. Ask before you change reviewed work, and with only_open for \
             what is still to be addressed.",
            Reads,
        ),
        tool::<snapshots::SnapshotArgs>(
            "get_git_changes",
            "Show git changes",
            "Branch, commits and files that a workflow has changed, and how the repository differs from that now.",
            Reads,
        ),
    ]
}

/// Carries out a tool. Whatever the user did wrong is told in the result.
pub(crate) async fn call(
    server: &Server,
    name: &str,
    arguments: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let office = &server.office;
    let outcome = match name {
        "invoke_agent" => agents::invoke(server, parsed(arguments), context).await,
        "wait_for_agent" => agents::wait(server, parsed(arguments), context).await,
        "list_agents" => {
            answered(office, parsed(arguments).and_then(|args| agents::list(office, args)))
        }
        "list_sessions" => answered(office, sessions::list(office, parsed(arguments)).await),
        "search_sessions" => answered(office, sessions::search(office, parsed(arguments)).await),
        "get_session" => answered(office, sessions::get(office, parsed(arguments)).await),
        "resume_session" => answered(office, sessions::resume(office, parsed(arguments)).await),
        "record_messages" => answered(office, writing::record(office, parsed(arguments)).await),
        "save_session" => answered(office, writing::save(office, parsed(arguments)).await),
        "complete_session" => answered(office, writing::complete(office, parsed(arguments)).await),
        "fork_session" => answered(office, writing::fork(office, parsed(arguments)).await),
        "start_workflow" => answered(office, workflows::start(office, parsed(arguments)).await),
        "workflow_status" => answered(office, workflows::status(office, parsed(arguments)).await),
        "pause_workflow" => answered(office, workflows::pause(office, parsed(arguments)).await),
        "resume_workflow" => answered(office, workflows::resume(office, parsed(arguments)).await),
        "get_snapshot" => answered(office, snapshots::get(office, parsed(arguments)).await),
        "get_decisions" => answered(office, snapshots::decisions(office, parsed(arguments)).await),
        "get_errors" => answered(office, snapshots::errors(office, parsed(arguments)).await),
        "get_reviewer_feedback" => {
            answered(office, snapshots::feedback(office, parsed(arguments)).await)
        }
        "get_git_changes" => answered(office, snapshots::changes(office, parsed(arguments)).await),
        _ => return Err(ErrorData::invalid_params(format!("there is no tool {name:.60}"), None)),
    };
    Ok(outcome.unwrap_or_else(|failure| failure.clean(office).result()))
}

/// Arguments that do not fit are the caller's mistake, and told as such.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Failure::new(
            format!("The arguments do not fit: {error:.300}"),
            "the tool's input schema says what it takes",
        )
    })
}

/// What a tool gives, without what looks like a secret.
pub(crate) fn answered<T: Serialize>(
    office: &Office,
    outcome: Result<T, Failure>,
) -> Result<CallToolResult, Failure> {
    let mut value = serde_json::to_value(outcome?).map_err(|error| {
        Failure::new(format!("The answer cannot be told: {error}"), "try again")
    })?;
    office.engine.redactor().redact_json(&mut value);
    bounded::result(value)
}

/// A number that has to be at least 1 and is cut to what may be asked for.
fn within(what: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, Failure> {
    match given {
        Some(0) => Err(Failure::new(format!("{what} is 0"), "limits begin at 1")),
        given => Ok(given.unwrap_or(usual).min(most)),
    }
}
