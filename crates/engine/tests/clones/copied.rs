//! A folder that somebody copied into another project stays what it is: a copy.

use std::fs;
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_engine::folders::Workspace;

use super::member::{Member, commit, engine, git, succeeds, two_clones, written};

const INJECTED: &str = "{\"role\":\"user\",\"content\":\"INJECTED\"}\n";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = entry.map(|one| (one.path(), one.file_name())).unwrap();
        if from.is_dir() {
            copy(&from, &to.join(name));
        } else {
            fs::copy(&from, to.join(name)).unwrap();
        }
    }
}

/// A session in a workspace; `other` has what it was, with a line more, and the session went on.
fn copied(folder: &Path, other: &Path) -> (Member, SessionId, PathBuf) {
    let [a, unused] = two_clones(folder);
    drop(unused);
    let id = a.start("Ours", &["first"]);
    commit(&a.root);
    if other.join(".git").exists() {
        commit(other);
    }
    for part in ["conversations", ".rethread"] {
        copy(&a.root.join(part), &other.join(part));
    }
    a.say(id, &["private"]);
    let log = a.folder_of(id).join(".session/messages.jsonl");
    let log = other.join(log.strip_prefix(&a.root).unwrap());
    fs::write(&log, fs::read_to_string(&log).unwrap() + INJECTED).unwrap();
    (a, id, log)
}

/// The same person, at work in another folder.
fn at(folder: &Path, root: &Path) -> Member {
    let root = root.canonicalize().unwrap();
    Member { name: "other", engine: engine(&root, &folder.join("a.db"), 12), root }
}

#[track_caller]
fn expect_apart(folder: &Path, a: &Member, id: SessionId, other: &Path, log: &Path) {
    let before = fs::read_to_string(log).unwrap();
    let evil = at(folder, other);
    for _ in 0..2 {
        let followed = evil.gather();
        assert_eq!(followed.troubles.len(), 1, "{followed:?}");
        let told = &followed.troubles[0];
        let named =
            format!("is a copy of session {}, which lives in {}", id.short(), a.root.display());
        assert!(told.contains(&named), "{told}");
    }
    for repair in [false, true] {
        let healths = block_on(evil.engine.check_folders("anna", repair)).unwrap();
        assert!(healths[0].troubles[0].contains("is a copy of session"), "{healths:?}");
        assert!(!healths[0].is_repaired);
    }
    assert_eq!(fs::read_to_string(log).unwrap(), before);
    a.say(id, &["later"]);
    let mut files = String::new();
    written(&other.join("conversations"), &mut files);
    assert!(!files.contains("private") && !files.contains("later"), "{files}");
    assert_eq!(a.gather().troubles, [] as [String; 0]);
    assert_eq!(a.sessions()[&id].1, ["first", "private", "later"]);
    assert!(a.folder_of(id).starts_with(&a.root));
}

#[test]
fn a_folder_copied_into_another_repository_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("evil");
    fs::create_dir(&other).unwrap();
    succeeds(&git(&other, &["init", "--quiet"]));
    fs::write(other.join("theirs"), "other code").unwrap();
    let (a, id, log) = copied(folder.path(), &other);
    commit(&other);
    expect_apart(folder.path(), &a, id, &other, &log);
}

#[test]
fn a_folder_copied_to_where_no_repository_is_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("evil");
    fs::create_dir(&other).unwrap();
    let (a, id, log) = copied(folder.path(), &other);
    expect_apart(folder.path(), &a, id, &other, &log);
}

#[test]
fn a_folder_copied_to_another_place_in_its_repository_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("a/evil");
    let (a, id, log) = copied(folder.path(), &other);
    commit(&a.root);
    expect_apart(folder.path(), &a, id, &other, &log);
}

#[test]
fn a_clone_of_the_repository_shares_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let [a, _b] = two_clones(folder.path());
    let id = a.start("Ours", &["first"]);
    commit(&a.root);
    succeeds(&git(folder.path(), &["clone", "--quiet", "a", "c"]));
    fs::write(a.root.join("code"), "more").unwrap();
    commit(&a.root);
    let clone = at(folder.path(), &folder.path().join("c"));
    fs::write(clone.root.join("code"), "other").unwrap();
    commit(&clone.root);
    assert_eq!(clone.gather().troubles, [] as [String; 0]);
    assert!(clone.folder_of(id).starts_with(&clone.root));
    assert_eq!(a.gather().troubles, [] as [String; 0]);
    assert!(a.folder_of(id).starts_with(&a.root));
}

#[test]
fn a_workspace_that_was_moved_keeps_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("w");
    fs::create_dir(&root).unwrap();
    Workspace::init(&root, None).unwrap();
    let id = at(folder.path(), &root).start("Ours", &["first"]);
    fs::rename(&root, root.with_file_name("moved")).unwrap();
    let moved = at(folder.path(), &root.with_file_name("moved"));
    assert_eq!(moved.gather().troubles, [] as [String; 0]);
    assert!(moved.folder_of(id).starts_with(&moved.root));
    assert_eq!(moved.sessions()[&id].1, ["first"]);
}
