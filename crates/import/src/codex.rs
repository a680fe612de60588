//! Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`, what the model is told in order.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::Usage;
use rethread_domain::turn::INTERRUPTED;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::archive;
use crate::blocks;
use crate::json::{self, Items, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::{Input, Place};
use crate::speech::{Call, Outcome, Speech, digest};
use crate::{Head, KEPT};

/// What a list of the names of sessions may have at most.
const LONGEST_INDEX: u64 = 64 * 1024 * 1024;
/// So many times a history may begin with another one.
const MOST_BASES: usize = 100;
/// How what Codex itself tells the model in the name of the user begins, in versions that do not say so otherwise.
const INJECTED: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<skills_instructions>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<apps_instructions>",
    "<model_switch>",
    "# AGENTS.md instructions",
];

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Peek {
    r#type: Text,
    payload: Loose<PeekPayload>,
    // Versions before September 2025 have the items themselves on the lines.
    role: Text,
    content: Items<PeekText>,
    id: Text,
    timestamp: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekPayload {
    r#type: Text,
    role: Text,
    model: Text,
    content: Items<PeekText>,
    internal_chat_message_metadata_passthrough: Value,
    num_turns: Value,
    thread_name: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekText {
    text: Text,
}

/// How much of a file is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reach {
    #[default]
    Whole,
    /// What came since the last time.
    End,
    /// That is not enough: something in it is about what lies before.
    TooLittle,
}

#[derive(Default)]
pub(crate) struct Codex {
    pub(crate) head: Head,
    /// The thread that the file is named after.
    thread: String,
    reach: Reach,
    steps: Vec<Step>,
    /// Where in the steps each turn begins.
    turns: Vec<usize>,
    /// Ways that were taken back.
    branches: Vec<String>,
    /// Whether each answer of the model says itself what it used.
    has_records: bool,
    has_meta: bool,
}

impl Codex {
    pub(crate) fn new(path: &Path) -> Self {
        let thread = thread_of(path).unwrap_or_default();
        let head = Head { native: thread.clone(), ..Head::default() };
        Self { head, thread, ..Self::default() }
    }

    pub(crate) fn continued(state: &Value, head: Head) -> Option<Self> {
        let has_records = state.get("has_records")?.as_bool()?;
        let thread = head.native.clone();
        Some(Self {
            head,
            thread,
            reach: Reach::End,
            has_records,
            has_meta: true,
            ..Self::default()
        })
    }

    fn describe(&mut self, meta: &Value) {
        let head = &mut self.head;
        let id = json::text(meta, "id").unwrap_or_default();
        // A fork has the beginning of what it came from, too: its own is the one with its own name.
        if self.has_meta && (id != self.thread || id == head.native) {
            return;
        }
        self.has_meta = true;
        if !id.is_empty() {
            id.clone_into(&mut head.native);
        }
        head.folder = json::text(meta, "cwd").map(str::to_owned);
        head.version = json::text(meta, "cli_version").map(str::to_owned);
        let git = meta.get("git").unwrap_or(meta);
        head.branch = json::text(git, "branch").map(str::to_owned);
        head.commit = json::text(git, "commit_hash").map(str::to_owned);
        head.remote = json::text(git, "repository_url").map(str::to_owned);
        let spawned = meta.pointer("/source/subagent/thread_spawn/parent_thread_id");
        let parent =
            json::text(meta, "parent_thread_id").or_else(|| spawned.and_then(Value::as_str));
        head.parent = parent.map(str::to_owned);
    }

    /// What was said in the last turns was taken back: it goes on before them.
    fn take_back(&mut self, turns: usize) {
        if self.reach != Reach::Whole && turns > self.turns.len() {
            self.reach = Reach::TooLittle;
        }
        let keep = self.turns.len().saturating_sub(turns);
        let Some(from) = self.turns.get(keep).copied() else { return };
        self.turns.truncate(keep);
        self.branches.push(format!("branch-{}", self.branches.len() + 1));
        let number = u32::try_from(self.branches.len()).unwrap_or(u32::MAX);
        for step in self.steps[from..].iter_mut().filter(|step| step.conversation == 0) {
            step.conversation = number;
        }
    }

    fn event(&self, event: &Value, speech: &mut Speech) {
        match json::text(event, "type").unwrap_or_default() {
            "token_count" if !self.has_records => {
                speech.used_before(usage(&event["info"]["last_token_usage"]));
            }
            "turn_aborted" => speech.mark(INTERRUPTED, true.into()),
            _ => (),
        }
    }
}

impl Format for Codex {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, line: &[u8]) {
        let kind = peek.r#type.as_str().unwrap_or_default();
        let payload = peek.payload.0.unwrap_or_default();
        if kind == "session_meta" {
            if let Some(record) = json::parse::<Value>(line) {
                self.describe(&record.value["payload"]);
            }
            return;
        }
        if kind.is_empty() && peek.id.as_str().is_some() && !self.has_meta {
            self.has_meta = true;
            self.head.native = peek.id.owned().unwrap_or_default();
            return;
        }
        let is_item = kind == "response_item" || payload.r#type.as_str().is_none();
        let (role, content) = if kind == "response_item" {
            (&payload.role, &payload.content)
        } else {
            (&peek.role, &peek.content)
        };
        let text = content.0.first().and_then(|first| first.text.as_str()).unwrap_or_default();
        let kinds = payload.internal_chat_message_metadata_passthrough.get("content_item_kinds");
        if is_item && role.is("user") && !is_injected(kinds, text) {
            self.turns.push(self.steps.len());
        }
        if let Some(model) = payload.model.as_str().filter(|_| kind == "turn_context") {
            self.head.model = Some(model.to_owned());
        }
        if let Some(name) = payload.thread_name.as_str() {
            self.head.title = Some((name.to_owned(), TitleFrom::Person));
        }
        self.has_records |= kind == "token_usage_record";
        if payload.r#type.is("thread_rolled_back") {
            let turns = payload.num_turns.as_u64().unwrap_or(0);
            self.take_back(usize::try_from(turns).unwrap_or(usize::MAX));
        }
        if !matches!(kind, "world_state" | "") || payload.r#type.as_str().is_some() {
            self.steps.push(Step { place, conversation: 0, part: 0 });
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        let is_known = self.has_meta || !self.turns.is_empty();
        (is_known && self.reach != Reach::TooLittle && !self.head.native.is_empty())
            .then(|| (self.head.clone(), std::mem::take(&mut self.steps)))
    }

    fn conversation(&self, number: u32) -> String {
        let name = (number as usize).checked_sub(1).and_then(|at| self.branches.get(at));
        name.map_or_else(|| DEFAULT.to_owned(), Clone::clone)
    }

    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech) {
        let at = speech.or_last(record.get("timestamp").and_then(json::time));
        let payload = record.get("payload").unwrap_or(record);
        match json::text(record, "type").unwrap_or_default() {
            "response_item" => item(step, at, payload, speech),
            "event_msg" => self.event(payload, speech),
            "turn_context" => speech.model = json::text(payload, "model").map(str::to_owned),
            "token_usage_record" => speech.used_before(usage(&payload["usage"])),
            "compacted" => {
                let id = format!("{:x}-compacted", step.place.from);
                let kept = json::list(payload, "replacement_history");
                let last =
                    kept.last().map(|last| blocks::read(&last["content"]).0).unwrap_or_default();
                let summary = json::text(payload, "message").map_or(last, str::to_owned);
                speech.compacted(&id, at, &summary);
                let kept = kept.iter().filter(|item| json::text(item, "role") == Some("user"));
                speech.mark(KEPT, kept.filter_map(|item| item.get("id").cloned()).collect());
            }
            "world_state" | "session_meta" | "security_risk_score" => (),
            _ if record.get("payload").is_none() => item(step, at, record, speech),
            _ => speech.record(record),
        }
    }

    fn state(&self) -> Option<Value> {
        self.branches.is_empty().then(|| json!({"has_records": self.has_records}))
    }
}

