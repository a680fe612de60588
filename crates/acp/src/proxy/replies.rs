//! What the proxy itself says to the editor: errors, and short lines in the thread.

use rethread_domain::opening::{self, How, Opening};
use rethread_engine::Error;
use rethread_engine::agents::AgentError;
use rethread_engine::program::Fault;
use serde_json::{Value, json};

use super::binding::Binding;
use super::hub::Hub;
use super::raw;

/// The result of a prompt that was cancelled before the agent had it.
pub(crate) const CANCELLED: &str = r#"{"stopReason":"cancelled"}"#;

const INTERNAL: i64 = -32603;
const NOT_FOUND: i64 = -32002;
const LOGIN: i64 = -32000;

/// An error of the agent that it did not word itself.
pub(crate) fn of_agent(trouble: &AgentError) -> String {
    let code = if matches!(trouble, AgentError::NeedsLogin(_)) { LOGIN } else { INTERNAL };
    let reason = trouble.to_string();
    raw::fault(code, &reason, &json!({ "reason": reason, "code": trouble.name() }))
}

/// Why something could not be done: in the agent's own words where it had any.
pub(crate) fn fault(binding: &Binding, fault: &Fault) -> String {
    let said = binding.take_error();
    let (message, code) = match fault {
        Fault::Engine(Error::Agent { trouble, .. }) => {
            return said.unwrap_or_else(|| of_agent(trouble));
        }
        Fault::Engine(Error::Busy { session, .. }) => {
            let message = format!(
                "another Rethread process (an editor or a terminal) is answering in session {} right now; \
                 try again when its turn is over, or end it with `rethread stop {}`",
                session.short(),
                session.short()
            );
            (message, "conversation_busy")
        }
        Fault::Engine(error) => (error.to_string(), error.code()),
        Fault::Refused { message, code, .. } => (message.clone(), *code),
    };
    let number = if code == "not_found" { NOT_FOUND } else { INTERNAL };
    let data = json!({ "sessionId": binding.id, "reason": message, "code": code });
    raw::fault(number, &message, &data)
}

/// A line of the proxy in the thread.
pub(crate) fn line(session: &str, text: &str) -> String {
    let params = json!({
        "sessionId": session,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": text },
        },
    });
    raw::notification("session/update", &params.to_string())
}

/// Says in the thread how the session was opened.
pub(crate) fn tell_opening(hub: &Hub, session: &str, opening: &Opening) {
    if !hub.tells {
        return;
    }
    let agent = &hub.agent;
    let why = opening.why.as_deref().map(opening::reason).unwrap_or_default();
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let text = match opening.how {
        How::Fresh | How::Failed => return,
        How::Resumed => format!("{agent} took up its own session"),
        How::Loaded => format!("{agent} read its own session back"),
        How::Retold => format!("{agent} was told the conversation so far{why}"),
        How::Untold => format!("{agent} begins anew and was told nothing{why}"),
    };
    hub.outbox.say_now(line(session, &format!("*Rethread: {text}.*\n\n")));
}

/// Says, once, that what is said is not recorded.
pub(crate) fn tell_unrecorded(hub: &Hub, fault: &Fault) {
    if hub.tells_unrecorded() {
        tracing::warn!(error = %fault, "what is said is not recorded");
        #[expect(clippy::print_stderr, reason = "editors show what their agents write there")]
        {
            eprintln!("rethread: this session is not recorded: {fault}");
        }
    }
}

/// The same, in the thread.
pub(crate) fn tell_unrecorded_in(hub: &Hub, session: &str, fault: &Fault) {
    if hub.tells_unrecorded() {
        tracing::warn!(error = %fault, "what is said is not recorded");
        let text = format!(
            "*Rethread: this turn is not recorded, and will be missing from the history: {fault}.*\n\n"
        );
        hub.outbox.say_now(line(session, &text));
    }
}

/// A session in a list.
pub(crate) fn listed(session: &rethread_domain::Session) -> Value {
    let mut listed = json!({
        "sessionId": session.id.to_string(),
        "cwd": session.project,
        "updatedAt": session.last_active_at.to_string(),
    });
    if let Some(title) = &session.title {
        listed["title"] = rethread_domain::quote::one_line(title, 200).into();
    }
    listed
}
