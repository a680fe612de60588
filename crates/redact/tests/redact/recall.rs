//! Secrets of every vendor and known values, in every carrier that they can be found in.

use std::collections::{BTreeMap, BTreeSet};

use rethread_redact::{self, Known, Redactor, rules};

use crate::carriers::{self, FOR_RULES, PLAIN};
use crate::dice::{Dice, SEED};
use crate::samples::{ANCHORED, NAMED, Sample};

const ROUNDS: usize = 12;

#[derive(Default)]
struct Tally {
    all: usize,
    missed: BTreeMap<String, usize>,
}

impl Tally {
    fn count(&mut self, what: String, found: bool) {
        self.all += 1;
        if !found {
            *self.missed.entry(what).or_default() += 1;
        }
    }

    fn recall(&self) -> f64 {
        let missed: usize = self.missed.values().sum();
        let part = |number: usize| f64::from(u32::try_from(number).unwrap());
        part(self.all - missed) / part(self.all)
    }
}

/// Nothing of the secret is left: neither its beginning nor its end.
fn is_gone(text: &str, secret: &str) -> bool {
    let piece = secret.len().min(12);
    !text.contains(&secret[..piece]) && !text.contains(&secret[secret.len() - piece..])
}

/// The part of a sample that has to go.
fn secret_part<'a>(sample: &Sample, secret: &'a str) -> &'a str {
    let kept = sample.anchor.ends_with('=').then_some(sample.anchor);
    kept.and_then(|kept| secret.strip_prefix(kept)).unwrap_or(secret)
}

#[test]
fn every_rule_has_a_sample() {
    let samples: BTreeSet<_> = ANCHORED.iter().chain(NAMED).map(|s| (s.what, s.anchor)).collect();
    let known: BTreeSet<_> = rules().collect();
    assert_eq!(known, samples);
    let kinds: BTreeSet<_> = known.iter().map(|(what, _)| what).collect();
    println!("{} rules, {} kinds of secrets", known.len(), kinds.len());
    assert!(kinds.len() >= 80);
}

#[test]
fn secrets_of_vendors_are_found_in_every_carrier() {
    let mut dice = Dice::new(SEED);
    let redactor = Redactor::new([]);
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for sample in ANCHORED.iter().chain(NAMED) {
        let named =
            NAMED.iter().any(|named| named.what == sample.what && named.anchor == sample.anchor);
        let name = match sample.anchor {
            "secretaccesskey" => "SECRET_ACCESS_KEY".to_owned(),
            "sessiontoken" => "AWS_SESSION_TOKEN".to_owned(),
            vendor if named => format!("{}_API_KEY", vendor.to_ascii_uppercase()),
            _ => PLAIN.to_owned(),
        };
        for carrier in FOR_RULES.iter().filter(|carrier| **carrier != "wrapped" || sample.wraps) {
            for _ in 0..ROUNDS {
                let secret = dice.make(sample.pattern);
                let text = carriers::carry(&mut dice, carrier, &name, &secret);
                let redacted = redactor.redact(&text);
                let gone = is_gone(&redacted.text, secret_part(sample, &secret));
                let tally = tallies.entry(carrier).or_default();
                tally.count(format!("{} {}", sample.what, sample.anchor), gone);
            }
        }
    }
    println!("seed {SEED}");
    for (carrier, tally) in &tallies {
        println!("{carrier}: {} secrets, recall {:.4}", tally.all, tally.recall());
        println!("  missed {:?}", tally.missed);
        assert!(tally.recall() >= 0.98, "{carrier}: {:?}", tally.missed);
    }
}

/// Values as people and machines make them.
fn known_value(dice: &mut Dice) -> String {
    match dice.roll(5) {
        0 => dice.make("{A20}"),
        1 => dice.make("{B40}=="),
        2 => dice.make("p&{A4} /\"{A4}+%\\é{A4}"),
        3 => dice.make("k{H7}"),
        _ => dice.make("line {A30}\nline {A30}\n"),
    }
}

#[test]
fn known_values_are_always_found() {
    let mut dice = Dice::new(SEED);
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for _ in 0..1500 {
        let value = known_value(&mut dice);
        let known = Known { name: "THE_PASSWORD".into(), value: value.clone() };
        let redactor = Redactor::new([known]);
        let encoded = carriers::percent(&value);
        for carrier in ["env", "json", "url", "header", "diff", "base64", "streamed"] {
            let written = if carrier == "url" { &encoded } else { &value };
            let text = match carrier {
                "base64" => {
                    carriers::base64(format!("{}{value}:x", &"user:"[..dice.roll(6)]).as_bytes())
                }
                "streamed" => format!("one {value} two {value}{value} three"),
                _ => carriers::carry(&mut dice, carrier, PLAIN, written),
            };
            let pieces = carriers::pieces(&mut dice, &text, 9);
            let redacted = match carrier {
                "streamed" => carriers::streamed(&redactor, &pieces),
                _ => redactor.redact_known(&text).text.into_owned(),
            };
            let again = carriers::base64(value.as_bytes());
            let found = redacted.contains("[redacted: value of THE_PASSWORD]")
                && !redacted.contains(&value)
                && !redacted.contains(&encoded)
                && !redacted.contains(&again);
            tallies.entry(carrier).or_default().count(format!("{value:?} in {text:?}"), found);
        }
    }
    println!("seed {SEED}");
    for (carrier, tally) in &tallies {
        println!("known values, {carrier}: {} values, recall {:.4}", tally.all, tally.recall());
        assert!(tally.missed.is_empty(), "{carrier}: {:?}", tally.missed);
    }
}

/// Whoever adds or changes a rule raises the version, so that what was stored before is searched again, and puts the
/// new sum here.
#[test]
fn other_rules_have_another_version() {
    let named = rules().flat_map(|(what, anchor)| [what, "\n", anchor, "\n"]);
    let sum = named.flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!((rethread_redact::VERSION, format!("{sum:x}").as_str()), (2, "606c1a8d82c9b979"));
}
