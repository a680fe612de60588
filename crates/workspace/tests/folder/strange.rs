//! Links, pipes, devices and folders in place of files, at every level (S5): an error of its own, and nothing is opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rethread_workspace::{Card, Error, FolderPath, Page, Workspace};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::{Place, card, line};

/// Things that are not what they stand for.
const STRANGE: [&str; 6] = ["link", "link to nowhere", "pipe", "device", "file", "folder"];

/// Puts something else in the place of a file or a folder; whether that was possible.
fn put(strange: &str, path: &Path, outside: &Path) -> bool {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else if path.exists() {
        fs::remove_file(path).unwrap();
    }
    let node = |kind, device| mknodat(CWD, path, kind, Mode::RWXU, device).is_ok();
    match strange {
        "link" => symlink(outside, path).is_ok(),
        "link to nowhere" => symlink(outside.join("nowhere"), path).is_ok(),
        "pipe" => node(FileType::Fifo, 0),
        // Only root can: /dev/zero, which never ends.
        "device" => node(FileType::CharacterDevice, makedev(1, 5)),
        "file" => fs::write(path, "x").is_ok(),
        _ => fs::create_dir(path).is_ok(),
    }
}

/// Tries everything with a session's folder; what was refused.
fn try_all(place: &Place, path: &FolderPath) -> Vec<Error> {
    let workspace = &place.workspace;
    let mut refused = Vec::new();
    let mut note = |outcome: Result<(), Error>| refused.extend(outcome.err());
    note(workspace.scan().map(drop));
    note(workspace.create("2026-11-16", "chat", "more").map(drop));
    let folder = match workspace.folder(path) {
        Ok(Some(folder)) => folder,
        Ok(None) => return refused,
        Err(error) => {
            refused.push(error);
            return refused;
        }
    };
    note(folder.read(0, &mut |_| ()).map(drop));
    note(folder.card().map(drop));
    note(folder.stamp().map(drop));
    match folder.lock() {
        Err(error) => refused.push(error),
        Ok(locked) => {
            let card = Card { title: Some("new".into()), ..card() };
            note(locked.append(&[line(7)], true).map(drop));
            note(locked.truncate_torn().map(drop));
            note(locked.write_card(&card).map(drop));
            note(locked.write_page("brainstorm", &Page::default()).map(drop));
            note(locked.keep_aside(b"x").map(drop));
            note(locked.replace_log(&mut std::iter::empty()).map(drop));
        }
    }
    refused
}

#[test]
fn nothing_but_plain_files_and_folders_is_opened_at_any_level() {
    let levels = [
        ("conversations", false),
        ("conversations/2026-11-16", false),
        ("conversations/2026-11-16/001-brainstorm-api-design", false),
        ("conversations/2026-11-16/001-brainstorm-api-design/.session", false),
        ("conversations/2026-11-16/001-brainstorm-api-design/.session/damaged", false),
        ("conversations/2026-11-16/001-brainstorm-api-design/.session/messages.jsonl", true),
        ("conversations/2026-11-16/001-brainstorm-api-design/.session/session.json", true),
        ("conversations/2026-11-16/001-brainstorm-api-design/brainstorm.md", true),
    ];
    for (level, is_file) in levels {
        for strange in STRANGE {
            if (strange == "file") == is_file && (strange == "folder") != is_file {
                continue;
            }
            let outside = outside();
            let place = Place::new();
            let path = place.session();
            let locked = place.lock(&path);
            locked.append(&[line(1)], false).unwrap();
            locked.write_card(&card()).unwrap();
            locked.write_page("brainstorm", &Page::default()).unwrap();
            locked.keep_aside(b"damaged").unwrap();
            drop(locked);
            if !put(strange, &place.path(level), outside.path()) {
                continue;
            }
            let refused = try_all(&place, &path);
            assert!(!refused.is_empty(), "{strange} as {level}");
            for error in refused {
                assert!(matches!(error, Error::NotPlain { .. }), "{strange} as {level}: {error:?}");
            }
            check_untouched(outside.path());
        }
    }
}

