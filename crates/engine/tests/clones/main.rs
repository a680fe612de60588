//! Two people at once: whatever each does with a session in a clone of the workspace, merged with a real git in both
//! directions, both end up with the same, and nothing is lost, mixed up or brought back.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod copied;
mod member;
mod purged;

use std::fs;
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::Move;
use rethread_engine::folders::{FolderReport, Workspace};

use member::{Member, Sessions, clone_of, commit, engine, git, succeeds, two_clones, written};

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

impl Member {
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
}

fn went_on(name: &str, pair: &str) -> String {
    format!("We decided to go on by {name} in {pair}.")
}

fn secret(pair: &str) -> String {
    format!("A question about {pair} nobody should have asked.")
}

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
            FolderReport { deleted_here: member.gather().deleted_here, ..FolderReport::default() }
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

impl Member {
    /// Gives the folder of a session the name and the description that earlier versions gave it.
    fn make_old(&self, id: SessionId) {
        let folder = self.folder_of(id);
        let old = folder.with_file_name("001-chat-the-same-title");
        fs::rename(folder, &old).unwrap();
        assert_eq!(self.gather().troubles, [] as [String; 0]);
        let card = old.join(".session/session.json");
        let text = fs::read_to_string(&card).unwrap();
        let new = ["title_set", "status_set", "summary_upto", "last"];
        let is_old = |line: &&str| !new.iter().any(|name| line.contains(&format!("\"{name}\"")));
        let kept: Vec<&str> = text.lines().filter(is_old).collect();
        fs::write(&card, kept.join("\n") + "\n").unwrap();
        commit(&self.root);
    }

    fn expect_separate(&self, ids: [SessionId; 2]) {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 2, "{}: {sessions:?}", self.name);
        for (id, words) in ids.iter().zip([&["one of a", "two of a"][..], &["one of b"]]) {
            let (session, said) = &sessions[id];
            assert_eq!(said, words, "{}", self.name);
            assert_eq!(session.title.as_deref(), Some("The same title"), "{}", self.name);
            let log =
                fs::read_to_string(self.folder_of(*id).join(".session/messages.jsonl")).unwrap();
            assert_eq!(log.lines().count(), words.len(), "{}: {log}", self.name);
        }
        assert_ne!(self.folder_of(ids[0]), self.folder_of(ids[1]), "{}", self.name);
        assert_eq!(self.gather(), FolderReport::default(), "{}", self.name);
        let health = block_on(self.engine.check()).unwrap().health;
        assert_eq!((health.damage, health.drift), (vec![], vec![]));
    }
}

#[test]
fn two_sessions_that_an_older_version_merged_into_one_folder_are_separated_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_clones(folder.path());
    let ids = [
        a.start("The same title", &["one of a", "two of a"]),
        b.start("The same title", &["one of b"]),
    ];
    a.make_old(ids[0]);
    b.make_old(ids[1]);
    assert_eq!(a.folder_of(ids[0]).file_name(), b.folder_of(ids[1]).file_name());
    a.merge(&b);
    let shared = fs::read_to_string(
        a.root.join("conversations/2026-11-17/001-chat-the-same-title/.session/messages.jsonl"),
    );
    assert_eq!(shared.unwrap().lines().count(), 3, "git has merged both into one");
    // Somebody who knows neither of them, somebody who knows one, and somebody who knows the other.
    let c = clone_of(folder.path(), "c", 10);
    for member in [&a, &c] {
        let followed = member.gather();
        assert_eq!(followed.separated.len(), 1, "{}: {followed:?}", member.name);
        assert_eq!(followed.troubles, [] as [String; 0]);
        assert_eq!(followed.forked, []);
        member.expect_separate(ids);
        commit(&member.root);
    }
    b.merge(&a);
    assert_eq!(b.gather().troubles, [] as [String; 0]);
    b.expect_separate(ids);
    commit(&b.root);
    for _ in 0..2 {
        for (one, other) in [(&a, &b), (&b, &c), (&c, &a)] {
            one.merge(other);
            assert_eq!(one.gather().troubles, [] as [String; 0]);
            commit(&one.root);
            one.expect_separate(ids);
        }
    }
    for (one, other) in [(&a, &b), (&a, &c), (&b, &a), (&c, &a)] {
        one.merge(other);
    }
    assert_eq!((a.tree(), b.tree()), (b.tree(), c.tree()));
}

