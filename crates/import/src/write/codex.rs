//! Codex: a rollout, what the model is told in order, with the events that its window shows.

use serde_json::{Value, json};

use super::{Draft, Entry, What, instant, lines};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let mut meta = json!({
        "id": draft.id, "session_id": draft.id, "timestamp": instant(draft.now), "cwd": draft.folder,
        "originator": "rethread", "cli_version": "0.0.0", "source": "cli", "thread_source": "user",
    });
    // Without it, Codex takes the provider that it is set up with.
    if let Some(model) = &draft.model {
        meta["model_provider"] = model.provider.as_str().into();
    }
    if let Some(branch) = &draft.branch {
        meta["git"] = json!({ "branch": branch });
    }
    let mut records = vec![record(instant(draft.now), "session_meta", meta)];
    for (index, entry) in draft.entries.iter().enumerate() {
        for (kind, payload) in payloads(draft, index, entry) {
            records.push(record(instant(entry.at), kind, payload));
        }
    }
    lines(&records)
}

fn record(timestamp: String, kind: &str, payload: Value) -> Value {
    json!({"timestamp": timestamp, "type": kind, "payload": payload})
}

fn payloads(draft: &Draft, index: usize, entry: &Entry) -> Vec<(&'static str, Value)> {
    let item = |role: &str, kind: &str, text: &str, of: &str| {
        json!({
            "type": "message", "id": format!("msg_{}", draft.uuid("message", index)), "role": role,
            "content": [{"type": kind, "text": text}],
            "internal_chat_message_metadata_passthrough": {"content_item_kinds": [of]},
        })
    };
    match &entry.what {
        What::User(text) => vec![
            ("response_item", item("user", "input_text", text, "user.text")),
            ("event_msg", json!({"type": "user_message", "message": text, "images": []})),
        ],
        What::Assistant(text) => vec![
            ("event_msg", json!({"type": "agent_message", "message": text})),
            ("response_item", item("assistant", "output_text", text, "unknown")),
        ],
        What::Tool(tool) => {
            let call = draft.call(index);
            let arguments = Value::Object(tool.input.clone()).to_string();
            vec![
                (
                    "response_item",
                    json!({"type": "function_call", "name": tool.name, "arguments": arguments, "call_id": call}),
                ),
                (
                    "response_item",
                    json!({"type": "function_call_output", "call_id": call, "output": tool.output}),
                ),
            ]
        }
    }
}
