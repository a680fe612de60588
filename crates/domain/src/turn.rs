//! A turn: what an agent says and does from one request to the next, folded from a stream of updates.
//!
//! Updates are written down while they stream; when the turn ends, or when it turns out that nobody will end it,
//! they become messages. Both ways lead through [`Turn`], so a crash changes nothing but the mark.

mod tool;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::message::{Extras, NewMessage, Role, Usage};
use crate::price::Price;

/// The mark on the last message of a turn that nobody ended.
pub const INTERRUPTED: &str = "interrupted";
/// Where a message says why its turn ended, unless by itself.
pub(crate) const STOP: &str = "stop";
pub(crate) const ERROR: &str = "error";
/// What is kept of raw updates and of a tool's raw fields.
pub const MOST_RAW_BYTES: usize = 64 * 1024;
/// What is kept of the output of one tool call.
pub const MOST_OUTPUT_BYTES: usize = 4 * 1024 * 1024;
/// How many refused requests of one turn are listed.
const MOST_REFUSED: usize = 100;
/// What something takes beside its text.
const FRAME_BYTES: usize = 256;

/// One thing that an agent says or does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Update {
    Text {
        text: String,
    },
    Thought {
        text: String,
    },
    /// A tool call begins or goes on: fields that are there replace those from before.
    Tool(Tool),
    /// The whole plan, as the agent gave it.
    Plan {
        entries: Value,
    },
    /// Tokens and cost of the turn.
    Usage {
        #[serde(default)]
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
    },
    /// How full the context is, and what the native session has cost so far.
    Context {
        used: u64,
        size: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent_usd: Option<f64>,
    },
    Title {
        title: String,
    },
    Mode {
        mode: String,
    },
    /// A question of the agent, and what it was told.
    Permission(Permission),
    /// Of a kind that we do not know: kept as it came.
    Other {
        raw: Value,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// All of its output so far, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Everything else that the agent sent of it: arguments, places, unknown fields.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub raw: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// The tool call that it is about.
    pub tool: String,
    pub title: String,
    pub kind: String,
    /// What was answered: the kind of the chosen option, or `cancelled`.
    pub answer: String,
    /// Who answered: `user`, `grant`, `policy`.
    pub by: String,
}

impl Permission {
    /// Whether the agent was not allowed to do it.
    pub fn is_refused(&self) -> bool {
        !self.answer.starts_with("allow")
    }
}

impl Update {
    /// Takes up what follows, where both together are one piece of text.
    pub fn join(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Text { text }, Self::Text { text: more })
            | (Self::Thought { text }, Self::Thought { text: more }) => {
                text.push_str(more);
                true
            }
            _ => false,
        }
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let inside = match self {
            Self::Text { text }
            | Self::Thought { text }
            | Self::Title { title: text }
            | Self::Mode { mode: text } => text.len(),
            Self::Tool(tool) => tool.bytes(),
            Self::Plan { entries: value } | Self::Other { raw: value } => bytes(value),
            Self::Permission(asked) => asked.title.len() + asked.tool.len(),
            Self::Usage { .. } | Self::Context { .. } => 0,
        };
        FRAME_BYTES + inside
    }

    /// Whether it shows that the agent has begun to answer.
    pub fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Text { .. }
                | Self::Thought { .. }
                | Self::Tool(_)
                | Self::Plan { .. }
                | Self::Permission(_)
        )
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The agent said so, with its reason.
    Stopped(String),
    /// The agent refused to go on, and said why.
    Failed(String),
    /// The agent or we were gone before it was over.
    Interrupted,
}

#[derive(Debug, Clone)]
struct Piece {
    at: Timestamp,
    what: What,
    thoughts: String,
    permissions: Vec<Permission>,
}

#[derive(Debug, Clone)]
enum What {
    Text(String),
    Tool(Tool),
}

/// The turn so far.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pieces: Vec<Piece>,
    /// Thoughts that nothing has followed yet.
    thoughts: Option<(Timestamp, String)>,
    plan: Option<Value>,
    raw: Vec<Value>,
    raw_bytes: usize,
    /// About how much memory all of it takes.
    bytes: usize,
    /// Updates of unknown kinds that were too many to keep.
    dropped: u32,
    usage: Option<(u64, u64)>,
    context: Option<(u64, u64)>,
    spent_usd: Option<f64>,
    title: Option<String>,
    mode: Option<String>,
}

