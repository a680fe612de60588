//! The table of errors is whole: every code that is used is in it, none is in it for nothing, and docs/errors.md says the same.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rethread_engine::codes::{CODES, Code, Hint};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The texts of all source files of a crate.
fn sources(of: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates").join(of).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "codes.rs") {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The words in quotation marks that come right after a mark.
fn named(text: &str, mark: &str) -> Vec<String> {
    let after = text.split(mark).skip(1);
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    quoted.filter_map(|rest| rest.split_once('"')).map(|(word, _)| word.to_owned()).collect()
}

#[test]
fn every_code_has_its_place_at_each_door() {
    let mut known = BTreeSet::new();
    for code in CODES {
        let name = code.name;
        assert!(known.insert(name), "{name} is in the table twice");
        assert!([1, 2, 70, 130].contains(&code.exit), "{name} exits with {}", code.exit);
        assert!((400..600).contains(&code.status), "{name} is answered with {}", code.status);
        assert!(!code.title.is_empty(), "{name} does not say what it means");
        let (Hint::Say(text) | Hint::Nothing(text)) = code.hint;
        assert!(!text.is_empty(), "{name} has neither a hint nor a reason for none");
    }
}

#[test]
fn every_code_that_is_used_is_in_the_table_and_the_other_way_round() {
    let known: BTreeSet<String> = CODES.iter().map(|code| code.name.to_owned()).collect();
    let texts: Vec<String> =
        ["cli", "engine", "mcp", "server"].into_iter().flat_map(sources).collect();
    let marks = ["Problem::new(", "Fault::refused(", "Report::new(", "Code::of(", " code:"];
    let used: BTreeSet<String> =
        texts.iter().flat_map(|text| marks.iter().flat_map(|mark| named(text, mark))).collect();
    assert!(used.len() > 30, "{used:?}");
    let unknown: Vec<&String> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "not in engine/src/codes.rs: {unknown:?}");
    let all = texts.concat();
    let unused: Vec<&String> =
        known.iter().filter(|name| !all.contains(&format!("\"{name}\""))).collect();
    assert!(unused.is_empty(), "in engine/src/codes.rs, and used nowhere: {unused:?}");
}

#[test]
fn the_documents_list_every_code() {
    let document = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let (_, table) = document.split_once("|---|---|---|---|---|\n").unwrap();
    let mut there = table.lines();
    for Code { name, exit, status, title, hint } in CODES {
        let hint = if let Hint::Say(hint) = hint { hint } else { "" };
        let row = format!("| `{name}` | {exit} | {status} | {title} | {hint} |");
        assert_eq!(
            there.next(),
            Some(row.as_str()),
            "docs/errors.md differs from engine/src/codes.rs"
        );
    }
    assert_eq!(there.next(), None, "docs/errors.md has more than engine/src/codes.rs");
}