const WORDS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "sixth"];

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A clone with damage in lines 3 and 4 of a log that nobody there has seen before; the file as it should be.
fn damaged_clone(folder: &Path) -> (Member, Member, SessionId, PathBuf, String) {
    let [a, unused] = two_clones(folder);
    drop(unused);
    let id = a.start("Healed", &WORDS[..5]);
    block_on(a.engine.shift(id, Move::Pause)).unwrap();
    commit(&a.root);
    succeeds(&git(&a.root.with_file_name("b"), &["pull", "--quiet"]));
    let root = a.root.with_file_name("b");
    let b = Member { name: "b", engine: engine(&root, &folder.join("b.db"), 10), root };
    let log = a.folder_of(id).join(".session/messages.jsonl");
    let log = b.root.join(log.strip_prefix(&a.root).unwrap());
    let whole = fs::read_to_string(&log).unwrap();
    let mut lines: Vec<String> = whole.lines().map(ToOwned::to_owned).collect();
    lines[2] = lines[2].replace("third", "th1rd");
    lines.remove(3);
    fs::write(&log, lines.join("\n") + "\n").unwrap();
    (a, b, id, log, whole)
}

#[test]
fn lines_that_were_damaged_and_are_put_back_heal() {
    let folder = tempfile::tempdir().unwrap();
    let (_, b, id, log, whole) = damaged_clone(folder.path());
    assert_ne!(b.gather().troubles, [] as [String; 0]);
    assert_eq!(b.sessions()[&id].1, ["first", "second", "fifth"]);
    succeeds(&git(&b.root, &["checkout", "--", "."]));
    assert_eq!(fs::read_to_string(&log).unwrap(), whole);
    let followed = b.gather();
    assert_eq!((followed.troubles, followed.forked), (vec![], vec![]));
    assert_eq!(followed.healed, [(id, 2)]);
    let sessions = b.sessions();
    assert_eq!((sessions.len(), &sessions[&id].1), (1, &owned(&WORDS[..5])));
    assert_eq!(b.gather(), FolderReport::default());
    assert_eq!(succeeds(&git(&b.root, &["status", "--porcelain"])), "");
    let health = block_on(b.engine.check()).unwrap().health;
    assert_eq!((health.damage, health.drift), (vec![], vec![]));
}

#[test]
fn lines_that_are_put_back_after_the_session_went_on_heal_too() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b, id, log, whole) = damaged_clone(folder.path());
    b.gather();
    b.say(id, &["sixth"]);
    block_on(b.engine.shift(id, Move::Pause)).unwrap();
    let now = fs::read_to_string(&log).unwrap();
    let last = now.lines().last().unwrap();
    assert!(last.contains("sixth"), "{now}");
    fs::write(&log, format!("{whole}{last}\n")).unwrap();
    let followed = b.gather();
    assert_eq!((followed.troubles, followed.forked), (vec![], vec![]));
    let sessions = b.sessions();
    assert_eq!((sessions.len(), &sessions[&id].1), (1, &owned(&WORDS)));
    commit(&b.root);
    a.merge(&b);
    assert_eq!(a.gather().troubles, [] as [String; 0]);
    let sessions = a.sessions();
    assert_eq!((sessions.len(), &sessions[&id].1), (1, &owned(&WORDS)));
    for member in [&a, &b] {
        assert_eq!(member.gather(), FolderReport::default(), "{}", member.name);
        let health = block_on(member.engine.check()).unwrap().health;
        assert_eq!((health.damage, health.drift), (vec![], vec![]));
    }
}
