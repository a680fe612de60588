//! Which agent wrote a file, by what is in it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::database::Database;
use crate::lines::{Line, Lines};
use crate::{aider, cline, cursor, goose, json, kimi, opencode, vibe};

/// So many lines are looked at.
const LOOKED_AT: usize = 20;
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Whether a file holds sessions of an agent that is known.
pub fn is_session_of_agent(path: &Path) -> bool {
    agent_of(path).is_some()
}

/// The agent whose session a file is.
pub(crate) fn agent_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with(".jsonl.zst") {
        return (name.starts_with("rollout-") && !path.with_extension("").exists())
            .then_some("codex");
    }
    if let Some(agent) = by_name(path, name) {
        return Some(agent);
    }
    let mut file = File::open(path).ok()?;
    let mut beginning = [0; 16];
    if file.read_exact(&mut beginning).is_ok() && beginning == *DATABASE {
        return by_tables(path);
    }
    if path.extension().is_none_or(|ending| ending != "jsonl") {
        return None;
    }
    let end = file.metadata().ok()?.len();
    let mut lines = Lines::new(file, 0, end).ok()?;
    for _ in 0..LOOKED_AT {
        let Some((_, line)) = lines.next().ok()? else { break };
        let Line::Text(line) = line else { continue };
        let found = json::parse::<Value>(line).and_then(|parsed| by_record(&parsed.value));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// By the names of files that no other agent gives its own.
fn by_name(path: &Path, name: &str) -> Option<&'static str> {
    let lies_in = |folder: &str| path.parent().is_some_and(|parent| parent.join(folder).exists());
    match name {
        aider::NAME => Some("aider"),
        vibe::NAME if lies_in("generations") => Some("vibe"),
        kimi::NAME if kimi::about(path).is_some_and(|about| about.exists()) => Some("kimi"),
        "session.json" if is_fast_agent(path) => Some("fast-agent"),
        _ if name.ends_with(cline::ENDING) => Some("cline"),
        _ => None,
    }
}

fn is_fast_agent(path: &Path) -> bool {
    crate::document::note(path).pointer("/continuation/agents").is_some()
}

fn by_tables(path: &Path) -> Option<&'static str> {
    let database = Database::open(path).ok()?;
    if goose::is_one(&database) {
        return Some("goose");
    }
    if cursor::is_one(&database) {
        return Some("cursor");
    }
    let is_kilo = path.to_string_lossy().contains("kilo");
    opencode::is_one(&database).then_some(if is_kilo { "kilo" } else { "opencode" })
}

fn by_record(record: &Value) -> Option<&'static str> {
    let has = |name: &str| record.get(name).is_some();
    let kind = json::text(record, "type").unwrap_or_default();
    if has("sessionId") && has("uuid") && has("parentUuid") {
        let parts = record.pointer("/message/parts");
        let is_qwen = has("provenance") || parts.is_some() || has("systemPayload");
        return Some(if is_qwen { "qwen" } else { "claude" });
    }
    if kind == "session_meta" && has("payload") {
        return Some("codex");
    }
    if has("sessionId") && has("projectHash") {
        return Some("gemini");
    }
    if kind == "session.start" && has("data") {
        return Some("copilot");
    }
    (kind == "session" && has("cwd") && has("timestamp")).then_some("pi")
}
