//! What holds for any record and any bytes.

use std::fs;

use proptest::prelude::*;
use rethread_workspace::{Card, Item, Line, Loose, Page};
use serde_json::{Map, Value};

use crate::{card, intact, items, line, log_of, with_session};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let fields = prop::collection::vec((any::<String>(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_other() -> impl Strategy<Value = Map<String, Value>> {
    // A name that no known field has.
    let field = ("x[a-z]{0,8}", any_value());
    prop::collection::vec(field, 0..4).prop_map(|fields| fields.into_iter().collect())
}

prop_compose! {
    fn any_line()(
        id in "[^\\pC]{1,50}",
        after in "[^\\pC]{1,50}",
        texts in prop::array::uniform5(any::<String>()),
        agent in any::<Option<String>>(),
        other in any_other(),
    ) -> Line {
        let [kind, role, content, timestamp, conversation] = texts;
        Line { id, after, kind, role, content, timestamp, conversation, agent, other }
    }
}

/// How bytes go wrong.
#[derive(Debug, Clone)]
enum Accident {
    Insert(Vec<u8>),
    Remove(usize),
    Flip(u8),
}

fn any_accident() -> impl Strategy<Value = Accident> {
    let pieces = [
        &b"\0"[..],
        b"\xef\xbb\xbf",
        b"\r\n",
        b"\xff",
        b"\\ud800",
        b"<<<<<<< HEAD\n",
        b"{\"sum\":\"0123456789abcdef\",",
        b"}{",
    ];
    prop_oneof![
        prop::sample::select(pieces.to_vec()).prop_map(|piece| Accident::Insert(piece.to_vec())),
        prop::collection::vec(any::<u8>(), 1..20).prop_map(Accident::Insert),
        (1..400_usize).prop_map(Accident::Remove),
        (0..8_u8).prop_map(Accident::Flip),
    ]
}

proptest! {
    #[test]
    fn any_records_read_back_as_they_were(lines in prop::collection::vec(any_line(), 0..6)) {
        let (found, end) = items(&log_of(&lines));
        prop_assert_eq!(intact(&found), lines);
        prop_assert_eq!(end.torn, None);
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (found, end) = items(&bytes);
        prop_assert!(end.bytes <= bytes.len() as u64);
        prop_assert!(intact(&found).is_empty());
    }

    #[test]
    fn bytes_that_look_like_a_log_can_be_read(
        text in "([{}\\[\\]\":,]|sum|role|content|[0-9a-f]{16}|\\\\u|\n|\u{0}| ){0,80}",
    ) {
        let (_, end) = items(text.as_bytes());
        prop_assert!(end.bytes <= text.len() as u64);
    }

    #[test]
    fn after_an_accident_all_records_that_it_did_not_touch_are_read(
        count in 1..6_usize,
        at in any::<prop::sample::Index>(),
        accident in any_accident(),
    ) {
        let lines: Vec<Line> = (0..count).map(|number| line(number * 7)).collect();
        let mut log = log_of(&lines);
        let ends: Vec<usize> = (0..log.len()).filter(|at| log[*at] == b'\n').collect();
        let at = at.index(log.len());
        let touched = match accident {
            Accident::Insert(piece) => {
                log.splice(at..at, piece);
                at..at
            }
            Accident::Remove(length) => {
                let end = (at + length).min(log.len());
                log.drain(at..end);
                at..end
            }
            Accident::Flip(bit) => {
                log[at] ^= 1 << bit;
                at..at + 1
            }
        };
        let is_touched = |number: usize| {
            let start = if number == 0 { 0 } else { ends[number - 1] + 1 };
            // At its very beginning or end, something new stands beside a record, not in it.
            if touched.is_empty() {
                start < touched.start && touched.start < ends[number]
            } else {
                touched.start < ends[number] && start < touched.end
            }
        };
        let expected: Vec<Line> =
            (0..count).filter(|number| !is_touched(*number)).map(|number| line(number * 7)).collect();
        let (found, _) = items(&log);
        let found = intact(&found);
        prop_assert!(expected.iter().all(|line| found.contains(line)), "{:?}", found);
        prop_assert!(found.iter().all(|line| lines.contains(line)));
    }

    #[test]
    fn a_card_reads_back_as_it_was(
        texts in prop::array::uniform6(any::<Option<String>>()),
        tools in prop::collection::vec(any::<String>(), 0..4),
        other in any_other(),
    ) {
        let [title, summary, command, prompt_hash, model, agent] = texts;
        let given = Card {
            title, summary, command, prompt_hash, model, agent, tools, other, ..card()
        };
        let found = with_session(|place, path| {
            let locked = place.lock(path);
            locked.write_card(&given).unwrap();
            locked.card().unwrap()
        });
        // Every summary that is found counts as one of several.
        let summaries = given.summary.iter().map(|text| (text.clone(), None)).collect();
        prop_assert_eq!(found, Some(Card { summaries, ..given }));
    }

    #[test]
    fn any_bytes_can_stand_in_the_place_of_a_card(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let found = with_session(|place, path| {
            fs::write(place.card(path), &bytes).unwrap();
            place.lock(path).card()
        });
        prop_assert!(found.is_err());
    }

    #[test]
    fn any_text_on_a_page_stays_in_our_part(text in any::<String>(), around in "[^\u{0}]{0,20}") {
        let around = around.replace("rethread", "");
        let before = format!("{around}\n<!-- rethread: begin -->\n");
        let behind = format!("\n<!-- rethread: end -->\n{around}");
        let page = Page {
            title: text.clone(),
            summary: Some(text.clone()),
            decisions: vec![text.clone()],
            status: text.clone(),
            resume: text,
        };
        let (changed, after, again) = with_session(|place, path| {
            let file = place.path(path.as_str()).join("brainstorm.md");
            fs::write(&file, format!("{before}{behind}")).unwrap();
            let locked = place.lock(path);
            let changed = locked.write_page("brainstorm", &page).unwrap();
            let after = fs::read_to_string(&file).unwrap();
            (changed, after, locked.write_page("brainstorm", &page).unwrap())
        });
        prop_assert!(changed && !again);
        prop_assert!(after.starts_with(&(before + "# ")) && after.ends_with(&behind));
    }
}

#[test]
fn a_record_by_hand_may_lack_all_but_two_fields() {
    let (found, _) = items(b"{\"role\":\"user\",\"content\":\"x\"}");
    let line = Loose { role: "user".into(), content: "x".into(), ..Loose::default() };
    assert_eq!(found, [Item::Written { line, at: 0..29, number: 1 }]);
}
