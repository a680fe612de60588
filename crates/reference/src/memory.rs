//! What the agent remembers of a native session, and the folder in which it keeps it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flags::Memory;
use crate::time::now_ms;

/// One line of a native session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When, in milliseconds since 1970.
    pub(crate) at: u64,
    #[serde(flatten)]
    pub(crate) fact: Fact,
}

/// What happened in a native session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Fact {
    /// It began; the first line of its file.
    Began { id: String, cwd: String },
    /// The user said something: the content blocks of one prompt.
    Told { blocks: Vec<Value> },
    /// The agent answered.
    Said { parts: Vec<Part> },
    /// It got a title.
    Titled { title: String },
}

/// A part of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub(crate) enum Part {
    Text { text: String },
    Tool(Tool),
}

/// A tool call and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) output: String,
    pub(crate) completed: bool,
}

/// A native session as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) entries: Vec<Entry>,
}

/// Where native sessions are kept.
#[derive(Debug)]
pub(crate) struct Store {
    folder: Option<PathBuf>,
}

impl Entry {
    pub(crate) fn now(fact: Fact) -> Self {
        Self { at: now_ms(), fact }
    }
}

impl Store {
    pub(crate) fn open(memory: &Memory) -> io::Result<Self> {
        let folder = match memory {
            Memory::Process => None,
            Memory::Folder(folder) => Some(folder.clone()),
        };
        if let Some(folder) = &folder {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(Self { folder })
    }

    /// Whether anything outlives the process.
    pub(crate) fn lasts(&self) -> bool {
        self.folder.is_some()
    }

    /// Appends to what is kept of a session, in one write. Its file begins with the first of them.
    pub(crate) fn append(&self, id: &str, cwd: &str, entries: &[Entry]) -> io::Result<()> {
        let Some(path) = self.path(id) else { return Ok(()) };
        if entries.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        if !path.exists() {
            let began = Fact::Began { id: id.to_owned(), cwd: cwd.to_owned() };
            text.push_str(&(serde_json::to_string(&Entry::now(began))? + "\n"));
        }
        for entry in entries {
            text.push_str(&(serde_json::to_string(entry)? + "\n"));
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?
            .write_all(text.as_bytes())
    }

    /// What is kept of a session.
    pub(crate) fn read(&self, id: &str) -> Option<Kept> {
        let text = fs::read_to_string(self.path(id)?).ok()?;
        parse(&text).filter(|kept| kept.id == id)
    }

    /// Every session that is kept.
    pub(crate) fn all(&self) -> io::Result<Vec<Kept>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                found.extend(parse(&fs::read_to_string(path)?));
            }
        }
        Ok(found)
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(file_name(id)))
    }
}

/// A line that is torn, because the process was killed while it wrote, is passed over.
fn parse(text: &str) -> Option<Kept> {
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let Fact::Began { id, cwd } = lines.next()?.fact else { return None };
    Some(Kept { id, cwd, entries: lines.collect() })
}

/// The file of a session. An id comes from the client, so only harmless bytes of it are taken as they are.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name + ".jsonl"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_out_of_the_folder() {
        assert_eq!(file_name("ref-1"), "ref-1.jsonl");
        assert_eq!(file_name("../etc/passwd"), "%2E%2E%2Fetc%2Fpasswd.jsonl");
        assert_eq!(file_name(""), ".jsonl");
    }

    #[test]
    fn a_torn_line_is_passed_over() {
        let whole = r#"{"at":1,"kind":"began","id":"a","cwd":"/"}"#;
        let told = r#"{"at":2,"kind":"told","blocks":[]}"#;
        let kept = parse(&format!("{whole}\n{told}\n{{\"at\":3,\"kind\":\"sa")).unwrap();
        assert_eq!(kept.entries.len(), 1);
        assert!(parse(told).is_none(), "a file without its beginning is no session");
    }
}
