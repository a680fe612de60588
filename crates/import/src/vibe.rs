//! Vibe: `~/.vibe/logs/session/unified/<session>/`, snapshots that are cut into chunks, and a journal of what came since.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use serde_json::Value;

use crate::document::{note, record, records};
use crate::lines::{Line, Lines, Place};
use crate::reading::{Reading, Source};
use crate::speech::{Call, Outcome, Speech};
use crate::{Found, Head, KEPT, Unread, blocks, json};

/// The file that says which snapshot counts.
pub(crate) const NAME: &str = "CURRENT";
/// A session has at most so many chunks, and so many files of its journal are read.
const MOST_FILES: usize = 100_000;

/// Where an entry is: in which file, where, and which step of a change it is.
#[derive(Debug, Clone, Copy)]
struct Spot {
    file: usize,
    place: Place,
    /// The step of a change in the journal; `None` in a chunk.
    step: Option<usize>,
}

#[derive(Default)]
struct Entries {
    files: Vec<PathBuf>,
    spots: Vec<Option<Spot>>,
    by_id: HashMap<String, usize>,
}

impl Entries {
    fn put(&mut self, id: &str, spot: Spot) {
        match self.by_id.get(id) {
            Some(known) => self.spots[*known] = Some(spot),
            None => {
                self.by_id.insert(id.to_owned(), self.spots.len());
                self.spots.push(Some(spot));
            }
        }
    }

    fn chunk(&mut self, path: PathBuf, unread: &mut Vec<Unread>) -> io::Result<()> {
        let mut input = File::open(&path)?;
        let (places, is_whole) = records(&mut input, None)?;
        if !is_whole {
            unread.push(Unread {
                at: None,
                why: format!("{} has no end, or too many records", path.display()),
            });
        }
        let file = self.files.len();
        self.files.push(path);
        for place in places {
            if let Some(entry) = record(&mut input, place, unread)? {
                let id = json::text(&entry, "id").unwrap_or_default();
                self.put(id, Spot { file, place, step: None });
            }
        }
        Ok(())
    }

    /// What came since the snapshot.
    fn journal(&mut self, path: PathBuf) -> io::Result<()> {
        let input = File::open(&path)?;
        let end = input.metadata()?.len();
        let file = self.files.len();
        self.files.push(path);
        let mut lines = Lines::new(input, 0, end)?;
        while let Some((place, line)) = lines.next()? {
            let Line::Text(line) = line else { continue };
            let Some(change) = json::parse::<Value>(line) else { continue };
            for (step, change) in json::list(&change.value["payload"], "delta").iter().enumerate() {
                let spot = Spot { file, place, step: Some(step) };
                let id = change.get("id").or_else(|| change.pointer("/entry/id"));
                let id = id.and_then(Value::as_str).unwrap_or_default();
                match json::text(change, "op").unwrap_or_default() {
                    "append_entry" | "replace_entry" => self.put(id, spot),
                    "remove_entry" => {
                        if let Some(at) = self.by_id.remove(id) {
                            self.spots[at] = None;
                        }
                    }
                    _ => (),
                }
            }
        }
        Ok(())
    }
}

/// The entries of a session.
pub(crate) struct Vibe {
    files: Vec<PathBuf>,
    spots: std::vec::IntoIter<Option<Spot>>,
    open: Option<(usize, File)>,
    /// What the model is told in place of what came before the last summary.
    summary: Option<String>,
    /// Prompts that the model is told as they were beside that summary, by their texts.
    kept: Vec<String>,
    kept_ids: Vec<Value>,
    /// How many summaries are still to come.
    summaries: usize,
}

/// The files whose change is a change of the session.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let newest = path.parent().map(|folder| journals(folder, "")).unwrap_or_default();
    std::iter::once(path.to_owned()).chain(newest.into_iter().next_back()).collect()
}

/// The files of the journal from this one on, in their order.
fn journals(folder: &Path, from: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("journal"));
    let entries = entries.into_iter().flatten().flatten().take(MOST_FILES);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name >= from && path.extension().is_some_and(|ending| ending == "jsonl")
    });
    found.sort();
    found
}

