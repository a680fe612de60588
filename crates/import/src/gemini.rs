//! Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<minute>-<id>.jsonl`, a log of changes to a list of messages.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::json::{self, Items, Loose, Text};
use crate::jsonl::{Format, Step};
use crate::lines::Place;
use crate::speech::{Call, Outcome, Speech, short_digest};
use crate::{COMPACTED, Head, parts};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Peek {
    #[serde(rename = "sessionId")]
    session_id: Text,
    summary: Text,
    id: Text,
    r#type: Text,
    #[serde(rename = "$set")]
    set: Loose<PeekSet>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekSet {
    summary: Text,
    messages: Option<Items<PeekMessage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PeekMessage {
    id: Text,
}

/// A message, by where it was last written.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    step: Step,
}

#[derive(Default)]
pub(crate) struct Gemini {
    head: Head,
    live: Vec<Entry>,
    live_at: HashMap<u64, usize>,
    /// What a later list did not have any more, in its order.
    dropped: Vec<Entry>,
    /// Where each message was written by itself: lists repeat it with another time.
    written: HashMap<u64, Step>,
    /// What was taken back, with the number of its way.
    taken_back: Vec<Entry>,
    ways: u32,
    /// The first message of a list that has taken the place of what was said before.
    compacted_at: Option<Step>,
    /// Whether what Gemini tells the model first stood there: the summary comes next.
    is_summary_next: bool,
}

impl Gemini {
    pub(crate) fn new(path: &Path) -> Self {
        let chats = path.ancestors().find(|folder| folder.ends_with("chats"));
        let project = chats.and_then(Path::parent);
        let mut head = Head::default();
        let root =
            project.and_then(|project| std::fs::read_to_string(project.join(".project_root")).ok());
        head.folder = root.map(|root| root.trim().to_owned()).filter(|root| root.starts_with('/'));
        if head.folder.is_none() {
            head.folder = project.and_then(by_registry);
        }
        let above = path.parent().filter(|above| Some(*above) != chats);
        head.parent =
            above.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned);
        Self { head, ..Self::default() }
    }

    fn say(&mut self, id: &str, place: Place) {
        let id = short_digest(id.as_bytes());
        let step = Step { place, conversation: 0, part: 0 };
        self.written.insert(id, step);
        match self.live_at.get(&id).and_then(|at| self.live.get_mut(*at)) {
            Some(known) => known.step = step,
            None => {
                self.live_at.insert(id, self.live.len());
                self.live.push(Entry { id, step });
            }
        }
    }

    fn find_anew(&mut self) {
        self.live_at = self.live.iter().enumerate().map(|(at, one)| (one.id, at)).collect();
    }

    /// A list takes the place of all that was said before.
    fn replace(&mut self, place: Place, messages: &[PeekMessage]) {
        let mut list = Vec::with_capacity(messages.len());
        for (part, message) in (1..).zip(messages) {
            let Some(id) = message.id.as_str() else { continue };
            let id = short_digest(id.as_bytes());
            let own = Step { place, conversation: 0, part };
            list.push(Entry { id, step: self.written.get(&id).copied().unwrap_or(own) });
        }
        let kept: HashSet<u64> = list.iter().map(|one| one.id).collect();
        let before = std::mem::replace(&mut self.live, list);
        self.dropped.extend(before.into_iter().filter(|one| !kept.contains(&one.id)));
        self.dropped.retain(|one| !kept.contains(&one.id));
        self.find_anew();
    }

    fn rewind(&mut self, to: &str) {
        let id = short_digest(to.as_bytes());
        let from = self.live.iter().position(|one| one.id == id).unwrap_or(0);
        self.ways += 1;
        let number = self.ways;
        let back = self.live.drain(from..).map(|one| {
            let step = Step { conversation: number, ..one.step };
            Entry { step, ..one }
        });
        self.taken_back.extend(back);
        self.find_anew();
    }
}

impl Format for Gemini {
    type Peek = Peek;

    fn survey(&mut self, place: Place, peek: Peek, _: &[u8]) {
        if let Some(id) = peek.session_id.owned() {
            self.head.native = id;
        }
        let set = peek.set.0.unwrap_or_default();
        if let Some(summary) = set.summary.owned().or(peek.summary.owned()) {
            self.head.title = Some((summary, TitleFrom::Agent));
        }
        if let Some(messages) = set.messages {
            self.replace(place, &messages.0);
        } else if let Some(to) = peek.rewind_to.as_str() {
            self.rewind(to);
        } else if let Some(id) = peek.id.as_str().filter(|_| peek.r#type.as_str().is_some()) {
            self.say(id, place);
        }
    }

