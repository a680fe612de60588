//! The budget holds, whatever the history; the order is that of the specification.

mod history;

use std::cmp::Reverse;

use proptest::prelude::*;

use self::history::{History, history, minute, plan, talk};
use super::*;
use crate::message::Role;
use crate::price::Price;
use crate::session::Fact;
use crate::summary::{Author, Summary};
use crate::{Seq, number, quote, tokens};

/// A context as a reader takes it apart.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Ours(&'a str),
    Stored(String),
}
use Piece::{Ours, Stored};

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut quotation = String::new();
    for line in text.split_inclusive('\n') {
        if line.starts_with('>') {
            quotation.push_str(line);
        } else if !quotation.is_empty() {
            quotation.push_str(line);
            pieces.push(Stored(quote::parse(&quotation).expect("a quotation and an empty line")));
            quotation.clear();
        } else if line != "\n" {
            pieces.push(Ours(line.strip_suffix('\n').expect("a whole line")));
        }
    }
    assert!(quotation.is_empty(), "{text}");
    pieces
}

/// The beginnings of the sections, in the order of the specification.
const SECTIONS: [&str; 9] = [
    "This is the earlier history of a session, ",
    "## Session",
    "### Session summary",
    "## Recent conversations",
    "## Changes in the repository since then",
    "## Earlier messages that matter here",
    "## Recent messages",
    "Left out here: ",
    "Acknowledge briefly that you know this, ",
];

fn section(line: &str) -> Option<usize> {
    SECTIONS
        .iter()
        .position(|start| line == *start || start.ends_with(' ') && line.starts_with(start))
}

