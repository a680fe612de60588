//! Session folders as files: what is written, what is read back, and what happens with everything else in their place.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod attack;
mod cards;
mod crashes;
mod damage;
mod kinds;
mod pages;
mod paths;
mod permissions;
mod properties;
mod roles;
mod scanning;
mod strange;
mod writing;

use std::fs;
use std::path::PathBuf;

use rethread_workspace::{Card, End, FolderPath, Item, Line, Locked, Workspace, read_log};
use serde_json::{Map, json};
use tempfile::TempDir;

/// A workspace in a folder of its own.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) workspace: Workspace,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::init(folder.path(), None).unwrap().workspace;
        Self { folder, workspace }
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(inside)
    }

    /// A new session folder.
    pub(crate) fn session(&self) -> FolderPath {
        self.workspace.create("2026-11-16", "brainstorm", "API design!").unwrap()
    }

    pub(crate) fn lock(&self, path: &FolderPath) -> Locked {
        self.workspace.folder(path).unwrap().unwrap().lock().unwrap()
    }

    pub(crate) fn log(&self, path: &FolderPath) -> PathBuf {
        self.path(path.as_str()).join(".session/messages.jsonl")
    }

    pub(crate) fn card(&self, path: &FolderPath) -> PathBuf {
        self.path(path.as_str()).join(".session/session.json")
    }

    pub(crate) fn read(&self, path: &FolderPath) -> (Vec<Item>, End) {
        let mut items = Vec::new();
        let folder = self.workspace.folder(path).unwrap().unwrap();
        let end = folder.read(0, &mut |item| items.push(item)).unwrap();
        (items, end)
    }
}

/// A record with every field.
pub(crate) fn line(number: usize) -> Line {
    let mut other = Map::new();
    other.insert("model".into(), json!("gpt-5"));
    other.insert("extra".into(), json!({"b": [1, 2.5, null], "a": "J*\u{1a}"}));
    Line {
        id: format!("id-{number}"),
        after: format!("id-{}", number.wrapping_sub(1)),
        kind: "message".into(),
        role: if number.is_multiple_of(2) { "user" } else { "assistant" }.into(),
        content: format!("Say \"{number}\"\\\n\tJanuary ünï🎉 {}", "x".repeat(number % 90)),
        timestamp: "2026-11-16T04:05:06.789Z".into(),
        conversation: "main".into(),
        agent: (!number.is_multiple_of(3)).then(|| "codex".into()),
        other,
    }
}

pub(crate) fn card() -> Card {
    Card {
        version: Card::VERSION,
        id: "0192f000-0000-7000-8000-000000000001".into(),
        kind: "brainstorm".into(),
        title: Some("API design".into()),
        title_set: None,
        status: "paused".into(),
        status_set: None,
        summary: None,
        summary_upto: None,
        command: Some("/workspace.brainstorm".into()),
        prompt_hash: Some("abc".into()),
        model: None,
        tools: vec!["fs".into(), "web \"x\"".into()],
        agent: Some("codex".into()),
        created: "2026-11-16T04:05:06Z".into(),
        last_active: "2026-11-16T05:05:06Z".into(),
        last: Vec::new(),
        summaries: Vec::new(),
        is_merged: false,
        other: Map::new(),
    }
}

/// One session for many tries of a thread: making a workspace takes long, because it is made to last.
pub(crate) fn with_session<T>(try_once: impl FnOnce(&Place, &FolderPath) -> T) -> T {
    thread_local! {
        static SHARED: (Place, FolderPath) = {
            let place = Place::new();
            let path = place.session();
            (place, path)
        };
    }
    SHARED.with(|(place, path)| {
        fs::remove_dir_all(place.path(path.as_str())).unwrap();
        fs::create_dir_all(place.path(path.as_str()).join(".session")).unwrap();
        try_once(place, path)
    })
}

/// A log of these records, as it is written.
pub(crate) fn log_of(lines: &[Line]) -> Vec<u8> {
    with_session(|place, path| {
        place.lock(path).append(lines, false).unwrap();
        fs::read(place.log(path)).unwrap()
    })
}

pub(crate) fn items(log: &[u8]) -> (Vec<Item>, End) {
    let mut items = Vec::new();
    let end = read_log(log, &mut |item| items.push(item)).unwrap();
    (items, end)
}

/// The intact records.
pub(crate) fn intact(items: &[Item]) -> Vec<Line> {
    let line = |item: &Item| match item {
        Item::Line { line, .. } => Some(line.clone()),
        _ => None,
    };
    items.iter().filter_map(line).collect()
}
