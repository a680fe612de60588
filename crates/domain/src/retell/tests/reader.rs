//! A context as a reader takes it apart, and what they have to find in it.

use std::cmp::Reverse;

use super::super::{Frame, SMALLEST_COUNT, SMALLEST_FRAME, Telling};
use super::history::History;
use crate::message::{Message, Role};
use crate::{Seq, number, quote, turn};

#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Ours(&'a str),
    Stored(String),
}
use Piece::{Ours, Stored};

pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
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

/// The beginnings of the sections, in the order of the specification. The first and the last one stand for what a
/// story of its kind begins and ends with.
const SECTIONS: [&[&str]; 9] = [
    &[
        "This is the earlier history of a session, ",
        "This was said in our conversation without you, ",
    ],
    &["## Session"],
    &["### Session summary"],
    &["## Recent conversations"],
    &["## Changes in the repository since then"],
    &["## Earlier messages that matter here"],
    &["## Recent messages"],
    &["Left out here: "],
    &["Acknowledge briefly that you know this, ", "That was the earlier history. "],
];

const INTERRUPTED: Piece<'_> = Ours("[This answer was interrupted.]");

fn section(line: &str) -> Option<usize> {
    let begins = |start: &&str| line == *start || start.ends_with(' ') && line.starts_with(start);
    SECTIONS.iter().position(|starts| starts.iter().any(begins))
}

/// The lines of ours that begin sections, by their places in [`SECTIONS`].
pub(super) fn sections(telling: &Telling) -> Vec<usize> {
    ours(&pieces(&telling.text)).filter_map(section).collect()
}

