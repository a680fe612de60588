//! Cline: `~/.cline/data/sessions/<session>/<session>.messages.json`, one document that is written anew with each change.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde_json::Value;

use crate::document::{Document, Records, note};
use crate::reading::Reading;
use crate::speech::{Call, Outcome, Speech};
use crate::{Error, Found, Head, KEPT, PASSING, blocks, json};

/// How the name of the file with the messages ends.
pub(crate) const ENDING: &str = ".messages.json";

/// The files that a session consists of: its messages, what it is, and its last summary.
pub(crate) fn files(path: &Path) -> [PathBuf; 3] {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(ENDING).unwrap_or(name);
    let beside = |ending: &str| path.with_file_name(format!("{stem}{ending}"));
    [path.to_owned(), beside(".json"), beside(".compaction.json")]
}

/// A summary that the model is told in place of all messages up to one of them.
struct Summary {
    /// The last message that it sums up.
    after: String,
    at: Option<Timestamp>,
    text: String,
    kept: Value,
}

pub(crate) struct Cline {
    summary: Option<Summary>,
}

impl Cline {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Document<Self>>>, Error> {
        let [messages, about, summary] = files(&found.path);
        let (about, summary) = (note(&about), note(&summary));
        let name = found.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let text = |name: &str| json::text(&about, name).map(str::to_owned);
        let metadata = &about["metadata"];
        let title = json::text(metadata, "title").filter(|title| {
            // Until there is a better one, the first prompt is the title.
            json::text(&about, "prompt").is_none_or(|prompt| !prompt.starts_with(*title))
        });
        let head = Head {
            native: text("session_id").unwrap_or_else(|| name.unwrap_or_default().to_owned()),
            folder: text("cwd"),
            branch: metadata.pointer("/git/branch").and_then(Value::as_str).map(str::to_owned),
            title: title.map(|title| (title.to_owned(), TitleFrom::Agent)),
            model: text("model"),
            version: metadata
                .pointer("/sessionHistoryOrigin/version")
                .and_then(Value::as_str)
                .map(str::to_owned),
            parent: text("parent_session_id"),
            ..Head::default()
        };
        let mut unread = Vec::new();
        let records = Self { summary: summed_up(&summary) };
        let document = Document::open(&messages, "messages", records, &mut unread)?;
        let speech = Speech::new(found.agent);
        Ok(document.map(|document| Reading::new(document, head, speech, unread)))
    }
}

fn summed_up(summary: &Value) -> Option<Summary> {
    let mut messages = json::list(summary, "messages").iter();
    let first = messages.next()?;
    let about = &first["metadata"];
    let text = json::text(about, "summary").map(str::to_owned);
    Some(Summary {
        after: json::text(summary, "source_last_message_key")?.strip_prefix("id:")?.to_owned(),
        at: about.get("generatedAt").and_then(json::time),
        text: text.unwrap_or_else(|| blocks::read(&first["content"]).0),
        kept: messages.filter_map(|message| message.get("id").cloned()).collect(),
    })
}

impl Records for Cline {
    fn take(&mut self, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("ts").and_then(json::time));
        let id = json::text(record, "id").unwrap_or_default();
        let content = &record["content"];
        if json::text(record, "role") == Some("assistant") {
            assistant(id, at, record, speech);
        } else {
            for block in content.as_array().map_or(&[][..], Vec::as_slice) {
                result(id, at, block, speech);
            }
            let (text, files) = said(content);
            let is_note = text.starts_with("[SYSTEM]");
            if !(is_note || text.is_empty() && files.is_empty()) {
                speech.user(id, at, unwrapped(&text), &files);
            }
        }
        if let Some(summary) = self.summary.take_if(|summary| summary.after == id) {
            let at = summary.at.unwrap_or(at);
            // The next summary takes the place of this one in the file.
            speech.compacted(&format!("summary-{id}{PASSING}"), at, &summary.text);
            speech.mark(KEPT, summary.kept);
        }
    }
}

fn said(content: &Value) -> (String, Vec<crate::speech::File>) {
    let Some(all) = content.as_array() else { return blocks::read(content) };
    let is_said = |block: &&Value| !matches!(json::text(block, "type"), Some("tool_result"));
    blocks::read(&all.iter().filter(is_said).cloned().collect())
}

/// What was typed, without the frame that Cline puts around it for the model.
fn unwrapped(text: &str) -> &str {
    let inside = text.strip_prefix("<user_input").and_then(|rest| rest.split_once('>'));
    let Some((_, inside)) = inside else { return text };
    inside.split_once("</user_input>").map_or(inside, |(inside, _)| inside)
}

fn assistant(id: &str, at: Timestamp, record: &Value, speech: &mut Speech) {
    speech.model = json::text(&record["modelInfo"], "id").map(str::to_owned);
    let tokens = |name| json::number(&record["metrics"], name).min(1 << 50);
    let cost = record["metrics"].get("cost").and_then(Value::as_f64);
    speech.used(Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cost_usd: cost.filter(|cost| *cost > 0.0 && *cost <= 1e6),
    });
    if let Some(text) = record["content"].as_str() {
        speech.assistant(id, at, text, &[]);
    }
    for block in json::list(record, "content") {
        match json::text(block, "type").unwrap_or_default() {
            "text" => speech.assistant(id, at, json::text(block, "text").unwrap_or_default(), &[]),
            "thinking" => speech.think(json::text(block, "thinking").unwrap_or_default()),
            "tool_use" => {
                let call = json::text(block, "id").unwrap_or(id);
                let name = json::text(block, "name").unwrap_or("tool");
                speech.call(Call::new(call, name, block["input"].clone(), at));
            }
            "redacted_thinking" => (),
            _ => speech.record(block),
        }
    }
}

/// What came of a call. Several commands have a result each.
fn result(id: &str, at: Timestamp, block: &Value, speech: &mut Speech) {
    if json::text(block, "type") != Some("tool_result") {
        return;
    }
    let parts = json::list(block, "content");
    let results: Vec<&str> = parts.iter().filter_map(|part| json::text(part, "result")).collect();
    let (text, files) = blocks::read(&block["content"]);
    let output = if results.is_empty() { text } else { results.join("\n") };
    let has_failed = block.get("is_error") == Some(&Value::Bool(true))
        || !parts.is_empty()
            && parts.iter().all(|part| part.get("success") == Some(&Value::Bool(false)));
    let call = json::text(block, "tool_use_id").unwrap_or(id);
    speech.result(call, at, Outcome { output, has_failed, files });
}
