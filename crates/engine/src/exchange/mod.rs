//! Export and import of sessions, without loss.
//!
//! JSON lines: a `session` line, then its facts and messages; several sessions may follow each other. JSON: a session as an object,
//! several as an array of them. Derived data is included for readers and made again on import. Markdown is for people: it does not come back in.

mod import;
mod markdown;

use std::collections::BTreeMap;
use std::io::Write;

use rethread_domain::session::FactRecord;
use rethread_domain::{Session, SessionId};
use rethread_store::{Order, Span};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::views::{MessageView, SessionView};
use crate::{Engine, Error, Result};

pub use import::Imported;

const VERSION: u32 = 1;
const PAGE: u32 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Jsonl,
    Json,
    Markdown,
}

/// What to do with secrets in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Masked,
    Kept,
}

impl Engine {
    /// Exports a session, a page of messages at a time. Returns what was masked, and how often.
    pub async fn export(
        &self,
        id: SessionId,
        format: Format,
        secrets: Secrets,
        out: &mut (dyn Write + Send),
    ) -> Result<BTreeMap<String, u32>> {
        let (session, facts) = self.log_of(id).await?;
        let mut mask = Mask { engine: self, secrets, masked: BTreeMap::new() };
        let view: SessionView = mask.clean(&SessionView::from(&session))?;
        let has_conversations = view.conversation_count > 1;
        let mut told = Vec::with_capacity(facts.len());
        for fact in &facts {
            told.push(mask.clean::<Value>(fact)?);
        }
        match format {
            Format::Jsonl => {
                line(out, &json!({"type": "session", "version": VERSION, "id": id, "view": view}))?;
                for fact in told {
                    line(out, &typed("fact", fact))?;
                }
            }
            Format::Json => {
                let (view, facts) = (json!(view), Value::Array(told));
                let head = format!(
                    "\"version\":{VERSION},\"id\":\"{id}\",\"view\":{view},\"facts\":{facts}"
                );
                put(out, &format!("{{{head},\"messages\":["))?;
            }
            Format::Markdown => put(out, &markdown::head(&view))?,
        }
        let mut from = 1;
        loop {
            // What is said meanwhile belongs to the next export.
            let span = Span { from, to: session.last_seq, order: Order::OldestFirst, limit: PAGE };
            let page = self.messages(id, span).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in &page {
                let view = MessageView::of(id, message);
                match format {
                    Format::Jsonl => line(out, &typed("message", mask.clean(&view)?))?,
                    Format::Json => {
                        let comma = if message.seq > 1 { "," } else { "" };
                        put(out, &format!("{comma}\n{}", mask.clean::<Value>(&view)?))?;
                    }
                    Format::Markdown => {
                        put(out, &markdown::message(&mask.clean(&view)?, has_conversations))?;
                    }
                }
            }
            from = last + 1;
        }
        if format == Format::Json {
            put(out, "]}\n")?;
        }
        out.flush().map_err(unwritten)?;
        Ok(mask.masked)
    }

    /// A session with its facts: as many as its row counts, even if others write meanwhile.
    async fn log_of(&self, id: SessionId) -> Result<(Session, Vec<FactRecord>)> {
        loop {
            let session = self.session(id).await?;
            let facts = self.facts(id).await?;
            if facts.len() == session.facts as usize {
                return Ok((session, facts));
            }
        }
    }
}

/// Masks secrets in an export.
struct Mask<'a> {
    engine: &'a Engine,
    secrets: Secrets,
    masked: BTreeMap<String, u32>,
}

impl Mask<'_> {
    /// The same without secrets, where they are to be masked.
    fn clean<T: DeserializeOwned>(&mut self, of: &impl Serialize) -> Result<T> {
        let mut value = serde_json::to_value(of).map_err(Error::internal)?;
        if self.secrets == Secrets::Masked {
            for what in self.engine.redactor.redact_json(&mut value) {
                *self.masked.entry(what).or_default() += 1;
            }
        }
        serde_json::from_value(value).map_err(Error::internal)
    }
}

fn typed(kind: &str, value: Value) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), kind.into());
    if let Value::Object(fields) = value {
        out.extend(fields);
    }
    Value::Object(out)
}

fn put(out: &mut (dyn Write + Send), text: &str) -> Result<()> {
    out.write_all(text.as_bytes()).map_err(unwritten)
}

fn line(out: &mut (dyn Write + Send), value: &Value) -> Result<()> {
    writeln!(out, "{value}").map_err(unwritten)
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Store(error.into())
}
