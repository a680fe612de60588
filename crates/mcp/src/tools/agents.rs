//! Invoking agents, and waiting for invocations.

use std::sync::Arc;
use std::time::Duration;

use rethread_domain::quote::one_line;
use rethread_engine::views::AgentView;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::result_of;
use crate::error::Failure;
use crate::invoke::InvokeArgs;
use crate::jobs::Job;
use crate::server::{Server, ServerState};
use crate::views::Invocation;

/// How often a client is sent progress.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The longest that one call may wait.
const MOST_SECONDS: u64 = 3_600;
/// How much of an answer is returned at once.
const ANSWER_BYTES: usize = 64 * 1024;

/// No arguments.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArgs {}

/// Which invocation to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitArgs {
    /// The handle that `invoke_agent` returned
    handle: String,
    /// Wait at most this many seconds; by default 45
    seconds: Option<u64>,
    /// End the turn; what was said so far is kept
    cancel: Option<bool>,
}

/// The known agents.
#[derive(Debug, Serialize)]
pub(crate) struct Agents {
    agents: Vec<AgentView>,
}

/// The result of an invocation: a long answer is cut, with how to read on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InvocationResult {
    #[serde(flatten)]
    invoked: Invocation,
    /// The answer is incomplete: the turn ended early
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_interrupted: bool,
    /// How many bytes of the answer were left out at its end
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_bytes: Option<usize>,
    /// How to read them
    #[serde(skip_serializing_if = "Option::is_none")]
    read_on: Option<String>,
}

impl InvocationResult {
    fn of(mut invoked: Invocation) -> Self {
        let omitted_bytes = invoked.answer.as_mut().and_then(|answer| {
            let end = answer.floor_char_boundary(ANSWER_BYTES);
            let omitted = answer.len() - end;
            answer.truncate(end);
            (omitted > 0).then_some(omitted)
        });
        let read_on = omitted_bytes.map(|_| {
            let seq = invoked.message_count.unwrap_or_default();
            format!(
                "get_session with this session shows the messages; with seq {seq} and an offset it reads the last one \
                 piece by piece; conversation.json in the output folder has everything"
            )
        });
        let stop = invoked.stop_reason.as_deref();
        let is_interrupted =
            matches!(stop, Some("cancelled" | "interrupted" | "failed" | "max_turns"));
        Self { invoked, is_interrupted, omitted_bytes, read_on }
    }
}

pub(super) async fn list(
    state: &ServerState,
    args: Result<NoArgs, Failure>,
) -> Result<Agents, Failure> {
    let NoArgs {} = args?;
    let agents = state.program.agents()?.into_iter().map(AgentView::from);
    let agents = agents
        .map(|view| AgentView { install: view.install.filter(|_| !view.is_installed), ..view });
    Ok(Agents { agents: agents.collect() })
}

pub(super) async fn invoke(
    server: &Server,
    args: Result<InvokeArgs, Failure>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    let job = server.state.invoke(args?).await?;
    wait_for_outcome(server, &job, server.state.limits.wait, context).await
}

pub(super) async fn wait(
    server: &Server,
    args: Result<WaitArgs, Failure>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    let args = args?;
    let Some(job) = server.state.jobs.find(&args.handle) else {
        return Err(Failure::new(
            format!("There is no invocation {:?} in this server", one_line(&args.handle, 40)),
            "what was said is kept: get_session shows it, and invoke_agent with continueSessionId goes on",
        ));
    };
    if args.cancel == Some(true) {
        job.cancel();
    }
    let wait = args.seconds.map(|seconds| Duration::from_secs(seconds.min(MOST_SECONDS)));
    wait_for_outcome(server, &job, wait.unwrap_or(server.state.limits.wait), context).await
}

/// Waits for the outcome, for a limited time, and reports progress meanwhile.
async fn wait_for_outcome(
    server: &Server,
    job: &Arc<Job>,
    wait: Duration,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    server.waits(&context.id, job);
    let token = context.meta.get_progress_token();
    let mut phase = job.phase.subscribe();
    let until = Instant::now() + wait;
    let mut progress = 0.0;
    let mut told = 0;
    loop {
        if let Some(outcome) = job.outcome() {
            server.waited(&context.id);
            return result_of(&server.state, (*outcome).clone().map(InvocationResult::of));
        }
        let (updates, now) = {
            let phase = phase.borrow_and_update();
            (phase.updates, phase.now.clone())
        };
        if let Some(token) = token.clone().filter(|_| updates > told) {
            told = updates;
            progress += 1.0;
            let news = ProgressNotificationParam::new(token, progress).with_message(now);
            // A disconnected client does not end the turn.
            drop(context.peer.notify_progress(news).await);
        }
        let ended = phase.wait_for(|phase| phase.outcome.is_some());
        tokio::select! {
            _ = ended => (),
            () = tokio::time::sleep(TELL_EVERY) => (),
            () = tokio::time::sleep_until(until) => {
                server.waited(&context.id);
                let running = InvocationResult::of(job.running(&server.state));
                return result_of(&server.state, Ok(running));
            }
        }
    }
}
