//! Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, a log of events.

use std::collections::VecDeque;
use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::Usage;
use rethread_domain::turn::INTERRUPTED;
use serde::Deserialize;
use serde_json::Value;

use crate::blocks;
use crate::json::{self, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::{Call, File, Outcome, Speech};
use crate::{Head, KEPT};

/// Events of which nothing is said in the conversation.
const NOISE: &[&str] = &[
    "session.",
    "system.",
    "assistant.turn_",
    "tool.execution_start",
    "hook.",
    "permission.",
    "subagent.",
    "assistant.usage",
    "assistant.reasoning",
    "assistant.intent",
    // What the model was asked, once more.
    "model.",
];

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Peek {
    r#type: Text,
    agent_id: Text,
    data: Loose<PeekData>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PeekData {
    session_id: Text,
    copilot_version: Text,
    selected_model: Text,
    new_model: Text,
    title: Text,
    parent_tool_call_id: Text,
    context: Loose<PeekContext>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PeekContext {
    cwd: Text,
    branch: Text,
    head_commit: Text,
}

/// So many bytes of pictures are kept until the message that shows them.
const MOST_ASSETS: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Copilot {
    head: Head,
    steps: Vec<Step>,
    /// Pictures and other files, by the ids under which messages name them.
    assets: VecDeque<(String, String)>,
    /// The agents that the one of the session started, by the numbers of their conversations.
    others: Vec<String>,
}

impl Copilot {
    pub(crate) fn new(path: &Path) -> Self {
        let folder = path.parent();
        let native = folder.and_then(Path::file_name).and_then(|name| name.to_str());
        let mut head = Head { native: native.unwrap_or_default().to_owned(), ..Head::default() };
        let about =
            folder.and_then(|folder| std::fs::read_to_string(folder.join("workspace.yaml")).ok());
        let about = about.unwrap_or_default();
        let value = |name: &str| {
            let line =
                about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
            let line = line.trim().trim_matches(['\'', '"']).replace("''", "'");
            Some(line).filter(|line| !line.is_empty())
        };
        let from = if value("user_named").as_deref() == Some("true") {
            TitleFrom::Person
        } else {
            TitleFrom::Agent
        };
        head.title = value("name").map(|name| (name, from));
        (head.folder, head.branch) = (value("cwd"), value("branch"));
        Self { head, ..Self::default() }
    }

    /// Keeps a file that the next messages may show.
    fn keep(&mut self, asset: &Value) {
        let text = |name| json::text(asset, name).map(str::to_owned);
        self.assets.extend(text("assetId").zip(text("data")));
        while self.assets.iter().map(|(_, data)| data.len()).sum::<usize>() > MOST_ASSETS {
            self.assets.pop_front();
        }
    }

    /// A file that a message shows.
    fn file(&self, attachment: &Value) -> Option<File> {
        let asset = json::text(attachment, "assetId")?;
        let data = self.assets.iter().find(|(id, _)| id == asset).map(|(_, data)| data.clone());
        let text = |name| json::text(attachment, name).map(str::to_owned);
        Some(File { mime: text("mimeType")?, data, name: text("displayName") })
    }

    fn user(&self, id: &str, at: Timestamp, data: &Value, speech: &mut Speech) {
        let (text, _) = blocks::read(&data["content"]);
        let is_skill = json::text(data, "source").is_some_and(|from| from.starts_with("skill-"));
        let files = json::list(data, "attachments").iter().flat_map(|attachment| {
            self.file(attachment).map_or_else(|| blocks::read(attachment).1, |file| vec![file])
        });
        if !is_skill && !text.starts_with("<skill-context") {
            speech.user(id, at, &text, &files.collect::<Vec<_>>());
        }
    }

    fn other(&mut self, name: &str) -> u32 {
        let known = self.others.iter().position(|one| one == name);
        let at = known.unwrap_or_else(|| {
            self.others.push(name.to_owned());
            self.others.len() - 1
        });
        u32::try_from(at + 1).unwrap_or(0)
    }
}

impl Format for Copilot {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        let kind = peek.r#type.as_str().unwrap_or_default();
        let data = peek.data.0.unwrap_or_default();
        let head = &mut self.head;
        if kind == "session.start" {
            head.native = data.session_id.owned().unwrap_or(std::mem::take(&mut head.native));
            head.version = data.copilot_version.owned();
        }
        if let Some(context) = data.context.0 {
            head.folder = head.folder.take().or(context.cwd.owned());
            head.branch = context.branch.owned().or(head.branch.take());
            head.commit = context.head_commit.owned().or(head.commit.take());
        }
        head.model = data.new_model.owned().or(data.selected_model.owned()).or(head.model.take());
        if let Some(title) = data.title.owned().filter(|_| kind == "session.title_changed") {
            head.title = Some((title, TitleFrom::Agent));
        }
        let other = peek.agent_id.owned().or(data.parent_tool_call_id.owned());
        let conversation = other.map_or(0, |other| self.other(&other));
        self.steps.push(Step { place, conversation, part: 0 });
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let steps = std::mem::take(&mut self.steps);
        (!steps.is_empty() && !self.head.native.is_empty()).then(|| (self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        let other = (number as usize).checked_sub(1).and_then(|at| self.others.get(at));
        other.map_or_else(
            || DEFAULT.to_owned(),
            |other| format!("subagent-{}", &crate::speech::digest(other.as_bytes())[..8]),
        )
    }

    fn take(&mut self, _: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let id = json::text(record, "id").unwrap_or_default();
        let data = &record["data"];
        match json::text(record, "type").unwrap_or_default() {
            "session.binary_asset" => self.keep(data),
            "user.message" => self.user(id, at, data, speech),
            "assistant.message" => assistant(id, at, data, speech),
            "tool.execution_complete" => {
                let call = json::text(data, "toolCallId").unwrap_or(id);
                let error = data.pointer("/error/message").and_then(Value::as_str);
                let (output, files) = blocks::read(&data["result"]["content"]);
                let output = error.map_or(output, str::to_owned);
                let has_failed = data.get("success") == Some(&Value::Bool(false));
                speech.result(call, at, Outcome { output, has_failed, files });
            }
            "session.usage_record" => speech.used(usage(&data["usage"])),
            "assistant.usage" => speech.used_before(usage(data)),
            "session.compaction_complete" => {
                let summary = json::text(data, "summaryContent").unwrap_or_default();
                speech.compacted(id, at, summary);
                if let Some(kept) = data.get("keptMessageIds") {
                    speech.mark(KEPT, kept.clone());
                }
            }
            "abort" => speech.mark(INTERRUPTED, true.into()),
            kind if NOISE.iter().any(|noise| kind.starts_with(noise)) => (),
            _ => speech.record(record),
        }
    }
}

fn assistant(id: &str, at: Timestamp, data: &Value, speech: &mut Speech) {
    speech.model = json::text(data, "model").map(str::to_owned);
    speech.think(json::text(data, "reasoningText").unwrap_or_default());
    let (text, files) = blocks::read(&data["content"]);
    speech.assistant(id, at, &text, &files);
    for request in json::list(data, "toolRequests") {
        let call = json::text(request, "toolCallId").unwrap_or(id);
        let name = json::text(request, "name").unwrap_or("tool");
        speech.call(Call::new(call, name, request["arguments"].clone(), at));
    }
}

fn usage(value: &Value) -> Usage {
    let tokens = |name| json::number(value, name).min(1 << 50);
    Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cost_usd: None,
    }
}