/// A name of hexadecimal or decimal digits, and nothing else that could lead elsewhere.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Vibe {
    pub(crate) fn open(found: &Found) -> Option<Reading<Self>> {
        let folder = found.path.parent().unwrap_or(Path::new("/"));
        let current = note(&found.path);
        let generation = json::text(&current, "generation").filter(|name| is_plain(name));
        let snapshot = folder.join("generations").join(generation.unwrap_or("none"));
        let manifest = note(&snapshot.join("manifest.json"));
        let chunks = |part: &str| -> Vec<PathBuf> {
            let names = json::list(&manifest[part], "chunks").iter().filter_map(Value::as_str);
            let names = names.filter(|name| is_plain(name)).take(MOST_FILES);
            names.map(|name| folder.join("chunks").join(format!("{name}.json"))).collect()
        };
        let (mut entries, mut unread) = (Entries::default(), Vec::new());
        for path in chunks("projection_state") {
            let name = path.display().to_string();
            if let Err(error) = entries.chunk(path, &mut unread) {
                unread.push(Unread { at: None, why: format!("{name}: {error}") });
            }
        }
        let since = manifest.pointer("/recovery_journal_segment/path").and_then(Value::as_str);
        let since = since.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        for path in journals(folder, since) {
            let name = path.display().to_string();
            if let Err(error) = entries.journal(path) {
                unread.push(Unread { at: None, why: format!("{name}: {error}") });
            }
        }
        let is_summary = |id: &&String| id.starts_with("checkpoint-compaction-");
        let summaries = entries.by_id.keys().filter(is_summary).count();
        let (summary, kept) = summed_up(&chunks("checkpoint"));
        let spots = entries.spots.into_iter();
        let (open, kept_ids) = (None, Vec::new());
        let own = Self { files: entries.files, spots, open, summary, kept, kept_ids, summaries };
        if own.spots.as_slice().is_empty() {
            return None;
        }
        let head = head(folder, &current);
        Some(Reading::new(own, head, Speech::new(found.agent), unread))
    }

    fn entry(&mut self, spot: Spot, unread: &mut Vec<Unread>) -> io::Result<Option<Value>> {
        let file = match self.open.take() {
            Some((number, file)) if number == spot.file => file,
            _ => File::open(&self.files[spot.file])?,
        };
        let (_, file) = self.open.insert((spot.file, file));
        let found = record(file, spot.place, unread)?;
        Ok(match spot.step {
            Some(step) => found
                .and_then(|found| found.pointer(&format!("/payload/delta/{step}/entry")).cloned()),
            None => found,
        })
    }

    fn take(&mut self, entry: &Value, speech: &mut Speech) {
        let at = speech.or_last(entry.get("createdAt").and_then(json::time));
        let id = json::text(entry, "id").unwrap_or_default();
        let is_discarded = entry.pointer("/outcome/type").and_then(Value::as_str);
        if is_discarded == Some("discarded") {
            return;
        }
        let (text, files) = blocks::read(&entry["content"]);
        match (json::text(entry, "type").unwrap_or_default(), json::text(entry, "role")) {
            ("message", Some("user")) => {
                speech.user(id, at, &text, &files);
                if self.kept.contains(&text) {
                    self.kept_ids.push(id.into());
                }
            }
            ("message", Some("assistant")) => speech.assistant(id, at, &text, &files),
            ("reasoning", _) => speech.think(json::text(entry, "text").unwrap_or_default()),
            ("effect", _) => effect(id, at, entry, speech),
            ("checkpoint", _) if json::text(entry, "kind") == Some("compaction") => {
                self.compacted(id, at, entry, speech);
            }
            ("message" | "checkpoint" | "notice" | "callback", _) => (),
            _ => speech.record(entry),
        }
    }

    /// Only the newest summary is kept by Vibe.
    fn compacted(&mut self, id: &str, at: Timestamp, entry: &Value, speech: &mut Speech) {
        self.summaries = self.summaries.saturating_sub(1);
        let has_failed = entry["details"].get("error").is_some_and(|error| !error.is_null());
        if has_failed || json::text(entry, "generationStatus") != Some("completed") {
            return;
        }
        let newest = self.summary.take_if(|_| self.summaries == 0);
        let told = newest.as_deref().or_else(|| json::text(entry, "message"));
        speech.compacted(id, at, told.unwrap_or("Context compacted"));
        if newest.is_some() {
            speech.mark(KEPT, std::mem::take(&mut self.kept_ids).into());
        }
    }
}

