//! What a summary keeps.

use super::*;
use crate::message::{Body, Extras};
use crate::price::Price;

fn message(seq: Seq, role: Role, text: &str) -> Message {
    Message {
        seq,
        given_id: None,
        role,
        at: "2026-11-15T10:00:00Z".parse().unwrap(),
        conversation: "main".into(),
        body: Body::Whole(text.into()),
        extras: Extras::default(),
        price: Price::default(),
        purged_at: None,
    }
}

#[test]
fn decisions_are_told_with_their_dates_once() {
    let said = [
        (Role::User, "Which database should we use for the sessions?"),
        (Role::Assistant, "Both would work. We decided to use SQLite for the sessions."),
        (Role::Tool, "we decided to print this from a tool, which is no decision"),
        (Role::User, "Good. So we decided to use SQLite for the sessions!"),
        (Role::User, "For the queue let's use a plain table in the same file."),
        (Role::Assistant, "Did we agree on a name for that table already?"),
    ];
    let messages: Vec<Message> =
        (1..).zip(said).map(|(seq, (role, text))| message(seq, role, text)).collect();
    assert_eq!(
        decisions(&messages),
        [
            "2026-11-15 user: So we decided to use SQLite for the sessions!",
            "2026-11-15 user: For the queue let's use a plain table in the same file.",
        ]
    );
}

fn talk() -> Vec<Message> {
    vec![
        message(
            1,
            Role::User,
            "The checkout page loses the basket after login. Please find out why.",
        ),
        message(
            2,
            Role::Assistant,
            "I looked at the session code. The root cause is that the cookie is rewritten at login.",
        ),
        message(3, Role::Tool, "running 214 tests\ntest basket ... ok"),
        message(
            4,
            Role::User,
            "We decided to keep the old cookie name because mobile clients rely on it.",
        ),
        message(5, Role::Assistant, "Fine with me, nothing else to say about that one."),
    ]
}

#[test]
fn a_summary_keeps_the_request_the_cause_and_the_decision() {
    let summary = fold(None, &talk());
    assert_eq!(summary.upto, 5);
    for part in
        ["loses the basket", "root cause is that the cookie", "decided to keep the old cookie"]
    {
        assert!(summary.text.contains(part), "{}", summary.text);
    }
    assert!(summary.text.starts_with("2026-11-15 user: The checkout page"), "{}", summary.text);
}

#[test]
fn the_latest_decision_is_kept_beside_the_question_that_it_answers() {
    let said = [
        (Role::User, "Should the session store use SQLite or PostgreSQL for the session store?"),
        (Role::Assistant, "We decided to use SQLite for the session store."),
        (Role::User, "Wait, the session store has to be shared."),
        (Role::Assistant, "Then we decided to use PostgreSQL for the session store."),
    ];
    let messages: Vec<Message> =
        (1..).zip(said).map(|(seq, (role, text))| message(seq, role, text)).collect();
    for summary in [fold(None, &messages), session(&[], &messages)] {
        assert!(summary.text.contains("decided to use PostgreSQL"), "{}", summary.text);
        assert!(summary.text.contains("SQLite or PostgreSQL"), "{}", summary.text);
    }
}

#[test]
fn the_latest_decision_outlasts_many_that_weigh_more() {
    let heavy = |seq| {
        let text = format!(
            "We decided and agreed to fix bug {seq} of part_{seq} because of the error in file_{seq}, therefore we must remember plan_{seq}."
        );
        message(seq, Role::User, &text)
    };
    let mut messages: Vec<Message> = (1..40).map(heavy).collect();
    messages.push(message(40, Role::Assistant, "Fine: the port is settled, it is 8443."));
    let first = fold(None, &messages);
    assert!(first.text.contains("it is 8443"), "{}", first.text);
    let chatter = |seq| {
        message(
            seq,
            Role::User,
            &format!("The error in file_{seq} is fixed because of plan_{seq}."),
        )
    };
    let later: Vec<Message> = (41..90).map(chatter).collect();
    let second = fold(Some(&first), &later);
    assert!(second.text.contains("it is 8443"), "{}", second.text);
}

