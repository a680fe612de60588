//! How a conversation is shown again.

use serde_json::{Value, json};

use crate::memory::{Entry, Fact, Part, Tool};
use crate::wire::Wire;

/// Sends everything that was said, as whole messages.
pub(crate) fn replay(wire: &Wire, session: &str, entries: &[Entry]) {
    let mut turn = 0;
    for entry in entries {
        match &entry.fact {
            Fact::Told { blocks } => {
                turn += 1;
                for block in blocks {
                    wire.update(session, user_chunk(session, turn, block));
                }
            }
            Fact::Said { parts } => {
                for update in parts.iter().flat_map(|part| shown(session, turn, part)) {
                    wire.update(session, update);
                }
            }
            Fact::Began { .. } | Fact::Titled { .. } => {}
        }
    }
}

pub(crate) fn user_chunk(session: &str, turn: usize, block: &Value) -> Value {
    json!({
        "sessionUpdate": "user_message_chunk",
        "messageId": format!("{session}-user-{turn}"),
        "content": block,
    })
}

pub(crate) fn agent_chunk(session: &str, turn: usize, text: &str) -> Value {
    json!({
        "sessionUpdate": "agent_message_chunk",
        "messageId": format!("{session}-agent-{turn}"),
        "content": { "type": "text", "text": text },
    })
}

pub(crate) fn tool_call(id: &str, title: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": id,
        "title": title,
        "kind": "execute",
        "status": "pending",
        "rawInput": { "command": title },
    })
}

pub(crate) fn tool_end(tool: &Tool) -> Value {
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": tool.id,
        "status": if tool.completed { "completed" } else { "failed" },
        "content": [{ "type": "content", "content": { "type": "text", "text": tool.output } }],
        "rawOutput": { "output": tool.output },
    })
}

/// A conversation that never was.
pub(crate) fn another() -> Vec<Entry> {
    let blocks = vec![json!({ "type": "text", "text": "Where is the station?" })];
    let parts = vec![Part::Text { text: "At the end of the road.".to_owned() }];
    vec![Entry::now(Fact::Told { blocks }), Entry::now(Fact::Said { parts })]
}

fn shown(session: &str, turn: usize, part: &Part) -> Vec<Value> {
    match part {
        Part::Text { text } => vec![agent_chunk(session, turn, text)],
        Part::Tool(tool) => vec![tool_call(&tool.id, &tool.title), tool_end(tool)],
    }
}
