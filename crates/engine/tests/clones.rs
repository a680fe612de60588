//! Two people at once: whatever each does with a session in a clone of the workspace, merged with a real git in both
//! directions, both end up with the same, and nothing is lost, mixed up or brought back.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use futures::executor::block_on;
use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::{Beginning, Move};
use rethread_domain::{Session, SessionId};
use rethread_engine::folders::{Followed, Workspace};
use rethread_engine::{Clock, Engine, ListFilter, Pruning, Recorder, Span, entry};
use rethread_store::StoreUrl;

const ACTIONS: [Action; 7] = [
    Action::Start,
    Action::GoOn,
    Action::Rename,
    Action::Stop,
    Action::Archive,
    Action::Delete,
    Action::Purge,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Start,
    GoOn,
    Rename,
    Stop,
    Archive,
    Delete,
    Purge,
}

/// A clone with a store of its own.
struct Member {
    name: &'static str,
    root: PathBuf,
    engine: Engine,
}

fn at(hour: i8) -> Timestamp {
    format!("2026-11-17T{hour:02}:00:00Z").parse().unwrap()
}

fn engine(root: &Path, store: &Path, hour: i8) -> Engine {
    let store = block_on(rethread_store::open(&StoreUrl::Sqlite(store.to_owned()))).unwrap();
    let workspace = Workspace::open(root).unwrap();
    Engine::new(store, Clock::Fixed(at(hour))).with_workspace(Some(Arc::new(workspace)))
}

