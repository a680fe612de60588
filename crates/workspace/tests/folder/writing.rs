//! Appending to a log, repairing its end, and writing it anew.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rethread_workspace::{Entry, Error, Item, Line};
use serde_json::{Value, json};

use crate::roles::{role, said};
use crate::{Place, intact, line, log_of};

#[test]
fn after_a_cut_anywhere_an_append_loses_nothing_and_welds_nothing() {
    let place = Place::new();
    let path = place.session();
    let lines = [line(1), line(2)];
    let log = log_of(&lines);
    let first = log.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in 0..=log.len() {
        fs::write(place.log(&path), &log[..cut]).unwrap();
        let locked = place.lock(&path);
        let appended = locked.append(&[line(3)], false).unwrap();
        let whole = usize::from(cut >= first) + usize::from(cut + 1 >= log.len());
        let (items, end) = place.read(&path);
        let expected = [&lines[..whole], &[line(3)]].concat();
        assert_eq!((intact(&items), items.len()), (expected, whole + 1), "cut at {cut}");
        assert_eq!((end.bytes, end.torn), (appended.to, None));
        match appended.torn {
            None => assert!([0, first, first + 1, log.len() - 1, log.len()].contains(&cut)),
            Some(torn) => {
                let start = usize::try_from(torn.at.start).unwrap();
                assert_eq!(fs::read(place.path("").join(torn.aside)).unwrap(), log[start..cut]);
            }
        }
    }
}

#[test]
fn what_is_torn_is_kept_aside_once_and_only_it() {
    let place = Place::new();
    let path = place.session();
    let log = log_of(&[line(1)]);
    let locked = place.lock(&path);
    for _ in 0..2 {
        fs::write(place.log(&path), [&log[..log.len() - 1], b"{\"sum\"\0\0"].concat()).unwrap();
        let torn = locked.truncate_torn().unwrap().unwrap();
        assert_eq!(torn.at, log.len() as u64 - 1..log.len() as u64 + 8 - 1);
        assert_eq!(fs::read(place.path("").join(&torn.aside)).unwrap(), b"{\"sum\"\0\0");
        assert_eq!(locked.truncate_torn().unwrap(), None);
    }
    let damaged = place.path(path.as_str()).join(".session/damaged");
    assert_eq!(fs::read_dir(damaged).unwrap().count(), 1);
    assert_eq!(fs::read(place.log(&path)).unwrap(), log[..log.len() - 1]);
}

#[test]
fn a_line_of_a_gigabyte_is_located_and_kept_aside_with_bounded_memory() {
    // In a process of its own, whose memory no other test adds to.
    let output = role("gigabyte", Path::new("."), "").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let peak: u64 = said(&output.stdout)[0].parse().unwrap();
    assert!(peak < 600 << 20, "{peak} bytes");
}

/// Meets a line of a gigabyte; returns the most memory that this process ever used.
pub(crate) fn gigabyte() -> u64 {
    let place = Place::new();
    let path = place.session();
    let log = log_of(&[line(1)]);
    fs::write(place.log(&path), &log).unwrap();
    let size = log.len() as u64 + (1 << 30);
    let file = fs::OpenOptions::new().write(true).open(place.log(&path)).unwrap();
    file.set_len(size).unwrap();
    let (items, end) = place.read(&path);
    assert_eq!((intact(&items), end.torn), (vec![line(1)], Some(log.len() as u64..size)));
    let locked = place.lock(&path);
    let refused = locked.bytes(0..size).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }));
    // Longer than any line may be, and short enough to be copied in a test.
    let size = log.len() as u64 + (129 << 20);
    file.set_len(size).unwrap();
    let appended = locked.append(&[line(2)], false).unwrap();
    let torn = appended.torn.unwrap();
    assert_eq!(torn.at, log.len() as u64..size);
    assert_eq!(fs::metadata(place.path("").join(torn.aside)).unwrap().len(), 129 << 20);
    assert_eq!(intact(&place.read(&path).0), [line(1), line(2)]);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_record_that_could_not_be_read_back_is_not_written() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    let other = |key: &str, value: Value| [(key.to_owned(), value)].into_iter().collect();
    for bad in [
        Line { id: String::new(), ..line(1) },
        Line { id: "x".repeat(201), ..line(1) },
        Line { id: "a\nb".into(), ..line(1) },
        Line { after: "\0".into(), ..line(1) },
        Line { other: other("sum", json!("0")), ..line(1) },
        Line { other: other("content", json!("0")), ..line(1) },
        Line { other: other("deep", deep), ..line(1) },
    ] {
        let refused = locked.append(&[line(0), bad], false).unwrap_err();
        assert!(matches!(refused, Error::BadLine { .. }), "{refused:?}");
    }
    assert_eq!(locked.stamp().unwrap(), None);
}

#[test]
fn a_log_is_written_anew_with_what_is_not_understood_kept_as_it_is() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    locked.append(&[line(1), line(2)], true).unwrap();
    let entries = [Entry::Line(line(2)), Entry::Raw(b"\xff raw".into()), Entry::Line(line(1))];
    let stamp = locked.replace_log(&mut entries.into_iter()).unwrap();
    assert_eq!(locked.stamp().unwrap(), Some(stamp));
    let (items, _) = place.read(&path);
    assert_eq!(intact(&items), [line(2), line(1)]);
    let Item::Damaged { at, number: 2, why: "it is not UTF-8" } = &items[1] else { panic!() };
    assert_eq!(locked.bytes(at.clone()).unwrap(), b"\xff raw");
    let session = place.path(path.as_str()).join(".session");
    assert_eq!(fs::read_dir(session).unwrap().count(), 1, "a temporary file is left");
}

#[test]
fn a_log_that_cannot_be_written_anew_stays_as_it_was() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    let before = locked.append(&[line(1)], false).unwrap().stamp;
    let bad = Line { id: String::new(), ..line(2) };
    let refused = locked.replace_log(&mut [Entry::Line(line(3)), Entry::Line(bad)].into_iter());
    assert!(matches!(refused, Err(Error::BadLine { .. })));
    assert_eq!(locked.stamp().unwrap(), Some(before));
    let session = place.path(path.as_str()).join(".session");
    assert_eq!(fs::read_dir(session).unwrap().count(), 1, "a temporary file is left");
}

#[test]
fn only_one_can_have_the_lock_and_the_other_does_not_wait_for_ever() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    let other = place.workspace.folder(&path).unwrap().unwrap();
    let refused = other.lock_within(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(refused, Error::Busy(_)), "{refused:?}");
    drop(locked);
    place.lock(&path);
}

#[test]
fn a_folder_whose_inside_is_missing_gets_it_when_it_is_locked() {
    let place = Place::new();
    let path = place.session();
    fs::remove_dir(place.path(path.as_str()).join(".session")).unwrap();
    let folder = place.workspace.folder(&path).unwrap().unwrap();
    assert_eq!((folder.card().unwrap(), folder.stamp().unwrap()), (None, None));
    folder.lock().unwrap().append(&[line(1)], false).unwrap();
    assert_eq!(intact(&place.read(&path).0), [line(1)]);
    fs::remove_dir_all(place.path("conversations")).unwrap();
    assert!(place.workspace.folder(&path).unwrap().is_none());
}
