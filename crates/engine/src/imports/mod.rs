//! Taking in the sessions that other agents keep on this machine.
//!
//! What was read before is not read again: a row of the store says how each file stood. What is new is appended; where the
//! agent has gone back and taken another way, that way becomes a fork. Ids follow from the agent's own, so that a session
//! is the same one wherever and however often it is imported.

mod begin;
mod live;
mod merge;
mod one;
mod story;
mod stream;
mod take;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_import::{self as import, Found, Roots};
use rethread_store::Import;
use serde::Serialize;

use crate::{Engine, Result, program};

pub use live::Injection;
pub use rethread_import::hook;
pub use rethread_import::{AGENTS, Roots as AgentFolders, is_archive, is_session_of_agent};
pub use stream::LiveStream;

/// So many messages go into the search index at once.
const INDEX_STEP: u32 = 500;
/// So many folders that sessions were held in are looked into for agents that keep theirs there.
const MOST_PROJECTS: u32 = 10_000;
/// So many bytes are read before somebody is asked whether to import them.
const MOST_LOOKED_INTO: u64 = 64 * 1024 * 1024;
/// So much is told of what could not be read.
const MOST_TROUBLES: usize = 100;

/// What is to be imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whose the sessions are then.
    pub user: String,
    /// Where agents keep theirs.
    pub roots: Roots,
    /// Only those of these agents; of all where it is empty.
    pub agents: Vec<String>,
    /// Only what is in these files and folders; what is found in the agents' own folders where it is empty.
    pub paths: Vec<PathBuf>,
    /// Only what has changed since.
    pub since: Option<Timestamp>,
    /// Nothing is written.
    pub dry_run: bool,
    /// Folders whose sessions are not recorded, by every path that they are reached by.
    pub excluded: Vec<PathBuf>,
    /// A longer text is cut.
    pub most_bytes: u64,
    /// The sessions are going on: they are not paused, and tool calls without a result wait for it.
    pub is_live: bool,
}

impl ImportOptions {
    /// Whether sessions that were held in this folder are kept out.
    fn excludes(&self, folder: Option<&str>) -> bool {
        let is_in = |folder: &str| {
            self.excluded.iter().any(|one| program::is_excluded(Path::new(folder), one))
        };
        folder.is_some_and(is_in)
    }
}

/// What became of the sessions of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub found: u64,
    /// Taken in now for the first time.
    pub new: u64,
    /// Known, with more messages now.
    pub grown: u64,
    /// Known, with nothing new.
    pub unchanged: u64,
    /// Recorded by Rethread itself while they were held.
    pub recorded: u64,
    /// Deleted or archived here, and left alone.
    pub put_away: u64,
    /// Held in a folder whose sessions are not recorded.
    pub excluded: u64,
    /// Without a message.
    pub empty: u64,
    /// Last changed before the time that was asked for.
    pub older: u64,
    /// Not readable at all.
    pub failed: u64,
    /// Ways that the agent took after it had gone back: forks now.
    pub forked: u64,
    /// Imported earlier, and since deleted by the agent: they stay here.
    pub gone: u64,
    pub messages: u64,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TroubleWith {
    pub path: String,
    /// The byte at which it begins; nothing for a whole file.
    pub at: Option<u64>,
    pub why: String,
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    pub agents: BTreeMap<String, Tally>,
    pub troubles: Vec<TroubleWith>,
    /// How many more there were.
    pub more_troubles: u64,
    /// The sessions that are new or have grown.
    pub sessions: Vec<String>,
}

impl ImportReport {
    fn tally(&mut self, agent: &str) -> &mut Tally {
        self.agents.entry(agent.to_owned()).or_default()
    }

    fn trouble(&mut self, path: &Path, at: Option<u64>, why: String) {
        if self.troubles.len() < MOST_TROUBLES {
            self.troubles.push(TroubleWith { path: path.display().to_string(), at, why });
        } else {
            self.more_troubles += 1;
        }
    }

    /// Something that cannot even be looked into.
    fn closed(&mut self, error: &import::Error) {
        let (import::Error::Io { path, .. } | import::Error::Unreadable { path, .. }) = error;
        self.trouble(path, None, why_of(error));
    }

    /// All agents together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for one in self.agents.values() {
            total.found += one.found;
            total.new += one.new;
            total.grown += one.grown;
            total.unchanged += one.unchanged;
            total.recorded += one.recorded;
            total.put_away += one.put_away;
            total.excluded += one.excluded;
            total.empty += one.empty;
            total.older += one.older;
            total.failed += one.failed;
            total.forked += one.forked;
            total.gone += one.gone;
            total.messages += one.messages;
        }
        total
    }
}

