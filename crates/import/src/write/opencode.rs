//! opencode and Kilo: one document, as `opencode export` writes it and `opencode import` takes it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Draft, Entry, What, millis};

/// Its ids begin with the time, so that newer sessions come first.
pub(super) fn session_id(seed: &str, now: Timestamp) -> String {
    let time = !(millis(now) << 12) & 0xffff_ffff_ffff;
    format!("ses_{time:012x}{}", &crate::digest_of(&[seed])[..14])
}

pub(super) fn write(draft: &Draft) -> Vec<u8> {
    let (provider, model) = draft
        .model
        .as_ref()
        .map_or(("unknown", "unknown"), |model| (model.provider.as_str(), model.id.as_str()));
    let ids = Ids { draft, provider, model };
    let mut messages = Vec::new();
    let mut parent = ids.id("msg", 0, draft.now);
    for (index, entry) in draft.entries.iter().enumerate() {
        let id = ids.id("msg", index, entry.at);
        let (info, parts) = match &entry.what {
            What::User(text) => {
                parent.clone_from(&id);
                (ids.user(&id, entry), vec![json!({"type": "text", "text": text})])
            }
            What::Assistant(text) => {
                let at = millis(entry.at);
                let part = json!({"type": "text", "text": text, "time": {"start": at, "end": at}});
                (ids.assistant(&id, &parent, entry, "stop"), Ids::step(part, "stop"))
            }
            What::Tool(_) => {
                let part = tool(draft, index, entry);
                (ids.assistant(&id, &parent, entry, "tool-calls"), Ids::step(part, "tool-calls"))
            }
        };
        let parts: Vec<Value> = (0..)
            .zip(parts)
            .map(|(number, mut part)| {
                part["id"] = ids.id("prt", index * 4 + number, entry.at).into();
                part["sessionID"] = draft.id.as_str().into();
                part["messageID"] = id.as_str().into();
                part
            })
            .collect();
        messages.push(json!({"info": info, "parts": parts}));
    }
    let begun = draft.entries.first().map_or(draft.now, |first| first.at);
    let info = json!({
        "id": draft.id, "slug": format!("rethread-{}", &draft.digest("slug", 0)[..8]), "projectID": "global",
        "directory": draft.folder, "path": "", "title": draft.title.as_deref().unwrap_or("Handed over"), "version": "1.18.33",
        "agent": "build", "model": {"id": model, "providerID": provider},
        "time": {"created": millis(begun), "updated": millis(draft.now)},
    });
    json!({"info": info, "messages": messages}).to_string().into_bytes()
}

fn tool(draft: &Draft, index: usize, entry: &Entry) -> Value {
    let What::Tool(tool) = &entry.what else { return Value::Null };
    let at = millis(entry.at);
    let time = json!({"start": at, "end": at});
    let state = if tool.has_failed {
        json!({"status": "error", "input": tool.input, "error": tool.output, "metadata": {}, "time": time})
    } else {
        json!({
            "status": "completed", "input": tool.input, "output": tool.output, "title": tool.name, "metadata": {},
            "time": time,
        })
    };
    json!({"type": "tool", "tool": tool.name, "callID": draft.call(index), "state": state})
}

struct Ids<'a> {
    draft: &'a Draft,
    provider: &'a str,
    model: &'a str,
}

impl Ids<'_> {
    /// An id that sorts by time, then by place, and that no other session has.
    fn id(&self, kind: &str, index: usize, at: Timestamp) -> String {
        let time = (millis(at) << 12) & 0xffff_ffff_ffff;
        format!("{kind}_{time:012x}{index:06x}{}", &self.draft.digest(kind, index)[..8])
    }

    fn user(&self, id: &str, entry: &Entry) -> Value {
        json!({
            "id": id, "sessionID": self.draft.id, "role": "user", "time": {"created": millis(entry.at)}, "agent": "build",
            "model": {"providerID": self.provider, "modelID": self.model},
        })
    }

    fn assistant(&self, id: &str, parent: &str, entry: &Entry, finish: &str) -> Value {
        let at = millis(entry.at);
        json!({
            "id": id, "sessionID": self.draft.id, "role": "assistant", "parentID": parent, "mode": "build", "agent": "build",
            "path": {"cwd": self.draft.folder, "root": self.draft.folder}, "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "modelID": self.model, "providerID": self.provider, "time": {"created": at, "completed": at}, "finish": finish,
        })
    }

    /// A step of the model around what it said or did.
    fn step(part: Value, reason: &str) -> Vec<Value> {
        let tokens =
            json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
        vec![
            json!({"type": "step-start"}),
            part,
            json!({"type": "step-finish", "reason": reason, "tokens": tokens, "cost": 0}),
        ]
    }
}
