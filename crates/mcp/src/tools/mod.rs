//! The tools: names, descriptions, arguments, and handlers.

mod agents;
mod sessions;
mod snapshots;
mod workflows;
mod writing;

use std::sync::LazyLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rethread_domain::wording::plain;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Failure;
use crate::invoke::InvokeArgs;
use crate::server::{Server, ServerState};
use crate::{bounded, schema};

/// The effect of a tool.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    Adds,
    /// It lets agents act.
    Acts,
}

/// A handler.
type Handler = for<'a> fn(
    &'a Server,
    JsonObject,
    &'a RequestContext<RoleServer>,
) -> BoxFuture<'a, Result<CallToolResult, Failure>>;

/// A tool: what clients see of it, and its handler.
pub(crate) struct ToolEntry {
    pub(crate) tool: Tool,
    run: Handler,
}

/// The usual handler: parses the arguments, calls a function, and serializes its answer.
macro_rules! run {
    ($handler:path) => {
        |server, arguments, _| {
            async move { result_of(&server.state, $handler(&server.state, parsed(arguments)).await) }
                .boxed()
        }
    };
}

fn tool<In: JsonSchema + 'static>(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
    run: Handler,
) -> ToolEntry {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Acts))
        .open_world(matches!(effect, Effect::Acts));
    let tool = Tool::new(name, description, schema::of::<In>());
    ToolEntry { tool: tool.with_title(title).with_annotations(annotations), run }
}

/// All tools: the one place where their names are defined.
static TOOLS: LazyLock<Vec<ToolEntry>> = LazyLock::new(|| {
    let all = [about_agents(), about_sessions(), about_writing(), about_workflows()];
    all.into_iter().flatten().chain(about_snapshots()).collect()
});

pub(crate) fn list() -> Vec<Tool> {
    TOOLS.iter().map(|known| known.tool.clone()).collect()
}

pub(crate) fn find(name: &str) -> Option<&'static ToolEntry> {
    TOOLS.iter().find(|known| known.tool.name == name)
}

fn about_agents() -> Vec<ToolEntry> {
    use Effect::{Acts, Reads};
    vec![
        tool::<InvokeArgs>(
            "invoke_agent",
            "Invoke an agent",
            "Ask another agent to do something, in a session that can be gone on with later: the sessionId that it \
             returns is what continueSessionId takes. Answers with the result, or after 45 seconds with a handle for \
             wait_for_agent.",
            Acts,
            |server, arguments, context| agents::invoke(server, parsed(arguments), context).boxed(),
        ),
        tool::<agents::WaitArgs>(
            "wait_for_agent",
            "Wait for an agent",
            "Wait for an invocation that was still running, by its handle; with cancel, end its turn.",
            Acts,
            |server, arguments, context| agents::wait(server, parsed(arguments), context).boxed(),
        ),
        tool::<agents::NoArgs>(
            "list_agents",
            "List agents",
            "The agents that can be invoked, and which of them are installed.",
            Reads,
            run!(agents::list),
        ),
    ]
}

fn about_sessions() -> Vec<ToolEntry> {
    use Effect::Reads;
    vec![
        tool::<sessions::ListArgs>(
            "list_sessions",
            "List sessions",
            "The sessions of this project, the most recent first.",
            Reads,
            run!(sessions::list),
        ),
        tool::<sessions::SearchArgs>(
            "search_sessions",
            "Search sessions",
            "Find what was said before, in messages, titles and summaries: \"what did we decide about the cookie?\"",
            Reads,
            run!(sessions::search),
        ),
        tool::<sessions::GetArgs>(
            "get_session",
            "Show a session",
            "A session with its conversations and last messages. Reads further back with before, and a long message \
             piece by piece with seq and offset.",
            Reads,
            run!(sessions::get),
        ),
        tool::<sessions::ResumeArgs>(
            "resume_session",
            "Resume a session here",
            "The context needed to continue a session in this conversation, within a token limit. With the \
             next prompt, older messages that matter to it are brought in.",
            Reads,
            run!(sessions::resume),
        ),
    ]
}