/// What is wrong, without the path.
fn why_of(error: &import::Error) -> String {
    match error {
        import::Error::Io { error, .. } => error.to_string(),
        import::Error::Unreadable { why, .. } => why.clone(),
    }
}

/// How far an import has got.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    pub agent: &'a str,
    pub done: usize,
    pub of: usize,
    pub messages: u64,
}

/// What the store knows of earlier imports.
struct Known {
    rows: HashMap<(String, String), Import>,
    /// Sessions of agents that Rethread has talked in: the agent and its id.
    held: HashMap<(String, String), SessionId>,
    /// Sessions of agents that were made for conversations of ours, also those that hold none any more.
    opened: HashMap<(String, String), SessionId>,
    /// Sessions that came from imports.
    imported: HashSet<SessionId>,
    /// Where a session that is going on is recorded already.
    live: Option<SessionId>,
}

impl Known {
    /// Whether Rethread itself recorded what was said in a session of an agent, in another session than this one.
    fn is_recorded(&self, agent: &str, native: &str, id: SessionId) -> bool {
        let key = (agent.to_owned(), native.to_owned());
        let held = self.held.get(&key).filter(|own| !self.imported.contains(own));
        self.opened.get(&key).or(held).is_some_and(|own| *own != id)
    }

    fn row(&self, found: &Found) -> Option<&Import> {
        self.rows.get(&(found.source.display().to_string(), found.native.clone()))
    }
}

/// The id that a session of another agent has here, wherever it is imported.
fn session_id(agent: &str, native: &str, instance: &str) -> SessionId {
    SessionId::derived(&import::digest_of(&[agent, native, instance]))
}

impl Engine {
    /// How many sessions of each agent would come in. Where there is very much to read, the rest is counted by its names.
    pub async fn sessions_of_agents(
        &self,
        options: &ImportOptions,
    ) -> Result<BTreeMap<&'static str, u64>> {
        let roots = self.with_projects(&options.roots).await?;
        let options = &ImportOptions { roots, dry_run: true, ..options.clone() };
        let known = self.known_imports().await?;
        let mut counted = BTreeMap::new();
        let (mut left, mut last) = (MOST_LOOKED_INTO, None);
        for one in all_found(options).found {
            // A database is gone through once, however many sessions are in it.
            if last.as_ref() != Some(&one.path) {
                let bytes = std::fs::metadata(&one.path).map_or(0, |file| file.len());
                left = left.saturating_sub(bytes);
                last = Some(one.path.clone());
            }
            let mut report = ImportReport::default();
            if left > 0 {
                self.import_one(options, &known, &one, &mut report).await?;
            }
            let count = if left > 0 { report.total().new } else { 1 };
            *counted.entry(one.agent).or_default() += count;
        }
        counted.retain(|_, count| *count > 0);
        Ok(counted)
    }

    /// Remembers which sessions of agents were made for a session that is about to be erased, so that no import brings it back.
    pub(crate) async fn bury_natives(&self, id: SessionId) -> Result<()> {
        let (opened, held) = (self.store.opened_natives().await?, self.store.natives().await?);
        let own = opened.iter().chain(&held).filter(|(.., whose)| *whose == id);
        let ids: Vec<String> =
            own.map(|(agent, native, _)| session_id(agent, native, "").to_string()).collect();
        Ok(self.store.bury(ids, self.clock.now()).await?)
    }

    /// The agent whose files a session came from.
    pub async fn imported_from(&self, id: SessionId) -> Result<Option<String>> {
        Ok(self.store.imported_from(id).await?)
    }

    /// When an agent was seen to have deleted what a session was imported from; nothing where some of it is there.
    pub async fn deleted_by_agent(&self, id: SessionId) -> Result<Option<Timestamp>> {
        let rows = self.store.imports().await?.into_iter().filter(|row| row.session == Some(id));
        let gone: Option<Vec<Timestamp>> = rows.map(|row| row.gone_at).collect();
        Ok(gone.and_then(|all| all.into_iter().max()))
    }

    /// Whether sessions of other agents were looked at before.
    pub async fn has_imported(&self) -> Result<bool> {
        Ok(!self.store.imports().await?.is_empty())
    }

    /// The places where sessions lie, with the folders that are known here.
    async fn with_projects(&self, roots: &Roots) -> Result<Roots> {
        let mut roots = roots.clone();
        let known = self.store.projects(MOST_PROJECTS).await?.into_iter().map(PathBuf::from);
        let known: Vec<PathBuf> = known.filter(|one| !roots.projects.contains(one)).collect();
        roots.projects.extend(known);
        Ok(roots)
    }

    /// Takes in what is new in the sessions of other agents. Tells how far it is after each session.
    pub async fn import_sessions(
        &self,
        options: &ImportOptions,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<ImportReport> {
        let options =
            &ImportOptions { roots: self.with_projects(&options.roots).await?, ..options.clone() };
        let All { found, closed, unpacked } = all_found(options);
        let known = self.known_imports().await?;
        let mut report = ImportReport::default();
        for error in closed {
            report.closed(&error);
        }
        let (mut messages, of) = (0, found.len());
        for (done, one) in found.iter().enumerate() {
            progress(Progress { agent: one.agent, done, of, messages });
            self.import_one(options, &known, one, &mut report).await?;
            messages = report.total().messages;
        }
        drop(unpacked);
        progress(Progress { agent: "", done: of, of, messages });
        if !options.dry_run {
            if options.paths.is_empty() && options.since.is_none() {
                self.mark_gone(options, &known, &found, &mut report).await?;
            }
            while self.store.index(INDEX_STEP).await? > 0 {}
        }
        Ok(report)
    }

    async fn known_imports(&self) -> Result<Known> {
        let rows = self.store.imports().await?;
        let key = |row: &Import| (row.source.clone(), row.native.clone());
        let rows = rows.into_iter().map(|row| (key(&row), row)).collect();
        let by_key = |all: Vec<(String, String, SessionId)>| {
            all.into_iter().map(|(agent, native, id)| ((agent, native), id)).collect()
        };
        let held = by_key(self.store.natives().await?);
        let opened = by_key(self.store.opened_natives().await?);
        let imported = self.store.imported_sessions().await?;
        Ok(Known { rows, held, opened, imported, live: None })
    }

    /// What the agents have deleted stays here, and is marked.
    async fn mark_gone(
        &self,
        options: &ImportOptions,
        known: &Known,
        found: &[Found],
        report: &mut ImportReport,
    ) -> Result<()> {
        let here: HashSet<(String, &str)> = found
            .iter()
            .map(|one| (one.source.display().to_string(), one.native.as_str()))
            .collect();
        for row in known.rows.values() {
            let is_looked_for = options.agents.is_empty() || options.agents.contains(&row.agent);
            let is_here = here.contains(&(row.source.clone(), row.native.as_str()));
            let is_own = import::is_in_roots(&row.agent, Path::new(&row.source), &options.roots);
            if !is_looked_for || is_here || !is_own || row.session.is_none() {
                continue;
            }
            report.tally(&row.agent).gone += 1;
            if row.gone_at.is_none() {
                let gone_at = Some(self.clock.now());
                self.store.set_import(Import { gone_at, ..row.clone() }).await?;
            }
        }
        Ok(())
    }
}

