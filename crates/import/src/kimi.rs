//! Kimi Code: `~/.kimi-code/sessions/<folder>/<session>/agents/<agent>/wire.jsonl`, a log of what its context became.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::document::note;
use crate::json::{self, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::{Call, Outcome, Speech};
use crate::{COMPACTED, Head, KEPT, blocks};

/// The name of an agent's log.
pub(crate) const NAME: &str = "wire.jsonl";
/// The agent that people talk to.
const MAIN: &str = "main";
/// So many of the newest prompts may be kept beside a summary.
const MOST_KEPT: usize = 1_000;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Peek {
    r#type: Text,
    model: Text,
    count: Value,
    message: Loose<PeekMessage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekMessage {
    role: Text,
    origin: Loose<PeekOrigin>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekOrigin {
    kind: Text,
}

#[derive(Default)]
pub(crate) struct Kimi {
    head: Head,
    steps: Vec<Step>,
    /// Where in the steps each prompt begins.
    prompts: Vec<usize>,
    /// How many times something was taken back.
    branches: u32,
    /// The ids of the newest prompts.
    recent: Vec<String>,
}

/// What says what a session is.
pub(crate) fn about(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.parent()?.parent()?.join("state.json"))
}

impl Kimi {
    pub(crate) fn new(path: &Path) -> Self {
        let about = about(path).map(|path| note(&path)).unwrap_or_default();
        let name = |path: Option<&Path>| path?.file_name()?.to_str().map(str::to_owned);
        let folder = path.parent();
        let agent = name(folder).unwrap_or_default();
        let session = folder.and_then(Path::parent).and_then(Path::parent);
        let native = json::text(&about, "id").map(str::to_owned).or_else(|| name(session));
        let native = native.unwrap_or_default();
        let is_custom = about.get("isCustomTitle") == Some(&Value::Bool(true));
        let from = if is_custom { TitleFrom::Person } else { TitleFrom::Agent };
        let is_main = agent == MAIN;
        let head = Head {
            native: if is_main { native.clone() } else { format!("{native}/{agent}") },
            folder: json::text(&about, "cwd").map(str::to_owned),
            title: json::text(&about, "title")
                .filter(|_| is_main)
                .map(|title| (title.to_owned(), from)),
            parent: (!is_main).then_some(native),
            ..Head::default()
        };
        Self { head, ..Self::default() }
    }

    pub(crate) fn continued(state: &Value, head: Head) -> Option<Self> {
        let recent = state.get("recent")?.as_array()?.iter().filter_map(Value::as_str);
        let recent = recent.map(str::to_owned).collect();
        Some(Self { head, recent, ..Self::default() })
    }

    /// The last prompts and what came of them were taken back.
    fn take_back(&mut self, count: usize) {
        let keep = self.prompts.len().saturating_sub(count);
        let Some(from) = self.prompts.get(keep).copied() else { return };
        self.prompts.truncate(keep);
        self.branches += 1;
        for step in self.steps[from..].iter_mut().filter(|step| step.conversation == 0) {
            step.conversation = self.branches;
        }
    }

    fn message(&mut self, at: Timestamp, step: Step, message: &Value, speech: &mut Speech) {
        let place = format!("{:x}", step.place.from);
        let id = json::text(message, "id").unwrap_or(&place);
        let (text, files) = blocks::read(&message["content"]);
        let kind = message.pointer("/origin/kind").and_then(Value::as_str).unwrap_or("user");
        match json::text(message, "role").unwrap_or_default() {
            "user" if kind == "user" => {
                speech.user(id, at, &text, &files);
                if step.conversation == 0 {
                    self.recent.push(id.to_owned());
                }
            }
            // What the program tells the model in the name of the user.
            "user" | "system" => (),
            "assistant" => speech.assistant(id, at, &text, &files),
            _ => speech.record(message),
        }
        if self.recent.len() > 2 * MOST_KEPT {
            self.recent.drain(..MOST_KEPT);
        }
    }

    fn compacted(&self, at: Timestamp, step: Step, record: &Value, speech: &mut Speech) {
        let told = json::text(record, "contextSummary").or_else(|| json::text(record, "summary"));
        let told =
            told.map_or_else(|| blocks::read(&record["summary"]["content"]).0, str::to_owned);
        speech.compacted(&format!("{:x}-compacted", step.place.from), at, &told);
        let count = |name| usize::try_from(json::number(record, name)).unwrap_or(0);
        let kept = count("keptUserMessageCount").min(self.recent.len());
        let first = count("keptHeadUserMessageCount").min(kept);
        let last = &self.recent[self.recent.len() - (kept - first)..];
        let kept = self.recent[..first].iter().chain(last);
        speech.mark(KEPT, kept.map(|id| Value::from(id.as_str())).collect());
    }
}

impl Format for Kimi {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        let kind = peek.r#type.as_str().unwrap_or_default();
        if kind == "llm.request" {
            self.head.model = peek.model.owned().or(self.head.model.take());
        }
        let message = peek.message.0.unwrap_or_default();
        let origin = message.origin.0.unwrap_or_default().kind;
        let is_prompt =
            message.role.is("user") && origin.as_str().is_none_or(|kind| kind == "user");
        if kind == "context.append_message" && is_prompt {
            self.prompts.push(self.steps.len());
        }
        if kind == "context.undo" {
            let count = peek.count.as_u64().and_then(|count| usize::try_from(count).ok());
            self.take_back(count.unwrap_or(0));
        } else if kind.starts_with("context.") || kind == "llm.request" {
            self.steps.push(Step { place, conversation: 0, part: 0 });
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let steps = std::mem::take(&mut self.steps);
        (!self.head.native.is_empty() && !steps.is_empty()).then(|| (self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        if number == 0 { DEFAULT.to_owned() } else { format!("branch-{number}") }
    }

    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("time").and_then(json::time));
        match json::text(record, "type").unwrap_or_default() {
            "context.append_message" => self.message(at, step, &record["message"], speech),
            "context.append_loop_event" => event(at, step, &record["event"], speech),
            "context.apply_compaction" => self.compacted(at, step, record, speech),
            "context.clear" => {
                let id = format!("{:x}-cleared", step.place.from);
                speech.system(&id, at, "The context was cleared.");
                speech.mark(COMPACTED, true.into());
            }
            "llm.request" => speech.model = json::text(record, "model").map(str::to_owned),
            "context.undone" | "context.spliced" => (),
            _ => speech.record(record),
        }
    }

    fn state(&self) -> Option<Value> {
        let recent = &self.recent[self.recent.len().saturating_sub(MOST_KEPT)..];
        (self.branches == 0).then(|| json!({ "recent": recent }))
    }
}

/// What the model said or did, piece by piece.
fn event(at: Timestamp, step: Step, event: &Value, speech: &mut Speech) {
    let place = format!("{:x}", step.place.from);
    let id = json::text(event, "uuid").unwrap_or(&place);
    let call = json::text(event, "toolCallId").unwrap_or(id);
    match json::text(event, "type").unwrap_or_default() {
        "content.part" => {
            let part = &event["part"];
            match json::text(part, "type").unwrap_or_default() {
                "think" => speech.think(json::text(part, "think").unwrap_or_default()),
                _ => {
                    let (text, files) = blocks::read(part);
                    speech.assistant(id, at, &text, &files);
                }
            }
        }
        "tool.call" => {
            let name = json::text(event, "name").unwrap_or("tool");
            speech.call(Call::new(call, name, event["args"].clone(), at));
        }
        "tool.result" => {
            let result = &event["result"];
            let (output, files) = blocks::read(&result["output"]);
            let has_failed = result.get("isError") == Some(&Value::Bool(true));
            speech.result(call, at, Outcome { output, has_failed, files });
        }
        "step.end" => {
            let tokens = |name| json::number(&event["usage"], name).min(1 << 50);
            let cached = tokens("inputCacheRead") + tokens("inputCacheCreation");
            speech.used_before(Usage {
                input_tokens: tokens("inputOther") + cached,
                output_tokens: tokens("output"),
                cost_usd: None,
            });
        }
        "step.begin" => (),
        _ => speech.record(event),
    }
}
