//! `session.json`: what a session is about, one field a line.
//!
//! The lines have a fixed order and `version` is the last of them, so that a union merge of two versions, in which a
//! field stands twice, is still JSON.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::line::is_id;
use super::path::is_kind_name;
use crate::error::Error;

/// The largest file that is read, in bytes.
pub(super) const LARGEST: u64 = 4 << 20;

const CONFLICTS: [&str; 4] = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"];

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Card {
    /// [`Card::VERSION`], unless it was written by a later version of this program.
    pub version: u32,
    pub id: String,
    pub kind: String,
    pub title: Option<String>,
    /// When it got this title, and this status: of two that were merged, the later one counts.
    pub title_set: Option<String>,
    pub status: String,
    pub status_set: Option<String>,
    pub summary: Option<String>,
    /// The id of the last line that the summary covers.
    pub summary_upto: Option<String>,
    pub command: Option<String>,
    pub prompt_hash: Option<String>,
    pub model: Option<String>,
    pub tools: Vec<String>,
    pub agent: Option<String>,
    /// In the form of RFC 3339, as the next one.
    pub created: String,
    pub last_active: String,
    /// The last lines of the log when this was written: one for each branch that was merged.
    pub last: Vec<String>,
    /// Every summary that was found with the line that it goes up to: several after a merge. Only read.
    pub summaries: Vec<(String, Option<String>)>,
    /// Whether fields stand there twice, as a merge leaves them. Only read.
    pub is_merged: bool,
    /// Fields that we do not know, in their order.
    pub other: Map<String, Value>,
}

impl Card {
    /// The version that this program writes.
    pub const VERSION: u32 = 1;

    /// Takes on the fields that somebody else wrote.
    pub(super) fn keep_unknown(&mut self, found: Map<String, Value>) {
        for (key, value) in found {
            self.other.entry(key).or_insert(value);
        }
    }

    pub(super) fn render(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut text = String::from("{\n");
        let known = [
            ("id", json!(self.id)),
            ("kind", json!(self.kind)),
            ("title", json!(self.title)),
            ("title_set", json!(self.title_set)),
            ("status", json!(self.status)),
            ("status_set", json!(self.status_set)),
            ("summary", json!(self.summary)),
            ("summary_upto", json!(self.summary_upto)),
            ("command", json!(self.command)),
            ("prompt_hash", json!(self.prompt_hash)),
            ("model", json!(self.model)),
            ("tools", json!(self.tools)),
            ("agent", json!(self.agent)),
            ("created", json!(self.created)),
            ("last_active", json!(self.last_active)),
            ("last", lasts(&self.last)),
        ];
        let is_known = |key: &str| key == "version" || known.iter().any(|(known, _)| *known == key);
        let other = self.other.iter().filter(|(key, _)| !is_known(key));
        let known = known.iter().map(|(key, value)| (*key, value));
        for (key, value) in known.chain(other.map(|(key, value)| (key.as_str(), value))) {
            text.push_str(&format!("  {}: {value},\n", Value::from(key)));
        }
        text.push_str(&format!("  \"version\": {}\n}}\n", Self::VERSION));
        if text.len() as u64 > LARGEST {
            return Err(Error::TooLarge { path: path.to_owned(), limit: LARGEST });
        }
        // What we could not read back is refused before it is written.
        let written = Self {
            version: Self::VERSION,
            summaries: Vec::new(),
            is_merged: false,
            ..self.clone()
        };
        match Self::parse(text.as_bytes(), path)? {
            read if Self { summaries: Vec::new(), ..read.clone() } == written => {
                Ok(text.into_bytes())
            }
            _ => Err(bad(path, None, "it would not read back as it was")),
        }
    }

