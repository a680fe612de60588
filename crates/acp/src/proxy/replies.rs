//! What the proxy itself says to the editor: errors, and short lines in the thread.

use std::sync::atomic::{AtomicU64, Ordering};

use rethread_domain::opening::{self, How, Opening};
use rethread_engine::Error;
use rethread_engine::agents::AgentError;
use rethread_engine::program::Fault;
use serde_json::{Value, json};

use super::binding::Binding;
use super::hub::Hub;
use super::{history, raw};
use crate::frame;

/// A prompt was cancelled before the agent had it.
const CANCELLED: i64 = -32800;
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

pub(crate) fn update(session: &str, update: &Value) -> String {
    let params = json!({ "sessionId": session, "update": update });
    raw::notification("session/update", &params.to_string())
}

/// A line of the proxy in the thread.
pub(crate) fn line(session: &str, text: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let content = json!({ "type": "text", "text": text });
    let chunk = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": content,
        "messageId": format!("rethread-note-{number}"),
    });
    update(session, &chunk)
}

fn idle(stop: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": stop })
}

/// What a session is at, as version 2 has it.
pub(crate) fn state(session: &str, state: &str) -> String {
    update(session, &json!({ "sessionUpdate": "state_update", "state": state }))
}

/// Ends a prompt that the agent has not ended: cancelled, or with an error.
pub(crate) fn ended(binding: &Binding, id: &str, is_accepted: bool, error: Option<&str>) -> String {
    match error {
        Some(error) if is_accepted => {
            let mut idle = idle("error");
            idle["error"] = frame::tree(error);
            update(&binding.id, &idle)
        }
        Some(error) => raw::error(id, error),
        None if is_accepted => update(&binding.id, &idle("cancelled")),
        None if binding.is_second => {
            raw::error(id, &raw::fault(CANCELLED, "cancelled", &json!({})))
        }
        None => raw::result(id, r#"{"stopReason":"cancelled"}"#),
    }
}

/// Answers a prompt here.
pub(crate) async fn say(hub: &Hub, binding: &Binding, id: &str, text: &str) {
    let session = binding.id.as_str();
    if binding.is_second {
        let message = format!("rethread-prompt-{}", id.trim_matches('"'));
        let accepted = json!({ "messageId": message }).to_string();
        hub.outbox.say(raw::result(id, &accepted)).await;
        hub.outbox.say(state(session, "running")).await;
    }
    for piece in history::pieces(text) {
        hub.outbox.say(line(session, piece)).await;
    }
    let end = if binding.is_second {
        update(session, &idle("end_turn"))
    } else {
        raw::result(id, r#"{"stopReason":"end_turn"}"#)
    };
    hub.outbox.say(end).await;
}

/// Says in the thread how the session was opened.
pub(crate) fn tell_opening(hub: &Hub, binding: &Binding, opening: &Opening) {
    if !hub.tells {
        return;
    }
    let agent = &binding.backend().agent;
    let why = opening.why.as_deref().map(opening::reason).unwrap_or_default();
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let text = match opening.how {
        How::Fresh | How::Failed => return,
        How::Resumed => format!("{agent} took up its own session"),
        How::Loaded => format!("{agent} read its own session back"),
        How::Retold => format!("{agent} was told the conversation so far{why}"),
        How::Untold => format!("{agent} begins anew and was told nothing{why}"),
    };
    hub.outbox.say_now(line(&binding.id, &format!("*Rethread: {text}.*\n\n")));
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
