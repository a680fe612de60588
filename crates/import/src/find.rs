//! Where agents keep their sessions, and how each is opened.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use serde_json::Value;

use crate::aider::{self, Aider};
use crate::claude::Claude;
use crate::cline::{self, Cline};
use crate::codex::{self, Codex};
use crate::copilot::Copilot;
use crate::fast_agent::{self, FastAgent};
use crate::gemini::Gemini;
use crate::goose::{self, Goose};
use crate::jsonl::{Format, Reader};
use crate::kimi::{self, Kimi};
use crate::lines::Input;
use crate::opencode::{self, Opencode};
use crate::pi::Pi;
use crate::qwen::Qwen;
use crate::vibe::{self, Vibe};
use crate::{Cursor, Error, Head, Transcript, changed_at, cursor, sniff, stamp};

/// The agents whose sessions can be read, by the names that Rethread knows them by.
pub const AGENTS: &[&str] = &[
    "claude",
    "codex",
    "opencode",
    "gemini",
    "copilot",
    "goose",
    "qwen",
    "pi",
    "kilo",
    "kimi",
    "vibe",
    "cline",
    "fast-agent",
    "aider",
    "cursor",
];

/// So deep are folders looked through, and so many files are looked at.
const DEEPEST: usize = 12;
const MOST_FILES: usize = 1_000_000;

/// What is needed to find the agents' own folders.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    pub home: PathBuf,
    /// The variables by which agents are told of other places.
    pub variables: BTreeMap<String, String>,
    /// Folders that people work in: some agents keep their sessions there.
    pub projects: Vec<PathBuf>,
}

