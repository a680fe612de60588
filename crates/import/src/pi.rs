//! Pi: `~/.pi/agent/sessions/<folder>/<time>_<session>.jsonl`, a tree of entries by `parentId`.

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocks;
use crate::json::{self, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::{Call, Outcome, Speech};
use crate::tree::{Node, Says, Tree, id_of};
use crate::{Head, KEPT};

/// So many of the newest messages may be kept beside a summary.
const MOST_KEPT: usize = 1_000;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Peek {
    r#type: Text,
    id: Text,
    parent_id: Text,
    cwd: Text,
    name: Text,
    model_id: Text,
    message: Loose<PeekMessage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekMessage {
    role: Text,
}

#[derive(Default)]
pub(crate) struct Pi {
    head: Head,
    tree: Tree,
    /// The newest messages of the conversation, by their ids.
    recent: Vec<String>,
}

impl Pi {
    pub(crate) fn continued(state: &Value, head: Head) -> Option<Self> {
        let recent = json::list(state, "recent").iter().filter_map(Value::as_str);
        let recent = recent.map(str::to_owned).collect();
        Some(Self { head, tree: Tree::after(state)?, recent })
    }

    fn message(&mut self, id: &str, at: Timestamp, message: &Value, speech: &mut Speech) {
        let (text, files) = blocks::read(&said(&message["content"]));
        match json::text(message, "role").unwrap_or_default() {
            "user" => speech.user(id, at, &text, &files),
            "assistant" => assistant(id, at, message, speech),
            "toolResult" => {
                let call = json::text(message, "toolCallId").unwrap_or(id);
                let has_failed = message.get("isError") == Some(&Value::Bool(true));
                speech.result(call, at, Outcome { output: text, has_failed, files });
            }
            "bashExecution" => {
                speech.call(Call::new(id, "bash", json!({"command": message["command"]}), at));
                let output = json::text(message, "output").unwrap_or_default().to_owned();
                speech.result(id, at, Outcome { output, ..Outcome::default() });
            }
            "system" => (),
            "custom" | "branchSummary" | "compactionSummary" => speech.system(id, at, &text),
            _ => speech.record(message),
        }
        self.recent.push(id.to_owned());
        if self.recent.len() > 2 * MOST_KEPT {
            self.recent.drain(..MOST_KEPT);
        }
    }
}

impl Format for Pi {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        if peek.r#type.is("session") {
            self.head.native = peek.id.owned().unwrap_or_default();
            self.head.folder = peek.cwd.owned();
            return;
        }
        if let Some(name) = peek.name.owned().filter(|_| peek.r#type.is("session_info")) {
            self.head.title = Some((name, TitleFrom::Person));
        }
        self.head.model = peek.model_id.owned().or(self.head.model.take());
        if let Some(id) = peek.id.as_str() {
            let role = peek.message.0.map(|message| message.role).unwrap_or_default();
            let is_said = peek.r#type.is("message") && !role.is("system");
            let is_summary = peek.r#type.is("compaction") || peek.r#type.is("branch_summary");
            self.tree.add(Node {
                id: id_of(id),
                parent: peek.parent_id.as_str().map(id_of),
                before: None,
                place,
                says: if is_said || is_summary { Says::Something } else { Says::Nothing },
                is_aside: false,
                message: 0,
                is_result: role.is("toolResult"),
            });
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let steps = self.tree.plan(&[])?;
        (!self.head.native.is_empty()).then(|| (self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        self.tree.conversation(number)
    }

    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let id = json::text(record, "id").unwrap_or_default();
        match json::text(record, "type").unwrap_or_default() {
            "message" if step.conversation == 0 => self.message(id, at, &record["message"], speech),
            "message" => {
                let recent = self.recent.clone();
                self.message(id, at, &record["message"], speech);
                self.recent = recent;
            }
            "compaction" => {
                speech.compacted(id, at, json::text(record, "summary").unwrap_or_default());
                let first = json::text(record, "firstKeptEntryId").unwrap_or_default();
                let from = self.recent.iter().position(|one| one == first);
                let kept = from.map_or(&[][..], |from| &self.recent[from..]);
                speech.mark(KEPT, kept.iter().map(|id| Value::from(id.as_str())).collect());
            }
            "branch_summary" => {
                speech.system(id, at, json::text(record, "summary").unwrap_or_default());
            }
            "custom_message" => speech.system(id, at, &blocks::read(&record["content"]).0),
            "model_change" => speech.model = json::text(record, "modelId").map(str::to_owned),
            "thinking_level_change" | "session_info" | "label" | "custom" | "leaf" => (),
            _ => speech.record(record),
        }
    }

    fn state(&self) -> Option<Value> {
        let recent = &self.recent[self.recent.len().saturating_sub(MOST_KEPT)..];
        self.tree.tip().map(|tip| json!({"tip": tip, "recent": recent}))
    }
}

/// Blocks that are texts or pictures.
fn said(content: &Value) -> Value {
    match content {
        Value::Array(blocks) => {
            let is_said =
                |block: &&Value| matches!(json::text(block, "type"), Some("text" | "image"));
            blocks.iter().filter(is_said).cloned().collect()
        }
        other => other.clone(),
    }
}

fn assistant(id: &str, at: Timestamp, message: &Value, speech: &mut Speech) {
    speech.model = json::text(message, "model").map(str::to_owned);
    let usage = &message["usage"];
    let tokens = |name| json::number(usage, name).min(1 << 50);
    let cost = usage.pointer("/cost/total").and_then(Value::as_f64);
    speech.used(Usage {
        input_tokens: tokens("input") + tokens("cacheRead") + tokens("cacheWrite"),
        output_tokens: tokens("output"),
        cost_usd: cost.filter(|cost| *cost > 0.0 && *cost <= 1e6),
    });
    for block in json::list(message, "content") {
        match json::text(block, "type").unwrap_or_default() {
            "text" => speech.assistant(id, at, json::text(block, "text").unwrap_or_default(), &[]),
            "thinking" => speech.think(json::text(block, "thinking").unwrap_or_default()),
            "toolCall" => {
                let call = json::text(block, "id").unwrap_or(id);
                let name = json::text(block, "name").unwrap_or("tool");
                speech.call(Call::new(call, name, block["arguments"].clone(), at));
            }
            _ => speech.record(block),
        }
    }
    match json::text(message, "stopReason") {
        Some("aborted") => speech.mark(rethread_domain::turn::INTERRUPTED, true.into()),
        Some("error") => {
            speech.mark("error", json::text(message, "errorMessage").unwrap_or("error").into());
        }
        _ => (),
    }
}