impl Turn {
    pub fn take(&mut self, update: Update, at: Timestamp) {
        self.bytes += match &update {
            // Of unknown ones, only some are kept; what tools send anew is put in the place of what they sent before.
            Update::Other { .. } | Update::Tool(_) => 0,
            Update::Text { text } | Update::Thought { text } => text.len(),
            other => other.bytes(),
        };
        match update {
            Update::Text { text } => self.say(&text, at),
            Update::Thought { text } => {
                self.thoughts.get_or_insert_with(|| (at, String::new())).1.push_str(&text);
            }
            Update::Tool(tool) => self.call(tool, at),
            Update::Plan { entries } => self.plan = Some(entries),
            Update::Usage { input_tokens, output_tokens } => {
                self.usage = Some((input_tokens, output_tokens));
            }
            Update::Context { used, size, spent_usd } => {
                self.context = Some((used, size));
                self.spent_usd = spent_usd.or(self.spent_usd);
            }
            Update::Title { title } => self.title = Some(title),
            Update::Mode { mode } => self.mode = Some(mode),
            Update::Permission(permission) => self.permitted(permission, at),
            Update::Other { raw } => self.keep(raw),
        }
    }

    fn say(&mut self, text: &str, at: Timestamp) {
        let thoughts = self.thoughts.take();
        match self.pieces.last_mut() {
            Some(Piece { what: What::Text(said), .. }) if thoughts.is_none() => said.push_str(text),
            _ => {
                let thoughts = thoughts.map_or_else(String::new, |(_, thoughts)| thoughts);
                self.push(What::Text(text.to_owned()), at, thoughts);
            }
        }
    }

    fn push(&mut self, what: What, at: Timestamp, thoughts: String) {
        self.bytes += FRAME_BYTES;
        self.pieces.push(Piece { at, what, thoughts, permissions: Vec::new() });
    }

    fn called(&mut self, id: &str) -> Option<&mut Piece> {
        self.pieces
            .iter_mut()
            .rev()
            .find(|piece| matches!(&piece.what, What::Tool(tool) if tool.id == id))
    }

    fn call(&mut self, tool: Tool, at: Timestamp) {
        if let Some(Piece { what: What::Tool(known), .. }) = self.called(&tool.id) {
            let before = known.bytes();
            known.take(tool);
            let after = known.bytes();
            self.bytes = (self.bytes + after).saturating_sub(before);
            return;
        }
        self.bytes += tool.bytes();
        let thoughts = self.thoughts.take().map_or_else(String::new, |(_, thoughts)| thoughts);
        self.push(What::Tool(tool), at, thoughts);
    }

    fn permitted(&mut self, permission: Permission, at: Timestamp) {
        if self.called(&permission.tool).is_none() {
            let tool = Tool {
                id: permission.tool.clone(),
                title: Some(permission.title.clone()),
                kind: Some(permission.kind.clone()),
                ..Tool::default()
            };
            self.call(tool, at);
        }
        if let Some(piece) = self.called(&permission.tool) {
            piece.permissions.push(permission);
        }
    }

    fn keep(&mut self, raw: Value) {
        let bytes = raw.to_string().len();
        if self.raw_bytes + bytes > MOST_RAW_BYTES {
            self.dropped += 1;
            return;
        }
        self.raw_bytes += bytes;
        self.raw.push(raw);
    }

    /// Whether the agent has said or done anything.
    pub fn is_answered(&self) -> bool {
        !self.pieces.is_empty() || self.thoughts.is_some() || self.plan.is_some()
    }

    /// About how much memory the turn takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was said, without thoughts and tools.
    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match &piece.what {
            What::Text(text) => Some(text.as_str()),
            What::Tool(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// What the agent asked for and was refused, in the order of its requests.
    pub fn refused(&self) -> Vec<Permission> {
        let asked = self.pieces.iter().flat_map(|piece| &piece.permissions);
        asked.filter(|asked| asked.is_refused()).take(MOST_REFUSED).cloned().collect()
    }

    /// The last piece of text, where one has more than white space.
    pub fn last_text(&self) -> Option<&str> {
        self.pieces.iter().rev().find_map(|piece| match &piece.what {
            What::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            What::Tool(_) => None,
        })
    }

    pub fn uses_tools(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece.what, What::Tool(_)))
    }

