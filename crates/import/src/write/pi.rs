//! Pi: a chain of entries by `parentId`, after a header with the version of the format.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Draft, What, instant, lines, millis};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let header = json!({
        "type": "session", "version": 3, "id": draft.id, "timestamp": instant(draft.now), "cwd": draft.folder,
    });
    let mut chain =
        Chain { draft, parent: Value::Null, used: HashSet::new(), records: vec![header] };
    if let Some(title) = &draft.title {
        chain.add(instant(draft.now), json!({"type": "session_info", "name": title}));
    }
    for (index, entry) in draft.entries.iter().enumerate() {
        let at = millis(entry.at);
        let mut say = |message: Value| {
            chain.add(instant(entry.at), json!({"type": "message", "message": message}));
        };
        match &entry.what {
            What::User(text) => say(json!({
                "role": "user", "content": [{"type": "text", "text": text}], "timestamp": at,
            })),
            What::Assistant(text) => {
                say(assistant(draft, &json!({"type": "text", "text": text}), "stop", at));
            }
            What::Tool(tool) => {
                let id = draft.call(index);
                let call = json!({"type": "toolCall", "id": id, "name": tool.name, "arguments": tool.input});
                say(assistant(draft, &call, "toolUse", at));
                say(json!({
                    "role": "toolResult", "toolCallId": id, "toolName": tool.name,
                    "content": [{"type": "text", "text": tool.output}], "isError": tool.has_failed, "timestamp": at,
                }));
            }
        }
    }
    lines(&chain.records)
}

fn assistant(draft: &Draft, block: &Value, stop: &str, at: u64) -> Value {
    let (provider, model) = draft
        .model
        .as_ref()
        .map_or(("unknown", "unknown"), |model| (model.provider.as_str(), model.id.as_str()));
    json!({
        "role": "assistant", "content": [block], "api": "openai-completions", "provider": provider, "model": model,
        "usage": {
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": stop, "timestamp": at,
    })
}

struct Chain<'a> {
    draft: &'a Draft,
    parent: Value,
    used: HashSet<String>,
    records: Vec<Value>,
}

impl Chain<'_> {
    fn add(&mut self, timestamp: String, mut record: Value) {
        // Ids have only eight digits: the next one is taken where two are the same.
        let mut number = self.records.len();
        let mut id = self.draft.digest("entry", number)[..8].to_owned();
        while !self.used.insert(id.clone()) {
            number += 1 << 32;
            self.draft.digest("entry", number)[..8].clone_into(&mut id);
        }
        record["id"] = id.as_str().into();
        record["parentId"] = self.parent.take();
        record["timestamp"] = timestamp.into();
        self.parent = id.into();
        self.records.push(record);
    }
}
