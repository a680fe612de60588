//! The budget holds, whatever the history; the order is that of the specification.

mod frames;
mod history;
mod reader;

use proptest::prelude::*;

use self::history::{History, history, minute, plan, small_plan, talk};
use self::reader::Piece::{self, Ours, Stored};
use self::reader::{check_reading, find, from, pieces, sections};
use super::*;
use crate::message::Role;
use crate::price::Price;
use crate::rank::Excerpt;
use crate::session::Fact;
use crate::summary::{Author, Summary};
use crate::{Seq, number, quote, tokens};

fn check_budget(history: &History, telling: &Telling) {
    let limit = history.limit;
    let counted = tokens::count(&telling.text);
    assert!(counted <= telling.tokens, "{counted}: {telling:?}");
    assert!(telling.tokens <= limit, "{telling:?}");
    assert!(!telling.exact || counted == telling.tokens, "{counted}: {telling:?}");
    assert!(telling.included.tokens <= telling.tokens, "{telling:?}");
    let must_tell = limit >= 60 && !history.recent.is_empty();
    assert!(!must_tell || telling.included.messages > 0, "{telling:?}");
}

/// What is explained is what is told, and the prices of its pieces are all that it costs.
fn check_explanation(history: &History) {
    let (telling, explanation) = history.tell_explained(history.limit);
    assert_eq!(telling, history.tell(history.limit));
    let sum: u32 = explanation.pieces.iter().map(|piece| piece.tokens).sum();
    assert_eq!(sum, telling.tokens, "{explanation:?}");
    let of = |part: Part| explanation.pieces.iter().filter(move |piece| piece.part == part);
    let mut shown: Vec<_> =
        of(Part::Earlier).chain(of(Part::Recent)).map(|piece| piece.seq).collect();
    shown.dedup();
    assert_eq!(shown.len(), telling.included.messages as usize, "{explanation:?}");
    assert!(explanation.nearly.iter().all(|piece| !piece.why.is_empty()), "{explanation:?}");
}

/// How many histories are tried: `RETHREAD_HISTORIES` says it for the long ones, which are few otherwise.
fn cases() -> u32 {
    let given = std::env::var_os("RETHREAD_HISTORIES").and_then(|count| count.into_string().ok());
    given.and_then(|count| count.parse().ok()).unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_history_breaks_the_budget(plan in plan()) {
        let history = history(&plan);
        check_budget(&history, &history.tell(history.limit));
        check_explanation(&history);
    }

    #[test]
    fn a_reader_finds_every_message_as_it_was_said_and_nothing_else(plan in plan()) {
        let history = history(&plan);
        check_reading(&history, history.limit, &history.tell(history.limit));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50_000))]

    #[test]
    fn a_reader_of_a_few_messages_finds_them_as_they_were_said(plan in small_plan()) {
        let history = history(&plan);
        check_reading(&history, history.limit, &history.tell(history.limit));
    }

    #[test]
    fn a_few_messages_break_no_budget_and_are_found(plan in small_plan()) {
        let history = history(&plan);
        let telling = history.tell(history.limit);
        check_budget(&history, &telling);
        check_reading(&history, history.limit, &telling);
    }
}

fn stored(text: &str) -> Piece<'_> {
    Stored(text.to_owned())
}

fn related(history: &History, worths: &[(Seq, f64)]) -> Vec<Related> {
    let at = |seq: Seq| seq as usize - 1;
    let related = |(seq, worth): &(Seq, f64)| {
        let mut one =
            history::related(&history.messages[at(*seq)], &history.contents[at(*seq)], *worth);
        one.passages.iter_mut().for_each(|excerpt| excerpt.state = None);
        one
    };
    worths.iter().map(related).collect()
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
    let recent = find(&history, &pieces(&telling.text)).recent;
    assert!((3..10).contains(&recent.len()), "{}", telling.text);
    assert_eq!(recent.last(), Some(&30));
    assert_eq!(telling.omitted.messages, 30 - telling.included.messages);
    check_reading(&history, 600, &telling);
}

