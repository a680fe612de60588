//! Cursor's command line: `~/.cursor/chats/<folder>/<session>/store.db`, a database of blobs.
//!
//! Messages are those blobs that are JSON with a role; how turns hang together is in others, in a form that nobody describes.
//! So the order is that in which blobs were written.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rusqlite::types::ValueRef;
use serde_json::Value;

use crate::database::{Database, LONGEST_ROW, text, unreadable};
use crate::reading::{Reading, Source};
use crate::speech::{Call, Outcome, Speech};
use crate::{Error, Found, Head, Unread, blocks, json};

pub(crate) fn is_one(database: &Database) -> bool {
    database.has("blobs", &["id", "data"]) && database.has("meta", &["key", "value"])
}

/// The blobs of a session.
pub(crate) struct Cursor {
    database: Database,
    blobs: VecDeque<String>,
}

impl Cursor {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Self>>, Error> {
        let why = unreadable(&found.path);
        let database = Database::open(&found.path)?;
        let about = about(&database).map_err(&why)?;
        let blobs = database.ids("select rowid from blobs where ?1 is not null order by rowid", "");
        let blobs = blobs.map_err(&why)?;
        let name = found.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let field = |name: &str| json::text(&about, name).map(str::to_owned);
        let title = field("name").filter(|name| name != "New Agent");
        let head = Head {
            native: field("agentId").or(name.map(str::to_owned)).unwrap_or_default(),
            folder: field("workspacePath"),
            title: title.map(|title| (title, TitleFrom::Agent)),
            model: field("lastUsedModel"),
            ..Head::default()
        };
        let mut speech = Speech::new(found.agent);
        speech.model.clone_from(&head.model);
        speech.or_last(about.get("createdAt").and_then(json::time));
        let is_empty = blobs.is_empty();
        let reading = Reading::new(Self { database, blobs }, head, speech, Vec::new());
        Ok((!is_empty).then_some(reading))
    }
}

/// What the session is: JSON, in hexadecimal digits.
fn about(database: &Database) -> rusqlite::Result<Value> {
    let value = database.row("select value from meta where key = '0'", [], |row| text(row, 0))?;
    let value = value.unwrap_or_default();
    let digits = value.as_bytes().chunks_exact(2).map(|pair| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let plain: Option<Vec<u8>> = digits.collect();
    let bytes = plain.unwrap_or_else(|| value.clone().into_bytes());
    Ok(json::value(&bytes).unwrap_or_default())
}

impl Source for Cursor {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let Some(no) = self.blobs.pop_front() else { return Ok(false) };
        let sql = "select id, data, length(data) > ?2 from blobs where rowid = ?1";
        let row = self.database.row(sql, (&no, LONGEST_ROW), |row| {
            let is_long = row.get::<_, bool>(2).unwrap_or(true);
            let data = match row.get_ref(1) {
                Ok(ValueRef::Blob(data) | ValueRef::Text(data)) if !is_long => data.to_vec(),
                _ => Vec::new(),
            };
            (text(row, 0), data, is_long)
        });
        let Some((id, data, is_long)) = row.map_err(io::Error::other)? else { return Ok(true) };
        if is_long {
            unread.push(Unread { at: None, why: format!("blob {no} is too long") });
        } else if data.first() == Some(&b'{')
            && let Some(message) = json::parse::<Value>(&data)
        {
            say(&id, &message.value, speech);
        }
        Ok(true)
    }
}

fn say(id: &str, message: &Value, speech: &mut Speech) {
    let at = speech.or_last(None);
    let content = &message["content"];
    match json::text(message, "role").unwrap_or_default() {
        "user" => {
            let (text, files) = blocks::read(content);
            let is_context = text.trim_start().starts_with("<user_info>");
            if !(is_context || text.is_empty() && files.is_empty()) {
                speech.user(id, at, unwrapped(&text), &files);
            }
        }
        "assistant" => assistant(id, at, content, speech),
        "tool" => {
            for part in content.as_array().map_or(&[][..], Vec::as_slice) {
                let call = json::text(part, "toolCallId").unwrap_or(id);
                let result = part.get("result").or_else(|| part.get("output"));
                let (output, files) = blocks::read(result.unwrap_or(&Value::Null));
                let has_failed = part.get("isError") == Some(&Value::Bool(true));
                speech.result(call, at, Outcome { output, has_failed, files });
            }
        }
        _ => (),
    }
}

fn assistant(id: &str, at: Timestamp, content: &Value, speech: &mut Speech) {
    if let Some(text) = content.as_str() {
        speech.assistant(id, at, text, &[]);
    }
    for part in content.as_array().map_or(&[][..], Vec::as_slice) {
        match json::text(part, "type").unwrap_or_default() {
            "text" => speech.assistant(id, at, json::text(part, "text").unwrap_or_default(), &[]),
            "reasoning" => speech.think(json::text(part, "text").unwrap_or_default()),
            "tool-call" => {
                let call = json::text(part, "toolCallId").unwrap_or(id);
                let name = json::text(part, "toolName").unwrap_or("tool");
                let input = part.get("args").or_else(|| part.get("input")).cloned();
                speech.call(Call::new(call, name, input.unwrap_or_default(), at));
            }
            "redacted-reasoning" => (),
            _ => speech.record(part),
        }
    }
}

/// What was typed, without what Cursor puts around it.
fn unwrapped(text: &str) -> &str {
    let inside = text.split_once("<user_query>").map(|(_, rest)| rest);
    let inside = inside.and_then(|rest| rest.split_once("</user_query>")).map(|(inside, _)| inside);
    inside.map_or(text, str::trim)
}
