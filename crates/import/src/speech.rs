//! What is said in a session of another agent, put together as messages: what every format has in common.

use std::collections::{HashSet, VecDeque};

use jiff::Timestamp;
use rethread_domain::conversation;
use rethread_domain::id;
use rethread_domain::message::{DEEPEST_FIELD, Extras, NewMessage, Role, Usage, nests_deeper};
use rethread_domain::price::Price;
use rethread_domain::retell::without_earlier;
use rethread_domain::turn::{MOST_OUTPUT_BYTES, MOST_RAW_BYTES};
use serde_json::{Map, Value, json};

use crate::COMPACTED;

/// Ends the id of a message about a tool call whose result was not there yet: the result comes under the id itself.
pub const UNANSWERED: &str = "+asked";
/// What is shown of a tool's arguments.
const LONGEST_TITLE: usize = 300;
/// Arguments that say what a tool is used on, the most telling first.
const TELLING: &[&str] = &[
    "command",
    "commands",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "input",
];

/// A tool call that was not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) input: Value,
    pub(crate) at: Timestamp,
    /// What the agent thought before it.
    pub(crate) thoughts: String,
    /// The conversation that it was made in: others may go on before the result comes.
    pub(crate) conversation: String,
}

impl Call {
    pub(crate) fn new(id: &str, name: &str, input: Value, at: Timestamp) -> Self {
        let (id, name) = (id.to_owned(), name.to_owned());
        let (thoughts, conversation) = (String::new(), String::new());
        Self { id, name, title: None, input, at, thoughts, conversation }
    }

    pub(crate) fn to_state(&self) -> Value {
        let at = self.at.to_string();
        json!({
            "id": self.id, "name": self.name, "title": self.title, "input": self.input, "at": at,
            "conversation": self.conversation,
        })
    }

    pub(crate) fn from_state(state: &Value) -> Option<Self> {
        let text = |name: &str| state.get(name)?.as_str();
        let (id, name) = (text("id")?.to_owned(), text("name")?.to_owned());
        let input = state.get("input").cloned().unwrap_or_default();
        let at = text("at")?.parse().ok()?;
        let title = text("title").map(str::to_owned);
        let conversation = text("conversation").unwrap_or_default().to_owned();
        Some(Self { title, input, conversation, ..Self::new(&id, &name, Value::Null, at) })
    }

    /// The tool and what it is used on.
    fn describe(&self) -> String {
        match self.title.clone().or_else(|| telling(&self.input)) {
            Some(title) if title != self.name => format!("{}: {}", self.name, cut(&title)),
            _ => self.name.clone(),
        }
    }
}

/// What came of a tool call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) output: String,
    pub(crate) has_failed: bool,
    pub(crate) files: Vec<File>,
}

/// A picture or another file that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) mime: String,
    /// In base 64, where the file was part of the record.
    pub(crate) data: Option<String>,
    pub(crate) name: Option<String>,
}

impl File {
    pub(crate) fn mark(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let bytes = self.data.as_ref().map(|data| format!(", {} bytes", data.len() / 4 * 3));
        format!("[{}{name}{}]", self.mime, bytes.unwrap_or_default())
    }

    fn record(&self, room: &mut usize) -> Value {
        let mut record = Map::new();
        record.insert("mime".to_owned(), self.mime.as_str().into());
        if let Some(name) = &self.name {
            record.insert("name".to_owned(), name.as_str().into());
        }
        if let Some(data) = &self.data {
            let digest = blake3::hash(data.as_bytes()).to_hex();
            record.insert("digest".to_owned(), digest.as_str().into());
            if data.len() <= *room {
                *room -= data.len();
                record.insert("data".to_owned(), data.as_str().into());
            }
        }
        Value::Object(record)
    }
}

/// Puts messages together, in order.
pub(crate) struct Speech {
    agent: &'static str,
    /// Messages go into this conversation.
    pub(crate) conversation: String,
    pub(crate) model: Option<String>,
    ready: VecDeque<NewMessage>,
    calls: Vec<Call>,
    given_up: Vec<Call>,
    thoughts: String,
    usage: Option<Usage>,
    records: Vec<Value>,
    record_bytes: usize,
    used: HashSet<u64>,
    /// When the last thing was said.
    last_at: Timestamp,
}