/// Whether a message is told as it was said: whole, purged, or by its ends, the rest counted.
fn is_told(message: &Message, content: &str, pieces: &[Piece<'_>]) -> bool {
    match pieces {
        [Ours("[This message was purged.]"), ..] => message.purged_at.is_some(),
        [Stored(head), Ours(marker), Stored(tail), ..] if marker.starts_with("[shortened") => {
            let gap = content.len().saturating_sub(head.len() + tail.len());
            content.starts_with(head)
                && content.ends_with(tail)
                && *marker == format!("[shortened here: {gap} bytes left out]")
        }
        [Stored(whole), ..] => whole == content && message.purged_at.is_none(),
        _ => false,
    }
}

/// The recent and the related messages that a reader finds, recent ones by their number.
fn find(history: &History, pieces: &[Piece<'_>]) -> (Vec<Seq>, usize) {
    let content = |message: &Message| history.contents[message.seq as usize - 1].as_str();
    let (mut recent, mut related) = (Vec::new(), 0);
    for (at, piece) in pieces.iter().enumerate() {
        let Ours(line) = piece else { continue };
        let told = |message: &Message| is_told(message, content(message), &pieces[at + 1..]);
        if line.starts_with("**") {
            let stands = |message: &&Message| {
                *line
                    == format!("**{}** ({} UTC):", message.role.label(), number::minute(message.at))
            };
            let message =
                history.recent.iter().find(stands).expect("a line before a recent message");
            assert!(told(message), "{message:?} in {pieces:?}");
            recent.push(message.seq);
        } else if Role::ALL.iter().any(|role| line.strip_suffix(':') == Some(role.label())) {
            assert!(
                history.related.iter().any(|related| told(&related.message)),
                "{line} in {pieces:?}"
            );
            related += 1;
        }
    }
    (recent, related)
}

fn check_reading(history: &History, limit: u32, telling: &Telling) {
    let pieces = pieces(&telling.text);
    let ours = || {
        pieces.iter().filter_map(|piece| if let Ours(line) = piece { Some(*line) } else { None })
    };
    let (recent, related) = find(history, &pieces);

    assert!(ours().filter_map(section).is_sorted_by(|a, b| a < b), "{}", telling.text);
    let names_something = |line: &str| line.starts_with("- ") || line.starts_with("### ");
    assert!(
        ours().all(|line| names_something(line) || !line.contains("FORGED")),
        "{}",
        telling.text
    );

    let mut expected: Vec<&Message> =
        history.recent.iter().filter(|one| recent.contains(&one.seq)).collect();
    let newest_first = expected.clone();
    let spoken = |one: &Message| {
        newest_first.iter().position(|other| other.conversation == one.conversation)
    };
    expected.sort_by_key(|one| (Reverse(spoken(one)), one.seq));
    assert_eq!(recent, expected.iter().map(|one| one.seq).collect::<Vec<_>>());
    let passed_over =
        history.recent.iter().rposition(|one| recent.contains(&one.seq)).map_or(0, |last| last + 1);
    assert!(passed_over - recent.len() <= related, "{}", telling.text);

    let shown = u32::try_from(recent.len() + related).unwrap();
    let (all, left_out) = (history.session.last_seq, history.session.last_seq - shown);
    assert_eq!((telling.included.messages, telling.omitted.messages), (shown, left_out));
    let is_counted = limit >= super::SMALLEST_COUNT;
    let line = format!("Left out here: {left_out} of the {all} messages of this session.");
    assert_eq!(ours().any(|other| other == line), is_counted && left_out > 0, "{}", telling.text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_history_breaks_the_budget(plan in plan()) {
        let limit = plan.limits.tokens;
        let history = history(&plan);
        let telling = history.tell(limit);
        let counted = tokens::count(&telling.text);
        prop_assert!(counted <= telling.tokens, "{counted}: {telling:?}");
        prop_assert!(telling.tokens <= limit, "{telling:?}");
        prop_assert!(!telling.exact || counted == telling.tokens, "{counted}: {telling:?}");
        prop_assert!(telling.included.tokens <= telling.tokens, "{telling:?}");
        let must_tell = limit >= 60 && !history.recent.is_empty();
        prop_assert!(!must_tell || telling.included.messages > 0, "{telling:?}");
    }

    #[test]
    fn a_reader_finds_every_message_as_it_was_said_and_nothing_else(plan in plan()) {
        let history = history(&plan);
        let limit = plan.limits.tokens;
        check_reading(&history, limit, &history.tell(limit));
    }
}

/// The lines of ours that begin sections, by their places in [`SECTIONS`].
fn sections(telling: &Telling) -> Vec<usize> {
    let pieces = pieces(&telling.text);
    pieces
        .iter()
        .filter_map(|piece| if let Ours(line) = piece { section(line) } else { None })
        .collect()
}

/// From the first line of ours that is `heading` on.
fn from<'a>(pieces: &'a [Piece<'a>], heading: &str) -> &'a [Piece<'a>] {
    let at = pieces.iter().position(|piece| *piece == Ours(heading)).expect("the heading");
    &pieces[at + 1..]
}

fn stored(text: &str) -> Piece<'_> {
    Stored(text.to_owned())
}

fn related(history: &History, worths: &[(Seq, f64)]) -> Vec<Related> {
    let message = |seq: Seq| history.messages[seq as usize - 1].clone();
    worths.iter().map(|(seq, worth)| Related { message: message(*seq), worth: *worth }).collect()
}

#[test]
fn an_empty_session_is_told_by_its_header() {
    let telling = talk(&[]).tell(1000);
    assert_eq!(sections(&telling), [0, 1, 8]);
    assert_eq!((telling.included, telling.omitted), Default::default());
    assert!(telling.exact);
}

#[test]
fn sections_stand_in_the_order_of_the_specification() {
    let mut history =
        talk(&[("main", "Where is the parser?"), ("main", "In parse.rs."), ("main", "Fix it.")]);
    let text = "2026-11-14 user: Where is the parser?".to_owned();
    let summary = Summary { by: Author::Rules, upto: 1, folded: 1, text, points: Vec::new() };
    history.session.apply(&Fact::Summarised { conversation: None, summary }, minute(9));
    history.repository = Some("main: 2 commits".to_owned());
    history.recent.truncate(1);
    history.related = related(&history, &[(2, 1.0)]);
    let telling = history.tell(1000);
    assert_eq!(sections(&telling), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(telling.included.messages, 2);
    assert_eq!(telling.omitted.messages, 1);
}

#[test]
fn recent_messages_are_grouped_and_the_conversation_last_spoken_in_comes_last() {
    let history = talk(&[("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2"), ("a", "a3")]);
    let telling = history.tell(1000);
    let pieces = pieces(&telling.text);
    let told = [
        Ours("### Conversation b"),
        Ours("**Assistant** (2026-11-14 21:39 UTC):"),
        stored("b1"),
        Ours("**Assistant** (2026-11-14 21:41 UTC):"),
        stored("b2"),
        Ours("### Conversation a"),
        Ours("**User** (2026-11-14 21:38 UTC):"),
        stored("a1"),
        Ours("**User** (2026-11-14 21:40 UTC):"),
        stored("a2"),
        Ours("**User** (2026-11-14 21:42 UTC):"),
        stored("a3"),
    ];
    assert_eq!(from(&pieces, "## Recent messages")[..12], told);
    assert_eq!(telling.included.conversations, 2);
    assert_eq!(sections(&telling), [0, 1, 3, 6, 8]);
}

#[test]
fn the_newest_messages_are_chosen_and_the_others_counted() {
    let long = "Nothing of note happened on this day. ".repeat(10);
    let said: Vec<_> = (0..30).map(|_| ("main", long.as_str())).collect();
    let history = talk(&said);
    let telling = history.tell(600);
    let (recent, _) = find(&history, &pieces(&telling.text));
    assert!((3..10).contains(&recent.len()), "{}", telling.text);
    assert_eq!(recent.last(), Some(&30));
    assert_eq!(telling.omitted.messages, 30 - telling.included.messages);
    check_reading(&history, 600, &telling);
}

#[test]
fn a_message_that_alone_is_too_long_is_shortened_in_the_middle() {
    let lines: Vec<_> = (0..2000).map(|line| format!("Line {line} of the log.\n")).collect();
    let long = lines.concat();
    for price in [Price::of(&long), Price::default()] {
        let mut history = talk(&[("main", "Read the log.")]);
        history.say(Role::Tool, "main", long.clone(), price, minute(1));
        let history = history.read(Limits::default());
        for limit in [60, 200, 1000, 4000] {
            let telling = history.tell(limit);
            assert!(telling.text.contains("\n> Line 0 of"), "{limit}: {}", telling.text);
            assert!(telling.text.contains(" log.\n>\n\n"), "{limit}: {}", telling.text);
            assert!(telling.text.contains("\n[shortened here: "), "{limit}: {}", telling.text);
            check_reading(&history, limit, &telling);
        }
    }
}

#[test]
fn a_small_budget_still_tells_the_end_of_what_was_said_last() {
    let short = "Please run the tests of the parser.";
    let long = "The second line of the file cannot be parsed. ".repeat(12) + short;
    let name = "0192e4c8-7c3a-7d55-9b1e-3f0a6c8d2e41";
    for (name, last) in [("main", short), ("main", &long), (name, short), (name, &long)] {
        let mut history =
            talk(&[(name, "What is wrong?"), (name, "I do not know yet."), (name, last)]);
        history.recent.truncate(1);
        for worths in [&[][..], &[(1, 2.0), (2, 1.0)]] {
            history.related = related(&history, worths);
            for limit in 60..500 {
                let telling = history.tell(limit);
                assert!(
                    telling.text.contains(&short[short.len() - 5..]),
                    "{limit} {name}: {}",
                    telling.text
                );
                assert!(limit < 160 || sections(&telling).first() == Some(&0), "{limit} {name}");
            }
        }
    }
}

#[test]
fn the_related_messages_of_the_highest_worth_are_told_under_their_dates() {
    let mut history = History::new("anna");
    for day in 0..40 {
        let content = format!("On day {day} the build took {day} minutes and then some more.");
        history.say(
            Role::User,
            "main",
            content.clone(),
            Price::of(&content),
            minute(day * 24 * 60),
        );
    }
    let mut history = history.read(Limits { messages: 2, ..Limits::default() });
    let worths: Vec<_> = (1..=38).map(|seq| (seq, if seq % 10 == 5 { 2.0 } else { 1.0 })).collect();
    history.related = related(&history, &worths);
    let telling = history.tell(400);
    let pieces = pieces(&telling.text);
    let told = from(&pieces, "## Earlier messages that matter here");
    for seq in [5, 15, 25, 35] {
        let day = format!("On {}:", number::day(history.messages[seq - 1].at));
        let whole = [Ours(&day), Ours("User:"), stored(&history.contents[seq - 1])];
        assert!(told.windows(3).any(|three| *three == whole), "{}", telling.text);
    }
    check_reading(&history, 400, &telling);
}

#[test]
fn no_message_is_told_twice() {
    let contents: Vec<_> =
        (0..20).map(|n| format!("Step {n} of the plan is done and checked.")).collect();
    let said: Vec<_> = contents.iter().map(|content| ("main", content.as_str())).collect();
    let mut history = talk(&said);
    let worths: Vec<_> = (1..=20).map(|seq| (seq, f64::from(seq % 7))).collect();
    history.related = related(&history, &worths);
    for limit in (120..1500).step_by(10) {
        let telling = history.tell(limit);
        let times = |content: &String| telling.text.matches(&quote::quoted(content)).count();
        assert!(contents.iter().all(|content| times(content) <= 1), "{limit}: {}", telling.text);
        check_reading(&history, limit, &telling);
    }
}