fn message(id: &str, at: Timestamp, item: &Value, speech: &mut Speech) {
    let parts: Vec<Value> =
        json::list(item, "content").iter().filter(|part| !is_frame(part)).cloned().collect();
    let content = if parts.is_empty() { item["content"].clone() } else { parts.into() };
    let (text, files) = blocks::read(&content);
    match json::text(item, "role").unwrap_or_default() {
        "user" if !is_injected(kinds(item), &text) => speech.user(id, at, &text, &files),
        "assistant" => speech.assistant(id, at, &text, &files),
        _ => (),
    }
}

/// Whether a part of a prompt is what Codex puts before and after a picture.
fn is_frame(part: &Value) -> bool {
    let text = json::text(part, "text").unwrap_or_default();
    let is_opening = text.starts_with("<image name=[Image #") && text.ends_with('>');
    text == "</image>" || is_opening && !text.contains('\n')
}

fn item(step: Step, at: Timestamp, item: &Value, speech: &mut Speech) {
    let place = format!("{:x}-{}", step.place.from, &digest(item.to_string().as_bytes())[..8]);
    let id = json::text(item, "id").unwrap_or(&place);
    let call = json::text(item, "call_id").unwrap_or(id);
    match json::text(item, "type").unwrap_or_default() {
        "message" => message(id, at, item, speech),
        // What one agent hands to another.
        "agent_message" => {
            let (text, files) = blocks::read(&item["content"]);
            speech.user(id, at, &text, &files);
        }
        "reasoning" => {
            for part in json::list(item, "summary").iter().chain(json::list(item, "content")) {
                speech.think(json::text(part, "text").unwrap_or_default());
            }
        }
        "function_call" | "custom_tool_call" => {
            let name = json::text(item, "name").unwrap_or("tool");
            let given = item.get("arguments").or_else(|| item.get("input")).unwrap_or(&Value::Null);
            let parsed = given.as_str().and_then(|text| json::value(text.as_bytes()));
            speech.call(Call::new(call, name, parsed.unwrap_or_else(|| given.clone()), at));
        }
        "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
            let (output, files) = blocks::read(&item["output"]);
            let has_failed = item.pointer("/output/success") == Some(&Value::Bool(false));
            speech.result(call, at, Outcome { output, has_failed, files });
        }
        "local_shell_call" | "tool_search_call" => {
            let input = item.get("action").unwrap_or(item).clone();
            speech.call(Call::new(call, "shell", input, at));
        }
        kind @ ("web_search_call" | "image_generation_call") => {
            let name = kind.trim_end_matches("_call");
            speech.call(Call::new(call, name, item["action"].clone(), at));
            speech.result(call, at, Outcome::default());
        }
        // Readable only for the model.
        "compaction" | "compaction_summary" | "context_compaction" => (),
        _ => speech.record(item),
    }
}

