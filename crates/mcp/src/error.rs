//! Errors as tools report them: what is wrong, and what to do next.

use rethread_domain::id::Invalid;
use rethread_domain::quote;
use rethread_domain::session::Refusal;
use rethread_domain::wording::capitalised;
use rethread_engine::Error;
use rethread_engine::program::Fault;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::server::ServerState;

/// What a message consists of.
pub(crate) const MESSAGE: &str =
    "a message needs a role (user, assistant, system or tool) and a content";
const LOOK_CLOSER: &str = "`rethread doctor` looks closer";

/// Why a tool call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}. {hint}")]
pub struct Failure {
    what: String,
    hint: String,
}

impl Failure {
    /// Both are sentences without their full stop.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: capitalised(&hint.into()) }
    }

    /// The session does not exist, or belongs to somebody else.
    pub(crate) fn no_session(given: &str) -> Self {
        let shown = quote::one_line(given, 80);
        Self::new(format!("There is no session {shown}"), "list_sessions lists the sessions")
    }

    /// Adds the session's id.
    pub(crate) fn in_session(self, id: impl std::fmt::Display) -> Self {
        let what = format!("{} (sessionId {id})", self.what);
        Self { what, ..self }
    }

    /// Masks secrets.
    pub(crate) fn clean(self, state: &ServerState) -> Self {
        Self { what: state.clean(&self.what), hint: state.clean(&self.hint) }
    }

    pub(crate) fn result(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.to_string())])
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Error::from(invalid).into()
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::NotFound(given) = &error {
            return Self::no_session(given);
        }
        let hint = if error.code() == "internal" { logged(&error) } else { hint(&error) };
        let text = quote::safe(&error.to_string());
        Self::new(capitalised(&text), hint)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error.into(),
            Fault::Refused { message, hint, .. } => {
                Self::new(capitalised(&message), hint.unwrap_or_else(|| LOOK_CLOSER.to_owned()))
            }
        }
    }
}

/// Logs an internal error with its causes, and says where to find it.
fn logged(error: &Error) -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    tracing::error!(error = error as &dyn std::error::Error, fault = id, "internal error");
    format!("`rethread logs {id}` shows the cause; {LOOK_CLOSER}")
}

/// What to do next with these tools; otherwise the hint of the command line.
fn hint(error: &Error) -> String {
    let text = match error.code() {
        "session_not_found" => "list_sessions lists the sessions",
        "message_not_found" => "get_session shows the messages with their numbers",
        "bad_id" => "give the id as it was returned; list_sessions shows the ids of sessions",
        // What is allowed stands in the error itself.
        "bad_name" | "bad_input" | "limit_not_positive" => "correct it and call again",
        "no_answer" | "model_error" | "usage_limit" => "try again later, or another agent",
        "conversation_busy" => "try again when it has ended",
        "not_resumable" => "the setting talk.policy = \"auto\" lets it be told the story so far",
        "interrupted" => "what had been said is kept; continueSessionId goes on with it",
        "taken" => "it ends there; get_session shows what comes of it",
        "workflow_not_found" => {
            "give the id as it was returned; workflow_status without an id shows that of this project"
        }
        "snapshot_not_found" => "workflow_status lists the snapshots of a workflow",
        "workflow_busy" => "workflow_status shows its status; pause_workflow stops it",
        "worktree_taken" => {
            "one workflow works in a folder at a time: wait until it is over (workflow_status), or give another worktree"
        }
        "not_installed" => "list_agents says which are installed, and how to install others",
        "needs_login" => "a person has to start the agent by itself once and log in there",
        "session_gone" | "nonsense" | "agent_refused" | "agent_ended" | "cancelled" => {
            "what was said is kept; invoke_agent with continueSessionId goes on, also with another agent and agentChange"
        }
        _ => match error {
            Error::Entry(_) => MESSAGE,
            Error::Workflow(_) => "workflow_status shows its status and what it waits for",
            Error::Refused(Refusal::Already(..)) => "get_session shows its status",
            Error::Refused(Refusal::Completed(id)) => {
                return format!(
                    "fork_session starts a new one from it; a person can take it up again with `rethread activate --yes {}`",
                    id.short()
                );
            }
            _ => return error.hint().unwrap_or_else(|| LOOK_CLOSER.to_owned()),
        },
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_got_wrong_is_no_reason_to_look_at_the_store() {
        let title = rethread_domain::id::check_title(&"w".repeat(600)).unwrap_err();
        let said = Failure::from(title).to_string();
        assert!(said.contains("1 to 500 bytes") && said.ends_with(". Correct it and call again"));
    }
}
