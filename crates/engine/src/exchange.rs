//! Sessions as files: out without loss, and back in.
//!
//! JSON lines: a `session` line, then its facts and messages; several sessions may follow each other. JSON: an
//! array of such sessions as objects. What sums a session up is told for readers and made anew on the way in.

use std::collections::{HashSet, VecDeque};
use std::io::{BufRead, Write};

use rethread_domain::id::{self, Invalid};
use rethread_domain::message::{Body, Extras, NewMessage};
use rethread_domain::price::Price;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::{Fact, Message, Role, Seq, Session, SessionId};
use rethread_store::{self as store, Dump, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Engine, Error, Result, entry};

const VERSION: u32 = 1;
const PAGE: u32 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Jsonl,
    Json,
}

/// A message as programs see it.
#[derive(Debug, Clone, Serialize)]
pub struct MessageView<'a> {
    pub seq: Seq,
    pub id: String,
    pub role: Role,
    pub content: &'a str,
    pub timestamp: jiff::Timestamp,
    pub conversation: &'a str,
    pub tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<&'a rethread_domain::Usage>,
    /// Fields that we do not know, as they came.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<jiff::Timestamp>,
}

impl<'a> MessageView<'a> {
    pub fn of(session: SessionId, message: &'a Message) -> Self {
        Self {
            seq: message.seq,
            id: message.given_id.clone().unwrap_or_else(|| session.message(message.seq)),
            role: message.role,
            content: match &message.body {
                Body::Whole(text) => text,
                Body::Ends { head, .. } => head,
            },
            timestamp: message.at,
            conversation: &message.conversation,
            tokens: message.price.tokens,
            agent: message.extras.agent.as_deref(),
            model: message.extras.model.as_deref(),
            tool_calls: message.extras.tool_calls.as_ref(),
            usage: message.extras.usage.as_ref(),
            extra: &message.extras.other,
            purged_at: message.purged_at,
        }
    }
}

/// A session as programs see it: what a list shows of it.
pub fn session_view(session: &Session) -> Value {
    json!({
        "session_id": session.id,
        "user_id": session.user,
        "project_id": session.project,
        "kind": session.kind,
        "title": session.title,
        "agent": session.agent,
        "model": session.model,
        "status": session.status,
        "created_at": session.started_at,
        "last_active_at": session.last_active_at,
        "session_summary": session.summary,
        "conversation_count": session.counters.conversations,
        "message_count": session.last_seq,
        "total_tokens": session.counters.tokens,
        "forked_from": session.forked_from,
        "deleted_at": session.deleted_at,
    })
}

/// A message line on its way in.
#[derive(Debug, Deserialize)]
struct MessageLine {
    id: String,
    role: Role,
    content: String,
    timestamp: String,
    conversation: String,
    agent: Option<String>,
    model: Option<String>,
    tool_calls: Option<Value>,
    usage: Option<Value>,
    #[serde(default)]
    extra: Map<String, Value>,
    purged_at: Option<jiff::Timestamp>,
}

