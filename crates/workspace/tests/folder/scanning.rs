//! Finding session folders.

use std::fs;

use rethread_workspace::{FolderPath, Seen, Stamp};

use crate::{Place, card, line};

#[test]
fn every_session_folder_is_seen_with_what_shows_that_it_changed() {
    let place = Place::new();
    assert_eq!(place.workspace.scan().unwrap(), []);
    let second = place.workspace.create("2026-11-17", "chat", "b").unwrap();
    let first = place.session();
    let log = place.lock(&first).append(&[line(1)], false).unwrap().stamp;
    let card = place.lock(&first).write_card(&card()).unwrap();
    let seen = |path: &FolderPath, log, card| Seen { path: path.clone(), log, card, odd: None };
    let expected = [seen(&first, Some(log), Some(card)), seen(&second, None, None)];
    assert_eq!(place.workspace.scan().unwrap(), expected);
    let changed = place.lock(&first).append(&[line(2)], false).unwrap().stamp;
    assert_ne!(log, changed);
    assert_eq!(place.workspace.scan().unwrap()[0].log, Some(changed));
}

#[test]
fn what_is_not_a_session_folder_is_not_seen() {
    let place = Place::new();
    for folder in [
        "2026-11-16/notes",
        "2026-11-16/01-chat-x",
        "2026-13-45/001-chat-x",
        "x",
        "2026-11-16/001-Chat-x/.session",
    ] {
        fs::create_dir_all(place.path("conversations").join(folder)).unwrap();
    }
    fs::write(place.path("conversations/2026-11-16/README.md"), "x").unwrap();
    assert_eq!(place.workspace.scan().unwrap(), []);
    let odd = place.workspace.odd().unwrap();
    assert_eq!(odd.len(), 1, "{odd:?}");
    assert!(odd[0].path.ends_with("001-Chat-x"));
}

#[test]
fn a_stamp_can_be_stored_as_text() {
    let stamp = Stamp { size: u64::MAX, modified_ns: i64::MIN, changed_ns: -1, inode: 7 };
    assert_eq!(stamp.to_string().parse::<Stamp>().unwrap(), stamp);
    for text in ["", "1 2 3", "1 2 3 4 5", "a 2 3 4", "-1 2 3 4", "1  2 3 4"] {
        assert!(text.parse::<Stamp>().is_err(), "{text:?}");
    }
}

#[test]
fn a_thousand_folders_are_seen_with_their_files() {
    let place = Place::new();
    for number in 0..1_000 {
        let date = format!("2026-{:02}-{:02}", 1 + number / 100, 1 + number % 10);
        let folder =
            format!("conversations/{date}/{:03}-chat-topic-{number}/.session", 1 + number / 20 % 5);
        let folder = place.path(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("messages.jsonl"), "x").unwrap();
        fs::write(folder.join("session.json"), "x").unwrap();
    }
    let seen = place.workspace.scan().unwrap();
    assert_eq!(seen.len(), 1_000);
    assert!(seen.iter().all(|seen| seen.log.is_some() && seen.card.is_some()));
}