#[test]
fn the_settings_and_kinds_are_plain_files_in_plain_folders() {
    for level in [".rethread", ".rethread/kinds", ".rethread/workspace.toml", ".gitattributes"] {
        let is_file =
            level.contains('.') && !level.ends_with("rethread") && !level.ends_with("kinds");
        for strange in STRANGE {
            if (strange == "file" && is_file) || (strange == "folder" && !is_file) {
                continue;
            }
            let outside = outside();
            let place = Place::new();
            if !put(strange, &place.path(level), outside.path()) {
                continue;
            }
            let refused = Workspace::init(&place.path(""), None).unwrap_err();
            assert!(matches!(refused, Error::NotPlain { .. }), "{strange} as {level}: {refused:?}");
            match level {
                ".rethread/kinds" => {
                    let refused = place.workspace.kinds().unwrap_err();
                    assert!(matches!(refused, Error::NotPlain { .. }), "{refused:?}");
                    assert!(place.workspace.kind("chat").is_err());
                }
                ".gitattributes" => (),
                _ => {
                    let refused = Workspace::open(&place.path("")).unwrap_err();
                    assert!(matches!(refused, Error::NotPlain { .. }), "{refused:?}");
                    assert!(Workspace::find(&place.path("")).is_err());
                }
            }
            check_untouched(outside.path());
        }
    }
}

#[test]
fn a_scan_tells_what_is_strange_and_sees_the_others() {
    for strange in ["link", "pipe", "device", "folder"] {
        let outside = outside();
        let place = Place::new();
        let paths: Vec<_> = (0..4).map(|_| place.session()).collect();
        let inside = |number: usize, name: &str| place.path(paths[number].as_str()).join(name);
        let possible = put(strange, &inside(1, ".session/messages.jsonl"), outside.path());
        if !possible {
            continue;
        }
        if strange != "folder" {
            put(strange, &inside(2, ".session"), outside.path());
            put(strange, &place.path(paths[3].as_str()), outside.path());
            put(strange, &place.path("conversations/2026-01-01"), outside.path());
        }
        let seen = place.workspace.scan().unwrap();
        let shown: Vec<_> = seen.iter().map(|seen| seen.odd.clone().unwrap_or_default()).collect();
        let what = if strange == "link" { "symbolic link" } else { strange };
        if strange == "folder" {
            assert_eq!(shown, ["", "messages.jsonl is a folder", "", ""]);
        } else {
            let log = format!("messages.jsonl is a {what}");
            let expected =
                ["", log.as_str(), &format!(".session is a {what}"), &format!("it is a {what}")];
            assert_eq!(shown, expected);
            assert_eq!(place.workspace.odd().unwrap().len(), 4);
        }
    }
}

#[test]
fn a_file_with_a_second_name_is_neither_read_nor_written() {
    let place = Place::new();
    let path = place.session();
    let outside = outside();
    let secret = place.path("secret");
    fs::write(&secret, "secret").unwrap();
    for file in [place.log(&path), place.card(&path)] {
        fs::hard_link(&secret, file).unwrap();
    }
    let refused = try_all(&place, &path);
    assert_eq!(refused.len(), 7, "{refused:?}");
    assert!(refused.iter().all(|error| matches!(error, Error::NotPlain { .. })));
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    check_untouched(outside.path());
}

#[test]
fn a_temporary_file_that_was_left_or_laid_as_a_trap_is_not_written_through() {
    let place = Place::new();
    let path = place.session();
    let outside = outside();
    let trap = place.path(path.as_str()).join(".session/.session.json.new");
    let locked = place.lock(&path);
    for strange in ["link", "pipe", "device", "file"] {
        let target = outside.path().join("kept");
        if put(strange, &trap, &target) {
            locked.write_card(&Card { title: Some(strange.into()), ..card() }).unwrap();
            assert!(!trap.exists());
        }
    }
    put("folder", &trap, outside.path());
    let refused = locked.write_card(&card()).unwrap_err();
    assert!(matches!(refused, Error::NotPlain { .. }), "{refused:?}");
    check_untouched(outside.path());
}

/// A folder that nobody may change, with files of the names that we use.
fn outside() -> tempfile::TempDir {
    let outside = tempfile::tempdir().unwrap();
    for name in ["kept", "messages.jsonl", "session.json"] {
        fs::write(outside.path().join(name), "outside").unwrap();
    }
    outside
}

fn check_untouched(outside: &Path) {
    let mut count = 0;
    for entry in fs::read_dir(outside).unwrap() {
        assert_eq!(fs::read_to_string(entry.unwrap().path()).unwrap(), "outside");
        count += 1;
    }
    assert_eq!(count, 3);
}
