//! Session folders beside the code: a projection of the log, and the way back for what comes by git.
//!
//! The store comes first, and a folder follows: it is updated when its session is written to, and after a crash. The state in
//! which we left a folder's log is remembered; while it is unchanged, following costs in proportion to what is new. Otherwise
//! somebody else has changed it, and it is compared with the store line by line.

mod arrive;
mod card;
mod commit;
mod compare;
mod keep_up;
mod lines;
mod look;
mod moved;
mod origin;
mod purged;
mod reconcile;
mod remove;
mod repair;
mod returned;
mod separate;
mod twice;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use rethread_domain::{Message, Seq, Session, SessionId};
use rethread_store::{Home, Housed, Order, Span};
use rethread_workspace::{Folder, FolderPath, Locked, Tried, is_kind_name, topic};

pub(crate) use self::keep_up::Gathered;
use self::lines::Owners;
pub(crate) use self::origin::origin_of;
use crate::{Engine, Error, Result};

pub use commit::{Consent, Saved};
pub use repair::FolderHealth;
pub use rethread_workspace::{CommitPolicy, Kind, Workspace};

/// How many messages are projected at a time.
const PAGE: u32 = 200;
/// How long to wait for others who write to a folder.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The result of examining a folder, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderReport {
    /// Sessions that were not known before.
    pub arrived: Vec<SessionId>,
    /// Sessions that were continued elsewhere, with the number of new messages.
    pub went_on: Vec<(SessionId, u32)>,
    /// Forks that were created because somebody else continued at the same time, each with its origin.
    pub forked: Vec<(SessionId, SessionId)>,
    /// Messages that were purged elsewhere, and now here.
    pub purged: Vec<(SessionId, Seq)>,
    /// Sessions of which another folder came back with a purged text. It was removed again; everything else in it is in the
    /// session's own folder.
    pub purged_again: Vec<SessionId>,
    /// Sessions that had shared a folder with another one, and their new folders.
    pub separated: Vec<(SessionId, String)>,
    /// Sessions with messages that had been missing and are back, with how many.
    pub healed: Vec<(SessionId, u32)>,
    /// Problems.
    pub troubles: Vec<String>,
    /// Folders of sessions that were deleted here and came back by git or by hand: they are left alone.
    pub deleted_here: Vec<String>,
    /// What was masked, and how often.
    pub masked: BTreeMap<String, u32>,
}

impl FolderReport {
    fn add(&mut self, other: Self) {
        self.arrived.extend(other.arrived);
        self.went_on.extend(other.went_on);
        self.forked.extend(other.forked);
        self.purged.extend(other.purged);
        self.purged_again.extend(other.purged_again);
        self.separated.extend(other.separated);
        self.healed.extend(other.healed);
        self.troubles.extend(other.troubles);
        self.deleted_here.extend(other.deleted_here);
        self.mask(other.masked.into_iter().flat_map(|(what, n)| (0..n).map(move |_| what.clone())));
    }

    fn mask(&mut self, found: impl IntoIterator<Item = String>) {
        for what in found {
            *self.masked.entry(what).or_default() += 1;
        }
    }
}