impl Engine {
    /// Writes a session out, a page of messages at a time.
    pub async fn export(
        &self,
        id: SessionId,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<()> {
        let session = self.session(id).await?;
        let facts = self.facts(id).await?;
        let head = json!({"type": "session", "version": VERSION, "id": id, "view": session_view(&session)});
        if format == Format::Jsonl {
            line(out, &head)?;
            for fact in &facts {
                line(out, &typed("fact", fact)?)?;
            }
        } else {
            let facts = serde_json::to_string(&facts).map_err(failed)?;
            let view = &head["view"];
            write!(out, "{{\"version\":{VERSION},\"id\":\"{id}\",\"view\":{view},\"facts\":{facts},\"messages\":[")
                .map_err(unwritten)?;
        }
        let mut from = 1;
        loop {
            let page = self.messages(id, Span::after(from, PAGE)).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in &page {
                let view = MessageView::of(id, message);
                if format == Format::Jsonl {
                    line(out, &typed("message", &view)?)?;
                } else {
                    let comma = if message.seq > 1 { "," } else { "" };
                    let text = serde_json::to_string(&view).map_err(failed)?;
                    write!(out, "{comma}\n{text}").map_err(unwritten)?;
                }
            }
            from = last + 1;
        }
        if format == Format::Json {
            out.write_all(b"]}\n").map_err(unwritten)?;
        }
        out.flush().map_err(unwritten)
    }

    /// Takes in sessions that were exported, in either format. Each session comes in whole or not at all.
    pub async fn import(&self, input: &mut (dyn BufRead + Send)) -> Result<Vec<Session>> {
        let mut reader = Reader { input, line: 0, expected: None, values: VecDeque::new() };
        let mut taken = Vec::new();
        while let Some(dump) = reader.next()? {
            reader.check(&dump)?;
            taken.push(self.store.take_in(dump).await?);
        }
        while self.store.index(PAGE).await? > 0 {}
        Ok(taken)
    }
}

/// Reads one session after the other.
struct Reader<'a> {
    input: &'a mut (dyn BufRead + Send),
    line: usize,
    /// How many messages the session says it has.
    expected: Option<u64>,
    /// What was read of a file that is JSON over several lines.
    values: VecDeque<Value>,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Dump>> {
        let Some(head) = self.read_line()? else { return Ok(None) };
        if head.get("type").is_none() {
            return self.whole(head).map(Some);
        }
        let mut dump = self.begin(&head)?;
        // The next session's line is left for the next call.
        while self.peek_is_part()? {
            let Some(mut part) = self.read_line()? else { break };
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            part.as_object_mut().map(|fields| fields.shift_remove("type"));
            match kind.as_str() {
                "fact" => dump.facts.push(self.fact(part)?),
                "message" => dump.messages.push(self.message(part)?),
                other => return Err(self.bad(format!("unknown type {other:?}"))),
            }
        }
        Ok(Some(dump))
    }

