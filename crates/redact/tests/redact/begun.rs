//! A text that comes in pieces is passed on as it would be as a whole, and soon.

use std::hash::{BuildHasher, Hasher, RandomState};

use rethread_redact::{Known, Redactor};

use crate::carriers::{self, FOR_RULES, pieces};
use crate::dice::Dice;
use crate::lines;
use crate::samples::{ANCHORED, NAMED};

/// What secrets are made of and written with, and what only looks like it.
const PARTS: &[&str] = &[
    "password",
    "API_KEY",
    "token",
    "DB_PASSWORD",
    "Authorization",
    "auth",
    "=",
    ": ",
    ":",
    " = ",
    "==",
    "\"",
    "'",
    "`",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
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
    "[redacted: value of SECRET_1]",
    "]",
    ")",
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
    "bearer",
    "Basic ",
    "dXNlcjpodW50ZXIyeA==",
    "hunter2x",
    "a8s7d6f5g4h3j2k1l0q9",
    "%3D",
    "=>",
    ":=",
    "{",
    "}",
    ",",
    ";",
    "<",
    ">",
    "#",
    "str",
    "f\"",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "-----",
    "-----END PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw",
    "the",
    "value is",
    "größe",
    "鍵",
    "\u{a0}",
    "\x1b[31m",
    "+",
    "-",
];

const VALUES: &[&str] = &[
    "abcabcabc1",
    "aabaabaab2aa",
    "naïve-päss/1",
    "abcabcabc1+x y",
    "one line1\nand two",
    "value of B9",
];

fn redactor() -> Redactor {
    let known = VALUES.iter().enumerate();
    Redactor::new(
        known.map(|(number, value)| Known {
            name: format!("SECRET_{number}"),
            value: (*value).into(),
        }),
    )
}

/// Another one in each run, unless it is given: `SEED=… cargo test …`.
fn seed() -> u64 {
    let given = option_env!("SEED").and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("seed {seed}");
    seed
}

fn secret(dice: &mut Dice) -> String {
    if dice.roll(3) == 0 {
        return dice.pick(VALUES).to_owned();
    }
    let number = dice.roll(ANCHORED.len() + NAMED.len());
    dice.make(ANCHORED.iter().chain(NAMED).nth(number).unwrap().pattern)
}

/// As agents write: sentences, and now and then something with a secret in it.
fn told(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.roll(6) {
        if dice.roll(3) == 0 {
            let carrier = dice.pick(FOR_RULES);
            // Carriers cut them anywhere.
            let secret = Some(secret(dice)).filter(|secret| secret.is_ascii());
            let secret = secret.unwrap_or_else(|| "a8s7d6f5g4h3j2k1l0q9".to_owned());
            let name = dice.pick(&["API_KEY", "DB_PASSWORD", "SETTING_A", "GITHUB_TOKEN"]);
            text.push_str(&carriers::carry(dice, carrier, name, &secret.replace('\n', "")));
        } else {
            text.push_str(&lines::any(dice));
        }
        text.push_str(dice.pick(&[" ", "\n", ". ", "\n\n"]));
    }
    text
}

/// As nobody writes.
fn thrown(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.roll(24) {
        let part = if dice.roll(6) == 0 { secret(dice) } else { dice.pick(PARTS).to_owned() };
        text.push_str(&part);
    }
    text
}

/// What is passed on piece by piece.
fn passed(redactor: &Redactor, pieces: &[&str]) -> Vec<String> {
    let (mut out, mut waiting) = (Vec::new(), String::new());
    for piece in pieces {
        waiting.push_str(piece);
        let (ready, end) = redactor.redact_begun(&waiting);
        out.push(ready);
        waiting.drain(..end);
    }
    out.push(redactor.redact(&waiting).text.into_owned());
    out
}

#[track_caller]
fn check(redactor: &Redactor, text: &str, pieces: &[&str]) {
    let passed = passed(redactor, pieces);
    assert_eq!(passed.concat(), redactor.redact(text).text, "{passed:#?} of {pieces:#?}");
}

#[test]
fn pieces_are_passed_on_as_the_whole_would_be() {
    let (redactor, mut dice) = (redactor(), Dice::new(seed()));
    for round in 0..3_000 {
        let text = if round % 3 == 0 { told(&mut dice) } else { thrown(&mut dice) };
        let longest = dice.pick(&[&1, &4, &12, &60]);
        check(&redactor, &text, &pieces(&mut dice, &text, *longest));
    }
}

#[test]
fn a_name_that_begins_where_a_secret_ends_waits_for_its_value() {
    let text = "the:abcabcabc1+x yauth=größetokenwhsec_Uq5jdrFcS4HMnmwESHm+M885nZZrSyMhf\"\r\n-";
    let each: Vec<&str> = text.split_inclusive(|_| true).collect();
    check(&redactor(), text, &each);
}

#[test]
fn every_format_is_recognised_wherever_it_is_cut() {
    let (redactor, mut dice) = (redactor(), Dice::new(seed()));
    for sample in ANCHORED.iter().chain(NAMED) {
        for carrier in FOR_RULES {
            let secret = dice.make(sample.pattern);
            let text = carriers::carry(&mut dice, carrier, sample.anchor, &secret);
            let at = dice.roll(text.len());
            check(&redactor, &text, &[&text[..at], &text[at..]]);
            let each: Vec<&str> = text.split_inclusive(|_| true).collect();
            check(&redactor, &text, &each);
        }
    }
}

#[test]
fn a_sentence_comes_word_by_word() {
    let sentence = "The key idea: a token is refreshed when the user logs in, and the password is never \
                    written to the log, so that nobody who reads it later can use what it says there.";
    for text in [
        sentence,
        "一句话里没有空格，但是它也应该一个字一个字地出现，而不是等到最后才出现在页面上给人看。",
    ] {
        let words: Vec<&str> = if text.contains(' ') {
            text.split_inclusive(' ').collect()
        } else {
            text.split_inclusive(|_| true).collect()
        };
        assert!(words.len() >= 30, "{}", words.len());
        let passed = passed(&redactor(), &words);
        let steps = passed.iter().filter(|ready| !ready.is_empty()).count();
        assert!(steps * 2 >= words.len(), "{steps} of {}: {passed:#?}", words.len());
        assert_eq!(passed.concat(), text);
    }
}
