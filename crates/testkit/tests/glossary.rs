//! Each word of the glossary leads to its module: whoever greps for the word finds it there.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_word_of_the_glossary_leads_to_its_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).unwrap();
    let mut words = BTreeSet::new();
    for line in glossary.lines().filter(|line| line.starts_with("| **")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [word, _, module] = cells[..] else { panic!("not three cells: {line}") };
        let word = word.trim_start_matches("| **").trim_end_matches("**");
        let module = module.trim_matches(|char| matches!(char, '`' | ' ' | '|'));
        let text = fs::read_to_string(root.join(module))
            .unwrap_or_else(|_| panic!("{word}: there is no {module}"));
        assert!(text.to_lowercase().contains(word), "{module} does not speak of {word:?}");
        assert!(words.insert(word), "{word:?} stands twice in the glossary");
    }
    assert!(words.len() >= 14, "only {} words", words.len());
}
