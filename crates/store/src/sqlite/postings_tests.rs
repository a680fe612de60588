//! What goes into the index comes out of it: in order, between any two keys, also after merges, removals and damage.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rusqlite::Connection;

use super::postings::run::Run;
use super::postings::{self, *};
use super::rows::key;
use super::{schema, sums};

fn store() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    sums::register(&connection).unwrap();
    for step in schema::STEPS {
        connection.execute_batch(step).unwrap();
    }
    connection
}

/// Terms with the messages that have them.
type Model = BTreeMap<String, BTreeSet<i64>>;

fn say(connection: &Connection, model: &mut Model, messages: &[(i64, Vec<String>)]) {
    let mut batch = Batch::default();
    for (key, terms) in messages {
        batch.begin(*key);
        for term in terms {
            batch.add(term);
            model.entry(term.clone()).or_default().insert(*key);
        }
    }
    add(connection, &batch).unwrap();
}

fn all(mut node: Node, reader: &Reader<'_>, hi: i64) -> Vec<i64> {
    let (mut keys, mut upto) = (Vec::new(), hi);
    while let Some(key) = node.last_upto(reader, upto).unwrap() {
        keys.push(key);
        upto = key - 1;
    }
    keys
}

fn check(connection: &Connection, model: &Model, (lo, hi): (i64, i64)) {
    let reader = reader(connection).unwrap();
    let expected = |terms: &dyn Fn(&str) -> bool| -> BTreeSet<i64> {
        let having = model.iter().filter(|(term, _)| terms(term));
        having.flat_map(|(_, keys)| keys.range(lo..=hi).copied()).collect()
    };
    let newest_first = |keys: BTreeSet<i64>| keys.into_iter().rev().collect::<Vec<_>>();
    let mut terms: Vec<&str> = model.keys().map(String::as_str).collect();
    terms.push("missing");
    for term in &terms {
        let found = all(reader.term(term, lo, hi), &reader, hi);
        assert_eq!(found, newest_first(expected(&|one| one == *term)), "{term}");
        let both = || [reader.term(term, lo, hi), reader.term(terms[0], lo, hi)];
        let [one, other] = [term, terms[0]].map(|term| expected(&|one| one == term));
        let found = all(Node::Any(both().into()), &reader, hi);
        assert_eq!(found, newest_first(&one | &other), "{term} or {}", terms[0]);
        let found = all(Node::All(both().into()), &reader, hi);
        assert_eq!(found, newest_first(&one & &other), "{term} and {}", terms[0]);
    }
    for beginning in ["a", "b", "c", "term", "missing", ""] {
        let found = all(Reader::beginning(beginning, lo, hi), &reader, hi);
        let begins = |term: &str| term.starts_with(beginning);
        assert_eq!(found, newest_first(expected(&begins)), "{beginning}*");
    }
    let mut kept = Model::new();
    each(connection, |term, keys| {
        let term = String::from_utf8(term.to_vec()).unwrap();
        assert!(keys.is_sorted() && kept.insert(term, keys.iter().copied().collect()).is_none());
        Ok(())
    })
    .unwrap();
    kept.retain(|_, keys| !keys.is_empty());
    let said: Model = model
        .iter()
        .filter(|(_, keys)| !keys.is_empty())
        .map(|(term, keys)| (term.clone(), keys.clone()))
        .collect();
    assert_eq!(kept, said);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_was_brought_in_is_found_newest_first(
        batches in prop::collection::vec(
            prop::collection::btree_map((0_i64..4, 1_u32..300), prop::collection::vec("[abc]{1,3}|é[ab]|term[0-9]{1,2}", 1..8), 1..30),
            1..12,
        ),
        gone in prop::collection::vec((0_i64..4, 1_u32..300), 0..20),
        lo in (0_i64..4, 0_u32..300),
        hi in (0_i64..4, 0_u32..300),
    ) {
        let connection = store();
        let mut model = Model::new();
        let mut known = BTreeSet::new();
        for batch in batches {
            let messages: Vec<(i64, Vec<String>)> = batch
                .into_iter()
                .map(|((session, seq), terms)| (key(session, seq), terms))
                .filter(|(key, _)| known.insert(*key))
                .collect();
            say(&connection, &mut model, &messages);
        }
        check(&connection, &model, (0, i64::MAX));
        let ends = [lo, hi].map(|(session, seq)| key(session, seq));
        check(&connection, &model, (ends[0].min(ends[1]), ends[0].max(ends[1])));
        for (session, seq) in gone {
            let key = key(session, seq);
            if known.remove(&key) {
                remove(&connection, key).unwrap();
                for keys in model.values_mut() {
                    keys.remove(&key);
                }
            }
        }
        merge_all(&connection).unwrap();
        check(&connection, &model, (0, i64::MAX));
        prop_assert!(Run::all(&connection).unwrap().len() <= 1);
    }
}

/// Long lists lie in many blocks, and a run of many terms has directories.
#[test]
fn long_lists_and_many_terms_are_found() {
    let connection = store();
    let mut model = Model::new();
    for part in 0..6_u32 {
        let messages: Vec<(i64, Vec<String>)> = (0..3_000)
            .map(|n| {
                let seq = part * 3_000 + n;
                let terms = ["a".to_owned(), format!("b{seq}"), format!("c{}", seq % 7)];
                (key(7, seq + 1), terms.to_vec())
            })
            .collect();
        say(&connection, &mut model, &messages);
    }
    let reader = reader(&connection).unwrap();
    let (lo, hi) = (key(7, 100), key(7, 17_000));
    for (term, step) in [("a", 1), ("c3", 7)] {
        let found = all(reader.term(term, lo, hi), &reader, hi);
        let expected: Vec<i64> = model[term].range(lo..=hi).rev().copied().collect();
        assert_eq!(found, expected, "{term}, one of {step}");
    }
    for seq in [0, 99, 5_000, 17_999] {
        let found = all(reader.term(&format!("b{seq}"), 0, i64::MAX), &reader, i64::MAX);
        assert_eq!(found, [key(7, seq + 1)]);
    }
    // Of two words that never come together, none is found; of a long list and beginnings each once.
    let both = ["c3", "c4"].map(|term| reader.term(term, 0, i64::MAX));
    assert!(all(Node::All(both.into()), &reader, i64::MAX).is_empty());
    assert_eq!(all(Reader::beginning("c", 0, i64::MAX), &reader, i64::MAX).len(), 18_000);
    assert!(!reader.is_too_much());
    assert_eq!(Run::all(&connection).unwrap().len(), 3);
}

#[test]
fn a_block_that_was_changed_is_told() {
    let connection = store();
    say(&connection, &mut Model::new(), &[(key(1, 1), vec!["word".to_owned()])]);
    let harm = |table: &str, set: &str| {
        connection.execute(&format!("update {table} set {set}"), []).unwrap();
    };
    harm("posting", "data = zeroblob(40)");
    let reader = reader(&connection).unwrap();
    let found = reader.term("word", 0, i64::MAX).last_upto(&reader, i64::MAX);
    assert!(matches!(found, Err(crate::Error::Damaged(_))), "{found:?}");
    drop(reader);
    harm("posting_run", "hi = hi + 1");
    assert!(matches!(postings::reader(&connection), Err(crate::Error::Damaged(_))));
}