fn kinds(item: &Value) -> Option<&Value> {
    item.pointer("/internal_chat_message_metadata_passthrough/content_item_kinds")
}

/// Whether Codex itself speaks in the name of the user.
fn is_injected(kinds: Option<&Value>, text: &str) -> bool {
    let kinds = kinds.and_then(Value::as_array).filter(|kinds| !kinds.is_empty());
    match kinds {
        Some(kinds) => {
            !kinds.iter().filter_map(Value::as_str).any(|kind| kind.starts_with("user."))
        }
        None => INJECTED.iter().any(|beginning| text.trim_start().starts_with(beginning)),
    }
}

fn usage(value: &Value) -> Usage {
    let tokens = |name| json::number(value, name).min(1 << 50);
    let (input_tokens, output_tokens) = (tokens("input_tokens"), tokens("output_tokens"));
    Usage { input_tokens, output_tokens, cost_usd: None }
}

/// The thread's id at the end of a file's name.
fn thread_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl")?;
    let stem = stem.split('_').next()?;
    stem.get(stem.len().checked_sub(36)?..).map(str::to_owned)
}

/// The name that a thread was given, in the list that older versions keep of them.
pub(crate) fn named(path: &Path, thread: &str) -> Option<String> {
    let is_sessions =
        |folder: &&Path| folder.ends_with("sessions") || folder.ends_with("archived_sessions");
    let root = path.ancestors().find(is_sessions)?.parent()?;
    let index = File::open(root.join("session_index.jsonl")).ok()?;
    let lines = BufReader::new(index.take(LONGEST_INDEX)).split(b'\n');
    let mut name = None;
    for line in lines.map_while(Result::ok) {
        let Some(record) = json::value(&line) else { continue };
        if json::text(&record, "id") == Some(thread) {
            name = json::text(&record, "thread_name").map(str::to_owned);
        }
    }
    name
}