impl Roots {
    /// The variables that matter.
    pub const VARIABLES: &'static [&'static str] = &[
        "CLAUDE_CONFIG_DIR",
        "CLINE_DATA_DIR",
        "CLINE_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
        "FAST_AGENT_HOME",
        "GEMINI_CLI_HOME",
        "GOOSE_PATH_ROOT",
        "KIMI_CODE_HOME",
        "OPENCODE_DB",
        "PI_CODING_AGENT_DIR",
        "QWEN_HOME",
        "VIBE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    ];

    /// Where agents keep their settings.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder("XDG_CONFIG_HOME", ".config")
    }

    fn set(&self, variable: &str) -> Option<PathBuf> {
        self.variables.get(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn folder(&self, variable: &str, otherwise: &str) -> PathBuf {
        self.set(variable).unwrap_or_else(|| self.home.join(otherwise))
    }

    fn in_projects(&self, name: &'static str) -> impl Iterator<Item = PathBuf> + '_ {
        self.projects.iter().map(move |project| project.join(name))
    }

    /// Where an agent keeps its sessions: folders, or databases.
    pub(crate) fn of(&self, agent: &str) -> Vec<PathBuf> {
        let data = self.folder("XDG_DATA_HOME", ".local/share");
        match agent {
            "claude" => vec![self.folder("CLAUDE_CONFIG_DIR", ".claude").join("projects")],
            "codex" => {
                let home = self.folder("CODEX_HOME", ".codex");
                vec![home.join("sessions"), home.join("archived_sessions")]
            }
            "opencode" => {
                let folder = data.join("opencode");
                let named = self.set("OPENCODE_DB").filter(|path| !path.starts_with(":"));
                named.map_or_else(|| vec![folder.clone()], |path| vec![folder.join(path)])
            }
            "kilo" => vec![data.join("kilo")],
            "gemini" => {
                let home = self.set("GEMINI_CLI_HOME").unwrap_or_else(|| self.home.clone());
                vec![home.join(".gemini/tmp")]
            }
            "copilot" => vec![self.folder("COPILOT_HOME", ".copilot").join("session-state")],
            "goose" => {
                let root = self.set("GOOSE_PATH_ROOT").map(|root| root.join("data/sessions"));
                vec![root.unwrap_or_else(|| data.join("goose/sessions"))]
            }
            "qwen" => vec![self.folder("QWEN_HOME", ".qwen").join("projects")],
            "pi" => vec![self.folder("PI_CODING_AGENT_DIR", ".pi/agent").join("sessions")],
            "kimi" => vec![self.folder("KIMI_CODE_HOME", ".kimi-code").join("sessions")],
            "vibe" => vec![self.folder("VIBE_HOME", ".vibe").join("logs/session/unified")],
            "cline" => {
                let data = self.folder("CLINE_DIR", ".cline").join("data");
                vec![self.set("CLINE_DATA_DIR").unwrap_or(data).join("sessions")]
            }
            "fast-agent" => {
                let named = self.set("FAST_AGENT_HOME").map(|home| home.join("sessions"));
                self.in_projects(fast_agent::FOLDER).chain(named).collect()
            }
            "aider" => self.in_projects(aider::NAME).collect(),
            "cursor" => vec![self.home.join(".cursor/chats")],
            _ => Vec::new(),
        }
    }
}

/// A session on the disk, before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub agent: &'static str,
    pub path: PathBuf,
    /// What the file is called from now on: its path, or its place in an archive.
    pub source: PathBuf,
    /// Which of the sessions in a database; empty where the file is one session.
    pub native: String,
    /// The same as long as it does not change.
    pub stamp: String,
    pub changed_at: Timestamp,
}

/// All sessions of an agent in its own folders, and what cannot be looked into.
pub fn find(agent: &str, roots: &Roots) -> (Vec<Found>, Vec<Error>) {
    let Some(agent) = AGENTS.iter().find(|known| **known == agent) else {
        return Found::none();
    };
    let mut all = Found::none();
    for root in roots.of(agent) {
        let is_database = matches!(*agent, "opencode" | "kilo" | "goose");
        // Databases lie beside much else; nothing below is one of them.
        walk(&root, if is_database { DEEPEST - 1 } else { 0 }, &mut |path| {
            if is_named(agent, path) {
                add(agent, path, &mut all);
            }
        });
    }
    (sorted(all.0), all.1)
}

/// The session that an agent knows by an id, in its own folders, looked up by names alone. `None` if there is no such file, or
/// if the id cannot be part of a name.
pub fn find_native(agent: &str, roots: &Roots, native: &str) -> Option<Found> {
    // aider keeps one file for each project, without ids.
    let agent = AGENTS.iter().find(|known| **known == agent && agent != "aider")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // One that begins with a dash would be taken for a flag by its agent.
    if native.len() < SHORTEST_ID || native.starts_with(['.', '-']) || !native.chars().all(is_plain)
    {
        return None;
    }
    let mut all = Found::none();
    for root in roots.of(agent) {
        for path in places(agent, &root, native) {
            let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            if is_file && is_named(agent, &path) {
                add(agent, &path, &mut all);
            }
        }
    }
    let own = all.0.into_iter().filter(|one| one.native.is_empty() || one.native == native);
    own.max_by_key(|one| one.changed_at)
}

/// An id that is shorter could be part of many names.
const SHORTEST_ID: usize = 8;

/// The files that may hold a session with an id.
fn places(agent: &str, root: &Path, native: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let entries = entries.map(|entry| entry.path());
    match agent {
        "claude" => entries.map(|folder| folder.join(format!("{native}.jsonl"))).collect(),
        "qwen" => entries.map(|folder| folder.join(format!("chats/{native}.jsonl"))).collect(),
        "copilot" => vec![root.join(native).join("events.jsonl")],
        "opencode" | "kilo" | "goose" if root.is_file() => vec![root.to_owned()],
        "opencode" | "kilo" | "goose" => entries.collect(),
        _ => {
            // Names of Gemini's files have the beginning of the id.
            let part = if agent == "gemini" { &native[..SHORTEST_ID] } else { native };
            let mut found = Vec::new();
            walk(root, 0, &mut |path| {
                let below = path.strip_prefix(root).ok().and_then(Path::to_str);
                if below.is_some_and(|below| below.contains(part)) {
                    found.push(path.to_owned());
                }
            });
            found
        }
    }
}

/// The sessions in a file or folder that somebody names, of all agents.
pub fn look_at(path: &Path) -> (Vec<Found>, Vec<Error>) {
    let mut all = Found::none();
    walk(path, 0, &mut |path| {
        if let Some(agent) = sniff::agent_of(path) {
            add(agent, path, &mut all);
        }
    });
    (sorted(all.0), all.1)
}

/// One session of an agent: in the file that the agent names, or by its id in the agent's own folders. A file elsewhere
/// has to look like one of the agent's. `None` where there is none yet.
pub fn find_one(
    agent: &str,
    path: Option<&Path>,
    native: &str,
    roots: &Roots,
) -> Result<Option<Found>, Error> {
    let Some(agent) = AGENTS.iter().find(|known| **known == agent) else { return Ok(None) };
    let Some(path) = path else { return Ok(find_native(agent, roots, native)) };
    let is_own = is_in_roots(agent, path, roots) && is_named(agent, path);
    if !path.is_file() || !is_own && sniff::agent_of(path) != Some(agent) {
        return Ok(None);
    }
    let found = stamped(agent, path);
    found.map(Some).map_err(|error| Error::Io { path: path.to_owned(), error })
}

/// Whether a file lies where an agent keeps its sessions.
pub fn is_in_roots(agent: &str, path: &Path, roots: &Roots) -> bool {
    roots.of(agent).iter().any(|root| path.starts_with(root))
}

impl Found {
    pub(crate) const fn none() -> (Vec<Self>, Vec<Error>) {
        (Vec::new(), Vec::new())
    }
}

/// Parents come before what their agents started.
fn sorted(mut found: Vec<Found>) -> Vec<Found> {
    // The order of what lies in one file is that of its rows.
    found.sort_by_cached_key(|one| (one.path.components().count(), one.path.clone()));
    found
}

/// Calls with every file below a folder. Links are not followed: what they lead to is found where it is.
pub(crate) fn walk(path: &Path, depth: usize, each: &mut dyn FnMut(&Path)) {
    let mut left = MOST_FILES;
    let mut folders = vec![(path.to_owned(), depth)];
    while let Some((path, depth)) = folders.pop() {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_file() && left > 0 {
            left -= 1;
            each(&path);
        } else if metadata.is_dir() && depth < DEEPEST {
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            folders.extend(entries.flatten().map(|entry| (entry.path(), depth + 1)));
        }
    }
}

/// Whether a file in an agent's own folder has the name of a session.
fn is_named(agent: &str, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let has_ending = |ending: &str| path.extension().is_some_and(|own| own == ending);
    let (is_lines, is_database) = (has_ending("jsonl"), has_ending("db"));
    match agent {
        "claude" | "pi" => is_lines,
        "qwen" => {
            let lies_in = |name: &str, up: usize| {
                path.ancestors().nth(up).is_some_and(|folder| folder.ends_with(name))
            };
            is_lines && (lies_in("chats", 1) || lies_in("subagents", 2))
        }
        "codex" => name.starts_with("rollout-") && (is_lines || is_packed_alone(path, name)),
        "gemini" => {
            let is_chat = path.ancestors().any(|folder| folder.ends_with("chats"));
            is_chat && is_lines
        }
        "copilot" => name == "events.jsonl",
        "goose" => name == "sessions.db",
        "opencode" => name.starts_with("opencode") && is_database,
        "kilo" => name.starts_with("kilo") && is_database,
        "kimi" => name == kimi::NAME,
        "vibe" => name == vibe::NAME,
        "cline" => name.ends_with(cline::ENDING),
        "fast-agent" => name == "session.json",
        "aider" => aider::is_named(path),
        "cursor" => name == "store.db",
        _ => false,
    }
}

/// Whether a file is compressed, and not there as it was.
fn is_packed_alone(path: &Path, name: &str) -> bool {
    name.ends_with(".jsonl.zst") && !path.with_extension("").exists()
}

pub(crate) fn add(agent: &'static str, path: &Path, all: &mut (Vec<Found>, Vec<Error>)) {
    let (found, error) = match agent {
        "opencode" | "kilo" => opencode::list(agent, path),
        "goose" => goose::list(agent, path),
        _ => match stamped(agent, path) {
            Ok(found) => (vec![found], None),
            Err(error) => (Vec::new(), Some(Error::Io { path: path.to_owned(), error })),
        },
    };
    all.0.extend(found);
    all.1.extend(error);
}

/// A session that is one file, with what lies beside it.
fn stamped(agent: &'static str, path: &Path) -> std::io::Result<Found> {
    let metadata = std::fs::metadata(path)?;
    let mut found = Found {
        agent,
        path: path.to_owned(),
        source: path.to_owned(),
        native: String::new(),
        stamp: stamp::of(&metadata),
        changed_at: changed_at(&metadata),
    };
    let beside: Vec<PathBuf> = match agent {
        "cline" => cline::files(path).to_vec(),
        // A file with messages is put in the place of the one before.
        "fast-agent" => path.parent().map(Path::to_owned).into_iter().collect(),
        "kimi" => kimi::about(path).into_iter().collect(),
        "vibe" => vibe::files(path),
        "cursor" => vec![path.with_extension("db-wal")],
        _ => Vec::new(),
    };
    for other in beside.iter().filter(|other| *other != path) {
        let Ok(metadata) = std::fs::metadata(other) else { continue };
        found.stamp = format!("{}+{}", found.stamp, stamp::of(&metadata));
        found.changed_at = found.changed_at.max(changed_at(&metadata));
    }
    Ok(found)
}

type Opened = Result<Option<Box<dyn Transcript>>, Error>;

pub(crate) fn open(found: &Found, cursor: Option<&Cursor>) -> Opened {
    let path = found.path.as_path();
    match found.agent {
        "claude" => lines(
            found,
            cursor,
            || Claude::new(path),
            |state, head| Claude::continued(path, state, head),
        ),
        "codex" => {
            let new = || {
                let mut codex = Codex::new(path);
                codex.name(path);
                codex
            };
            lines(found, cursor, new, Codex::continued)
        }
        "gemini" => lines(found, None, || Gemini::new(path), never),
        "copilot" => lines(found, None, || Copilot::new(path), never),
        "qwen" => lines(
            found,
            cursor,
            || Qwen::new(path),
            |state, head| Qwen::continued(path, state, head),
        ),
        "pi" => lines(found, cursor, Pi::default, Pi::continued),
        "opencode" | "kilo" => Ok(Opencode::open(found)?.map(boxed)),
        "goose" => Ok(Goose::open(found)?.map(boxed)),
        "kimi" => lines(found, cursor, || Kimi::new(path), Kimi::continued),
        "vibe" => Ok(Vibe::open(found).map(boxed)),
        "cline" => Ok(Cline::open(found)?.map(boxed)),
        "fast-agent" => Ok(FastAgent::open(found)?.map(boxed)),
        "aider" => Ok(Aider::open(found)?.map(boxed)),
        "cursor" => Ok(cursor::Cursor::open(found)?.map(boxed)),
        _ => Ok(None),
    }
}

fn boxed(transcript: impl Transcript + 'static) -> Box<dyn Transcript> {
    Box::new(transcript)
}

/// A format whose files have to be read as a whole.
fn never<F>(_: &Value, _: Head) -> Option<F> {
    None
}

fn lines<F: Format + 'static>(
    found: &Found,
    cursor: Option<&Cursor>,
    new: impl FnOnce() -> F,
    continued: impl FnOnce(&Value, Head) -> Option<F>,
) -> Opened {
    let io = |error| Error::Io { path: found.path.clone(), error };
    let input = || -> std::io::Result<Box<dyn Input>> {
        if found.agent == "codex" {
            return codex::open(&found.path);
        }
        Ok(Box::new(File::open(&found.path)?))
    };
    if let Some(cursor) = cursor {
        let reader = Reader::go_on(input().map_err(io)?, found.agent, cursor, continued);
        if let Some(reader) = reader.map_err(io)? {
            return Ok(Some(Box::new(reader)));
        }
    }
    let reader = Reader::open(input().map_err(io)?, found.agent, new()).map_err(io)?;
    Ok(reader.map(boxed))
}

impl Codex {
    /// Takes the name that the thread has in the list of them.
    fn name(&mut self, path: &Path) {
        let name = codex::named(path, &self.head.native);
        self.head.title = name.map(|name| (name, TitleFrom::Person));
    }
}