#[test]
fn for_a_prompt_where_it_stopped_is_the_last_request_and_the_last_answer() {
    let printed = "A line that was printed.\n".repeat(400);
    let answer = format!("{}It is done now.", "The till was rounded in two places. ".repeat(60));
    let mut history = talk(&[("main", "The till is in till.rs."), ("main", "I see it.")]);
    let said = [
        (Role::User, "Fix the till, please."),
        (Role::Tool, &printed),
        (Role::Assistant, &answer),
        (Role::Tool, &printed),
        (Role::User, "/exit"),
    ];
    for (at, (role, text)) in (2..).zip(said) {
        history.say(role, "main", text.to_owned(), Price::of(text), minute(at));
    }
    let mut history = history.read(Limits { messages: 5, ..Limits::default() });
    history.related = related(&history, &[(1, 1.0)]);
    let telling = history.tell(1000);
    let (text, found) = (&telling.text, find(&history, &pieces(&telling.text)));
    assert!(text.contains("> Fix the till, please.\n") && text.contains("> /exit\n"), "{text}");
    assert!(found.recent.contains(&5) && text.contains("places.\n\n[shortened here"), "{text}");
    assert!(text.contains("It is done now.\n"), "{text}");
    check_reading(&history, 1000, &telling);
}

#[test]
fn a_passage_from_the_middle_has_the_line_above_it_that_it_belongs_to() {
    let body = "A line of the listing, one of many.\n".repeat(30);
    let listing = format!("$ cat src/till.rs\n\n{body}The tax is rounded here.\n{body}");
    let mut history = talk(&[("main", "Read the till."), ("main", "Yes.")]);
    history.say(Role::Tool, "main", listing.clone(), Price::of(&listing), minute(2));
    history.say(Role::User, "main", "Go on.".to_owned(), Price::of("Go on."), minute(3));
    let mut history = history.read(Limits { messages: 1, ..Limits::default() });
    history.related = related(&history, &[(3, 1.0)]);
    let is_it = |one: &Excerpt| listing[one.from..one.to].contains("rounded here");
    history.related[0].passages.retain(is_it);
    let telling = history.tell(600);
    let pieces = pieces(&telling.text);
    let earlier = from(&pieces, "Tool:");
    assert_eq!(earlier[..2], [stored("$ cat src/till.rs"), Ours("[...]")], "{}", telling.text);
    assert!(matches!(&earlier[2], Stored(text) if text.contains("The tax is rounded here.")));
    check_budget(&history, &telling);
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
fn of_a_long_message_the_passages_that_matter_are_told_and_gaps_are_marked() {
    let paragraph = |n: usize| format!("Paragraph {n}. {}", "More words about it. ".repeat(16));
    let text = (0..9).map(paragraph).collect::<Vec<_>>().join("\n\n");
    let said = [("main", text.as_str()), ("main", "Thanks."), ("main", "Bye.")];
    let mut history = talk(&said);
    history.recent.truncate(1);
    let mut related = related(&history, &[(1, 1.0)]);
    let worth = |index: usize| if [2, 3, 7].contains(&index) { 2.0 } else { 0.1 };
    related[0].passages.iter_mut().for_each(|one| one.worth = worth(one.index));
    history.related = related;
    let telling = history.tell(900);
    let pieces = pieces(&telling.text);
    let part = |n: usize| Stored(paragraph(n).trim_end().to_owned());
    let gap = || Ours("[...]");
    let told = [gap(), part(2), part(3), gap(), part(7), gap()];
    let earlier = from(&pieces, "User:");
    assert_eq!(earlier[..6], told, "{}", telling.text);
    check_reading(&history, 900, &telling);
}

#[test]
fn a_small_budget_has_two_lines_about_the_session() {
    let history = talk(&[("main", "Fix the parser."), ("main", "Done.")]);
    for (limit, lines) in [(1_000, 2), (2_000, 5), (10_000, 9)] {
        let telling = history.tell(limit);
        let pieces = pieces(&telling.text);
        let of_header = |piece: &&Piece<'_>| matches!(piece, Ours(line) if line.starts_with("- "));
        let count = from(&pieces, "## Session").iter().take_while(of_header).count();
        assert_eq!(count, lines, "{}", telling.text);
    }
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
