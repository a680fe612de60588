//! Imports sessions that were exported.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::BufRead;

use rethread_domain::id::{self, Invalid};
use rethread_domain::message::{Extras, NewMessage, nests_deeper};
use rethread_domain::price::Price;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::wording::counted;
use rethread_domain::{Fact, Role, Seq, Session};
use rethread_store::{self as store, Dump};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{PAGE, VERSION};
use crate::entry::DEEPEST;
use crate::{Engine, Error, Result, entry};

/// A message line of an export.
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

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    pub taken: Vec<Session>,
    /// Sessions that existed already, as they are here, with the number of messages in the file.
    pub known: Vec<(Session, Seq)>,
}

impl Engine {
    /// Imports sessions that were exported, in either format. Each session is imported whole or not at all.
    ///
    /// Existing sessions are left unchanged, and the others are imported. A message may have at most `most_bytes`.
    pub async fn import(
        &self,
        input: &mut (dyn BufRead + Send),
        most_bytes: u64,
    ) -> Result<Imported> {
        let mut reader = Reader {
            engine: self,
            input,
            line: 0,
            expected: None,
            values: VecDeque::new(),
            most_bytes,
        };
        let mut imported = Imported::default();
        while let Some(dump) = reader.next()? {
            reader.check(&dump)?;
            let (id, count) = (dump.id, Seq::try_from(dump.messages.len()).unwrap_or(Seq::MAX));
            match self.store.take_in(dump).await {
                Ok(session) => {
                    // Somebody wants it back.
                    self.store.unbury(&id.to_string()).await?;
                    imported.taken.push(session);
                }
                Err(store::Error::Exists(_)) => {
                    imported.known.push((self.store.session(id).await?, count));
                }
                Err(error) => return Err(error.into()),
            }
        }
        while self.store.index(PAGE).await? > 0 {}
        Ok(imported)
    }
}

/// Reads one session after another.
struct Reader<'a> {
    engine: &'a Engine,
    input: &'a mut (dyn BufRead + Send),
    line: usize,
    /// How many messages the session claims to have.
    expected: Option<u64>,
    /// What was read ahead: the next session's line, or a whole file that is JSON over several lines.
    values: VecDeque<Value>,
    most_bytes: u64,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Dump>> {
        let Some(head) = self.read_line()? else { return Ok(None) };
        if head.get("type").is_none() {
            return self.whole(head).map(Some);
        }
        let mut dump = self.begin(&head)?;
        while let Some(mut part) = self.read_line()? {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            if kind == "session" {
                self.values.push_front(part);
                break;
            }
            part.as_object_mut().map(|fields| fields.shift_remove("type"));
            match kind.as_str() {
                "fact" => dump.facts.push(self.fact(part)?),
                "message" => self.add_message(&mut dump, part)?,
                other => return Err(self.bad(format!("unknown type {other:?}"))),
            }
        }
        Ok(Some(dump))
    }

    /// Refuses an incomplete log.
    fn check(&self, dump: &Dump) -> Result<()> {
        if !matches!(dump.facts.first(), Some(FactRecord { fact: Fact::Started(_), .. })) {
            return Err(self.bad("the session does not begin with its start"));
        }
        let found = dump.messages.len();
        if self.expected.is_some_and(|expected| expected != found as u64) {
            return Err(self.bad(format!(
                "the session is incomplete: it ends after {}",
                counted(found, "message")
            )));
        }
        let last = Seq::try_from(found).unwrap_or(Seq::MAX);
        let mut ids = HashSet::new();
        if let Some((one, _)) = dump.messages.iter().find(|(one, _)| !ids.insert(&one.id)) {
            let id = one.id.as_deref().unwrap_or_default();
            return Err(self.bad(format!("two messages have the id {id:?}")));
        }
        let mut numbers = HashMap::new();
        let mut names = HashSet::new();
        for record in &dump.facts {
            let is_new = match &record.fact {
                Fact::Opened { n, name } => {
                    // The numbers are checked: one past all facts would leave no room for the next.
                    (1..=dump.facts.len()).contains(&(*n as usize))
                        && names.insert(name.as_str())
                        && numbers.insert(*n, name).is_none()
                }
                Fact::Summarised { summary, .. } => summary.upto <= last,
                _ => true,
            };
            if !is_new || record.after > last {
                return Err(self.bad("a fact does not match the rest of the session"));
            }
        }
        match dump.messages.iter().find(|(one, _)| !names.contains(one.conversation.as_str())) {
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
            self.add_message(&mut dump, message)?;
        }
        Ok(dump)
    }

    /// Takes a message in its place. One in another place would change what was said.
    fn add_message(&self, dump: &mut Dump, value: Value) -> Result<()> {
        let place = dump.messages.len() as u64 + 1;
        if let Some(seq) = value.get("seq").and_then(Value::as_u64).filter(|seq| *seq != place) {
            return Err(self.bad(format!("message {seq} stands where message {place} belongs")));
        }
        dump.messages.push(self.message(value)?);
        Ok(())
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
        if line.content.len() as u64 > self.most_bytes {
            return Err(self.bad(format!("the message has more than {} bytes", self.most_bytes)));
        }
        if let Some(known) = entry::KNOWN.iter().find(|known| line.extra.contains_key(**known)) {
            return Err(self.bad(format!("{known:?} is not an unknown field")));
        }
        let usage = line.usage.as_ref().map(entry::usage).transpose();
        let at = entry::time(&line.timestamp).map_err(|error| self.bad(error))?;
        let mut message = NewMessage {
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
                ..Extras::default()
            },
            price: Price { tokens: Some(0), ..Price::default() },
        };
        if line.purged_at.is_none() {
            self.engine.prepare(&mut message);
        }
        Ok((message, line.purged_at))
    }

    /// The next line that is not empty. A file that is JSON over several lines is read as a whole.
    fn read_line(&mut self) -> Result<Option<Value>> {
        let value = self.read_value()?;
        if value.as_ref().is_some_and(|value| nests_deeper(value, DEEPEST)) {
            return Err(self.bad("it is nested too deeply"));
        }
        Ok(value)
    }

    fn read_value(&mut self) -> Result<Option<Value>> {
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
            Ok(Value::Array(several)) => {
                self.take_value(Value::Array(several));
                Ok(self.values.pop_front())
            }
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_eof() && text.trim_start().starts_with(['{', '[']) => {
                self.input.read_to_string(&mut text).map_err(|error| self.bad(error))?;
                for value in serde_json::Deserializer::from_str(&text).into_iter() {
                    let value =
                        value.map_err(|error| self.bad(format!("not valid JSON: {error}")))?;
                    self.take_value(value);
                }
                Ok(self.values.pop_front())
            }
            Err(error) => Err(self.bad(format!("not valid JSON: {error}"))),
        }
    }

    /// An array is several sessions.
    fn take_value(&mut self, value: Value) {
        match value {
            Value::Array(several) => self.values.extend(several),
            one => self.values.push_back(one),
        }
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
