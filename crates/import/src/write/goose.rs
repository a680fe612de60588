//! Goose: one document, as `goose session export` writes it and `goose session import` takes it.

use serde_json::{Value, json};

use super::{Draft, Entry, What};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let mut conversation = Vec::new();
    for (index, entry) in draft.entries.iter().enumerate() {
        match &entry.what {
            What::User(text) => {
                let block = json!({"type": "text", "text": text});
                conversation.push(message(draft, "user", index, entry, &block));
            }
            What::Assistant(text) => {
                let block = json!({"type": "text", "text": text});
                conversation.push(message(draft, "assistant", index, entry, &block));
            }
            What::Tool(tool) => {
                let id = draft.call(index);
                let call = json!({"type": "toolRequest", "id": id, "toolCall": {
                    "status": "success", "value": {"name": tool.name, "arguments": tool.input},
                }});
                conversation.push(message(draft, "assistant", index, entry, &call));
                let result = json!({"type": "toolResponse", "id": id, "toolResult": {
                    "status": "success",
                    "value": {"content": [{"type": "text", "text": tool.output}], "isError": tool.has_failed},
                }});
                conversation.push(message(draft, "user", index, entry, &result));
            }
        }
    }
    let (name, is_named) = match &draft.title {
        Some(title) => (title.as_str(), true),
        None => ("Handed over", false),
    };
    let begun = draft.entries.first().map_or(draft.now, |first| first.at);
    let count = conversation.len();
    json!({
        "id": draft.id, "working_dir": draft.folder, "name": name, "user_set_name": is_named, "session_type": "user",
        "created_at": seconds(begun), "updated_at": seconds(draft.now), "extension_data": {},
        "conversation": conversation, "message_count": count,
    })
    .to_string()
    .into_bytes()
}

fn seconds(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn message(draft: &Draft, role: &str, index: usize, entry: &Entry, block: &Value) -> Value {
    json!({
        "id": format!("msg_{}", draft.uuid(role, index)), "role": role, "created": entry.at.as_second(), "content": [block],
        "metadata": {"userVisible": true, "agentVisible": true},
    })
}
