//! Qwen Code: `~/.qwen/projects/<folder>/chats/<session>.jsonl`, a tree of records by `parentUuid`; the agents that it started
//! beside it, in `subagents/<session>/agent-….jsonl`.

use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::{self, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::Speech;
use crate::tree::{Node, Says, Tree, id_of};
use crate::{Head, parts};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Peek {
    r#type: Text,
    uuid: Text,
    parent_uuid: Text,
    session_id: Text,
    cwd: Text,
    git_branch: Text,
    version: Text,
    model: Text,
    system_payload: Loose<PeekPayload>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PeekPayload {
    custom_title: Text,
}

#[derive(Default)]
pub(crate) struct Qwen {
    head: Head,
    /// Whether the file is that of an agent which the one of the session started.
    is_child: bool,
    tree: Tree,
}

impl Qwen {
    pub(crate) fn new(path: &Path) -> Self {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let head = Head { native: stem.to_owned(), ..Head::default() };
        Self { head, is_child: stem.starts_with("agent-"), ..Self::default() }
    }

    pub(crate) fn continued(path: &Path, state: &Value, head: Head) -> Option<Self> {
        Some(Self { head, tree: Tree::after(state)?, ..Self::new(path) })
    }
}

impl Format for Qwen {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        let head = &mut self.head;
        let session = peek.session_id.owned();
        if self.is_child {
            head.parent = session.or(head.parent.take());
        } else {
            head.native = session.unwrap_or(std::mem::take(&mut head.native));
        }
        head.folder = head.folder.take().or(peek.cwd.owned());
        head.branch = peek.git_branch.owned().or(head.branch.take());
        head.version = peek.version.owned().or(head.version.take());
        head.model = peek.model.owned().or(head.model.take());
        if let Some(title) = peek.system_payload.0.and_then(|payload| payload.custom_title.owned())
        {
            head.title = Some((title, TitleFrom::Person));
        }
        if let Some(uuid) = peek.uuid.as_str() {
            let is_said =
                ["user", "assistant", "tool_result"].iter().any(|kind| peek.r#type.is(kind));
            self.tree.add(Node {
                id: id_of(uuid),
                parent: peek.parent_uuid.as_str().map(id_of),
                before: None,
                place,
                says: if is_said { Says::Something } else { Says::Nothing },
                is_aside: false,
                message: 0,
                is_result: peek.r#type.is("tool_result"),
            });
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let steps = self.tree.plan(&[])?;
        Some((self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        self.tree.conversation(number)
    }

    fn take(&mut self, _: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let uuid = json::text(record, "uuid").unwrap_or_default();
        let parts = &record["message"]["parts"];
        match json::text(record, "type").unwrap_or_default() {
            "user" => {
                let is_real = json::text(record, "provenance").is_none_or(|who| who == "real_user");
                let (text, files) = parts::said(parts);
                if is_real && !(text.is_empty() && files.is_empty()) {
                    speech.user(uuid, at, &text, &files);
                }
            }
            "assistant" => assistant(record, parts, uuid, at, speech),
            "tool_result" => parts::results(parts, uuid, at, speech),
            "system" if json::text(record, "subtype") == Some("chat_compression") => {
                let first = record.pointer("/systemPayload/compressedHistory/0/parts");
                let (text, _) = parts::said(first.unwrap_or(&Value::Null));
                speech.compacted(uuid, at, &text);
            }
            "system" => (),
            _ => speech.record(record),
        }
    }

    fn state(&self) -> Option<Value> {
        self.tree.tip().map(|tip| json!({ "tip": tip }))
    }
}

fn assistant(record: &Value, parts: &Value, uuid: &str, at: Timestamp, speech: &mut Speech) {
    speech.model = json::text(record, "model").map(str::to_owned);
    let tokens = |name| json::number(&record["usageMetadata"], name).min(1 << 50);
    speech.used(Usage {
        input_tokens: tokens("promptTokenCount"),
        output_tokens: tokens("candidatesTokenCount") + tokens("thoughtsTokenCount"),
        cost_usd: None,
    });
    parts::thoughts(parts, speech);
    let (text, files) = parts::said(parts);
    speech.assistant(uuid, at, &text, &files);
    parts::calls(parts, uuid, at, speech);
}
