//! How often a line without a secret is taken for one.

use std::fs;
use std::path::{Path, PathBuf};

use rethread_redact::Redactor;

use crate::dice::{Dice, SEED};
use crate::lines;

const LINES: usize = 60_000;

#[test]
fn lines_without_secrets_stay() {
    let mut dice = Dice::new(SEED);
    let redactor = Redactor::new([]);
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for _ in 0..LINES {
        let line = lines::any(&mut dice);
        bytes += line.len();
        let found = redactor.redact(&line).found;
        if !found.is_empty() {
            taken.push(format!("{found:?} in {line}"));
        }
    }
    println!("seed {SEED}; {LINES} lines, {bytes} bytes, {} false positives", taken.len());
    println!("{}", taken[..taken.len().min(40)].join("\n"));
    assert!(taken.len() * 1000 <= LINES, "{}", taken[..taken.len().min(40)].join("\n"));
}

/// The source files of every crate, tests and this engine aside.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let others = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path());
    let others = others.filter(|folder| !folder.ends_with("redact"));
    let mut folders: Vec<PathBuf> = others.map(|folder| folder.join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 100, "only {} source files were found", found.len());
    found
}

#[test]
fn the_source_of_this_program_stays() {
    let redactor = Redactor::new([]);
    let (mut taken, mut lines) = (Vec::new(), 0);
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        lines += text.lines().count();
        // As a whole too: a rule may reach over lines.
        let whole = redactor.redact(&text).found;
        for found in whole {
            taken.push(format!("{}: {} {:?}", path.display(), found.what, &text[found.at]));
        }
    }
    println!("{lines} lines of source, {} findings", taken.len());
    assert!(taken.is_empty(), "{}", taken.join("\n"));
}
