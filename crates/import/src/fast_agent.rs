//! fast-agent: `<project>/.fast-agent/sessions/<session>/session.json`, with the messages in `history_<agent>.json`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde_json::Value;

use crate::document::{Document, Records, note};
use crate::reading::Reading;
use crate::speech::{Call, Outcome, Speech, digest};
use crate::{Error, Found, Head, blocks, json};

/// Where sessions lie in a project.
pub(crate) const FOLDER: &str = ".fast-agent/sessions";

/// The messages of the agent that the conversation goes on with.
fn history(path: &Path, about: &Value) -> Option<PathBuf> {
    let agents = about.pointer("/continuation/agents")?;
    let active = json::text(&about["continuation"], "active_agent")?;
    let name = json::text(agents.get(active)?, "history_file")?;
    // Only a file beside it is meant.
    let is_plain = Path::new(name).file_name().is_some_and(|own| own == name);
    is_plain.then(|| path.with_file_name(name))
}

pub(crate) struct FastAgent;

impl FastAgent {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Document<Self>>>, Error> {
        let about = note(&found.path);
        let Some(history) = history(&found.path, &about) else { return Ok(None) };
        if !history.exists() {
            return Ok(None);
        }
        let own = &about["continuation"];
        let active = json::text(own, "active_agent").unwrap_or_default();
        let agent = &own["agents"][active];
        let name = found.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let native = json::text(&about, "session_id").or(name).unwrap_or_default();
        let title = ["title", "label"].iter().find_map(|name| json::text(&about["metadata"], name));
        let git = |name: &str| json::text(&own["git"], name).map(str::to_owned);
        let head = Head {
            native: native.to_owned(),
            folder: json::text(own, "cwd").map(str::to_owned),
            branch: git("branch"),
            commit: git("commit"),
            title: title.map(|title| (title.to_owned(), TitleFrom::Person)),
            model: json::text(agent, "model").map(str::to_owned),
            ..Head::default()
        };
        let mut unread = Vec::new();
        let document = Document::open(&history, "messages", Self, &mut unread)?;
        let speech = Speech::new(found.agent);
        Ok(document.map(|document| Reading::new(document, head, speech, unread)))
    }
}

impl Records for FastAgent {
    fn take(&mut self, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let (text, files) = blocks::read(&record["content"]);
        // Messages have no ids: they are known by when they were said, and what.
        let id = digest(format!("{}:{at}:{text}", record["role"]).as_bytes());
        if record.get("is_template") == Some(&Value::Bool(true)) {
            return;
        }
        if json::text(record, "role") != Some("assistant") {
            results(record, at, speech);
            if !(text.is_empty() && files.is_empty()) {
                speech.user(&id, at, &text, &files);
            }
            return;
        }
        used(record, speech);
        let thought = channel(record, "reasoning").map(blocks::read);
        speech.think(&thought.map(|(text, _)| text).unwrap_or_default());
        speech.assistant(&id, at, &text, &files);
        for (call, request) in record["tool_calls"].as_object().into_iter().flatten() {
            let params = &request["params"];
            let name = json::text(params, "name").unwrap_or("tool");
            speech.call(Call::new(call, name, params["arguments"].clone(), at));
        }
    }
}

fn results(record: &Value, at: Timestamp, speech: &mut Speech) {
    for (call, result) in record["tool_results"].as_object().into_iter().flatten() {
        let (output, files) = blocks::read(&result["content"]);
        let has_failed = result.get("isError") == Some(&Value::Bool(true));
        speech.result(call, at, Outcome { output, has_failed, files });
    }
}

fn channel<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    record.get("channels")?.get(name)
}

/// What each request to the model took: told as JSON in a text.
fn used(record: &Value, speech: &mut Speech) {
    let told = channel(record, "fast-agent-usage").map(blocks::read).unwrap_or_default().0;
    let told = json::value(told.as_bytes()).unwrap_or_default();
    for attempt in json::list(&told, "provider_attempts") {
        speech.model = json::text(attempt, "model").map(str::to_owned);
        let total = |name: &str| json::number(&attempt[name], "total").min(1 << 50);
        let cost = attempt.get("cost_usd").and_then(Value::as_f64);
        speech.used(Usage {
            input_tokens: total("prompt"),
            output_tokens: total("completion"),
            cost_usd: cost.filter(|cost| *cost > 0.0 && *cost <= 1e6),
        });
    }
}
