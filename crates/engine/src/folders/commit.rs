//! Commits the folder of a session, if the user wants that.

use std::path::{Path, PathBuf};

use rethread_domain::{Session, SessionId};
use rethread_store::Grant;
use rethread_workspace::{self as workspace, CommitPolicy, Hurdle, Workspace};

use super::lock;
use crate::{Engine, Error, Result};

/// The name under which the consent to commit is stored among the grants.
const BY: &str = "rethread";
const WHAT: &str = "commit";

/// The state of a folder in git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    Committed {
        id: String,
        message: String,
    },
    /// Nothing to commit.
    Unchanged,
    /// The session is saved but not committed: why, and what to do.
    Not(String),
}

/// Whether to commit a session when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// It has no folder in a repository, or its workspace says never.
    No,
    Ask,
    /// The workspace asks for it, but this user has not agreed yet.
    AskForAuto,
    Yes,
}

impl Engine {
    /// Whether the user wants the folder of a session committed.
    pub async fn commit_consent(&self, session: &Session) -> Result<Consent> {
        let Some(home) = self.store.home(session.id).await? else { return Ok(Consent::No) };
        let Ok(workspace) = Workspace::open(Path::new(&home.root)) else { return Ok(Consent::No) };
        let folder = Path::new(&home.root).join(&home.path);
        if matches!(workspace::hurdle(&folder), Some(Hurdle::NoRepository | Hurdle::GitMissing)) {
            return Ok(Consent::No);
        }
        let granted = self.store.granted(&session.user, &home.root, BY, WHAT).await?;
        Ok(match (workspace.commit_policy(), granted) {
            (CommitPolicy::Never, _) | (CommitPolicy::Auto, Some(false)) => Consent::No,
            (CommitPolicy::Auto, Some(true)) => Consent::Yes,
            (CommitPolicy::Auto, None) => Consent::AskForAuto,
            (CommitPolicy::Ask, _) => Consent::Ask,
        })
    }

    /// Remembers whether this user lets a workspace commit by itself.
    pub async fn consent_to_commits(&self, user: &str, root: &Path, allowed: bool) -> Result<()> {
        let grant = Grant {
            user: user.to_owned(),
            project: root.to_string_lossy().into_owned(),
            agent: BY.to_owned(),
            what: WHAT.to_owned(),
            allowed,
        };
        Ok(self.store.grant(grant, self.clock.now()).await?)
    }

    /// Commits the folder of a session and nothing else.
    pub async fn commit(&self, id: SessionId) -> Result<Saved> {
        let session = self.store.session(id).await?;
        let Some(home) = self.store.home(id).await? else {
            return Ok(Saved::Not("the session has no folder".to_owned()));
        };
        if let Err(error) = self.follow(id).await {
            return Ok(Saved::Not(error.to_string()));
        }
        let root = Path::new(&home.root);
        let workspace = Workspace::open(root)?;
        // Held while git reads, so that it does not read half a line.
        let path = home.path.parse().map_err(Error::from)?;
        let Some(folder) = workspace.folder(&path)? else {
            return Ok(Saved::Not(format!("{} is gone", home.path)));
        };
        let locked = lock(folder).await?;
        let title = session.title.as_deref().map(|title| self.redactor.redact(title).text);
        let title = title.map_or(session.kind, std::borrow::Cow::into_owned);
        let also = [".gitattributes", ".rethread"].map(|name| root.join(name)).to_vec();
        let folder = root.join(&home.path);
        // Hooks of the repository may take long: run on a thread of its own, which keeps the lock until git has ended.
        let committing = tokio::task::spawn_blocking(move || {
            let _locked = locked;
            workspace::commit(&folder, &files(also), &title)
        });
        Ok(match committing.await {
            Ok(Ok(Some(committed))) => {
                Saved::Committed { id: committed.id, message: committed.message }
            }
            Ok(Ok(None)) => Saved::Unchanged,
            Ok(Err(hurdle)) => Saved::Not(hurdle.to_string()),
            Err(ended) => Saved::Not(ended.to_string()),
        })
    }
}

/// The plain files among the paths, and those in the folders among them.
fn files(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = paths;
    while let Some(path) = left.pop() {
        match std::fs::symlink_metadata(&path) {
            Ok(what) if what.is_file() => found.push(path),
            Ok(what) if what.is_dir() => {
                let Ok(inside) = std::fs::read_dir(&path) else { continue };
                left.extend(inside.flatten().map(|entry| entry.path()));
            }
            _ => (),
        }
    }
    found.sort();
    found
}
