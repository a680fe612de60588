//! Invoking agents, and waiting for them.

use std::sync::Arc;
use std::time::Duration;

use rethread_domain::quote::one_line;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::answered;
use crate::error::Failure;
use crate::invoke::InvokeArgs;
use crate::jobs::Job;
use crate::server::{Office, Server};
use crate::views::Invoked;

/// How often a client that wants to know is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The longest that one call waits.
const MOST_SECONDS: u64 = 3_600;
/// How much of an answer is given at once.
const ANSWER_BYTES: usize = 64 * 1024;

/// Nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArgs {}

/// What to wait for.
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

/// The agents there are.
#[derive(Debug, Serialize)]
pub(crate) struct Agents {
    agents: Vec<AgentView>,
}

/// An agent.
#[derive(Debug, Serialize)]
struct AgentView {
    name: String,
    is_installed: bool,
    /// Whether a restriction on its tools can be held
    is_restrictable: bool,
    /// How to get it
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<String>,
}

/// What an invocation gives: of a long answer the beginning, and how to read on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    #[serde(flatten)]
    invoked: Invoked,
    /// The answer is not whole: the turn ended before the agent had finished
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_interrupted: bool,
    /// How many bytes were left out at the end of the answer
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_bytes: Option<usize>,
    /// How to read them
    #[serde(skip_serializing_if = "Option::is_none")]
    read_on: Option<String>,
}

impl Given {
    fn of(mut invoked: Invoked) -> Self {
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
    office: &Office,
    args: Result<NoArgs, Failure>,
) -> Result<Agents, Failure> {
    let NoArgs {} = args?;
    let agents = office.program.agents()?.into_iter().map(|agent| AgentView {
        name: agent.name,
        is_installed: agent.is_installed,
        is_restrictable: agent.unrestrictable.is_none(),
        install: agent.install.filter(|_| !agent.is_installed),
    });
    Ok(Agents { agents: agents.collect() })
}

pub(super) async fn invoke(
    server: &Server,
    args: Result<InvokeArgs, Failure>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    let job = server.office.invoke(args?).await?;
    until_told(server, &job, server.office.limits.wait, context).await
}

pub(super) async fn wait(
    server: &Server,
    args: Result<WaitArgs, Failure>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Failure> {
    let args = args?;
    let Some(job) = server.office.jobs.find(&args.handle) else {
        return Err(Failure::new(
            format!("There is no invocation {:?} in this server", one_line(&args.handle, 40)),
            "what was said is kept: get_session shows it, and invoke_agent with continueSessionId goes on",
        ));
    };
    if args.cancel == Some(true) {
        job.cancel();
    }
    let wait = args.seconds.map(|seconds| Duration::from_secs(seconds.min(MOST_SECONDS)));
    until_told(server, &job, wait.unwrap_or(server.office.limits.wait), context).await
}

/// Waits for the outcome, but not for long; tells meanwhile how far it is.
async fn until_told(
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
            return answered(&server.office, (*outcome).clone().map(Given::of));
        }
        let (updates, now) = {
            let phase = phase.borrow_and_update();
            (phase.updates, phase.now.clone())
        };
        if let Some(token) = token.clone().filter(|_| updates > told) {
            told = updates;
            progress += 1.0;
            let news = ProgressNotificationParam::new(token, progress).with_message(now);
            // A client that is gone does not end the turn.
            drop(context.peer.notify_progress(news).await);
        }
        let ended = phase.wait_for(|phase| phase.outcome.is_some());
        tokio::select! {
            _ = ended => (),
            () = tokio::time::sleep(TELL_EVERY) => (),
            () = tokio::time::sleep_until(until) => {
                server.waited(&context.id);
                let running = Given::of(job.running(&server.office));
                return answered(&server.office, Ok(running));
            }
        }
    }
}