    /// The descriptions of several sessions that were merged into one file. A union merge puts the lines of one side before
    /// those of the other: a field that stands there once for each session belongs to them in the order of their ids.
    pub(super) fn parse_each(bytes: &[u8], path: &Path) -> Result<Vec<Self>, Error> {
        let (entries, version) = Self::entries(bytes, path)?;
        let count = |name: &str| entries.iter().filter(|(key, _)| key == name).count();
        let sessions = count("id");
        let mut each = Vec::new();
        for index in 0..sessions {
            let mut seen: HashMap<&str, usize> = HashMap::new();
            let own = entries.iter().filter(|(key, _)| {
                let place = seen.entry(key).or_default();
                *place += 1;
                count(key) != sessions || *place == index + 1
            });
            each.push(Self::from_entries(own.cloned().collect(), version, path)?);
        }
        Ok(each)
    }

    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let (entries, version) = Self::entries(bytes, path)?;
        match Self::from_entries(entries, version, path) {
            // A later version may have changed what we look for.
            Err(_) if version > Self::VERSION => {
                let path = path.to_owned();
                Err(Error::Newer { path, found: version, known: Self::VERSION })
            }
            outcome => outcome,
        }
    }

    fn entries(bytes: &[u8], path: &Path) -> Result<(Vec<(String, Value)>, u32), Error> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| bad(path, None, "it is not UTF-8"))?;
        if let Some(line) = conflict(text) {
            return Err(bad(path, None, &format!("line {line} is a conflict marker of git")));
        }
        let Entries(entries) = serde_json::from_str(text).map_err(|error| {
            let why = if error.is_eof() { "it ends too early".into() } else { error.to_string() };
            bad(path, None, &why)
        })?;
        let version = version(&entries, path)?;
        Ok((entries, version))
    }

    fn from_entries(
        entries: Vec<(String, Value)>,
        version: u32,
        path: &Path,
    ) -> Result<Self, Error> {
        let names: HashSet<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        let is_merged = names.len() < entries.len();
        let mut fields = Fields { fields: Map::new(), path };
        let mut merged = Merged::default();
        for (key, value) in entries {
            if key == "last_active" && fields.is_later(&value)? {
                continue;
            }
            if !merged.takes(&key, &value) {
                fields.fields.insert(key, value);
            }
        }
        fields.fields.shift_remove("version");
        let (title, title_set) = latest(merged.titles);
        let (status, status_set) = latest(merged.statuses);
        for (key, value) in [("title", title), ("status", status)] {
            fields.fields.extend(value.map(|value| (key.to_owned(), value)));
        }
        let summaries: Vec<(String, Option<String>)> = merged
            .summaries
            .into_iter()
            .filter_map(|(text, upto)| Some((text.as_str()?.to_owned(), upto)))
            .collect();
        let (summary, summary_upto) = summaries.last().cloned().unzip();
        let card = Self {
            version,
            id: fields.checked("id", is_id)?,
            kind: fields.checked("kind", is_kind_name)?,
            title: fields.optional("title")?,
            title_set,
            status: fields.checked("status", |status| !status.is_empty())?,
            status_set,
            summary,
            summary_upto: summary_upto.flatten(),
            command: fields.optional("command")?,
            prompt_hash: fields.optional("prompt_hash")?,
            model: fields.optional("model")?,
            tools: fields.texts("tools")?,
            agent: fields.optional("agent")?,
            created: fields.checked("created", is_time)?,
            last_active: fields.checked("last_active", is_time)?,
            last: merged.last,
            summaries,
            is_merged,
            other: Map::new(),
        };
        Ok(Self { other: fields.fields, ..card })
    }
}

/// Fields that can stand there several times after a merge, each with the field that belongs to it.
#[derive(Default)]
struct Merged {
    titles: Vec<(Value, Option<String>)>,
    statuses: Vec<(Value, Option<String>)>,
    summaries: Vec<(Value, Option<String>)>,
    last: Vec<String>,
}

