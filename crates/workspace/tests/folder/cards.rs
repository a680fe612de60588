//! `session.json`: written as a whole, read also after a merge, never guessed.

use std::fs;
use std::process::Command;

use rethread_workspace::{Card, Error};
use serde_json::json;

use crate::{Place, card, with_session};

const WRITTEN: &str = r#"{
  "id": "0192f000-0000-7000-8000-000000000001",
  "kind": "brainstorm",
  "title": "API design",
  "title_set": null,
  "status": "paused",
  "status_set": null,
  "summary": null,
  "summary_upto": null,
  "command": "/workspace.brainstorm",
  "prompt_hash": "abc",
  "model": null,
  "tools": ["fs","web \"x\""],
  "agent": "codex",
  "created": "2026-11-16T04:05:06Z",
  "last_active": "2026-11-16T05:05:06Z",
  "last": null,
  "version": 1
}
"#;

/// Reads this text as a card.
fn read(text: impl AsRef<[u8]>) -> Result<Card, Error> {
    with_session(|place, path| {
        fs::write(place.card(path), text).unwrap();
        place.workspace.folder(path).unwrap().unwrap().card().map(Option::unwrap)
    })
}

#[test]
fn a_card_is_written_one_field_a_line_and_reads_back() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    assert_eq!(locked.card().unwrap(), None);
    let stamp = locked.write_card(&card()).unwrap();
    assert_eq!(fs::read_to_string(place.card(&path)).unwrap(), WRITTEN);
    assert_eq!(locked.card().unwrap(), Some(card()));
    assert_eq!(locked.write_card(&card()).unwrap(), stamp, "it was written again");
    let other = Card { status: "completed".into(), ..card() };
    assert_ne!(locked.write_card(&other).unwrap(), stamp);
    assert_eq!(locked.card_stamp().unwrap().unwrap().size, 451);
}

#[test]
fn fields_that_we_do_not_know_are_kept() {
    let place = Place::new();
    let path = place.session();
    let text = WRITTEN.replace("  \"version\"", "  \"colour\": {\"a\":[1]},\n  \"version\"");
    fs::write(place.card(&path), text).unwrap();
    let locked = place.lock(&path);
    assert_eq!(locked.card().unwrap().unwrap().other["colour"], json!({"a": [1]}));
    locked.write_card(&Card { title: None, ..card() }).unwrap();
    let found = locked.card().unwrap().unwrap();
    assert_eq!((found.title, &found.other["colour"]), (None, &json!({"a": [1]})));
}

#[test]
fn two_versions_that_git_merged_by_union_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let ours = WRITTEN.replace("05:05:06Z", "07:00:00Z").replace("paused", "active");
    let theirs = WRITTEN.replace("05:05:06Z", "06:00:00Z").replace("API design", "The API");
    for (one, other, title) in [(&ours, &theirs, "The API"), (&theirs, &ours, "API design")] {
        write("base", WRITTEN);
        write("ours", one);
        write("theirs", other);
        let merged = Command::new("git")
            .args(["merge-file", "-p", "--union", "ours", "base", "theirs"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let found = read(merged.stdout).unwrap();
        assert_eq!(found.last_active, "2026-11-16T07:00:00Z");
        assert!(found.is_merged);
        assert!(found.title.as_deref() == Some(title) || found.status == "active", "{found:?}");
        assert_eq!((found.id, found.version), (card().id, 1));
    }
}

#[test]
fn the_latest_time_wins_and_otherwise_the_last_line() {
    let twice = WRITTEN.replace(
        "  \"version\"",
        "  \"title\": \"Other\",\n  \"last_active\": \"2026-11-16T05:05:05Z\",\n  \"version\"",
    );
    let found = read(twice).unwrap();
    assert_eq!(found.title.as_deref(), Some("Other"));
    assert_eq!(found.last_active, "2026-11-16T05:05:06Z");
}

#[test]
fn what_is_wrong_with_a_card_is_said() {
    let with = |from: &str, to: &str| WRITTEN.replace(from, to);
    for (text, expected) in [
        (with("\"paused\"", "7"), "status is not a text"),
        (with("\"paused\"", "null"), "status is missing"),
        (with("\"brainstorm\"", "\"../x\""), "kind is not allowed"),
        (with("0192f000", "a\\u0000b"), "id is not allowed"),
        (with("\"0192f000-0000-7000-8000-000000000001\"", "\"\""), "id is not allowed"),
        (with("[\"fs\",", "[7,"), "tools is not a list of texts"),
        (with("[\"fs\",\"web \\\"x\\\"\"]", "{}"), "tools is not a list of texts"),
        (with("2026-11-16T05", "yesterday"), "last_active is not a time"),
        (with("2026-11-16T04", "yesterday"), "created is not allowed"),
        (with("\"API design\"", "[]"), "title is not a text"),
        (with("\"version\": 1", "\"version\": \"1\""), "version is not a version"),
        (with("\"version\": 1", "\"version\": 0"), "version is not a version"),
        (with("\"version\": 1", "\"versiom\": 1"), "version is missing"),
        (with("  \"kind\"", "<<<<<<< HEAD\n  \"kind\""), "line 3 is a conflict marker of git"),
        (WRITTEN[..100].to_owned(), "it ends too early"),
        (String::new(), "it ends too early"),
        ("[]".into(), "invalid type: sequence, expected an object"),
        ("{\"id\":\"\\ud800\"}".into(), "hex escape"),
        ("\0".repeat(200), "expected value"),
    ] {
        let refused = read(&text).expect_err(&text);
        assert!(matches!(refused, Error::BadCard { .. }), "{refused:?}");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    let refused = read(b"{\"id\": \"\xff\"}").unwrap_err().to_string();
    assert!(refused.contains("it is not UTF-8"), "{refused}");
    let refused = read(" ".repeat((4 << 20) + 1)).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }));
}

