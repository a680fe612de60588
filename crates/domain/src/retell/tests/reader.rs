//! A context as a reader takes it apart, and what they have to find in it.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::{Frame, SMALLEST_COUNT, SMALLEST_FRAME, Telling};
use super::history::History;
use crate::message::{Message, Role};
use crate::outcome::{self, Outcome};
use crate::passage::Lead;
use crate::rank::{Related, State};
use crate::{Seq, number, passage, quote, turn};

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
        "[Context from Rethread: ",
        "This was said there, ",
    ],
    &["## Session"],
    &["### Session summary"],
    &["## Recent conversations"],
    &["## Changes in the repository since then"],
    &["## Earlier messages that matter here"],
    &["## Recent messages"],
    &["Left out here: "],
    &[
        "Acknowledge briefly that you know this, ",
        "That was the earlier history. ",
        "[End of the context from Rethread, ",
    ],
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

/// What is told of an older message, if it is told by passages of it, in their order, with a mark wherever something is
/// left out.
fn seen_in_passages(related: &Related, content: &str, pieces: &[Piece<'_>]) -> Option<Seen> {
    let message = &related.message;
    let state_of = |index: usize| {
        related.passages.iter().find(|one| one.index == index).and_then(|one| one.state)
    };
    let ranges = passage::cut(content);
    let lead_of = |range: &Range<usize>| {
        let lead = Lead::of(message.role, content, range)?;
        Some(lead.from as usize..lead.to as usize)
    };
    let is_next = |before: usize, next: usize| content[before..next].trim().is_empty();
    // Texts repeat themselves: where each piece can be, by where the last of them ends.
    let mut last: Option<Vec<Range<usize>>> = None;
    let (mut count, mut chars, mut after_gap, mut state) = (0, 0, false, None);
    for piece in pieces {
        match piece {
            Ours("[...]") if !after_gap && state.is_none() => after_gap = true,
            Ours("[now]") if state.is_none() => state = Some(State::Now),
            Ours("[earlier]") if state.is_none() => state = Some(State::Earlier),
            Stored(part) => {
                let is_it = |range: &Range<usize>| &content[range.clone()] == part;
                let is_stated = |at: usize| state.is_none() || state_of(at) == state;
                let passages = ranges
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| is_stated(*at))
                    .map(|(_, range)| range.clone());
                let leads = ranges.iter().filter_map(lead_of).filter(|_| state.is_none());
                let fits = |range: &Range<usize>| match &last {
                    None => is_next(0, range.start) != after_gap,
                    Some(last) => last.iter().any(|before| {
                        before.end <= range.start && is_next(before.end, range.start) != after_gap
                    }),
                };
                last = Some(passages.chain(leads).filter(is_it).filter(fits).collect());
                chars += part.chars().count();
                (after_gap, state) = (false, None);
            }
            Ours(_) => break,
        }
        count += 1;
    }
    let is_shown = message.purged_at.is_none() && state.is_none();
    let last = last.filter(|last| !last.is_empty() && is_shown)?;
    // The last piece is no line that stands above another.
    let last: Vec<_> = last.into_iter().filter(|range| ranges.contains(range)).collect();
    if last.is_empty() {
        return None;
    }
    let is_end = |range: &Range<usize>| is_next(range.end, content.len());
    // A mark at the end is its own, or that of messages left out before the next one.
    let is_told = after_gap || last.iter().any(is_end);
    let is_mark_of_others = after_gap && last.iter().all(is_end);
    let pieces = count - usize::from(is_mark_of_others);
    is_told.then_some(Seen { pieces, chars, is_whole: false })
}

/// The recent and the related messages that a reader finds, recent ones by their number.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) recent: Vec<Seq>,
    pub(super) related: usize,
    longest: usize,
    shortened: usize,
}

/// The line before an older message: who spoke, and how a tool ended.
fn related_line(line: &str) -> Option<(Role, Option<Outcome>)> {
    let named = line.strip_suffix(':')?;
    let marks = [(" (worked)", Outcome::Worked), (" (failed)", Outcome::Failed)];
    let marked =
        marks.iter().find_map(|(mark, outcome)| Some((named.strip_suffix(mark)?, *outcome)));
    let (name, outcome) = marked.map_or((named, None), |(name, outcome)| (name, Some(outcome)));
    Some((Role::ALL.into_iter().find(|role| role.label() == name)?, outcome))
}

