//! Qwen Code: a chain of records by `parentUuid`, with messages as Google's models take them.

use serde_json::{Map, Value, json};

use super::{Draft, Entry, What, instant, lines};

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let mut chain = Chain { draft, parent: Value::Null, records: Vec::new() };
    for (index, entry) in draft.entries.iter().enumerate() {
        match &entry.what {
            What::User(text) => {
                chain.add("user", "real_user", index, entry, json!([{ "text": text }]));
            }
            What::Assistant(text) => {
                let parts = json!([{ "text": text }]);
                chain.add("assistant", "assistant_output", index, entry, parts);
            }
            What::Tool(tool) => {
                let id = draft.call(index);
                let call = json!({"id": id, "name": tool.name, "args": tool.input});
                let parts = json!([{ "functionCall": call }]);
                chain.add("assistant", "assistant_output", index, entry, parts);
                let field = if tool.has_failed { "error" } else { "output" };
                let result = json!({"id": id, "name": tool.name, "response": {field: tool.output}});
                let parts = json!([{ "functionResponse": result }]);
                chain.add("tool_result", "tool_output", index, entry, parts);
            }
        }
    }
    lines(&chain.records)
}

struct Chain<'a> {
    draft: &'a Draft,
    parent: Value,
    records: Vec<Value>,
}

impl Chain<'_> {
    fn add(&mut self, kind: &str, provenance: &str, index: usize, entry: &Entry, parts: Value) {
        let uuid = self.draft.uuid(kind, index);
        let role = if kind == "assistant" { "model" } else { "user" };
        let mut record = Map::new();
        let mut put = |name: &str, value: Value| drop(record.insert(name.to_owned(), value));
        put("uuid", uuid.as_str().into());
        put("parentUuid", self.parent.take());
        put("sessionId", self.draft.id.as_str().into());
        put("timestamp", instant(entry.at).into());
        put("type", kind.into());
        put("provenance", provenance.into());
        put("cwd", self.draft.folder.as_str().into());
        put("version", "0.24.4".into());
        put("gitBranch", self.draft.branch.as_deref().unwrap_or_default().into());
        if kind == "assistant" {
            let model = self.draft.model.as_ref().map_or("unknown", |model| model.id.as_str());
            put("model", model.into());
        }
        put("message", json!({"role": role, "parts": parts}));
        self.parent = uuid.into();
        self.records.push(Value::Object(record));
    }
}
