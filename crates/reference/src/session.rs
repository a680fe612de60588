//! A native session while the process lives.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::errors::Error;
use crate::memory::{Entry, Fact, Kept, Part, Store};
use crate::time::rfc3339;
use crate::wire::Signal;

const MODES: [&str; 2] = ["code", "plan"];
const MODELS: [&str; 2] = ["small", "large"];
const MODEL_OPTION: &str = "model";

/// A session that the turn running in it also holds.
pub(crate) type Shared = Arc<Mutex<Session>>;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) entries: Vec<Entry>,
    /// How many of the entries are kept already.
    saved: usize,
    /// Set by the client, and forgotten with the process.
    pub(crate) mode: &'static str,
    pub(crate) model: &'static str,
    pub(crate) open: bool,
    pub(crate) origin: Origin,
    /// How to reach the turn that is running.
    pub(crate) turn: Option<Sender<Signal>>,
}

/// How this process came to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    New,
    /// By load or resume.
    Attached,
    /// By load or resume that succeeded although the session is unknown; its prompts are refused.
    Hollow,
}

impl Session {
    pub(crate) fn new(id: &str, cwd: &str, origin: Origin) -> Self {
        Self {
            id: id.to_owned(),
            cwd: cwd.to_owned(),
            entries: Vec::new(),
            saved: 0,
            mode: MODES[0],
            model: MODELS[0],
            open: true,
            origin,
            turn: None,
        }
    }

    pub(crate) fn kept(kept: Kept) -> Self {
        let mut session = Self::new(&kept.id, &kept.cwd, Origin::Attached);
        session.remember_instead(kept.entries);
        session
    }

    /// Takes another memory for its own, as if it had been kept.
    pub(crate) fn remember_instead(&mut self, entries: Vec<Entry>) {
        self.saved = entries.len();
        self.entries = entries;
    }

    pub(crate) fn add(&mut self, fact: Fact) {
        self.entries.push(Entry::now(fact));
    }

    /// Keeps what is not kept yet.
    pub(crate) fn save(&mut self, store: &Store) -> io::Result<()> {
        store.append(&self.id, &self.cwd, &self.entries[self.saved..])?;
        self.saved = self.entries.len();
        Ok(())
    }

    /// The content blocks of every prompt.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &Vec<Value>> {
        prompts(&self.entries)
    }

    /// Words of all that was told, and of all that was said.
    pub(crate) fn words(&self) -> (usize, usize) {
        let told = self.prompts().flatten().filter_map(told).map(|told| count_words(told.text));
        let said = self.entries.iter().map(|entry| match &entry.fact {
            Fact::Said { parts } => words_said(parts),
            _ => 0,
        });
        (told.sum(), said.sum())
    }

    pub(crate) fn set_mode(&mut self, mode: &str) -> Result<(), Error> {
        self.mode = one_of(MODES, mode)?;
        Ok(())
    }

    pub(crate) fn set_option(&mut self, option: &str, value: &str) -> Result<(), Error> {
        if option != MODEL_OPTION {
            return Err(Error::invalid_params("no such config option"));
        }
        self.model = one_of(MODELS, value)?;
        Ok(())
    }

    /// The part of a response to new, load and resume that says what can be set.
    pub(crate) fn settings(&self) -> Value {
        let modes: Vec<Value> =
            MODES.iter().map(|mode| json!({ "id": mode, "name": mode })).collect();
        json!({
            "modes": { "currentModeId": self.mode, "availableModes": modes },
            "configOptions": self.options(),
        })
    }

    pub(crate) fn options(&self) -> Value {
        let models: Vec<Value> =
            MODELS.iter().map(|model| json!({ "value": model, "name": model })).collect();
        json!([{
            "id": MODEL_OPTION,
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.model,
            "options": models,
        }])
    }
}

/// One text that the agent was told.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Told<'a> {
    pub(crate) kind: &'static str,
    pub(crate) text: &'a str,
}

/// What a content block tells the agent. Images and sounds tell it nothing.
pub(crate) fn told(block: &Value) -> Option<Told<'_>> {
    let (kind, text) = match block["type"].as_str()? {
        "text" => ("text", &block["text"]),
        "resource" if block["resource"]["text"].is_string() => {
            ("resource", &block["resource"]["text"])
        }
        "resource" => ("resource", &block["resource"]["uri"]),
        "resource_link" => ("resource", &block["uri"]),
        _ => return None,
    };
    Some(Told { kind, text: text.as_str()? })
}

pub(crate) fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

pub(crate) fn words_said(parts: &[Part]) -> usize {
    let words = parts.iter().map(|part| match part {
        Part::Text { text } => count_words(text),
        Part::Tool(tool) => count_words(&tool.title),
    });
    words.sum()
}

/// How `session/list` shows a session; none that was never prompted.
pub(crate) fn listed(id: &str, cwd: &str, entries: &[Entry]) -> Option<(u64, Value)> {
    let first = prompts(entries).next()?;
    let opening = first.iter().filter_map(told).find(|told| told.kind == "text");
    let opening = opening.map(|told| told.text.chars().take(50).collect::<String>());
    let title = entries.iter().rev().find_map(|entry| match &entry.fact {
        Fact::Titled { title } => Some(title.clone()),
        _ => None,
    });
    let updated = entries.last()?.at;
    let info = json!({
        "sessionId": id,
        "cwd": cwd,
        "title": title.or(opening),
        "updatedAt": rfc3339(updated),
    });
    Some((updated, info))
}

fn prompts(entries: &[Entry]) -> impl Iterator<Item = &Vec<Value>> {
    entries.iter().filter_map(|entry| match &entry.fact {
        Fact::Told { blocks } => Some(blocks),
        _ => None,
    })
}

fn one_of(known: [&'static str; 2], value: &str) -> Result<&'static str, Error> {
    let found = known.into_iter().find(|known| *known == value);
    found.ok_or_else(|| Error::invalid_params("no such value"))
}