    /// The title that the agent gave the conversation.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What the native session has cost so far, by the agent's own count.
    pub fn spent_usd(&self) -> Option<f64> {
        self.spent_usd
    }

    pub fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// Tokens in the context and its size, as the agent last told.
    pub fn context(&self) -> Option<(u64, u64)> {
        self.context
    }

    /// The turn as messages, in the order in which its pieces began. `cost_usd` is what this turn cost.
    pub fn messages(mut self, by: &Speaker<'_>, end: &End, now: Timestamp) -> Vec<NewMessage> {
        let leftover = self.thoughts.take();
        let is_bare = self.pieces.is_empty();
        let is_cut = !matches!(end, End::Stopped(_));
        if leftover.is_some() || (is_bare && (is_cut || self.has_extras())) {
            let (at, thoughts) = leftover.unwrap_or((now, String::new()));
            self.push(What::Text(String::new()), at, thoughts);
        }
        let pieces = std::mem::take(&mut self.pieces);
        let mut messages: Vec<NewMessage> =
            pieces.into_iter().map(|piece| piece.message(by)).collect();
        let Some(last) = messages.last_mut() else { return messages };
        self.finish(&mut last.extras, by, end);
        messages
    }

    fn has_extras(&self) -> bool {
        self.plan.is_some() || !self.raw.is_empty()
    }

    /// What is true of the turn as a whole goes with its last message.
    fn finish(&mut self, extras: &mut Extras, by: &Speaker<'_>, end: &End) {
        if self.usage.is_some() || by.cost_usd.is_some() {
            let (input_tokens, output_tokens) = self.usage.unwrap_or_default();
            extras.usage = Some(Usage { input_tokens, output_tokens, cost_usd: by.cost_usd });
        }
        let mut put = |name: &str, value: Value| drop(extras.other.insert(name.to_owned(), value));
        if let Some(plan) = self.plan.take() {
            put("plan", plan);
        }
        if let Some((used, size)) = self.context {
            put("context", json!({ "used": used, "size": size }));
        }
        if !self.raw.is_empty() {
            put("updates", Value::Array(std::mem::take(&mut self.raw)));
        }
        if self.dropped > 0 {
            put("updates_dropped", self.dropped.into());
        }
        match end {
            End::Interrupted => put(INTERRUPTED, true.into()),
            End::Failed(why) => put(ERROR, why.as_str().into()),
            End::Stopped(reason) if reason != "end_turn" => put(STOP, reason.as_str().into()),
            End::Stopped(_) => (),
        }
    }
}

/// Who speaks, and in which conversation.
#[derive(Debug, Clone, Copy)]
pub struct Speaker<'a> {
    pub agent: &'a str,
    pub model: Option<&'a str>,
    pub conversation: &'a str,
    pub cost_usd: Option<f64>,
}

impl Piece {
    fn message(self, by: &Speaker<'_>) -> NewMessage {
        let mut other = Map::new();
        if !self.thoughts.is_empty() {
            other.insert("thoughts".to_owned(), self.thoughts.into());
        }
        if !self.permissions.is_empty() {
            let asked = serde_json::to_value(&self.permissions).unwrap_or_default();
            other.insert("permissions".to_owned(), asked);
        }
        let (role, content, tool_calls) = match self.what {
            What::Text(text) => (Role::Assistant, text, None),
            What::Tool(tool) => (Role::Tool, tool.describe(), Some(tool.record())),
        };
        NewMessage {
            id: None,
            role,
            content,
            at: self.at,
            conversation: by.conversation.to_owned(),
            extras: Extras {
                agent: Some(by.agent.to_owned()),
                model: by.model.map(str::to_owned),
                tool_calls,
                other,
                ..Extras::default()
            },
            price: Price::default(),
        }
    }
}

/// About how much memory a tree takes.
fn bytes(value: &Value) -> usize {
    const NODE: usize = 64;
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(bytes).sum(),
        Value::Object(all) => {
            all.iter().map(|(name, value)| name.len() + NODE + bytes(value)).sum()
        }
        _ => 0,
    }
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests;
