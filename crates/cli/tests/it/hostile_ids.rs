//! Ids and names from outside never become paths (PROMISES S4): each is refused clearly or is plain data.

use std::path::Path;

use serde_json::{Value, json};

use crate::env::{TestEnv, jsonl, user};

const IDS: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "...",
    "../x",
    "../../../../etc/passwd",
    "..\\..\\x",
    "a/../b",
    "a/..",
    "/",
    "//",
    "/etc/passwd",
    "/tmp/rethread-was-here",
    "./x",
    "~",
    "~/x",
    "~root",
    "$HOME",
    "${HOME}",
    "$(touch rethread-was-here)",
    "`touch rethread-was-here`",
    ";touch rethread-was-here",
    "|touch rethread-was-here",
    "&& touch rethread-was-here",
    "> rethread-was-here",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "C:\\",
    "C:\\Windows\\x",
    "C:/x",
    "\\\\server\\share",
    "con",
    "NUL",
    "aux.txt",
    "lpt1:",
    "file:///etc/passwd",
    "file:x?mode=rwc",
    "sqlite:x",
    "http://evil/x",
    "%2e%2e",
    "%2e%2e%2fx",
    "..%2fx",
    "..%00/x",
    "%252e%252e",
    "\u{ff0e}\u{ff0e}\u{ff0f}x",
    "\u{2025}",
    "..\u{2044}x",
    "x\ny",
    "x\r\ny",
    "\n",
    "\t",
    "x\u{1b}[2Jy",
    "x\u{7}",
    "\u{202e}txt.exe",
    "\u{200f}x",
    "\u{2066}x\u{2069}",
    "\u{feff}x",
    "\u{200b}",
    "\u{e0041}",
    "'; drop table session; --",
    "\" or 1=1 --",
    "x' union select * from message --",
    "-",
    "--",
    "-rf",
    "--help",
    "--store=sqlite:/tmp/rethread-was-here",
    "-oProxyCommand=x",
    "@x",
    "<script>alert(1)</script>",
    "</history>",
    "{{7*7}}",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "0x10",
    "ffffffff-ffff-ffff-ffff-ffffffffffff/..",
    "00000000-0000-0000-0000-00000000000g",
    "0000000000000000000000000000000000000000",
    "🦀",
    "é",
    "e\u{301}",
    "İ",
];

pub(crate) fn hostile() -> Vec<String> {
    let mut ids: Vec<String> = IDS.iter().map(|&id| id.to_owned()).collect();
    ids.extend(["x".repeat(4096), "../".repeat(1365), "a".repeat(256), "ü".repeat(2048)]);
    assert!(ids.len() >= 60);
    ids
}

/// Everything there is but the store's own files.
fn outside(env: &TestEnv) -> Vec<std::path::PathBuf> {
    let tree = env.tree().into_iter().map(|(path, _)| path);
    let is_log = |path: &Path| path.starts_with("home/.local");
    tree.filter(|path| !path.starts_with("store") && !is_log(path)).collect()
}

#[track_caller]
fn assert_clear(told: &crate::env::Output, id: &str) {
    assert!(matches!(told.code, Some(0..=2)), "{id:?}: {told}");
    if told.code != Some(0) {
        let (_, error) = told.error();
        assert!(error["message"].as_str().unwrap().len() < 1000, "{id:?}: {told}");
    }
}

#[test]
fn as_the_id_of_a_session() {
    let env = TestEnv::new();
    let session = env.basket();
    let before = outside(&env);
    for id in hostile() {
        for args in [&["show", "--json", "--"][..], &["delete", "--permanently", "--json", "--"]] {
            let told = env.run(args.iter().copied().chain([id.as_str()]));
            assert_ne!(told.code, Some(0), "{id:?}: {told}");
            assert_clear(&told, &id);
        }
        let given = format!("--session={id}");
        let told = env.feed(["record", "--json", &given], jsonl(&[user("x")]));
        assert_ne!(told.code, Some(0), "{id:?}: {told}");
        assert_clear(&told, &id);
    }
    assert_eq!(outside(&env), before);
    assert_eq!(env.messages(&session).len(), 5);
}

#[test]
fn as_the_options_of_a_recording() {
    let env = TestEnv::new();
    let before = outside(&env);
    let mut kept = Vec::new();
    for id in hostile() {
        for option in ["user", "kind", "agent", "title"] {
            let given = format!("--{option}={id}");
            let told = env.feed(["record", "--json", &given], jsonl(&[user("x")]));
            assert_clear(&told, &id);
            if told.code == Some(0) {
                let field = if option == "user" { "user_id" } else { option };
                kept.push((told.text().trim().to_owned(), field, id.clone()));
            }
        }
    }
    let sessions = env.json(["list", "-n", "1000"]);
    assert_eq!(sessions.as_array().unwrap().len(), kept.len());
    for (session, field, id) in kept {
        let mut rows = sessions.as_array().unwrap().iter();
        let row = rows.find(|row| row["session_id"] == json!(session)).unwrap();
        assert_eq!(row[field], json!(id), "{field}");
    }
    env.data(["list", "-n", "1000"]);
    assert_eq!(outside(&env), before);
    env.assert_sound();
}

#[test]
fn as_the_fields_of_a_message() {
    let env = TestEnv::new();
    let before = outside(&env);
    let nul = ["\0".to_owned(), "a\0b".to_owned(), "../\0".to_owned()];
    let mut kept = Vec::new();
    for id in hostile().into_iter().chain(nul) {
        for field in ["id", "conversation", "agent"] {
            let mut line = user(&format!("x{}", kept.len()));
            line[field] = json!(id);
            let told = env.feed(["record", "--json"], jsonl(&[line]));
            assert_clear(&told, &id);
            if told.code == Some(0) {
                kept.push((field, id.clone()));
            }
        }
    }
    let exported = env.data(["export", "--all"]);
    let lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages: Vec<Value> = lines.filter(|line| line["type"] == "message").collect();
    assert_eq!(messages.len(), kept.len());
    for message in &messages {
        let place: usize = message["content"].as_str().unwrap()[1..].parse().unwrap();
        let (field, id) = &kept[place];
        assert_eq!(message[field], json!(id), "{field}");
    }
    for session in env.json(["list", "-n", "20"]).as_array().unwrap() {
        env.data(["context", session["session_id"].as_str().unwrap()]);
    }
    assert_eq!(outside(&env), before);
    env.assert_sound();
}

#[test]
fn as_ids_that_come_with_an_import() {
    let env = TestEnv::new();
    let session = env.record::<&str>([], &[json!({"role": "user", "content": "x", "id": "m-1"})]);
    let good = env.data(["export", &session]);
    let other = TestEnv::new();
    let before = outside(&other);
    let nul = ["\0".to_owned(), "a\0b".to_owned()];
    for id in hostile().into_iter().chain(nul) {
        let quoted = json!(id).to_string();
        for (field, from) in [
            ("session", format!("\"id\":\"{session}\"")),
            ("message", "\"id\":\"m-1\"".to_owned()),
            ("conversation", "\"name\":\"main\"".to_owned()),
            ("kind", "\"kind\":\"chat\"".to_owned()),
        ] {
            let key = from.split(':').next().unwrap();
            let told = other
                .feed(["import", "-", "--json"], good.replace(&from, &format!("{key}:{quoted}")));
            assert_clear(&told, &format!("{field} {id}"));
            if told.code == Some(0) {
                other.data(["delete", "--permanently", &session]);
            }
        }
    }
    assert_eq!(outside(&other), before);
    assert_eq!(other.json(["list", "--all"]), json!([]));
    other.assert_sound();
}
