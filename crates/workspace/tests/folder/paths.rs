//! Which paths are those of session folders, and which are not.

use rethread_workspace::{Error, FolderPath, Workspace, is_kind_name};

use crate::Place;

#[test]
fn a_path_tells_its_parts() {
    let path: FolderPath = "conversations/2026-11-16/001-brainstorm-api-design".parse().unwrap();
    assert_eq!(path.date(), "2026-11-16");
    assert_eq!(path.number(), 1);
    assert_eq!(path.kind(), "brainstorm");
    assert_eq!(path.topic(), "api-design");
    assert_eq!(path.name(), "001-brainstorm-api-design");
    assert_eq!(path.to_string(), "conversations/2026-11-16/001-brainstorm-api-design");
}

#[test]
fn what_people_may_call_a_folder_is_accepted() {
    for name in
        ["001-chat-x", "999-chat-API_v2.0", "1000-chat-größe", "123456-a-設計-会議", "012-k9-9"]
    {
        let path: FolderPath = format!("conversations/2024-02-29/{name}").parse().unwrap();
        assert_eq!(path.name(), name);
    }
}

#[test]
fn a_kind_with_a_dash_is_read_back() {
    let place = Place::new();
    let path = place.workspace.create("2026-11-16", "code-review", "the API").unwrap();
    assert_eq!(path.name(), "001-code_review-the-api");
    assert_eq!(path.as_str().parse::<FolderPath>().unwrap(), path);
    assert_eq!((path.kind(), path.topic()), ("code-review", "the-api"));
}

/// Names that have been used to leave a folder, or to be taken for something else.
const NAMES: &[&str] = &[
    "",
    ".",
    "..",
    "...",
    "-rf",
    "--help",
    "con",
    "nul",
    "001",
    "001-",
    "001-chat",
    "001-chat-",
    "001-chat-.",
    "001-chat-..",
    "001-chat-.git",
    "001-chat--x",
    "001-chat-a..b",
    "001-chat-x.",
    "001-chat-a b",
    "001-chat-a\0b",
    "001-chat-a\nb",
    "001-chat-a\tb",
    "001-chat-a\rb",
    "001-chat-a\\b",
    "001-chat-a:b",
    "001-chat-a%2e%2e%2fb",
    "001-chat-%2e%2e",
    "001-chat-*",
    "001-chat-a?b",
    "001-chat-$(id)",
    "001-chat-`id`",
    "001-chat-a;b",
    "001-chat-a|b",
    "001-chat-\u{202e}gpj",
    "001-chat-a\u{200b}b",
    "001-chat-\u{feff}a",
    "001-chat-\u{3164}",
    "001-chat-🎉",
    "001-chat-a\u{7f}",
    "001-chat-\u{85}",
    "001-chat-a\u{2028}b",
    "001-Chat-x",
    "001-9chat-x",
    "001-ch at-x",
    "001--x",
    "001-_chat-x",
    "001-resume-x",
    "001-../-x",
    "001-stop_conversation-x",
    "000-chat-x",
    "01-chat-x",
    "0001-chat-x",
    "1234567-chat-x",
    "١٢٣-chat-x",
    "-01-chat-x",
    "+01-chat-x",
    "0x1-chat-x",
    "001-chat-x/..",
    "001-chat-x/",
    "001-chat-x/y",
    "/001-chat-x",
    "./001-chat-x",
    "../001-chat-x",
];

const DATES: &[&str] = &[
    "",
    ".",
    "..",
    "2026-13-01",
    "2026-02-30",
    "2025-02-29",
    "26-11-16",
    "2026-1-16",
    "2026-11-16 ",
    "2026/11/16",
    "+026-11-16",
    "-026-11-16",
    "2026-11-16T00",
    "٢٠٢٦-11-16",
];

const PATHS: &[&str] = &[
    "",
    "/",
    "..",
    "/etc/passwd",
    "C:\\x",
    "conversations",
    "conversations/2026-11-16",
    "/conversations/2026-11-16/001-chat-x",
    "./conversations/2026-11-16/001-chat-x",
    "../conversations/2026-11-16/001-chat-x",
    "conversations//2026-11-16/001-chat-x",
    "Conversations/2026-11-16/001-chat-x",
    "conversations/2026-11-16/../001-chat-x",
    "conversations\\2026-11-16\\001-chat-x",
    "001-chat-x",
    "~/x",
    "file:///etc/passwd",
];

fn hostile() -> Vec<String> {
    let mut paths: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    paths.extend(NAMES.iter().map(|name| format!("conversations/2026-11-16/{name}")));
    paths.extend(DATES.iter().map(|date| format!("conversations/{date}/001-chat-x")));
    paths.push(format!("conversations/2026-11-16/001-chat-{}", "x".repeat(121)));
    paths.push(format!("conversations/2026-11-16/001-chat-{}", "x".repeat(1 << 20)));
    paths.push(format!("conversations/2026-11-16/001-{}-x", "k".repeat(33)));
    paths.push("../".repeat(2_000));
    paths
}

#[test]
fn a_hostile_path_is_refused_and_told_what_is_allowed() {
    let paths = hostile();
    assert!(paths.len() >= 90, "{}", paths.len());
    for path in paths {
        let refused = path.parse::<FolderPath>().expect_err(&path);
        assert!(matches!(refused, Error::BadPath { .. }));
        let message = refused.to_string();
        assert!(message.contains("conversations/YYYY-MM-DD/NNN-KIND-TOPIC"), "{message}");
        assert!(message.len() < 3_000, "{} bytes", message.len());
        assert!(!message.contains(['\0', '\n', '\u{202e}']), "{message}");
    }
}

#[test]
fn any_topic_and_only_real_dates_and_kinds_make_a_folder() {
    let place = Place::new();
    for (number, topic) in hostile().iter().enumerate() {
        let path = place.workspace.create("2026-11-16", "chat", topic).unwrap();
        assert_eq!(path.number() as usize, number + 1);
        assert!(place.path(path.as_str()).join(".session").is_dir());
    }
    for text in hostile().into_iter().filter(|text| !is_kind_name(text)) {
        let date = place.workspace.create(&text, "chat", "x").unwrap_err();
        let kind = place.workspace.create("2026-11-16", &text, "x").unwrap_err();
        assert!(matches!((date, kind), (Error::BadName { .. }, Error::BadName { .. })), "{text:?}");
        assert!(place.workspace.kind(&text).unwrap().is_none());
    }
    let mut inside: Vec<_> = std::fs::read_dir(place.path("")).unwrap().collect();
    inside.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let names: Vec<_> = inside.into_iter().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".gitattributes", ".rethread", "conversations"]);
}

#[test]
fn a_workspace_is_found_from_anywhere_inside() {
    let place = Place::new();
    let path = place.session();
    let found = Workspace::find(&place.path(path.as_str())).unwrap().unwrap();
    assert_eq!(found.root(), place.path("").components().as_path());
    assert!(Workspace::find(&std::env::temp_dir()).unwrap().is_none());
    let outside = tempfile::tempdir().unwrap();
    let refused = Workspace::open(outside.path()).unwrap_err();
    assert!(matches!(refused, Error::NotAWorkspace(_)), "{refused:?}");
}