    fn plan(&mut self) -> Option<(Head, Vec<Step>)> {
        if self.head.native.is_empty() {
            return None;
        }
        // A list that only has what Gemini tells the model first wipes what was said, and is a known fault: the talk is
        // still in the file. Any other list that is shorter sums up what came before.
        if self.live.len() > 1 && !self.dropped.is_empty() {
            self.compacted_at = self.live.first().map(|one| one.step);
        }
        self.dropped.retain(|one| !self.live_at.contains_key(&one.id));
        let all = self.taken_back.iter().chain(&self.dropped).chain(&self.live);
        let steps: Vec<Step> = all.map(|one| one.step).collect();
        (!steps.is_empty()).then(|| (self.head.clone(), steps))
    }

    fn conversation(&self, number: u32) -> String {
        if number == 0 { DEFAULT.to_owned() } else { format!("branch-{number}") }
    }

    fn take(&mut self, step: Step, record: &Value, speech: &mut Speech) {
        let part = (step.part as usize).checked_sub(1);
        let message = match part {
            Some(part) => record.pointer("/$set/messages").and_then(|all| all.get(part)),
            None => Some(record),
        };
        if let Some(message) = message {
            let is_next = std::mem::take(&mut self.is_summary_next);
            // What was written by itself before sums up nothing.
            let is_summary = is_next && step.part > 0 || self.compacted_at == Some(step);
            self.is_summary_next = is_summary && is_context(&parts::said(&message["content"]).0);
            say(message, is_summary, speech);
        }
    }
}

/// One message, with its tools.
pub(crate) fn say(message: &Value, is_summary: bool, speech: &mut Speech) {
    let at = speech.or_last(message.get("timestamp").and_then(json::time));
    let id = json::text(message, "id").unwrap_or_default();
    let content = &message["content"];
    let (text, files) = parts::said(content);
    match json::text(message, "type").unwrap_or_default() {
        "user" if is_context(&text) => (),
        "user" if is_summary || text.contains("<state_snapshot>") => {
            speech.compacted(id, at, &text);
        }
        "user" => {
            if !(text.is_empty() && files.is_empty()) {
                speech.user(id, at, &text, &files);
            }
        }
        "gemini" => {
            speech.model = json::text(message, "model").map(str::to_owned);
            speech.used(usage(&message["tokens"]));
            for thought in json::list(message, "thoughts") {
                let told = ["subject", "description"].map(|name| json::text(thought, name));
                let told: Vec<&str> = told.into_iter().flatten().collect();
                speech.think(&told.join(": "));
            }
            parts::thoughts(content, speech);
            speech.assistant(id, at, &text, &files);
            if is_summary {
                speech.mark(COMPACTED, true.into());
            }
            for call in json::list(message, "toolCalls") {
                tool(call, id, speech);
            }
        }
        // What the program says to people alone.
        "info" | "error" | "warning" => (),
        _ => speech.record(message),
    }
}

fn tool(call: &Value, message: &str, speech: &mut Speech) {
    let at = speech.or_last(call.get("timestamp").and_then(json::time));
    let id = json::text(call, "id").unwrap_or(message);
    let name = json::text(call, "name").unwrap_or("tool");
    speech.call(Call::new(id, name, call["args"].clone(), at));
    let status = json::text(call, "status").unwrap_or_default();
    let parts = json::list(call, "result");
    let results = parts.iter().filter_map(|part| part.get("functionResponse"));
    let mut outcomes: Vec<Outcome> = results.map(parts::outcome).collect();
    if outcomes.is_empty() && !matches!(status, "success" | "error" | "cancelled") {
        return;
    }
    let mut outcome = outcomes.pop().unwrap_or_default();
    outcome.has_failed |= matches!(status, "error" | "cancelled");
    speech.result(id, at, outcome);
}

/// What Gemini tells the model before anything is said.
pub(crate) fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("<session_context>")
        || text.starts_with("This is the Gemini CLI. We are setting up")
}

fn usage(tokens: &Value) -> Usage {
    let count = |name| json::number(tokens, name).min(1 << 50);
    let output_tokens = count("output") + count("thoughts");
    Usage { input_tokens: count("input"), output_tokens, cost_usd: None }
}

/// The folder of a project, by the list that Gemini keeps of them.
fn by_registry(project: &Path) -> Option<String> {
    let name = project.file_name()?.to_str()?;
    let registry = project.parent()?.parent()?.join("projects.json");
    let registry = crate::document::note(&registry);
    let projects = registry.get("projects")?.as_object()?;
    projects.iter().find(|(_, slug)| slug.as_str() == Some(name)).map(|(folder, _)| folder.clone())
}