impl Speech {
    pub(crate) fn new(agent: &'static str) -> Self {
        Self {
            agent,
            conversation: conversation::DEFAULT.to_owned(),
            model: None,
            ready: VecDeque::new(),
            calls: Vec::new(),
            given_up: Vec::new(),
            thoughts: String::new(),
            usage: None,
            records: Vec::new(),
            record_bytes: 0,
            used: HashSet::new(),
            last_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// The next message that is finished: the last one may still get what it cost.
    pub(crate) fn next(&mut self, is_over: bool) -> Option<NewMessage> {
        (is_over || self.ready.len() > 1).then(|| self.ready.pop_front())?
    }

    /// The time of something that says none itself.
    pub(crate) fn or_last(&mut self, at: Option<Timestamp>) -> Timestamp {
        self.last_at = at.unwrap_or(self.last_at);
        self.last_at
    }

    pub(crate) fn user(&mut self, id: &str, at: Timestamp, text: &str, files: &[File]) {
        self.give_up_calls();
        self.settle();
        // What we injected at the beginning is not the user's.
        self.say(Role::User, id, at, &without_earlier(text), files);
    }

    pub(crate) fn assistant(&mut self, id: &str, at: Timestamp, text: &str, files: &[File]) {
        self.say(Role::Assistant, id, at, text, files);
    }

    pub(crate) fn system(&mut self, id: &str, at: Timestamp, text: &str) {
        self.say(Role::System, id, at, &without_earlier(text), &[]);
    }

    /// What the agent wrote in place of all that was said before: its context begins here.
    pub(crate) fn compacted(&mut self, id: &str, at: Timestamp, summary: &str) {
        self.give_up_calls();
        self.settle();
        let before = self.ready.len();
        self.say(Role::System, id, at, summary, &[]);
        if self.ready.len() > before {
            self.mark(COMPACTED, true.into());
        }
    }

    /// Remembers something of the message that was said last.
    pub(crate) fn mark(&mut self, name: &str, value: Value) {
        if let Some(last) = self.ready.back_mut() {
            last.extras.other.insert(name.to_owned(), value);
        }
    }

    pub(crate) fn think(&mut self, text: &str) {
        if !self.thoughts.is_empty() && !text.is_empty() {
            self.thoughts.push_str("\n\n");
        }
        self.thoughts.push_str(text);
    }

    pub(crate) fn call(&mut self, mut call: Call) {
        call.thoughts = std::mem::take(&mut self.thoughts);
        if call.conversation.is_empty() {
            call.conversation.clone_from(&self.conversation);
        }
        self.calls.push(call);
    }

    /// The result of a call. One that nobody knows is a result all the same.
    pub(crate) fn result(&mut self, call: &str, at: Timestamp, outcome: Outcome) {
        let known = self.calls.iter().position(|open| open.id == call);
        let call = match known {
            Some(known) => self.calls.remove(known),
            None => Call {
                conversation: self.conversation.clone(),
                ..Call::new(call, "tool", Value::Null, at)
            },
        };
        let status = if outcome.has_failed { "failed" } else { "completed" };
        self.used_tool(&call, call.id.as_str(), at, status, outcome);
    }

    /// The calls that had no result at the end: it may still come.
    pub(crate) fn given_up(&self) -> &[Call] {
        &self.given_up
    }

    /// What the model used for what is said now.
    pub(crate) fn used(&mut self, usage: Usage) {
        self.usage = sum(self.usage, usage);
    }

    /// What the model used for what was said last, told afterwards.
    pub(crate) fn used_before(&mut self, usage: Usage) {
        match self.ready.back_mut().filter(|last| last.role != Role::User) {
            Some(last) => last.extras.usage = sum(last.extras.usage, usage),
            None => self.used(usage),
        }
    }

    /// Keeps a record of a kind that we do not know, with the next message.
    pub(crate) fn record(&mut self, raw: &Value) {
        let bytes = raw.to_string().len();
        // A level is added where it is kept.
        if self.record_bytes + bytes <= MOST_RAW_BYTES && !nests_deeper(raw, DEEPEST_FIELD - 1) {
            self.record_bytes += bytes;
            self.records.push(raw.clone());
        }
    }

    /// Nothing comes after this: calls without a result are told as such.
    pub(crate) fn finish(&mut self) {
        self.given_up.clone_from(&self.calls);
        let calls = std::mem::take(&mut self.calls);
        self.give_up(calls);
        self.settle();
    }

    /// The calls of this conversation that have no result: something else was said after them.
    fn give_up_calls(&mut self) {
        let here = &self.conversation;
        let calls = self.calls.extract_if(.., |call| call.conversation == *here).collect();
        self.give_up(calls);
    }

    fn give_up(&mut self, calls: Vec<Call>) {
        for call in calls {
            let id = format!("{}{UNANSWERED}", call.id);
            self.used_tool(&call, &id, call.at, "unanswered", Outcome::default());
        }
    }

    /// Thoughts and costs that nothing came of belong to what was said last.
    fn settle(&mut self) {
        let thoughts = std::mem::take(&mut self.thoughts);
        let (usage, records) = (self.usage.take(), std::mem::take(&mut self.records));
        self.record_bytes = 0;
        let Some(last) = self.ready.back_mut() else { return };
        if !thoughts.is_empty() && !last.extras.other.contains_key("thoughts") {
            last.extras.other.insert("thoughts".to_owned(), thoughts.into());
        }
        last.extras.usage = last.extras.usage.or(usage);
        if !records.is_empty() && !last.extras.other.contains_key("updates") {
            last.extras.other.insert("updates".to_owned(), records.into());
        }
    }

    fn say(&mut self, role: Role, id: &str, at: Timestamp, text: &str, files: &[File]) {
        let marks = files.iter().map(File::mark);
        let text = std::iter::once(text.to_owned()).chain(marks);
        let text = text.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        if text.trim().is_empty() {
            return;
        }
        let mut other = Map::new();
        put_files(&mut other, files);
        if role == Role::Assistant && !self.thoughts.is_empty() {
            other.insert("thoughts".to_owned(), std::mem::take(&mut self.thoughts).into());
        }
        self.push(role, id, at, text, None, other);
    }

    fn used_tool(&mut self, call: &Call, id: &str, at: Timestamp, status: &str, outcome: Outcome) {
        let mut text = call.describe();
        if status != "completed" {
            text.push_str(&format!(" ({status})"));
        }
        let marks = outcome.files.iter().map(File::mark);
        for more in
            std::iter::once(outcome.output.clone()).chain(marks).filter(|more| !more.is_empty())
        {
            text.push('\n');
            text.push_str(&more[..more.floor_char_boundary(MOST_OUTPUT_BYTES)]);
        }
        let title = call.describe();
        let mut record = crate::json::object(&[
            ("id", call.id.as_str().into()),
            ("name", call.name.as_str().into()),
            ("title", title.into()),
            ("status", status.into()),
        ]);
        let bytes = call.input.to_string().len();
        if bytes > MOST_RAW_BYTES || nests_deeper(&call.input, DEEPEST_FIELD - 3) {
            record.insert("rawInput".to_owned(), format!("[{bytes} bytes, not kept]").into());
        } else if !call.input.is_null() {
            record.insert("rawInput".to_owned(), call.input.clone());
        }
        let mut other = Map::new();
        if !call.thoughts.is_empty() {
            other.insert("thoughts".to_owned(), call.thoughts.as_str().into());
        }
        put_files(&mut other, &outcome.files);
        let calls = Value::Array(vec![Value::Object(record)]);
        let here = std::mem::replace(&mut self.conversation, call.conversation.clone());
        self.push(Role::Tool, id, at, text, Some(calls), other);
        self.conversation = here;
    }

    fn push(
        &mut self,
        role: Role,
        id: &str,
        at: Timestamp,
        content: String,
        tool_calls: Option<Value>,
        mut other: Map<String, Value>,
    ) {
        self.last_at = at;
        if !self.records.is_empty() {
            other.insert("updates".to_owned(), std::mem::take(&mut self.records).into());
            self.record_bytes = 0;
        }
        let is_agent = matches!(role, Role::Assistant | Role::Tool);
        let is_name = |name: &String| id::check_agent("model", name).is_ok();
        let id = self.unique(id);
        self.ready.push_back(NewMessage {
            id: Some(id),
            role,
            content,
            at,
            conversation: self.conversation.clone(),
            extras: Extras {
                agent: is_agent.then(|| self.agent.to_owned()),
                model: self.model.clone().filter(|name| is_agent && is_name(name)),
                tool_calls,
                usage: if is_agent { self.usage.take() } else { None },
                other,
                ..Extras::default()
            },
            price: Price::default(),
        });
    }

    /// An id that may be one, and was not given before.
    fn unique(&mut self, wanted: &str) -> String {
        let usable = id::check_message_id(wanted).is_ok() && wanted.len() <= 200;
        let base = if usable { wanted.to_owned() } else { digest(wanted.as_bytes()) };
        let mut id = base.clone();
        let mut count = 1_u64;
        while !self.used.insert(short_digest(id.as_bytes())) {
            count += 1;
            id = format!("{base}+{count}");
        }
        id
    }
}

fn sum(known: Option<Usage>, more: Usage) -> Option<Usage> {
    if more == Usage::default() {
        return known;
    }
    let known = known.unwrap_or_default();
    Some(Usage {
        input_tokens: known.input_tokens.saturating_add(more.input_tokens).min(1 << 50),
        output_tokens: known.output_tokens.saturating_add(more.output_tokens).min(1 << 50),
        cost_usd: match (known.cost_usd, more.cost_usd) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        },
    })
}

fn put_files(other: &mut Map<String, Value>, files: &[File]) {
    if !files.is_empty() {
        let mut room = MOST_RAW_BYTES;
        let files = files.iter().map(|file| file.record(&mut room));
        other.insert("attachments".to_owned(), files.collect());
    }
}

/// What a tool is used on, by its arguments.
fn telling(input: &Value) -> Option<String> {
    if let Some(text) = input.as_str() {
        return Some(text.to_owned()).filter(|text| !text.is_empty());
    }
    let found = TELLING.iter().find_map(|name| input.get(*name));
    let words = match found? {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => return None,
    };
    Some(words).filter(|words| !words.is_empty())
}

fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.floor_char_boundary(LONGEST_TITLE);
    if end < line.len() { format!("{}…", &line[..end]) } else { line }
}

/// A digest in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().as_str()[..32].to_owned()
}

/// A digest for tables.
pub(crate) fn short_digest(bytes: &[u8]) -> u64 {
    let mut short = [0; 8];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    u64::from_le_bytes(short)
}
