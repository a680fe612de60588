//! A text that was purged stays purged, also where the purge gave the folder another name and git brings the old one back.

use std::fs;
use std::path::Path;

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_domain::conversation::TitleFrom;
use rethread_engine::folders::FolderReport;

use super::member::{Member, clone_of, commit, git, succeeds, two_clones, written};

const LEAKED: &str = "leakedword alpha";

/// A session that is called after its first message, which is committed, and then purged.
fn purged(folder: &Path) -> (Member, SessionId) {
    let [a, unused] = two_clones(folder);
    drop(unused);
    let id = a.start(LEAKED, &[LEAKED, "second"]);
    block_on(a.engine.retitle(id, LEAKED, TitleFrom::Person)).unwrap();
    commit(&a.root);
    assert!(a.folder_of(id).display().to_string().contains("leakedword"));
    block_on(a.engine.purge(id, 1)).unwrap();
    assert!(!a.folder_of(id).display().to_string().contains("leakedword"));
    (a, id)
}

#[track_caller]
fn expect_gone(member: &Member, id: SessionId, said: &[&str]) {
    let (session, found) = &member.sessions()[&id];
    assert_eq!(found[1..], *said, "{}", member.name);
    assert!(!format!("{session:?} {found:?}").contains("leakedword"), "{session:?} {found:?}");
    let mut files = String::new();
    written(&member.root.join("conversations"), &mut files);
    assert!(!files.contains("leakedword"), "{files}");
    let days = member.root.join("conversations");
    let mut names = Vec::new();
    for day in fs::read_dir(days).unwrap() {
        let found = fs::read_dir(day.unwrap().path()).unwrap();
        names.extend(found.map(|one| one.unwrap().file_name().into_string().unwrap()));
    }
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!names[0].contains("leakedword"), "{names:?}");
    assert_eq!(member.gather(), FolderReport::default());
    let health = block_on(member.engine.check()).unwrap().health;
    assert_eq!((health.damage, health.drift), (vec![], vec![]));
}

#[test]
fn an_old_folder_that_git_puts_back_is_removed_again() {
    let folder = tempfile::tempdir().unwrap();
    let (a, id) = purged(folder.path());
    succeeds(&git(&a.root, &["checkout", "--quiet", "HEAD", "--", "."]));
    let followed = a.gather();
    assert_eq!((followed.troubles, followed.purged_again), (vec![], vec![id]));
    expect_gone(&a, id, &["second"]);
}

#[test]
fn doctor_says_that_an_old_folder_had_a_purged_text() {
    let folder = tempfile::tempdir().unwrap();
    let (a, id) = purged(folder.path());
    succeeds(&git(&a.root, &["checkout", "--quiet", "HEAD", "--", "."]));
    let healths = block_on(a.engine.check_folders("anna", false)).unwrap();
    let told: Vec<_> = healths.iter().filter(|one| !one.troubles.is_empty()).collect();
    assert_eq!(told.len(), 1, "{healths:?}");
    assert!(told[0].troubles[0].contains("purged") && told[0].is_repaired, "{told:?}");
    expect_gone(&a, id, &["second"]);
}

#[test]
fn a_clone_that_gets_both_folders_believes_the_mark() {
    let folder = tempfile::tempdir().unwrap();
    let (a, id) = purged(folder.path());
    succeeds(&git(&a.root, &["checkout", "--quiet", "HEAD", "--", "."]));
    commit(&a.root);
    let b = clone_of(folder.path(), "c", 10);
    let followed = b.gather();
    assert_eq!((followed.troubles, followed.arrived), (vec![], vec![id]));
    expect_gone(&b, id, &["second"]);
}

#[test]
fn somebody_who_has_the_old_folder_and_gets_the_new_one_beside_it_purges_too() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_clones(folder.path());
    let id = a.start(LEAKED, &[LEAKED, "second"]);
    commit(&a.root);
    b.merge(&a);
    assert_eq!(b.gather().arrived, [id]);
    b.say(id, &["third"]);
    block_on(a.engine.purge(id, 1)).unwrap();
    let new = a.folder_of(id);
    let to = b.root.join(new.strip_prefix(&a.root).unwrap());
    fs::create_dir_all(to.join(".session")).unwrap();
    for file in ["messages.jsonl", "session.json"] {
        fs::copy(new.join(".session").join(file), to.join(".session").join(file)).unwrap();
    }
    let followed = b.gather();
    assert_eq!((followed.troubles, followed.forked), (vec![], vec![]));
    assert_eq!(followed.purged, [(id, 1)]);
    expect_gone(&b, id, &["second", "third"]);
}

#[test]
fn an_old_folder_that_is_the_only_one_loses_the_words_of_its_name_too() {
    let folder = tempfile::tempdir().unwrap();
    let (a, id) = purged(folder.path());
    succeeds(&git(&a.root, &["reset", "--quiet", "--hard"]));
    succeeds(&git(&a.root, &["clean", "--quiet", "-fd"]));
    assert_eq!(a.gather().troubles, [] as [String; 0]);
    a.gather();
    expect_gone(&a, id, &["second"]);
}

#[test]
fn what_somebody_added_to_the_old_folder_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_clones(folder.path());
    let id = a.start(LEAKED, &[LEAKED, "second"]);
    commit(&a.root);
    b.merge(&a);
    b.gather();
    b.say(id, &["third"]);
    let old = b.folder_of(id);
    block_on(a.engine.purge(id, 1)).unwrap();
    let to = a.root.join(old.strip_prefix(&b.root).unwrap());
    fs::create_dir_all(to.join(".session")).unwrap();
    for file in ["messages.jsonl", "session.json"] {
        fs::copy(old.join(".session").join(file), to.join(".session").join(file)).unwrap();
    }
    let followed = a.gather();
    assert_eq!((followed.troubles, followed.went_on), (vec![], vec![(id, 1)]));
    expect_gone(&a, id, &["second", "third"]);
}