#[test]
fn folding_in_two_steps_keeps_what_mattered_first() {
    let first = fold(None, &talk());
    let chatter: Vec<Message> = (6..200)
        .map(|seq| {
            message(
                seq,
                Role::Assistant,
                &format!("Step {seq} went through as expected this time."),
            )
        })
        .collect();
    let second = fold(Some(&first), &chatter);
    assert_eq!(second.upto, 199);
    assert!(second.points.len() <= POINTS);
    assert!(second.text.contains("decided to keep the old cookie"), "{}", second.text);
}

#[test]
fn what_is_said_over_and_over_is_said_once() {
    let mut messages = talk();
    let rounds = (6..80).map(|seq| {
        message(seq, Role::User, &format!("Fuzz round {seq}: the error is still there, next?"))
    });
    messages.extend(rounds);
    let summary = fold(None, &messages);
    assert_eq!(summary.text.matches("Fuzz round").count(), 1, "{}", summary.text);
    assert!(summary.text.contains("decided to keep the old cookie"), "{}", summary.text);
}

#[test]
fn a_purged_message_leaves_the_summary() {
    let summary = fold(None, &talk());
    assert!(summary.speaks_of(4));
    let without = summary.without(4);
    assert!(!without.text.contains("decided"), "{}", without.text);
}

#[test]
fn a_title_is_the_first_sentence_of_the_request() {
    assert_eq!(title("\n  # Fix the login. It fails.\nmore").as_deref(), Some("Fix the login."));
    assert_eq!(title("Hi. Fix the login").as_deref(), Some("Hi. Fix the login"));
    assert_eq!(title(&"word ".repeat(100)).unwrap().chars().count(), 70);
    assert_eq!(title("…\n\n"), None);
    assert_eq!(
        title("red \u{1b}[31m text").as_deref(),
        Some("red \u{1b}[31m text"),
        "spelled out when shown"
    );
}

#[test]
fn nothing_to_say_is_an_empty_summary() {
    assert_eq!(fold(None, &[]).text, "");
}

#[test]
fn much_of_one_kind_leaves_none_of_the_others_out() {
    let mut said: Vec<(Role, String)> = Vec::new();
    for part in ["parser", "lexer", "printer", "linker", "loader", "packer", "router", "cache"] {
        for verb in ["cleaned", "moved", "renamed"] {
            let text = format!(
                "The error in the {part} was {verb} and the failing bug is fixed and done there."
            );
            said.push((Role::Assistant, text));
        }
    }
    said.insert(3, (Role::User, "Never push to the main branch without my word.".to_owned()));
    said.insert(
        5,
        (
            Role::Tool,
            "$ ./deploy --dry-run staging\nall five services are up\nexit code 0".to_owned(),
        ),
    );
    said.insert(6, (Role::Tool, "$ ./deploy --force production\nexit code 1".to_owned()));
    said.insert(9, (Role::Assistant, "The importer for archives is not yet written.".to_owned()));
    let messages: Vec<Message> =
        (1..).zip(&said).map(|(seq, (role, text))| message(seq, *role, text)).collect();
    let text = fold(None, &messages).text;
    for kept in
        ["Never push to the main branch", "$ ./deploy --dry-run staging", "is not yet written"]
    {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(!text.contains("--force"), "what failed is no command to repeat: {text}");
}

#[test]
fn what_cannot_be_guessed_outweighs_announcements_logs_and_looking_around() {
    let mut messages = vec![message(1, Role::User, "Make the preview server start again.")];
    for seq in 2..40 {
        let text = match seq % 4 {
            0 => format!("Now let me look at the preview server once more, place {seq}."),
            1 => {
                format!("12:0{}:17 | DEBUG | the preview server was asked for page {seq}", seq % 10)
            }
            2 => "The preview server was looked at, and it is a server.".to_owned(),
            _ => format!("$ ls preview/{seq}\nserver"),
        };
        let role = if seq % 4 == 3 { Role::Tool } else { Role::Assistant };
        messages.push(message(seq, role, &text));
    }
    let fact = "It listens on port `8417` and reads `preview/server.toml`.";
    messages.insert(20, message(40, Role::Assistant, fact));
    let points = fold(None, &messages).points;
    let weight = |part: &str| {
        points.iter().find(|point| point.text.contains(part)).map_or(0.0, |point| point.weight)
    };
    assert!(weight("8417") > weight("let me look"), "{points:?}");
    assert!(weight("8417") > weight("DEBUG"), "{points:?}");
    assert!(points.iter().all(|point| !point.text.starts_with("$ ls")), "{points:?}");
}