    /// Refuses a log that is not whole.
    fn check(&self, dump: &Dump) -> Result<()> {
        if !matches!(dump.facts.first(), Some(FactRecord { fact: Fact::Started(_), .. })) {
            return Err(self.bad("the session does not begin with its start"));
        }
        let found = dump.messages.len();
        if self.expected.is_some_and(|expected| expected != found as u64) {
            return Err(
                self.bad(format!("the session is not whole: it ends after {found} messages"))
            );
        }
        let opened: HashSet<&str> = dump
            .facts
            .iter()
            .filter_map(|record| match &record.fact {
                Fact::Opened { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let unopened =
            dump.messages.iter().find(|(one, _)| !opened.contains(one.conversation.as_str()));
        match unopened {
            Some((one, _)) => {
                Err(self.bad(format!("conversation {:?} was never opened", one.conversation)))
            }
            None => Ok(()),
        }
    }

    fn begin(&mut self, head: &Value) -> Result<Dump> {
        if head.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "session") {
            return Err(self.bad("expected a line of type \"session\""));
        }
        match head.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => (),
            Some(version) => {
                return Err(self.bad(format!("version {version} is newer than this program")));
            }
            None => return Err(self.bad("not an export of a session: it has no version")),
        }
        let id = head.get("id").and_then(Value::as_str).unwrap_or_default();
        let id = id.parse().map_err(|error: Invalid| self.bad(error))?;
        self.expected = head["view"]["message_count"].as_u64();
        Ok(Dump { id, facts: Vec::new(), messages: Vec::new() })
    }

    fn whole(&mut self, mut value: Value) -> Result<Dump> {
        let mut dump = self.begin(&value)?;
        for fact in take_array(&mut value, "facts") {
            dump.facts.push(self.fact(fact)?);
        }
        for message in take_array(&mut value, "messages") {
            dump.messages.push(self.message(message)?);
        }
        Ok(dump)
    }

    fn fact(&self, value: Value) -> Result<FactRecord> {
        let record: FactRecord = serde_json::from_value(value).map_err(|error| self.bad(error))?;
        let checked = match &record.fact {
            Fact::Started(beginning) => check_beginning(beginning),
            Fact::Opened { name, .. } => id::check_conversation(name),
            _ => Ok(()),
        };
        checked.map_err(|error| self.bad(error))?;
        Ok(record)
    }

    fn message(&self, value: Value) -> Result<(NewMessage, Option<jiff::Timestamp>)> {
        let line: MessageLine = serde_json::from_value(value).map_err(|error| self.bad(error))?;
        id::check_conversation(&line.conversation)
            .and_then(|()| id::check_message_id(&line.id))
            .and_then(|()| check_agents(line.agent.as_deref(), line.model.as_deref()))
            .map_err(|error| self.bad(error))?;
        let usage = line.usage.as_ref().map(entry::usage).transpose();
        let at = entry::time(&line.timestamp).map_err(|error| self.bad(error))?;
        let price = if line.purged_at.is_some() {
            Price { tokens: Some(0), ..Price::default() }
        } else {
            Price::of(&line.content)
        };
        let message = NewMessage {
            id: Some(line.id),
            role: line.role,
            content: line.content,
            at,
            conversation: line.conversation,
            extras: Extras {
                agent: line.agent,
                model: line.model,
                tool_calls: line.tool_calls,
                usage: usage.map_err(|error| self.bad(error))?,
                other: line.extra,
            },
            price,
        };
        Ok((message, line.purged_at))
    }

    /// The next line that is not empty. A file that is JSON over several lines is read as a whole.
    fn read_line(&mut self) -> Result<Option<Value>> {
        if let Some(value) = self.values.pop_front() {
            return Ok(Some(value));
        }
        let mut text = String::new();
        while text.trim().is_empty() {
            text.clear();
            if self.input.read_line(&mut text).map_err(|error| self.bad(error))? == 0 {
                return Ok(None);
            }
            self.line += 1;
        }
        match serde_json::from_str(text.trim()) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_eof() && text.trim_start().starts_with('{') => {
                self.input.read_to_string(&mut text).map_err(|error| self.bad(error))?;
                for value in serde_json::Deserializer::from_str(&text).into_iter() {
                    let value =
                        value.map_err(|error| self.bad(format!("not valid JSON: {error}")))?;
                    self.values.push_back(value);
                }
                Ok(self.values.pop_front())
            }
            Err(error) => Err(self.bad(format!("not valid JSON: {error}"))),
        }
    }

    fn peek_is_part(&mut self) -> Result<bool> {
        let next = self
            .input
            .fill_buf()
            .map_err(|error| Error::Import { line: self.line, why: error.to_string() })?;
        Ok(!next.is_empty() && !next.starts_with(b"{\"type\":\"session\""))
    }

    fn bad(&self, why: impl ToString) -> Error {
        Error::Import { line: self.line.max(1), why: why.to_string() }
    }
}

fn check_beginning(beginning: &Beginning) -> std::result::Result<(), Invalid> {
    id::check_user(&beginning.user)?;
    id::check_kind(&beginning.kind)?;
    check_agents(beginning.agent.as_deref(), beginning.model.as_deref())
}

fn check_agents(agent: Option<&str>, model: Option<&str>) -> std::result::Result<(), Invalid> {
    agent.map_or(Ok(()), |name| id::check_agent("agent", name))?;
    model.map_or(Ok(()), |name| id::check_agent("model", name))
}

fn take_array(value: &mut Value, name: &str) -> Vec<Value> {
    match value.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn typed(kind: &str, value: &impl Serialize) -> Result<Value> {
    let mut out = Map::new();
    out.insert("type".to_owned(), kind.into());
    if let Value::Object(fields) = serde_json::to_value(value).map_err(failed)? {
        out.extend(fields);
    }
    Ok(Value::Object(out))
}

fn line(out: &mut (dyn Write + Send), value: &Value) -> Result<()> {
    writeln!(out, "{value}").map_err(unwritten)
}

fn failed(error: serde_json::Error) -> Error {
    Error::Store(store::Error::Failed(error.to_string()))
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Store(error.into())
}