impl Source for Vibe {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let Some(spot) = self.spots.next() else { return Ok(false) };
        if let Some(spot) = spot
            && let Some(entry) = self.entry(spot, unread)?
        {
            self.take(&entry, speech);
        }
        Ok(true)
    }
}

/// The summary in what the model is told, and the prompts that are told beside it.
fn summed_up(chunks: &[PathBuf]) -> (Option<String>, Vec<String>) {
    let mut prompts = Vec::new();
    for path in chunks {
        let told = note(path);
        for one in told.as_array().map_or(&[][..], Vec::as_slice) {
            let (text, _) = blocks::read(&one["message"]["content"]);
            let inside = text.split_once("<compaction_summary>");
            let inside = inside.and_then(|(_, rest)| rest.split_once("</compaction_summary>"));
            if let Some((summary, _)) = inside {
                return (Some(summary.trim().to_owned()), prompts);
            }
            let is_prompt = json::text(one, "source") == Some("history");
            if is_prompt && json::text(&one["message"], "role") == Some("user") {
                prompts.push(text);
            }
        }
    }
    (None, Vec::new())
}

fn head(folder: &Path, current: &Value) -> Head {
    let about = note(&folder.join("meta.json"));
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let text = |name: &str| json::text(&about, name).map(str::to_owned);
    let native = json::text(current, "session_id").unwrap_or(name);
    let is_manual = json::text(&about, "title_source") == Some("manual");
    let from = if is_manual { TitleFrom::Person } else { TitleFrom::Agent };
    let cwd = about.pointer("/environment/working_directory").and_then(Value::as_str);
    Head {
        native: native.to_owned(),
        folder: cwd.map(str::to_owned).or_else(|| text("origin_directory")),
        branch: text("git_branch"),
        commit: text("git_commit"),
        title: text("title").map(|title| (title, from)),
        model: json::text(&about["config"], "model_name").map(str::to_owned),
        parent: text("parent_session_id"),
        ..Head::default()
    }
}

fn effect(id: &str, at: Timestamp, entry: &Value, speech: &mut Speech) {
    let (detail, state) = (&entry["detail"], &entry["state"]);
    let name = json::text(detail, "toolName").or_else(|| json::text(entry, "title"));
    speech.call(Call::new(id, name.unwrap_or("tool"), detail["input"].clone(), at));
    let status = json::text(state, "status").unwrap_or_default();
    if matches!(status, "pending" | "running" | "in_progress") {
        return;
    }
    let at = entry.get("updatedAt").and_then(json::time).unwrap_or(at);
    let result = &state["output"];
    let (text, files) = blocks::read(&result["content"]);
    let plain = json::text(state, "outputText").map_or(text, str::to_owned);
    let output = if plain.is_empty() { structured(&result["structured_content"]) } else { plain };
    let has_failed = status != "completed" || json::text(result, "type") == Some("error");
    speech.result(id, at, Outcome { output, has_failed, files });
}

/// What a tool gave as fields: of commands, what they printed.
fn structured(fields: &Value) -> String {
    let printed = ["stdout", "stderr"].map(|name| json::text(fields, name).unwrap_or_default());
    let printed = printed.concat();
    match fields {
        Value::Null => String::new(),
        _ if printed.is_empty() => fields.to_string(),
        _ => printed,
    }
}