pub(super) fn find(history: &History, pieces: &[Piece<'_>]) -> Found {
    let mut found = Found::default();
    let (mut marks, mut marked) = (0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        marks += usize::from(*piece == INTERRUPTED);
        let Ours(line) = piece else { continue };
        let rest = &pieces[at + 1..];
        // Told as it was said, and marked if it was interrupted, and only then.
        let content = |message: &Message| history.contents[message.seq as usize - 1].as_str();
        let told = |message: &Message, seen: Option<Seen>| -> Option<Seen> {
            let is_interrupted = message.extras.other.contains_key(turn::INTERRUPTED);
            seen.filter(|seen| (rest.get(seen.pieces) == Some(&INTERRUPTED)) == is_interrupted)
        };
        let seen = if line.starts_with("**") {
            let stands = |message: &&Message| {
                let minute = number::minute(message.at);
                let mark = match outcome::of(message) {
                    None => "",
                    Some(Outcome::Worked) => ", worked",
                    Some(Outcome::Failed) => ", failed",
                };
                *line == format!("**{}** ({minute} UTC{mark}):", message.role.label())
            };
            let message = history.recent.iter().find(stands).expect("a line before a message");
            found.recent.push(message.seq);
            told(message, seen(message, content(message), rest))
        } else if let Some((role, outcome)) = related_line(line) {
            found.related += 1;
            let is_its = |one: &Message| one.role == role && outcome::of(one) == outcome;
            let mut all = history.related.iter().filter(|one| is_its(&one.message));
            all.find_map(|one| {
                told(&one.message, seen_in_passages(one, content(&one.message), rest))
            })
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
    // For a prompt, what somebody said comes before what tools printed; but never something older before something newer.
    let mut said =
        history.recent.iter().filter(|one| matches!(one.role, Role::User | Role::Assistant));
    let is_passed_over = passed_over - found.recent.len() > found.related;
    let newest = said.next().is_some_and(is_found);
    assert!(!is_passed_over || !history.related.is_empty() && newest, "{}", telling.text);

    let shown = u32::try_from(found.recent.len() + found.related).unwrap();
    let (all, left_out) = (history.count(), history.count() - shown);
    assert_eq!((telling.included.messages, telling.omitted.messages), (shown, left_out));
    let of = if history.frame.is_session() { "session" } else { "conversation" };
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
        Frame::Earlier => (SECTIONS[0][2], SECTIONS[8][2]),
        Frame::Conversation { .. } => (SECTIONS[0][0], SECTIONS[8][1]),
        Frame::Missed { .. } => (SECTIONS[0][1], SECTIONS[8][1]),
        Frame::Background { .. } => (SECTIONS[0][3], ""),
    };
    let end = text.trim_end_matches('\n').rsplit('\n').next().unwrap();
    assert!(!is_framed || text.starts_with(first) && end.starts_with(last), "{text}");
    if let Frame::Missed { is_whole } | Frame::Background { is_whole } = history.frame {
        // Of what is told in part, the conversation itself may be summed up.
        let about = |section: &usize| (1..=4).contains(section) && (is_whole || *section != 3);
        assert!(!sections(telling).iter().any(about), "{text}");
    }
    match history.frame {
        Frame::Session | Frame::Earlier => (),
        Frame::Conversation { is_whole: true }
        | Frame::Missed { is_whole: true }
        | Frame::Background { is_whole: true } => {
            assert_eq!(
                (telling.included.messages, found.shortened),
                (history.count(), 0),
                "{text}"
            );
        }
        Frame::Conversation { .. } | Frame::Missed { .. } | Frame::Background { .. } => {
            assert!(found.longest <= 2_000, "{} characters of one message", found.longest);
            assert!(telling.included.messages <= 50, "{} messages", telling.included.messages);
        }
    }
}