fn about_writing() -> Vec<ToolEntry> {
    use Effect::Adds;
    vec![
        tool::<writing::RecordArgs>(
            "record_messages",
            "Record messages",
            "Write down what was said, in a new session or at the end of one. Durable when it returns.",
            Adds,
            run!(writing::record),
        ),
        tool::<writing::SaveArgs>(
            "save_session",
            "Save a session",
            "Save and pause a session, optionally with a title; tells where it stopped and how to resume it.",
            Adds,
            run!(writing::save),
        ),
        tool::<writing::SessionArgs>(
            "complete_session",
            "Complete a session",
            "Mark a session as completed.",
            Adds,
            run!(writing::complete),
        ),
        tool::<writing::ForkArgs>(
            "fork_session",
            "Fork a session",
            "Start a new session that goes on from a message of another one. Neither changes the other.",
            Adds,
            run!(writing::fork),
        ),
    ]
}

fn about_workflows() -> Vec<ToolEntry> {
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
            run!(workflows::start),
        ),
        tool::<workflows::StatusArgs>(
            "workflow_status",
            "Show a workflow",
            "The status of a workflow: its tasks, what it waits for, and whether somebody runs it; with detail also its \
             snapshots, tests and usage. Use it to follow one that you started, or to see which task of which workflow \
             you work on.",
            Reads,
            run!(workflows::status),
        ),
        tool::<workflows::PauseArgs>(
            "pause_workflow",
            "Pause a workflow",
            "Pause a workflow at the end of its running task and take a snapshot. Use it when the work should stop \
             cleanly, for example because something has to be decided first. Waits up to 40 seconds; the status is \
             still in_progress, with is_pausing, where the task takes longer.",
            Adds,
            run!(workflows::pause),
        ),
        tool::<workflows::ResumeArgs>(
            "resume_workflow",
            "Resume a workflow",
            "Go on with a paused or crashed workflow, in the background, from its latest snapshot or another one, also \
             with another agent. Finished tasks are not run again. Says how the repository differs from the snapshot: \
             look at that before you rely on it.",
            Acts,
            run!(workflows::resume),
        ),
    ]
}

fn about_snapshots() -> Vec<ToolEntry> {
    use Effect::Reads;
    vec![
        tool::<snapshots::SnapshotArgs>(
            "get_snapshot",
            "Show a snapshot",
            "All that was known when a workflow paused: tasks, decisions, errors, reviews, tests, git, usage. Use it \
             when you go on with work that others began.",
            Reads,
            run!(snapshots::get),
        ),
        tool::<snapshots::PartArgs>(
            "get_decisions",
            "Show decisions",
            "What was decided in a workflow, and why. Ask before you choose an approach or a library that an earlier \
             task may have chosen already.",
            Reads,
            run!(snapshots::decisions),
        ),
        tool::<snapshots::PartArgs>(
            "get_errors",
            "Show errors",
            "What went wrong in a workflow, and how it was solved. Ask when something fails: it may have failed before.",
            Reads,
            run!(snapshots::errors),
        ),
        tool::<snapshots::PartArgs>(
            "get_reviewer_feedback",
            "Show reviewer feedback",
            "What reviewers said of the tasks of a workflow. Ask before you change reviewed work, and with only_open for \
             what is still to be addressed.",
            Reads,
            run!(snapshots::feedback),
        ),
        tool::<snapshots::SnapshotArgs>(
            "get_git_changes",
            "Show git changes",
            "Branch, commits and files that a workflow has changed, and how the repository differs from that now.",
            Reads,
            run!(snapshots::changes),
        ),
    ]
}

/// Calls a tool. Mistakes of the caller are reported in the result.
pub(crate) async fn call(
    server: &Server,
    name: &str,
    arguments: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let Some(known) = find(name) else {
        return Err(ErrorData::invalid_params(format!("there is no tool {name:.60}"), None));
    };
    let outcome = (known.run)(server, arguments, context).await;
    Ok(outcome.unwrap_or_else(|failure| failure.clean(&server.state).result()))
}

/// Arguments that do not fit are a mistake of the caller, and reported as such.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let what = format!("Invalid arguments: {:.300}", plain(&error.to_string()));
        Failure::new(what, "the tool's input schema says what it takes")
    })
}

/// The result of a tool, masked.
pub(crate) fn result_of<T: Serialize>(
    state: &ServerState,
    outcome: Result<T, Failure>,
) -> Result<CallToolResult, Failure> {
    let mut value = serde_json::to_value(outcome?).map_err(|error| {
        Failure::new(format!("The answer cannot be written: {error}"), "try again")
    })?;
    state.engine.redactor().redact_json(&mut value);
    bounded::result(value)
}

/// A number of at least 1, cut to the maximum.
fn within(what: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, Failure> {
    match given {
        Some(0) => Err(Failure::new(format!("{what} is 0"), "limits begin at 1")),
        given => Ok(given.unwrap_or(usual).min(most)),
    }
}
