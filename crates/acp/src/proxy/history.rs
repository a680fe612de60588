//! The history of a session, as an editor expects it when it loads one.

use rethread_domain::{Message, Role};
use serde_json::{Value, json};

use super::raw;

/// The longest text of one frame: some editors read lines of at most 64 KiB.
const LARGEST_TEXT: usize = 8 * 1024;
/// The most of a tool's output that is shown.
const MOST_OUTPUT: usize = 40 * 1024;
/// The longest frame, with room for what is around the update.
const LARGEST_UPDATE: usize = 56 * 1024;

/// The frames of a message, in version 2 of the protocol or in version 1.
pub(crate) fn frames(session: &str, message: &Message, is_second: bool) -> Vec<String> {
    let id = format!("rethread-{}", message.seq);
    let mut updates = Vec::new();
    let other = &message.extras.other;
    if let Some(thoughts) = other.get("thoughts").and_then(Value::as_str) {
        updates.extend(chunks("agent_thought_chunk", thoughts, &id));
    }
    let text = message.masked();
    match message.role {
        Role::User => updates.extend(chunks("user_message_chunk", &text, &id)),
        Role::Assistant => updates.extend(chunks("agent_message_chunk", &text, &id)),
        Role::Tool => updates.extend(tool(message, &text, &id)),
        // What the program itself noted is no part of what was said.
        Role::System => (),
    }
    if let Some(plan) = other.get("plan").filter(|plan| plan.is_array()) {
        updates.push(if is_second {
            let items = json!({ "type": "items", "planId": "rethread", "entries": plan });
            json!({ "sessionUpdate": "plan_update", "plan": items })
        } else {
            json!({ "sessionUpdate": "plan", "entries": plan })
        });
    }
    if is_second {
        for update in updates.iter_mut().filter(|update| update["sessionUpdate"] == "tool_call") {
            update["sessionUpdate"] = "tool_call_update".into();
        }
    }
    let frame = |update: Value| {
        let params = json!({ "sessionId": session, "update": update });
        raw::notification("session/update", &params.to_string())
    };
    updates.into_iter().map(frame).collect()
}

fn chunks<'a>(kind: &'a str, text: &'a str, id: &'a str) -> impl Iterator<Item = Value> + 'a {
    pieces(text).map(move |piece| {
        json!({
            "sessionUpdate": kind,
            "content": { "type": "text", "text": piece },
            "messageId": id,
        })
    })
}

/// A text in pieces that are fit for one frame each.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(LARGEST_TEXT));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A tool call and what came of it. Terminals are gone: what they showed is text.
fn tool(message: &Message, text: &str, id: &str) -> Vec<Value> {
    let call = message.extras.tool_calls.as_ref().and_then(|calls| calls.get(0));
    let known = |name: &str| call.and_then(|call| call.get(name)).and_then(Value::as_str);
    let (first, output) = text.split_once('\n').unwrap_or((text, ""));
    let call_id = known("id").filter(|id| !id.is_empty()).unwrap_or(id);
    let status = match known("status") {
        // Nobody works on it any more.
        None | Some("pending" | "in_progress") => "completed",
        Some(status) => status,
    };
    let mut begun = json!({
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": cut(known("title").unwrap_or(first), 512),
        "kind": known("kind").unwrap_or("other"),
        "status": "in_progress",
    });
    for name in ["locations", "rawInput"] {
        let value = call.and_then(|call| call.get(name));
        if let Some(value) = value.filter(|value| value.to_string().len() <= LARGEST_TEXT) {
            begun[name] = value.clone();
        }
    }
    let mut updates = vec![begun];
    let cut_output = cut(output, MOST_OUTPUT);
    let parts: Vec<Value> = pieces(cut_output)
        .map(|piece| json!({ "type": "content", "content": { "type": "text", "text": piece } }))
        .collect();
    let mut ended = json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": call_id,
        "status": status,
    });
    if !parts.is_empty() {
        ended["content"] = Value::Array(parts);
    }
    if ended.to_string().len() > LARGEST_UPDATE {
        // Escaped, it is too long for one frame.
        let text = cut(output, LARGEST_TEXT);
        ended["content"] =
            json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    }
    updates.push(ended);
    updates
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