#[test]
fn a_card_cut_anywhere_is_never_taken_for_a_whole_one() {
    let place = Place::new();
    let path = place.session();
    for cut in 0..WRITTEN.len() - 2 {
        fs::write(place.card(&path), &WRITTEN[..cut]).unwrap();
        let found = place.workspace.folder(&path).unwrap().unwrap().card();
        assert!(matches!(found, Err(Error::BadCard { .. })), "{cut}: {found:?}");
    }
}

#[test]
fn a_card_of_a_later_version_is_read_as_far_as_it_is_understood_and_never_written() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    let later = WRITTEN.replace("\"version\": 1", "\"version\": 7");
    fs::write(place.card(&path), &later).unwrap();
    assert_eq!(locked.card().unwrap(), Some(Card { version: 7, ..card() }));
    let other = later.replace("\"status\"", "\"state\"");
    for text in [&later, &other] {
        fs::write(place.card(&path), text).unwrap();
        let refused = locked.write_card(&card()).unwrap_err();
        assert!(matches!(refused, Error::Newer { found: 7, known: 1, .. }), "{refused:?}");
        assert_eq!(fs::read_to_string(place.card(&path)).unwrap(), *text);
    }
    assert!(matches!(locked.card(), Err(Error::Newer { found: 7, .. })));
}

#[test]
fn the_card_of_another_session_is_not_written_over() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    locked.write_card(&card()).unwrap();
    let other = Card { id: "another".into(), ..card() };
    let refused = locked.write_card(&other).unwrap_err();
    assert!(matches!(&refused, Error::OtherSession { given, .. } if given == "another"));
    assert_eq!(locked.card().unwrap(), Some(card()));
}

#[test]
fn a_card_that_cannot_be_read_is_kept_aside_when_it_is_written_anew() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    fs::write(place.card(&path), "<<<<<<< garbage").unwrap();
    locked.write_card(&card()).unwrap();
    assert_eq!(locked.card().unwrap(), Some(card()));
    let aside = locked.keep_aside(b"<<<<<<< garbage").unwrap();
    assert_eq!(fs::read(place.path("").join(aside)).unwrap(), b"<<<<<<< garbage");
    let damaged = place.path(path.as_str()).join(".session/damaged");
    assert_eq!(fs::read_dir(damaged).unwrap().count(), 1);
}

#[test]
fn a_card_that_could_not_be_read_back_is_not_written() {
    let place = Place::new();
    let path = place.session();
    let locked = place.lock(&path);
    for bad in [
        Card { id: String::new(), ..card() },
        Card { kind: "../x".into(), ..card() },
        Card { created: "soon".into(), ..card() },
        Card { other: [("id".to_owned(), json!(1))].into_iter().collect(), ..card() },
    ] {
        assert!(matches!(locked.write_card(&bad), Err(Error::BadCard { .. })));
    }
    assert_eq!(locked.card().unwrap(), None);
}