impl Merged {
    /// Whether it is one of these. What is added to a value stands behind it; where git found the same value on both
    /// sides, two of them do.
    fn takes(&mut self, key: &str, value: &Value) -> bool {
        let text = value.as_str();
        let (list, is_added) = match key {
            "title" => (&mut self.titles, false),
            "title_set" => (&mut self.titles, true),
            "status" => (&mut self.statuses, false),
            "status_set" => (&mut self.statuses, true),
            "summary" => (&mut self.summaries, false),
            "summary_upto" => (&mut self.summaries, true),
            "last" => {
                let several = value.as_array().map_or(&[][..], Vec::as_slice);
                for id in text.into_iter().chain(several.iter().filter_map(Value::as_str)) {
                    if is_id(id) && !self.last.iter().any(|known| known == id) {
                        self.last.push(id.to_owned());
                    }
                }
                return true;
            }
            _ => return false,
        };
        let added = text.map(ToOwned::to_owned);
        match list.last_mut() {
            _ if !is_added => list.push((value.clone(), None)),
            Some((_, none @ None)) => *none = added,
            Some((before, Some(_))) if added.is_some() => {
                let before = before.clone();
                list.push((before, added));
            }
            _ => (),
        }
        true
    }
}

/// One id as a text, several as a list.
fn lasts(ids: &[String]) -> Value {
    match ids {
        [] => Value::Null,
        [one] => json!(one),
        several => json!(several),
    }
}

/// The value that was set last. The same wherever it is asked, in whatever order git put them.
fn latest(values: Vec<(Value, Option<String>)>) -> (Option<Value>, Option<String>) {
    let time = |set: &Option<String>| set.as_deref().and_then(|set| set.parse::<Timestamp>().ok());
    let key =
        |one: &(Value, Option<String>)| (time(&one.1), time(&one.1).map(|_| one.0.to_string()));
    let found = values.into_iter().max_by_key(key);
    match found {
        Some((value, set)) => (Some(value), set.filter(|set| is_time(set))),
        None => (None, None),
    }
}

/// The fields of a card that were not looked at yet.
struct Fields<'path> {
    fields: Map<String, Value>,
    path: &'path Path,
}

impl Fields<'_> {
    fn optional(&mut self, name: &str) -> Result<Option<String>, Error> {
        match self.fields.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(self.path, Some(name), "is not a text")),
        }
    }

    fn checked(&mut self, name: &str, check: impl Fn(&str) -> bool) -> Result<String, Error> {
        match self.optional(name)? {
            None => Err(bad(self.path, Some(name), "is missing")),
            Some(text) if !check(&text) => Err(bad(self.path, Some(name), "is not allowed")),
            Some(text) => Ok(text),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, Error> {
        let wrong = || bad(self.path, Some(name), "is not a list of texts");
        match self.fields.shift_remove(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(values)) => values
                .into_iter()
                .map(|value| match value {
                    Value::String(text) => Ok(text),
                    _ => Err(wrong()),
                })
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    /// Whether the session was active later than this, by another line of a merge.
    fn is_later(&self, than: &Value) -> Result<bool, Error> {
        let time = |value: &Value| {
            let parsed = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            parsed.ok_or_else(|| bad(self.path, Some("last_active"), "is not a time"))
        };
        match self.fields.get("last_active") {
            Some(found) => Ok(time(found)? > time(than)?),
            None => time(than).map(|_| false),
        }
    }
}

fn version(entries: &[(String, Value)], path: &Path) -> Result<u32, Error> {
    let wrong = |why| bad(path, Some("version"), why);
    let last = entries.iter().rfind(|(key, _)| key == "version");
    let (_, value) = last.ok_or_else(|| wrong("is missing"))?;
    let number = value.as_u64().filter(|number| *number > 0);
    number.and_then(|number| number.try_into().ok()).ok_or_else(|| wrong("is not a version"))
}

fn is_time(text: &str) -> bool {
    text.parse::<Timestamp>().is_ok()
}

/// The line of the first marker that git left where it could not merge.
fn conflict(text: &str) -> Option<usize> {
    let is_marker = |line: &str| CONFLICTS.iter().any(|marker| line.starts_with(marker));
    text.lines().position(is_marker).map(|place| place + 1)
}

fn bad(path: &Path, field: Option<&str>, why: &str) -> Error {
    Error::BadCard { path: path.to_owned(), field: field.map(str::to_owned), why: why.to_owned() }
}

/// The fields of an object as they stand there, also those that stand there twice.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collector;

        impl<'de> Visitor<'de> for Collector {
            type Value = Entries;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Collector)
    }
}
