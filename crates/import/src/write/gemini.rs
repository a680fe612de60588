//! Gemini CLI: a log of messages after a header. A tool call and its result are part of the model's message; the result is told
//! once more as the user's.

use serde_json::{Value, json};

use super::{Draft, What, instant, lines};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let now = instant(draft.now);
    let mut records = vec![json!({
        "sessionId": draft.id, "projectHash": crate::digest_of(&[&draft.folder]), "startTime": now, "lastUpdated": now,
        "kind": "main",
    })];
    for (index, entry) in draft.entries.iter().enumerate() {
        let at = instant(entry.at);
        let id = draft.uuid("message", index);
        match &entry.what {
            What::User(text) => records.push(user(&id, &at, &json!({ "text": text }))),
            What::Assistant(text) => records.push(model(draft, &id, &at, text)),
            What::Tool(tool) => {
                let call = draft.call(index);
                let (field, status) =
                    if tool.has_failed { ("error", "error") } else { ("output", "success") };
                let result = json!({"functionResponse": {
                    "id": call, "name": tool.name, "response": {field: tool.output},
                }});
                let mut message = model(draft, &id, &at, "");
                message["toolCalls"] = json!([{
                    "id": call, "name": tool.name, "args": tool.input, "result": [result], "status": status, "timestamp": at,
                    "resultDisplay": tool.output, "displayName": tool.name, "renderOutputAsMarkdown": false,
                }]);
                records.push(message);
                records.push(user(&draft.uuid("result", index), &at, &result));
            }
        }
    }
    if let Some(title) = &draft.title {
        records.push(json!({"$set": {"summary": title, "lastUpdated": now}}));
    }
    lines(&records)
}

fn user(id: &str, at: &str, part: &Value) -> Value {
    json!({"id": id, "timestamp": at, "type": "user", "content": [part]})
}

fn model(draft: &Draft, id: &str, at: &str, text: &str) -> Value {
    let model = draft.model.as_ref().map_or("unknown", |model| model.id.as_str());
    let tokens =
        json!({"input": 0, "output": 0, "cached": 0, "thoughts": 0, "tool": 0, "total": 0});
    json!({
        "id": id, "timestamp": at, "type": "gemini", "content": text, "thoughts": [], "tokens": tokens, "model": model,
    })
}