/// What there is.
#[derive(Default)]
struct All {
    found: Vec<Found>,
    /// What cannot be looked into.
    closed: Vec<import::Error>,
    /// Archives that some of it lies in.
    unpacked: Vec<import::Unpacked>,
}

fn all_found(options: &ImportOptions) -> All {
    let is_wanted =
        |agent: &str| options.agents.is_empty() || options.agents.iter().any(|one| one == agent);
    let mut all = All::default();
    if options.paths.is_empty() {
        for agent in AGENTS.iter().filter(|agent| is_wanted(agent)) {
            let (found, not) = import::find(agent, &options.roots);
            all.found.extend(found);
            all.closed.extend(not);
        }
    }
    // The same file may be in several folders that are named.
    let mut seen = HashSet::new();
    for path in &options.paths {
        let found = all.look_at(path).into_iter().filter(|one| is_wanted(one.agent));
        let new = found.filter(|one| seen.insert((one.source.clone(), one.native.clone())));
        all.found.extend(new.collect::<Vec<_>>());
    }
    all
}

impl All {
    /// What is in a file, a folder or an archive that somebody names.
    fn look_at(&mut self, path: &Path) -> Vec<Found> {
        let (found, not) = import::look_at(path);
        self.closed.extend(not);
        if !found.is_empty() || !import::is_archive(path) {
            return found;
        }
        match import::unpack(path) {
            Ok(mut unpacked) => {
                let (found, not) = import::look_at(unpacked.folder());
                self.closed.extend(unpacked.left_out().into_iter().chain(not));
                let found = found.into_iter().map(|one| unpacked.name(one)).collect();
                self.unpacked.push(unpacked);
                found
            }
            Err(error) => {
                self.closed.push(error);
                Vec::new()
            }
        }
    }
}
