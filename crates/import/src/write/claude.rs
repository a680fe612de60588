//! Claude Code: a chain of records by `parentUuid`, each with the whole envelope that `--resume` wants.

use serde_json::{Map, Value, json};

use super::{Draft, Entry, What, instant, lines};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let mut chain = Chain { draft, parent: Value::Null, records: Vec::new() };
    for (index, entry) in draft.entries.iter().enumerate() {
        match &entry.what {
            What::User(text) => {
                let message = json!({"role": "user", "content": text});
                chain.add("user", index, entry, message);
            }
            What::Assistant(text) => {
                let content = json!([{"type": "text", "text": text}]);
                chain.assistant(index, entry, &content, "end_turn");
            }
            What::Tool(tool) => {
                let call = draft.call(index);
                let content = json!([{"type": "tool_use", "id": call, "name": tool.name, "input": tool.input}]);
                chain.assistant(index, entry, &content, "tool_use");
                let result = json!([{
                    "tool_use_id": call, "type": "tool_result", "content": tool.output, "is_error": tool.has_failed,
                }]);
                chain.add("result", index, entry, json!({"role": "user", "content": result}));
            }
        }
    }
    let mut records = chain.records;
    if let Some(title) = &draft.title {
        records.push(json!({"type": "ai-title", "aiTitle": title, "sessionId": draft.id}));
    }
    lines(&records)
}

struct Chain<'a> {
    draft: &'a Draft,
    parent: Value,
    records: Vec<Value>,
}

impl Chain<'_> {
    fn assistant(&mut self, index: usize, entry: &Entry, content: &Value, stop: &str) {
        let model = self.draft.model.as_ref().map_or("unknown", |model| model.id.as_str());
        let usage = json!({
            "input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0,
        });
        let message = json!({
            "id": format!("msg_{}", &self.draft.digest("message", index)[..24]), "type": "message", "role": "assistant",
            "model": model, "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage,
        });
        self.add("assistant", index, entry, message);
    }

    fn add(&mut self, kind: &str, index: usize, entry: &Entry, message: Value) {
        let uuid = self.draft.uuid(kind, index);
        let is_assistant = kind == "assistant";
        let mut record = Map::new();
        let mut put = |name: &str, value: Value| drop(record.insert(name.to_owned(), value));
        put("parentUuid", self.parent.take());
        put("isSidechain", false.into());
        put("userType", "external".into());
        put("cwd", self.draft.folder.as_str().into());
        put("sessionId", self.draft.id.as_str().into());
        put("version", "2.1.0".into());
        put("gitBranch", self.draft.branch.as_deref().unwrap_or_default().into());
        put("type", if is_assistant { "assistant" } else { "user" }.into());
        put("message", message);
        put("uuid", uuid.as_str().into());
        put("timestamp", instant(entry.at).into());
        self.parent = uuid.into();
        self.records.push(Value::Object(record));
    }
}