fn ours<'a>(pieces: &'a [Piece<'a>]) -> impl Iterator<Item = &'a str> + Clone {
    pieces.iter().filter_map(|piece| if let Ours(line) = piece { Some(*line) } else { None })
}

/// From the first line of ours that is `heading` on.
pub(super) fn from<'a>(pieces: &'a [Piece<'a>], heading: &str) -> &'a [Piece<'a>] {
    let at = pieces.iter().position(|piece| *piece == Ours(heading)).expect("the heading");
    &pieces[at + 1..]
}

/// How much of a message a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    pieces: usize,
    chars: usize,
    is_whole: bool,
}

/// What is told of a message, if it is told as it was said: whole, purged, or by its ends, the rest counted.
fn seen(message: &Message, content: &str, pieces: &[Piece<'_>]) -> Option<Seen> {
    let count = |text: &str| text.chars().count();
    match pieces {
        [Ours("[This message was purged.]"), ..] if message.purged_at.is_some() => {
            Some(Seen { pieces: 1, chars: 0, is_whole: true })
        }
        [Stored(head), Ours(marker), Stored(tail), ..] if marker.starts_with("[shortened") => {
            let gap = content.len().saturating_sub(head.len() + tail.len());
            let is_told = content.starts_with(head)
                && content.ends_with(tail)
                && *marker == format!("[shortened here: {gap} bytes left out]");
            let chars = count(head) + count(tail);
            is_told.then_some(Seen { pieces: 3, chars, is_whole: false })
        }
        [Stored(whole), ..] if whole == content && message.purged_at.is_none() => {
            Some(Seen { pieces: 1, chars: count(whole), is_whole: true })
        }
        _ => None,
    }
}

/// The recent and the related messages that a reader finds, recent ones by their number.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) recent: Vec<Seq>,
    pub(super) related: usize,
    longest: usize,
    shortened: usize,
}

pub(super) fn find(history: &History, pieces: &[Piece<'_>]) -> Found {
    let mut found = Found::default();
    let (mut marks, mut marked) = (0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        marks += usize::from(*piece == INTERRUPTED);
        let Ours(line) = piece else { continue };
        let rest = &pieces[at + 1..];
        // Told as it was said, and marked if it was interrupted, and only then.
        let told = |message: &Message| -> Option<Seen> {
            let content = history.contents[message.seq as usize - 1].as_str();
            let is_interrupted = message.extras.other.contains_key(turn::INTERRUPTED);
            seen(message, content, rest)
                .filter(|seen| (rest.get(seen.pieces) == Some(&INTERRUPTED)) == is_interrupted)
        };
        let seen = if line.starts_with("**") {
            let stands = |message: &&Message| {
                let minute = number::minute(message.at);
                *line == format!("**{}** ({minute} UTC):", message.role.label())
            };
            let message = history.recent.iter().find(stands).expect("a line before a message");
            found.recent.push(message.seq);
            told(message)
        } else if Role::ALL.iter().any(|role| line.strip_suffix(':') == Some(role.label())) {
            found.related += 1;
            history.related.iter().find_map(|related| told(&related.message))
        } else {
            continue;
        };
        let seen = seen.unwrap_or_else(|| panic!("{line} in {pieces:?}"));
        marked += usize::from(rest.get(seen.pieces) == Some(&INTERRUPTED));
        found.longest = found.longest.max(seen.chars);
        found.shortened += usize::from(!seen.is_whole);
    }
    assert_eq!(marks, marked, "every mark is that of a message: {pieces:?}");
    found
}

/// Checks everything that a reader can know.
pub(super) fn check_reading(history: &History, limit: u32, telling: &Telling) {
    let pieces = pieces(&telling.text);
    let ours = || ours(&pieces);
    let found = find(history, &pieces);

    assert!(ours().filter_map(section).is_sorted_by(|a, b| a < b), "{}", telling.text);
    let names_something = |line: &str| line.starts_with("- ") || line.starts_with("### ");
    assert!(
        ours().all(|line| names_something(line) || !line.contains("FORGED")),
        "{}",
        telling.text
    );

    let mut expected: Vec<&Message> =
        history.recent.iter().filter(|one| found.recent.contains(&one.seq)).collect();
    let newest_first = expected.clone();
    let spoken = |one: &Message| {
        newest_first.iter().position(|other| other.conversation == one.conversation)
    };
    expected.sort_by_key(|one| (Reverse(spoken(one)), one.seq));
    assert_eq!(found.recent, expected.iter().map(|one| one.seq).collect::<Vec<_>>());
    let is_found = |one: &Message| found.recent.contains(&one.seq);
    let passed_over = history.recent.iter().rposition(is_found).map_or(0, |last| last + 1);
    assert!(passed_over - found.recent.len() <= found.related, "{}", telling.text);

    let shown = u32::try_from(found.recent.len() + found.related).unwrap();
    let (all, left_out) = (history.count(), history.count() - shown);
    assert_eq!((telling.included.messages, telling.omitted.messages), (shown, left_out));
    let of = if history.frame == Frame::Session { "session" } else { "conversation" };
    let line = format!("Left out here: {left_out} of the {all} messages of this {of}.");
    let is_counted = limit >= SMALLEST_COUNT;
    assert_eq!(ours().any(|other| other == line), is_counted && left_out > 0, "{}", telling.text);
    check_frame(history, limit, telling, &found);
}

/// Checks what is true of a frame only.
fn check_frame(history: &History, limit: u32, telling: &Telling, found: &Found) {
    let text = &telling.text;
    let is_framed = sections(telling).first() == Some(&0);
    assert!(!is_framed || limit >= SMALLEST_FRAME, "{text}");
    let (first, last) = match history.frame {
        Frame::Session => (SECTIONS[0][0], SECTIONS[8][0]),
        Frame::Conversation { .. } => (SECTIONS[0][0], SECTIONS[8][1]),
        Frame::Missed { .. } => (SECTIONS[0][1], SECTIONS[8][1]),
    };
    let end = text.trim_end_matches('\n').rsplit('\n').next().unwrap();
    assert!(!is_framed || text.starts_with(first) && end.starts_with(last), "{text}");
    if let Frame::Missed { is_whole } = history.frame {
        // Of what is told in part, the conversation itself may be summed up.
        let about = |section: &usize| (1..=4).contains(section) && (is_whole || *section != 3);
        assert!(!sections(telling).iter().any(about), "{text}");
    }
    match history.frame {
        Frame::Session => (),
        Frame::Conversation { is_whole: true } | Frame::Missed { is_whole: true } => {
            assert_eq!(
                (telling.included.messages, found.shortened),
                (history.count(), 0),
                "{text}"
            );
        }
        Frame::Conversation { .. } | Frame::Missed { .. } => {
            assert!(found.longest <= 2_000, "{} characters of one message", found.longest);
            assert!(telling.included.messages <= 50, "{} messages", telling.included.messages);
        }
    }
}