/// Opens a rollout: compressed ones are unpacked, and forks begin with what they share with another file. A thread that went
/// back has a file for each way that it took, which begins with what it shares with the one before.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Input>> {
    Ok(open_within(path, MOST_BASES)?.0)
}

/// Also gives where the file's own part begins.
fn open_within(path: &Path, most: usize) -> io::Result<(Box<dyn Input>, u64)> {
    let own = unpacked(path)?;
    let mut first = Vec::new();
    let mut reader = BufReader::new(own);
    reader.by_ref().take(LONGEST_INDEX).read_until(b'\n', &mut first)?;
    let own = reader.into_inner();
    let meta = json::value(&first).unwrap_or_default();
    let base = meta.pointer("/payload/history_base").filter(|_| most > 0);
    let shared = base.and_then(|base| {
        let end = base.get("end_byte_offset")?.as_u64()?;
        Some((beside(path, json::text(base, "thread_id")?)?, end))
    });
    match shared {
        None => Ok((Box::new(own), 0)),
        Some((base, end)) => {
            let (mut base, begins) = open_within(&base, most - 1)?;
            let base_bytes = base.seek(SeekFrom::End(0))?.min(begins.saturating_add(end));
            Ok((Box::new(Spliced { base, base_bytes, own, at: 0 }), base_bytes))
        }
    }
}

/// The rollout of another thread, or of the way that this one took before: its name ends with that id.
fn beside(path: &Path, id: &str) -> Option<PathBuf> {
    let root = path.ancestors().find(|folder| folder.ends_with("sessions"))?;
    let mut found = None;
    crate::find::walk(root, 0, &mut |other| {
        let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl");
        if stem.is_some_and(|stem| stem.ends_with(id)) && other != path {
            found = Some(other.to_owned());
        }
    });
    found
}

fn unpacked(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if path.extension().is_none_or(|extension| extension != "zst") {
        return Ok(file);
    }
    let mut plain = tempfile::tempfile()?;
    archive::copy_within(&mut zstd::stream::Decoder::new(file)?, &mut plain, archive::room())?;
    plain.seek(SeekFrom::Start(0))?;
    Ok(plain)
}

/// The beginning of one file, and another one after it.
struct Spliced {
    base: Box<dyn Input>,
    base_bytes: u64,
    own: File,
    at: u64,
}

impl Read for Spliced {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = if self.at < self.base_bytes {
            let left = usize::try_from(self.base_bytes - self.at).unwrap_or(usize::MAX);
            let most = into.len().min(left);
            self.base.seek(SeekFrom::Start(self.at))?;
            self.base.read(&mut into[..most])?
        } else {
            self.own.seek(SeekFrom::Start(self.at - self.base_bytes))?;
            self.own.read(into)?
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Spliced {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => {
                (self.base_bytes + self.own.seek(SeekFrom::End(0))?).saturating_add_signed(by)
            }
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}
