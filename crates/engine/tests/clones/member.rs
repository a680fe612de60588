//! People who share a workspace: each with a clone and a store of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use futures::executor::block_on;
use jiff::Timestamp;
use rethread_domain::session::Beginning;
use rethread_domain::{Session, SessionId};
use rethread_engine::folders::{FolderReport, Workspace};
use rethread_engine::{Clock, Engine, ListFilter, Pruning, Recorder, Span, entry};
use rethread_store::StoreUrl;

/// A clone with a store of its own.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) root: PathBuf,
    pub(crate) engine: Engine,
}

pub(crate) fn at(hour: i8) -> Timestamp {
    format!("2026-11-17T{hour:02}:00:00Z").parse().unwrap()
}

pub(crate) fn engine(root: &Path, store: &Path, hour: i8) -> Engine {
    let store = block_on(rethread_store::open(&StoreUrl::Sqlite(store.to_owned()))).unwrap();
    let workspace = Workspace::open(root).unwrap();
    Engine::new(store, Clock::Fixed(at(hour))).with_workspace(Some(Arc::new(workspace)))
}

pub(crate) fn git(folder: &Path, args: &[&str]) -> Output {
    let who = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "core.editor=true"];
    let more = ["-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"];
    Command::new("git")
        .args(who)
        .args(more)
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap()
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) fn commit(folder: &Path) {
    succeeds(&git(folder, &["add", "--all"]));
    succeeds(&git(folder, &["commit", "--quiet", "--allow-empty", "-m", "all"]));
}

impl Member {
    pub(crate) fn say(&self, id: SessionId, words: &[&str]) {
        let mut recorder = block_on(Recorder::open(&self.engine, id, Pruning::default())).unwrap();
        let now = self.engine.clock().now();
        let lines = words.iter().map(|text| {
            let line = serde_json::json!({"role": "user", "content": text}).to_string();
            entry::parse(line.as_bytes(), now, u64::MAX).unwrap()
        });
        block_on(recorder.record(lines.collect())).unwrap();
        block_on(recorder.finish()).unwrap();
    }

    pub(crate) fn start(&self, title: &str, words: &[&str]) -> SessionId {
        let beginning = Beginning {
            title: Some(title.into()),
            ..Beginning::new("anna", self.root.display().to_string())
        };
        let id = block_on(self.engine.start(beginning)).unwrap().id;
        self.say(id, words);
        id
    }

    pub(crate) fn gather(&self) -> FolderReport {
        block_on(self.engine.gather("anna")).unwrap()
    }

    /// Merges what the other has committed. Where git cannot (one removed what the other changed), what is on the disk is
    /// taken.
    pub(crate) fn merge(&self, other: &Self) {
        succeeds(&git(&self.root, &["fetch", "--quiet", other.root.to_str().unwrap(), "HEAD"]));
        if !git(&self.root, &["merge", "--quiet", "--no-edit", "FETCH_HEAD"]).status.success() {
            commit(&self.root);
        }
    }

    /// Every session with what was said in it.
    pub(crate) fn sessions(&self) -> Sessions {
        let filter = ListFilter { archived: true, limit: 10_000, ..ListFilter::default() };
        let mut found = BTreeMap::new();
        for session in block_on(self.engine.list(&filter)).unwrap() {
            let mut said = block_on(self.engine.messages(session.id, Span::newest(100))).unwrap();
            said.reverse();
            let said = said.iter().map(|one| one.body.head().to_owned()).collect();
            found.insert(session.id, (session, said));
        }
        found
    }

    pub(crate) fn tree(&self) -> String {
        assert_eq!(succeeds(&git(&self.root, &["status", "--porcelain"])), "", "{}", self.name);
        succeeds(&git(&self.root, &["rev-parse", "HEAD^{tree}"]))
    }
}

/// All that is written below a folder.
pub(crate) fn written(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written(&path, found);
        } else {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

pub(crate) type Sessions = BTreeMap<SessionId, (Session, Vec<String>)>;

/// Two clones of an empty workspace.
pub(crate) fn two_clones(folder: &Path) -> [Member; 2] {
    let root = folder.canonicalize().unwrap().join("a");
    fs::create_dir(&root).unwrap();
    succeeds(&git(&root, &["init", "--quiet"]));
    Workspace::init(&root, None).unwrap();
    commit(&root);
    let other = clone_of(folder, "b", 9);
    [Member { name: "a", engine: engine(&root, &folder.join("a.db"), 8), root }, other]
}

/// A clone of the first one as it is committed now.
pub(crate) fn clone_of(folder: &Path, name: &'static str, hour: i8) -> Member {
    succeeds(&git(folder, &["clone", "--quiet", "a", name]));
    let root = folder.canonicalize().unwrap().join(name);
    let engine = engine(&root, &folder.join(format!("{name}.db")), hour);
    Member { name, root, engine }
}

impl Member {
    pub(crate) fn folder_of(&self, id: SessionId) -> PathBuf {
        block_on(self.engine.folder_of(id)).unwrap().unwrap()
    }
}
