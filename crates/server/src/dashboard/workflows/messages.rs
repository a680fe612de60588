//! Messages of agents as lines of a workflow's log: plain text, masked and shortened.

use rethread_domain::message::Body;
use rethread_domain::quote::one_line;
use rethread_domain::{Message, Role, Session};
use serde_json::Value;

use super::describe;
use super::log::Line;
use crate::dashboard::humanize;
use crate::state::App;

/// How many characters of a message are shown.
const SHOWN: usize = 400;
/// How many bytes are masked before shortening, so that no secret is cut in half and shown.
const LOOKED: usize = 24 << 10;

/// A message as a line of the log; `None` if there is nothing to show.
pub(super) fn line(app: &App, session: &Session, task: &str, message: &Message) -> Option<Line> {
    if message.purged_at.is_some() {
        return None;
    }
    let text = match &message.body {
        Body::Whole(text) => text,
        Body::Ends { head, .. } => head,
    };
    let said = shown(app, text);
    let calls: Vec<String> = calls(message).iter().filter_map(|one| call(app, one)).collect();
    let agent = message.extras.agent.as_deref().or(session.agent.as_deref());
    let agent = app.clean(agent.unwrap_or("the agent"));
    let (by, text, tone) = match message.role {
        Role::User => (format!("{task}: to {agent}"), said, "speech told"),
        Role::Tool => {
            let status = calls.first().and_then(|call| call.split_once(" · "));
            let done = status.map(|(_, status)| format!(" · {status}")).unwrap_or_default();
            (format!("{task}: {agent} uses"), format!("{said}{done}"), "speech tool")
        }
        Role::Assistant | Role::System => {
            let used = calls.join(", ");
            let gap = if said.is_empty() || used.is_empty() { "" } else { " " };
            let used = if used.is_empty() { used } else { format!("[{used}]") };
            (format!("{task}: {agent}"), format!("{said}{gap}{used}"), "speech")
        }
    };
    if text.is_empty() {
        return None;
    }
    let whole = session.id.to_string();
    Some(Line {
        id: format!("{}-m{}", describe::short(&whole), message.seq),
        at: message.at,
        by: Some(app.clean(&one_line(&by, 200))),
        text,
        tone,
        session: Some((
            whole.clone(),
            describe::short(&whole),
            format!("?at={0}#m{0}", message.seq),
        )),
    })
}

fn shown(app: &App, text: &str) -> String {
    one_line(&app.clean(humanize::head(text, LOOKED)), SHOWN)
}

fn calls(message: &Message) -> Vec<&Value> {
    match &message.extras.tool_calls {
        Some(Value::Array(all)) => all.iter().take(10).collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    }
}

/// Reads a tool call, which agents record in several shapes.
fn call(app: &App, one: &Value) -> Option<String> {
    let text = |path: &str| one.pointer(path).and_then(Value::as_str).map(|text| shown(app, text));
    let name =
        ["/title", "/name", "/function/name", "/tool", "/kind"].into_iter().find_map(text)?;
    Some(match text("/status") {
        Some(status) => format!("{name} · {status}"),
        None => name,
    })
}