/// Locks a folder. The holder may be a task of this very process, which must be able to run meanwhile.
async fn lock(mut folder: Folder) -> Result<Locked> {
    let began = Instant::now();
    loop {
        match folder.try_lock()? {
            Tried::Locked(locked) => return Ok(locked),
            Tried::Held(held) if began.elapsed() >= PATIENCE => return Err(held.busy().into()),
            Tried::Held(held) => folder = held,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A locked folder with the session that it is followed for.
struct Place {
    locked: Locked,
    path: FolderPath,
    home: Home,
}

impl Engine {
    /// Updates the folder of a session from its log. Does nothing if it has no folder.
    pub async fn follow(&self, id: SessionId) -> Result<FolderReport> {
        let mut followed = FolderReport::default();
        let home = self.store.home(id).await?;
        if home.is_none() && self.workspace.is_none() {
            return Ok(followed);
        }
        let session = self.store.session(id).await?;
        if session.deleted_at.is_some() {
            return Ok(followed);
        }
        let Some(home) = self.home(&session, home).await? else { return Ok(followed) };
        let Some(place) = self.enter(id, home).await? else { return Ok(followed) };
        // Others may have written while we waited for the lock.
        let session = self.store.session(id).await?;
        let stands = place.locked.stamp()?.map(|stamp| stamp.to_string()).unwrap_or_default();
        if stands == place.home.log && !stands.is_empty() {
            self.extend(&place, &session, &mut followed).await?;
        } else {
            self.reconcile(&place, &mut followed).await?;
            if followed.separated.iter().any(|(moved, _)| *moved == id) {
                drop(place);
                followed.add(Box::pin(self.follow(id)).await?);
            }
        }
        Ok(followed)
    }

    /// The same as a side effect of something else: problems are reported later.
    pub(crate) async fn follow_on(&self, id: SessionId) {
        // Boxed, as most sessions have no folder and need not carry the large future.
        match Box::pin(self.follow(id)).await {
            Ok(followed) => self.note(followed),
            Err(error) => self.note(FolderReport {
                troubles: vec![format!(
                    "the session is saved, its folder could not follow: {error}"
                )],
                ..FolderReport::default()
            }),
        }
    }

    /// What there is to report about folders since the last call.
    pub fn take_notes(&self) -> FolderReport {
        let mut notes = self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut notes)
    }

    pub(crate) fn note(&self, followed: FolderReport) {
        let mut notes = self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        notes.add(followed);
    }

    /// The folder of a session. In a workspace, a session with messages gets one.
    async fn home(&self, session: &Session, home: Option<Home>) -> Result<Option<Home>> {
        if home.is_some() {
            return Ok(home);
        }
        let Some(workspace) = self.workspace_around(session) else { return Ok(None) };
        if session.last_seq == 0 || session.deleted_at.is_some() {
            return Ok(None);
        }
        let date = session.started_at.to_zoned(TimeZone::system()).date().to_string();
        // The name of a folder is visible wherever the folder goes.
        let title = self.redactor.redact(session.title.as_deref().unwrap_or_default()).text;
        let named = topic_of(&title, session.id);
        let kind = if is_kind_name(&session.kind) { session.kind.as_str() } else { "chat" };
        let path = workspace.create(&date, kind, &named)?;
        let home = unseen(workspace.root(), &path, session.id);
        let placed = self.store.place(session.id, home.clone()).await?;
        if placed != home {
            // Another process was faster.
            workspace.discard(&path)?;
        }
        Ok(Some(placed))
    }

    /// Remembers that a new session is to have a folder, if it is about something in the workspace.
    pub(crate) async fn await_home(&self, session: &Session) -> Result<()> {
        if let Some(workspace) = self.workspace_around(session) {
            self.store.await_home(session.id, &workspace.root().to_string_lossy()).await?;
        }
        Ok(())
    }

    fn workspace_around(&self, session: &Session) -> Option<&Workspace> {
        let workspace = self.workspace.as_deref()?;
        Path::new(&session.project).starts_with(workspace.root()).then_some(workspace)
    }

    fn workspace_of(&self, home: &Home) -> Result<Arc<Workspace>> {
        match &self.workspace {
            Some(own) if own.root() == Path::new(&home.root) => Ok(Arc::clone(own)),
            _ => Ok(Arc::new(Workspace::open(Path::new(&home.root))?)),
        }
    }

    /// Locks the folder of a session; `None` if its workspace is not here.
    async fn enter(&self, id: SessionId, home: Home) -> Result<Option<Place>> {
        if !Path::new(&home.root).is_dir() {
            return Ok(None);
        }
        let workspace = self.workspace_of(&home)?;
        let mut path: FolderPath = home.path.parse()?;
        if workspace.folder(&path)?.is_none()
            && let Some(renamed) = self.renamed(&workspace, &home).await?
        {
            path = renamed;
        }
        let locked = lock(workspace.restore(&path)?).await?;
        // The previous holder of the lock may have updated it.
        let home = self.store.home(id).await?.unwrap_or(home);
        Ok(Some(Place { locked, path, home }))
    }

    /// Appends what is new to a folder that is unchanged.
    async fn extend(
        &self,
        place: &Place,
        session: &Session,
        followed: &mut FolderReport,
    ) -> Result<()> {
        let mut home = place.home.clone();
        self.write_on(&place.locked, session, &mut home, followed).await?;
        self.describe(place, session, &mut home, followed).await?;
        if home != place.home {
            self.store.set_home(session.id, home).await?;
        }
        Ok(())
    }

    /// Writes the messages after those that the folder has.
    async fn write_on(
        &self,
        locked: &Locked,
        session: &Session,
        home: &mut Home,
        followed: &mut FolderReport,
    ) -> Result<()> {
        let owners = self.owners(session).await?;
        while home.seq < session.last_seq {
            let page = self.page(session, home.seq + 1).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            let mut lines = Vec::with_capacity(page.len());
            for message in &page {
                let id = owners.line_id(message);
                let (line, masked) = lines::line(id, &home.last_id, message, &self.redactor);
                followed.mask(masked);
                home.last_id.clone_from(&line.id);
                lines.push(line);
            }
            let appended = locked.append(&lines, false)?;
            home.log = appended.stamp.to_string();
            home.seq = last;
        }
        Ok(())
    }

    /// Messages from `from` on, with whole texts.
    async fn page(&self, session: &Session, from: Seq) -> Result<Vec<Message>> {
        let span = Span { from, to: session.last_seq, order: Order::OldestFirst, limit: PAGE };
        Ok(self.store.messages(session.id, span).await?)
    }

    async fn owners(&self, session: &Session) -> Result<Owners> {
        let mut shared = Vec::new();
        let mut origin = session.forked_from;
        while let Some(one) = origin {
            shared.push((one.seq, one.session));
            origin = match self.store.session(one.session).await {
                Ok(session) => session.forked_from,
                Err(rethread_store::Error::NotFound(_)) => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Owners::new(session, shared))
    }

    /// The workspace that a session lives in.
    pub async fn home_root(&self, id: SessionId) -> Result<Option<PathBuf>> {
        Ok(self.store.home(id).await?.map(|home| PathBuf::from(home.root)))
    }

    /// Changes the project of sessions whose folder has moved; returns how many there are.
    pub async fn rehome(&self, from: &str, to: &str) -> Result<u32> {
        Ok(self.store.rehome(from, to, self.clock.now()).await?)
    }

    /// The path of a session's folder, for people.
    pub async fn folder_of(&self, id: SessionId) -> Result<Option<PathBuf>> {
        let home = self.store.home(id).await?;
        Ok(home.map(|home| Path::new(&home.root).join(home.path)))
    }

    /// The session of a folder, by its name, `<date>/<name>`, or its path.
    pub async fn session_in(&self, folder: &str) -> Result<Vec<SessionId>> {
        let Some(workspace) = &self.workspace else { return Ok(Vec::new()) };
        let root = workspace.root();
        let wanted = folder.trim_end_matches('/');
        let absolute = std::path::absolute(wanted).ok();
        let beneath = absolute.as_deref().and_then(|path| path.strip_prefix(root).ok());
        let homes = self.store.homes(&root.to_string_lossy()).await?;
        let mut found: Vec<(String, SessionId)> = Vec::new();
        for Housed { id, home, .. } in homes {
            // The part of the id at the end of a name may be omitted.
            let short = format!("-{}", id.short());
            let names = [home.path.as_str(), home.path.strip_suffix(&short).unwrap_or(&home.path)];
            let is_meant = beneath
                .is_some_and(|path| names.iter().any(|name| path == Path::new(name)))
                || names.iter().any(|name| {
                    *name == wanted
                        || name.rsplit('/').next() == Some(wanted)
                        || name.strip_prefix("conversations/") == Some(wanted)
                });
            // Of the branches in one folder, the first one.
            if is_meant && !found.iter().any(|(path, _)| *path == home.path) {
                found.push((home.path, id));
            }
        }
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }
}

/// The topic in the name of a session's folder. It ends with a part of the session's id: two people who start a session at the
/// same time in different clones never get the same folder.
fn topic_of(title: &str, id: SessionId) -> String {
    const LONGEST: usize = 50;
    let named = topic(title);
    let named = named[..named.floor_char_boundary(LONGEST)].trim_end_matches('-');
    format!("{named}-{}", id.short())
}

/// A folder of which nothing is known yet.
fn unseen(root: &Path, path: &FolderPath, id: SessionId) -> Home {
    Home {
        root: root.to_string_lossy().into_owned(),
        path: path.to_string(),
        seq: 0,
        last_id: id.to_string(),
        facts: 0,
        told: String::new(),
        log: String::new(),
        card: String::new(),
    }
}

impl From<rethread_workspace::Error> for Error {
    fn from(error: rethread_workspace::Error) -> Self {
        Self::Folder(error.to_string())
    }
}