fn git(folder: &Path, args: &[&str]) -> Output {
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
fn succeeds(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn commit(folder: &Path) {
    succeeds(&git(folder, &["add", "--all"]));
    succeeds(&git(folder, &["commit", "--quiet", "--allow-empty", "-m", "all"]));
}

impl Member {
    fn say(&self, id: SessionId, words: &[&str]) {
        let mut recorder = block_on(Recorder::open(&self.engine, id, Pruning::default())).unwrap();
        let now = self.engine.clock().now();
        let lines = words.iter().map(|text| {
            let line = serde_json::json!({"role": "user", "content": text}).to_string();
            entry::parse(line.as_bytes(), now, u64::MAX).unwrap()
        });
        block_on(recorder.record(lines.collect())).unwrap();
        block_on(recorder.finish()).unwrap();
    }

    fn start(&self, title: &str, words: &[&str]) -> SessionId {
        let beginning = Beginning {
            user: "anna".into(),
            project: self.root.display().to_string(),
            kind: "chat".into(),
            title: Some(title.into()),
            agent: None,
            model: None,
            command: None,
            prompt_hash: None,
            tools: Vec::new(),
            forked_from: None,
            parent: None,
        };
        let id = block_on(self.engine.start(beginning)).unwrap().id;
        self.say(id, words);
        id
    }

    fn act(&self, action: Action, id: SessionId, pair: &str) -> Option<SessionId> {
        let name = self.name;
        match action {
            Action::Start => {
                let words = format!("We decided to start by {name} in {pair}.");
                return Some(self.start("The same title", &[&words]));
            }
            Action::GoOn => {
                self.say(id, &[&went_on(name, pair)]);
                block_on(self.engine.shift(id, Move::Pause)).unwrap();
            }
            Action::Rename => {
                let title = format!("renamed by {name} in {pair}");
                block_on(self.engine.retitle(id, &title, TitleFrom::Person)).unwrap();
            }
            Action::Stop => drop(block_on(self.engine.shift(id, Move::Complete)).unwrap()),
            Action::Archive => drop(block_on(self.engine.shift(id, Move::Archive)).unwrap()),
            Action::Delete => drop(block_on(self.engine.delete(id)).unwrap()),
            Action::Purge => drop(block_on(self.engine.purge(id, 1)).unwrap()),
        }
        None
    }

    fn gather(&self) -> Followed {
        block_on(self.engine.gather("anna")).unwrap()
    }

    /// Merges what the other has committed. Where git cannot (one removed what the other changed), what is on the disk is
    /// taken.
    fn merge(&self, other: &Self) {
        succeeds(&git(&self.root, &["fetch", "--quiet", other.root.to_str().unwrap(), "HEAD"]));
        if !git(&self.root, &["merge", "--quiet", "--no-edit", "FETCH_HEAD"]).status.success() {
            commit(&self.root);
        }
    }

    /// Every session with what was said in it.
    fn sessions(&self) -> Sessions {
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

    fn tree(&self) -> String {
        assert_eq!(succeeds(&git(&self.root, &["status", "--porcelain"])), "", "{}", self.name);
        succeeds(&git(&self.root, &["rev-parse", "HEAD^{tree}"]))
    }
}

fn went_on(name: &str, pair: &str) -> String {
    format!("We decided to go on by {name} in {pair}.")
}

fn secret(pair: &str) -> String {
    format!("A question about {pair} nobody should have asked.")
}

/// All that is written below a folder.
fn written(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written(&path, found);
        } else {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

type Sessions = BTreeMap<SessionId, (Session, Vec<String>)>;

struct Pair {
    name: String,
    id: SessionId,
    actions: [Action; 2],
}

/// Everything that holds for one session after both have done something with it.
fn check(pair: &Pair, members: [&Member; 2], all: [&Sessions; 2], files: &str) {
    let mut seen = Vec::new();
    for (own, member) in members.iter().enumerate() {
        let context = format!("{} in clone {}", pair.name, member.name);
        let sessions = all[own];
        let found = sessions.get(&pair.id);
        if pair.actions[own] == Action::Delete {
            assert!(found.is_none(), "{context}: came back");
            continue;
        }
        let (session, said) = found.unwrap_or_else(|| panic!("{context}: is gone"));
        let everything: Vec<&String> = sessions.values().flat_map(|(_, said)| said).collect();
        for (action, other) in pair.actions.iter().zip(members) {
            let words = went_on(other.name, &pair.name);
            let count = everything.iter().filter(|text| ***text == words).count();
            assert_eq!(count, usize::from(*action == Action::GoOn), "{context}: {words}");
        }
        let is_purged = pair.actions.contains(&Action::Purge);
        assert_eq!(said[0] == secret(&pair.name), !is_purged, "{context}: {said:?}");
        if is_purged {
            assert!(!files.contains(&secret(&pair.name)), "{context}: is still in a file");
        }
        seen.push((session.title.clone(), session.status()));
    }
    if let [one, other] = &seen[..] {
        assert_eq!(one, other, "{}: title and status", pair.name);
        let last = pair.actions.iter().rposition(|action| *action == Action::Rename);
        if let Some(renamed) = last {
            let title = format!("renamed by {} in {}", members[renamed].name, pair.name);
            assert_eq!(one.0.as_deref(), Some(title.as_str()));
        }
    }
}

/// Runs all pairs in two clones; `turned` has the second clone merge first.
fn all_pairs(turned: bool) {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().canonicalize().unwrap().join(name));
    let stores = ["a.db", "b.db"].map(|name| folder.path().join(name));
    fs::create_dir(&roots[0]).unwrap();
    succeeds(&git(&roots[0], &["init", "--quiet"]));
    Workspace::init(&roots[0], None).unwrap();
    let member = |which: usize, hour| Member {
        name: ["A", "B"][which],
        root: roots[which].clone(),
        engine: engine(&roots[which], &stores[which], hour),
    };
    let first = member(0, 8);
    let mut pairs = Vec::new();
    for actions in ACTIONS.iter().flat_map(|one| ACTIONS.map(|other| [*one, other])) {
        let name = format!("{:?}-{:?}", actions[0], actions[1]);
        let decided = format!("We decided something in {name}.");
        let id = first.start(&format!("Pair {name}"), &[&secret(&name), &decided]);
        block_on(first.engine.shift(id, Move::Pause)).unwrap();
        pairs.push(Pair { name, id, actions });
    }
    commit(&roots[0]);
    succeeds(&git(folder.path(), &["clone", "--quiet", "a", "b"]));
    let second = member(1, 9);
    assert_eq!(second.gather().arrived.len(), pairs.len());
    assert_eq!(second.tree(), first.tree(), "looking changed something");

    // The second one acts later, so what it sets counts.
    let (a, b) = (member(0, 10), member(1, 11));
    let mut started = Vec::new();
    for pair in &pairs {
        started.extend(a.act(pair.actions[0], pair.id, &pair.name));
        started.extend(b.act(pair.actions[1], pair.id, &pair.name));
    }
    commit(&a.root);
    commit(&b.root);
    let (a, b) = (member(0, 12), member(1, 12));
    let order = if turned { [&b, &a] } else { [&a, &b] };
    for round in 0..3 {
        for (one, other) in [(order[0], order[1]), (order[1], order[0])] {
            one.merge(other);
            let followed = one.gather();
            assert_eq!(followed.troubles, [] as [String; 0], "round {round}, {}", one.name);
            commit(&one.root);
        }
    }
    check_all(&pairs, &started, &a, &b);
}

/// Everything that holds in the end.
fn check_all(pairs: &[Pair], started: &[SessionId], a: &Member, b: &Member) {
    let mut files = String::new();
    written(&a.root.join("conversations"), &mut files);
    let all = [a, b].map(Member::sessions);
    for pair in pairs {
        check(pair, [a, b], all.each_ref(), &files);
    }
    for (member, sessions) in [a, b].into_iter().zip(&all) {
        for (session, said) in sessions.values() {
            for line in session.summary.iter().flat_map(|summary| summary.lines()) {
                let told = line.split_once(": ").map_or(line, |(_, told)| told);
                let is_said = said.iter().any(|said| said.contains(told));
                assert!(is_said, "{}: {line} in {said:?}", member.name);
            }
        }
        for id in started {
            assert_eq!(sessions[id].1.len(), 1, "{id} in {}", member.name);
        }
        assert_eq!(
            member.gather(),
            Followed { deleted_here: member.gather().deleted_here, ..Followed::default() }
        );
        let health = block_on(member.engine.check()).unwrap().health;
        assert_eq!((health.damage, health.drift), (vec![], vec![]));
    }
    a.merge(b);
    b.merge(a);
    assert_eq!(a.tree(), b.tree());
}

#[test]
fn whatever_two_people_do_at_once_both_end_up_with_the_same() {
    all_pairs(false);
}

#[test]
fn whatever_two_people_do_at_once_both_end_up_with_the_same_merged_the_other_way() {
    all_pairs(true);
}
