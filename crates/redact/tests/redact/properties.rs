//! What holds for any text.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};
use rethread_redact::{Known, Redacted, Redactor};
use serde_json::json;

use crate::carriers;
use crate::dice::{Dice, SEED};
use crate::samples::{ANCHORED, NAMED};

const VALUES: &[&str] =
    &["abcabcabc1", "aabaabaab2aa", "naïve-päss/1", "abcabcabc1+x y", "value of B9"];

fn redactor() -> Redactor {
    let known = VALUES
        .iter()
        .enumerate()
        .map(|(number, value)| Known { name: format!("SECRET_{number}"), value: (*value).into() });
    Redactor::new(known)
}

/// What stands around secrets, and what may look like them.
const PARTS: &[&str] = &[
    "password",
    "API_KEY",
    "token",
    "=",
    ": ",
    "\"",
    "'",
    " ",
    "\n",
    "--",
    "?",
    "&",
    "https://",
    "me:pw123@",
    "@",
    "\\n",
    "\\\"",
    "[redacted: ",
    "[redacted: password]",
    "]",
    "Bearer ",
    "curl ",
    "curl",
    "mysql ",
    "mysqldump",
    " -u ",
    " -uanna:",
    " -p",
    "anna:wobble",
    "PGPASSWORD=",
    "--password ",
    "wobbleboard",
    "\\\n",
    "Basic ",
    "hunter2x",
    "%3D",
    "=>",
    "{",
    "}",
    ",",
    "<",
    ">",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "é",
    "\u{1b}[32m",
    "abc",
    "aab",
    "1",
    "=",
];

/// Pieces that texts with secrets are made of.
fn piece() -> impl Strategy<Value = String> {
    let made = (0..ANCHORED.len() + NAMED.len(), any::<u64>()).prop_map(|(number, seed)| {
        let sample = ANCHORED.iter().chain(NAMED).nth(number).unwrap();
        Dice::new(seed).make(sample.pattern)
    });
    prop_oneof![
        3 => prop::sample::select(PARTS.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(VALUES.to_vec()).prop_map(str::to_owned),
        2 => made,
        1 => "[ -~]{0,12}",
        1 => "\\PC{0,6}",
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..14).prop_map(|pieces| pieces.concat())
}

/// The ranges are in order, and putting the masks there gives the text.
fn check_ranges(text: &str, redacted: &Redacted<'_>) {
    let (mut at, mut rebuilt) = (0, String::new());
    for found in &redacted.found {
        assert!(found.at.start >= at && found.at.start < found.at.end, "{:?}", redacted.found);
        rebuilt.push_str(&text[at..found.at.start]);
        rebuilt.push_str(&format!("[redacted: {}]", found.what));
        at = found.at.end;
    }
    rebuilt.push_str(&text[at..]);
    assert_eq!(rebuilt, redacted.text);
}

fn config() -> Config {
    println!("seed {SEED}");
    Config {
        cases: 3000,
        rng_seed: RngSeed::Fixed(SEED),
        rng_algorithm: RngAlgorithm::ChaCha,
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn redacting_twice_changes_nothing(text in any_text()) {
        let redactor = redactor();
        for once in [redactor.redact(&text), redactor.redact_known(&text)] {
            check_ranges(&text, &once);
            let known = redactor.redact_known(&once.text);
            prop_assert_eq!(&known.text, &once.text);
        }
        let once = redactor.redact(&text).text.into_owned();
        let twice = redactor.redact(&once);
        prop_assert_eq!(&twice.text, &once);
        prop_assert!(twice.found.is_empty());
    }

    #[test]
    fn any_text_at_all_is_taken(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let redactor = redactor();
        check_ranges(&text, &redactor.redact(&text));
        let text = String::from_utf8_lossy(&bytes);
        check_ranges(&text, &redactor.redact(&text));
        redactor.held_back(&text);
    }

    #[test]
    fn a_stream_shows_what_the_whole_would(text in any_text(), seed in any::<u64>(), longest in 1..40_usize) {
        let redactor = redactor();
        let mut dice = Dice::new(seed);
        let shown = carriers::streamed(&redactor, &carriers::pieces(&mut dice, &text, longest));
        let whole = redactor.redact_known(&text);
        if !text.contains("[redacted") {
            prop_assert_eq!(&shown, &whole.text);
        }
        for value in VALUES.iter().filter(|value| !whole.text.contains(**value)) {
            prop_assert!(!shown.contains(value), "{value} in {shown}");
        }
    }

    #[test]
    fn json_stays_json(text in any_text(), name in piece()) {
        let redactor = redactor();
        let mut value = json!({"a": [text, {name: text}], "b": {"password": text, "n": 1}});
        redactor.redact_json(&mut value);
        let mut again = value.clone();
        prop_assert!(redactor.redact_json(&mut again).is_empty(), "{value} became {again}");
        prop_assert_eq!(again, value);
    }
}
