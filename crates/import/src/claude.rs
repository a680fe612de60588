//! Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, a tree of records by `parentUuid`.

use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocks;
use crate::json::{self, Flag, Items, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::{Call, File, Outcome, Speech};
use crate::tree::{Node, Says, Tree, id_of};
use crate::{Head, KEPT};

/// Records about the program itself, of which nothing is said in the conversation.
const NOISE: &[&str] = &[
    "queue-operation",
    "attachment",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "last-prompt",
    "atis-latch",
    "mode",
    "permission-mode",
    "tools-used",
    "file-history-snapshot",
    "file-history-delta",
    "content-replacement",
    "agent-name",
    "progress",
    "summary",
    "custom-title",
    "ai-title",
    "tag",
    "pr-link",
    "cost-state",
    "agent_metadata",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct Peek {
    r#type: Text,
    subtype: Text,
    uuid: Text,
    parent_uuid: Text,
    logical_parent_uuid: Text,
    session_id: Text,
    cwd: Text,
    git_branch: Text,
    version: Text,
    team_name: Text,
    is_sidechain: Flag,
    is_meta: Flag,
    custom_title: Text,
    ai_title: Text,
    summary: Text,
    message: Loose<PeekMessage>,
    attachment: Loose<PeekBlock>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekMessage {
    id: Text,
    model: Text,
    content: Items<PeekBlock>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekBlock {
    r#type: Text,
}

#[derive(Default)]
pub(crate) struct Claude {
    head: Head,
    /// Whether the file is that of an agent which the one of the session started.
    is_child: bool,
    tree: Tree,
    /// Records that are read a second time though they are no part of the tree.
    beside: Vec<Place>,
    /// The last record of each message of the model, which has what it used.
    last_of: std::collections::HashMap<u64, Place>,
    /// What all of it has cost so far.
    spent_usd: f64,
    /// Messages that are kept beside the summary that comes next.
    kept: Option<Value>,
}

impl Claude {
    pub(crate) fn new(path: &Path) -> Self {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_child = stem.starts_with("agent-");
        Self {
            head: Head { native: stem.to_owned(), ..Head::default() },
            is_child,
            ..Self::default()
        }
    }

    pub(crate) fn continued(path: &Path, state: &Value, head: Head) -> Option<Self> {
        let spent_usd = state.get("spent_usd").and_then(Value::as_f64).unwrap_or(0.0);
        Some(Self { head, tree: Tree::after(state)?, spent_usd, ..Self::new(path) })
    }

    fn describe(&mut self, peek: &Peek) {
        let head = &mut self.head;
        let is_first = head.folder.is_none();
        if is_first {
            head.folder = peek.cwd.owned();
        }
        if self.is_child && head.parent.is_none() {
            head.parent = peek.session_id.owned();
        }
        if let Some(branch) = peek.git_branch.as_str().filter(|branch| *branch != "HEAD") {
            head.branch = Some(branch.to_owned());
        }
        head.version = peek.version.owned().or(head.version.take());
        let given = [(&peek.custom_title, TitleFrom::Person), (&peek.ai_title, TitleFrom::Agent)];
        for (title, from) in given {
            let known = head.title.as_ref().map_or(TitleFrom::Nobody, |(_, from)| *from);
            if let Some(title) = title.as_str().filter(|_| from >= known) {
                head.title = Some((title.to_owned(), from));
            }
        }
        if let Some(summary) = peek.summary.as_str().filter(|_| peek.r#type.is("summary")) {
            head.title.get_or_insert_with(|| (summary.to_owned(), TitleFrom::Agent));
        }
    }

    fn user(&mut self, record: &Value, uuid: &str, at: Timestamp, speech: &mut Speech) {
        let content = &record["message"]["content"];
        let results = content.as_array().map_or(&[][..], Vec::as_slice).iter();
        for block in results.filter(|block| json::text(block, "type") == Some("tool_result")) {
            let (output, files) = blocks::read(&block["content"]);
            let has_failed = block.get("is_error") == Some(&Value::Bool(true));
            let id = json::text(block, "tool_use_id").unwrap_or(uuid);
            speech.result(id, at, Outcome { output, has_failed, files });
        }
        let is = |name: &str| record.get(name) == Some(&Value::Bool(true));
        let (text, files) = said(content);
        if is("isCompactSummary") {
            speech.compacted(uuid, at, &text);
            if let Some(kept) = self.kept.take() {
                speech.mark(KEPT, kept);
            }
        } else if text.starts_with("[Request interrupted")
            || text.starts_with("<local-command-stdout>")
        {
            speech.system(uuid, at, &plain_command(&text));
        } else if !(is("isMeta") || text.is_empty() && files.is_empty()) {
            speech.user(uuid, at, &plain_command(&text), &files);
        }
    }

    fn assistant(
        &self,
        step: Step,
        record: &Value,
        uuid: &str,
        at: Timestamp,
        speech: &mut Speech,
    ) {
        let message = &record["message"];
        speech.model = json::text(message, "model").map(str::to_owned);
        // Each record of a message repeats what the model used so far.
        let id = json::text(message, "id").map_or(0, id_of);
        if self.last_of.get(&id).is_none_or(|last| *last == step.place) {
            speech.used(usage(&message["usage"]));
        }
        let text_alone =
            message["content"].as_str().map(|text| json!({"type": "text", "text": text}));
        let blocks = json::list(message, "content").iter().chain(text_alone.as_ref());
        for block in blocks {
            match json::text(block, "type").unwrap_or_default() {
                "text" => {
                    let text = json::text(block, "text").unwrap_or_default();
                    speech.assistant(uuid, at, text, &[]);
                }
                "thinking" => speech.think(json::text(block, "thinking").unwrap_or_default()),
                "tool_use" => {
                    let id = json::text(block, "id").unwrap_or(uuid);
                    let name = json::text(block, "name").unwrap_or("tool");
                    speech.call(Call::new(id, name, block["input"].clone(), at));
                }
                // Readable only for the model.
                "redacted_thinking" => (),
                _ => speech.record(block),
            }
        }
        if record.get("isApiErrorMessage") == Some(&Value::Bool(true)) {
            speech
                .mark("error", json::text(record, "error").unwrap_or("error of the model").into());
        }
    }

    /// What the session has cost so far; the difference belongs to what was said last.
    fn spent(&mut self, record: &Value, speech: &mut Speech) {
        let Some(total) = record.get("totalCostUSD").and_then(Value::as_f64) else { return };
        let more = if total < self.spent_usd { total } else { total - self.spent_usd };
        self.spent_usd = total;
        if more > 0.0 && more <= 1e6 {
            speech.used_before(Usage { cost_usd: Some(more), ..Usage::default() });
        }
    }

    fn add(&mut self, place: Place, peek: &Peek, uuid: &str) {
        let message = peek.message.0.as_ref();
        let is_said = ["user", "assistant"].iter().any(|kind| peek.r#type.is(kind));
        let is_queued = peek.attachment.0.as_ref().is_some_and(|it| it.r#type.is("queued_command"));
        let blocks = message.map_or(&[][..], |message| message.content.0.as_slice());
        let model_message = message.and_then(|message| message.id.as_str()).map_or(0, id_of);
        let model = message.and_then(|message| message.model.as_str());
        if let Some(model) = model.filter(|model| !model.starts_with('<')) {
            self.head.model = Some(model.to_owned());
        }
        if model_message != 0 {
            self.last_of.insert(model_message, place);
        }
        let may_end = !peek.is_meta.0 && peek.team_name.as_str().is_none();
        let says = match (is_said || is_queued, may_end) {
            (false, _) => Says::Nothing,
            (true, false) => Says::Aside,
            (true, true) => Says::Something,
        };
        self.tree.add(Node {
            id: id_of(uuid),
            parent: peek.parent_uuid.as_str().map(id_of),
            before: peek.logical_parent_uuid.as_str().map(id_of),
            place,
            says,
            is_aside: peek.is_sidechain.0 && !self.is_child,
            message: model_message,
            is_result: blocks.iter().any(|block| block.r#type.is("tool_result")),
        });
    }
}

impl Format for Claude {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        self.describe(&peek);
        let kind = peek.r#type.as_str().unwrap_or_default();
        match peek.uuid.as_str() {
            Some(uuid) => self.add(place, &peek, uuid),
            None if kind == "cost-state" || !NOISE.contains(&kind) => {
                self.beside.push(place);
            }
            None => (),
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let steps = self.tree.plan(&self.beside)?;
        Some((self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        self.tree.conversation(number)
    }

    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let uuid = json::text(record, "uuid").unwrap_or_default();
        match json::text(record, "type").unwrap_or_default() {
            "user" => self.user(record, uuid, at, speech),
            "assistant" => self.assistant(step, record, uuid, at, speech),
            "system" if json::text(record, "subtype") == Some("local_command") => {
                let text = json::text(record, "content").unwrap_or_default();
                speech.system(uuid, at, &plain_command(text));
            }
            "system" if json::text(record, "subtype") == Some("compact_boundary") => {
                let kept = record.pointer("/compactMetadata/preservedMessages/uuids");
                self.kept = kept.cloned();
            }
            "attachment" => {
                let queued = &record["attachment"];
                if json::text(queued, "type") == Some("queued_command") {
                    let (text, files) = blocks::read(&queued["prompt"]);
                    speech.user(uuid, at, &text, &files);
                }
            }
            "cost-state" => self.spent(record, speech),
            "system" | "progress" => (),
            kind if NOISE.contains(&kind) => (),
            _ => speech.record(record),
        }
    }

    fn state(&self) -> Option<Value> {
        self.tree.tip().map(|tip| json!({"tip": tip, "spent_usd": self.spent_usd}))
    }
}

/// What a person said, without the results of tools.
fn said(content: &Value) -> (String, Vec<File>) {
    match content {
        Value::Array(all) => {
            let is_said = |block: &&Value| json::text(block, "type") != Some("tool_result");
            blocks::read(&all.iter().filter(is_said).cloned().collect())
        }
        other => blocks::read(other),
    }
}

/// A command of the program as it was typed, and its output without markup.
pub(crate) fn plain_command(text: &str) -> String {
    let between = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inside, _)| inside.trim())
    };
    if let Some(name) = between("command-name") {
        let args = between("command-args").unwrap_or_default();
        return format!("{name} {args}").trim().to_owned();
    }
    between("local-command-stdout").map_or_else(|| text.to_owned(), str::to_owned)
}

fn usage(value: &Value) -> Usage {
    let tokens = |name| json::number(value, name).min(1 << 50);
    let cached = tokens("cache_creation_input_tokens") + tokens("cache_read_input_tokens");
    Usage {
        input_tokens: tokens("input_tokens") + cached,
        output_tokens: tokens("output_tokens"),
        cost_usd: None,
    }
}
